"""docs_test - builds the documentation site and reads it as a visitor would.

Usage: docs_test.py BUILD. BUILD is a build directory with all programs. The site is built into its
folder `docs`. Without access to mkdocs (PyPI) the test is skipped. Without chromium the other tests
run, and the exit status is 77.
"""

import concurrent.futures
import functools
import html.parser
import http.server
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

import chromium_page

BUILD = pathlib.Path(sys.argv[1]).resolve()
SITE, PROGRAMS, TUTORIAL = BUILD / "docs/site", BUILD / "bin", BUILD / "examples/tutorial"
ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tools/docs/pages"
sys.path.insert(0, str(ROOT / "tools/package"))

import dashboard  # noqa: E402

# The shell blocks of all pages on tasks run as they stand, in one directory with a store named
# data.db. These come first: the others use what they make.
FIRST = ("howto/backup.md", "howto/retention.md")


# Words of a page on a task, without its code. The two systems of several stores need more.
WORDS_MAX = 400
LONG = {"shards.md": 900, "xa.md": 600}
BROWSERS = 2
WIDTHS = (1300, 390)
# A word, and a page that the search must find with it.
SEARCHES = {
    "savepoint": "reference/cpp/txn.html",
    "deadlock": "explanation/txn.html",
    "systemd": "howto/retention.html",
    "prometheus": "howto/metrics.html",
    "snapshot_too_old": "howto/tuning.html",
    "get_many": "reference/cpp/index_h.html",
    "file_mode": "howto/permissions.html",
    "asyncio": "reference/python/aio.html",
    "phantom": "explanation/isolation.html",
    "fdatasync": "explanation/durability.html",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def faults_of(pages: list[pathlib.Path]) -> list[str]:
    """The faults of the pages, each at every width."""
    faults = []
    with chromium_page.Browser() as browser:
        for page in pages:
            browser.open(page.as_uri())
            for width in WIDTHS:
                # Inline code has a border that may stand out of its paragraph.
                found = browser.faults(width, "article", 8)
                faults += [f"{page.relative_to(SITE)}, {width} pixels wide: {f}" for f in found]
    return faults


def found_by_search(browser: chromium_page.Browser, place: str, word: str) -> list[str]:
    """The pages that the search of the open page shows for a word, as a reader types it."""
    browser.value(
        f"""{{
        const field = document.querySelector('.md-search__input');
        field.focus();
        field.value = {word!r};
        field.dispatchEvent(new Event('input', {{bubbles: true}}));
        field.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}}));
        }}"""
    )
    # Each link names the word, so that the page marks it.
    links = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    browser.wait_for(f"{links}.some(link => link.includes('h={word}'))")
    return [link.removeprefix(f"{place}/").partition("?")[0] for link in browser.value(links)]


class Page(html.parser.HTMLParser):
    """The links, pictures and places of a page."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places.add(found.get("id"))
        goal = {"a": "href", "img": "src", "link": "href", "script": "src"}.get(tag)
        if goal and found.get(goal):
            self.links.append(found[goal])


class Docs(unittest.TestCase):
    def test_every_internal_link_leads_somewhere(self):
        pages = {path: Page(path) for path in SITE.rglob("*.html") if path.name != "404.html"}
        self.assertGreater(len(pages), 50)
        for path, page in pages.items():
            for link in page.links:
                parts = urllib.parse.urlparse(link)
                if parts.scheme or parts.netloc:
                    continue
                goal = (
                    (path.parent / urllib.parse.unquote(parts.path)).resolve()
                    if parts.path
                    else path
                )
                with self.subTest(page=path.relative_to(SITE), link=link):
                    self.assertTrue(goal.exists())
                    if parts.fragment and goal in pages:
                        self.assertIn(urllib.parse.unquote(parts.fragment), pages[goal].places)

    def test_nothing_comes_from_elsewhere(self):
        for path in SITE.rglob("*.html"):
            for tag in re.findall(r"<(?:script|link|img)[^>]*>", path.read_text()):
                goal = re.search(r'(?:src|href)="?(https?://[^" >]*)', tag)
                if goal and "canonical" not in tag:
                    self.fail(f"{path.relative_to(SITE)} loads {goal[1]}")

    def test_the_reference_has_each_public_call(self):
        table = (ROOT / "sm/PUBLIC_CALLS.md").read_text()
        calls = set(re.findall(r"`(\w+)::(\w+)\(", table))
        self.assertGreater(len(calls), 60)
        known = set()
        for page in SITE.glob("reference/cpp/*.html"):
            for owner, names in re.findall(r"<h3[^>]*>(\w+)::([^<]*)<", page.read_text()):
                known |= {(owner, name) for name in names.split(", ")}
        self.assertEqual(sorted(calls - known - {("Resume", "operator")}), [])

    def test_the_reference_has_the_c_headers(self):
        for name, call in (("transaction", "lockstep_commit"), ("xa", "xa_switch_t")):
            self.assertIn(call, (SITE / f"reference/c/{name}.html").read_text())

    def test_the_reference_has_errors_metrics_and_commands(self):
        errors = (SITE / "reference/errors.html").read_text()
        for name in ("io_error", "bad_backup", "snapshot_too_old"):
            self.assertIn(f"<code>{name}</code>", errors)
        metrics = (SITE / "reference/metrics.html").read_text()
        table = (ROOT / "sm/observe/metrics_table.h").read_text()
        wanted = set(re.findall(r'"(lockstep_\w+)"', table))
        self.assertEqual(set(re.findall(r"<code>(lockstep_\w+)</code>", metrics)), wanted)
        commands = (SITE / "reference/commands/lockstep.html").read_text()
        self.assertIn("lockstep salvage", commands)

    def test_names_in_the_pages_exist(self):
        """Options, metrics, calls and commands that the text names."""
        paths = [*ROOT.glob("*/include/lockstep/**/*.h"), *ROOT.glob("tools/xa/*")]
        headers = "\n".join(p.read_text() for p in paths if p.suffix in (".h", ".cc"))
        words = set(re.findall(r"\w+", headers))
        calls = set(re.findall(r"(\w+)\(", headers))
        metrics = (SITE / "reference/metrics.html").read_text()
        help_ = subprocess.run([PROGRAMS / "lockstep", "--help"], capture_output=True, text=True)
        for path in SOURCES.rglob("*.md"):
            text = path.read_text()
            where = path.relative_to(SOURCES)
            for option in re.findall(r"`Options::(\w+)`", text):
                self.assertTrue(option in words, f"{where}: Options::{option}")
            for name in re.findall(r"`(\w+)\(\)`", text):
                self.assertTrue(name in calls, f"{where}: {name}()")
            for metric in re.findall(r"`(lockstep_\w+)`", text):
                self.assertIn(f"<code>{metric}</code>", metrics, f"{where}: {metric}")
            for command in re.findall(r"`lockstep ([a-z-]+)", text):
                self.assertRegex(help_.stdout, rf"\n  {command} ", f"{where}: lockstep {command}")

    @unittest.skipUnless(chromium_page.find(), "chromium is not installed")
    def test_every_page_looks_right(self):
        # Links of 404.html begin at the root of a server.
        pages = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")
        shares = [pages[i::BROWSERS] for i in range(BROWSERS)]
        with concurrent.futures.ThreadPoolExecutor(BROWSERS) as pool:
            faults = [fault for found in pool.map(faults_of, shares) for fault in found]
        self.assertEqual(faults, [])

    @unittest.skipUnless(chromium_page.find(), "chromium is not installed")
    def test_search_finds_from_files_and_over_http(self):
        handler = functools.partial(Quiet, directory=SITE)
        with (
            http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
            chromium_page.Browser() as browser,
        ):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for place in (SITE.as_uri(), f"http://127.0.0.1:{server.server_port}"):
                browser.open(f"{place}/index.html")
                for word, page in SEARCHES.items():
                    with self.subTest(place=place, word=word):
                        self.assertIn(page, found_by_search(browser, place, word))
            server.shutdown()

    def test_alerts_are_those_of_the_page(self):
        rules = (ROOT / "tools/package/lockstep.rules.yml").read_text()
        page = (SOURCES / "howto/alerts.md").read_text()
        alerts = re.findall(r"alert: (\w+)", rules)
        self.assertEqual(re.findall(r"^\| (Lockstep\w+)", page, re.M), alerts)
        metrics = (SITE / "reference/metrics.html").read_text()
        for name in re.findall(r"lockstep_\w+", rules):
            self.assertIn(f"<code>{name}</code>", metrics)
        for cause in re.findall(r'cause="(\w+)"', rules):
            self.assertIn(f'"{cause}"', (ROOT / "sm/include/lockstep/stats.h").read_text())
        if promtool := shutil.which("promtool"):
            path = ROOT / "tools/package/lockstep.rules.yml"
            subprocess.run([promtool, "check", "rules", path], check=True)

    def test_the_dashboard_for_grafana(self):
        made = dashboard.dashboard()
        pictures = [one for one in made["panels"] if one["type"] != "row"]
        ids = [one["id"] for one in made["panels"]]
        self.assertEqual(ids, list(range(1, len(ids) + 1)))
        taken = set()
        for panel in made["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            self.assertFalse(taken & cells, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], dashboard.ACROSS)
            taken |= cells
        expressions = [target["expr"] for one in pictures for target in one["targets"]]
        self.assertEqual(len(expressions), len(set(expressions)))
        metrics = (SITE / "reference/metrics.html").read_text()
        documented = set(re.findall(r"<code>(lockstep_\w+)</code>", metrics))
        self.assertLessEqual(set(re.findall(r"lockstep_\w+", " ".join(expressions))), documented)
        for expression in expressions:
            # Counters have that ending, and only their rate tells something.
            for rated, name in re.findall(r"(rate\()?(lockstep_\w+)", expression):
                self.assertEqual(bool(rated), name.endswith("_total"), expression)
        if promtool := shutil.which("promtool"):
            asked = [text.replace("$__rate_interval", "1m") for text in expressions]
            rules = [{"record": f"asked:{n}", "expr": text} for n, text in enumerate(asked)]
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
                file.flush()
                subprocess.run([promtool, "check", "rules", file.name], check=True)

    def test_pages_on_tasks_are_short(self):
        for path in SOURCES.glob("howto/*.md"):
            words = len(re.sub(r"```.*?```", "", path.read_text(), flags=re.S).split())
            self.assertLessEqual(words, LONG.get(path.name, WORDS_MAX), path.name)

    def test_the_report_of_the_tutorial(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-docs-") as directory:
            done = subprocess.run(
                [TUTORIAL.with_name("reports"), f"{directory}/data.db"],
                capture_output=True,
                text=True,
            )
        says = "bread: 1920.00\ntea: 1497.00\nbread: 192000 cents\ntea: 149700 cents\n"
        self.assertEqual((done.returncode, done.stdout), (0, says))

    def test_shell_blocks_run(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-docs-") as directory:
            subprocess.run(
                [TUTORIAL, f"{directory}/data.db"], check=True, stdout=subprocess.DEVNULL
            )
            pathlib.Path(directory, "towns.csv").write_text("id,name\n1,Lisbon\n")
            ran = 0
            others = {f"howto/{path.name}" for path in SOURCES.glob("howto/*.md")} - set(FIRST)
            for name in (*FIRST, *sorted(others), "tutorial_reports.md"):
                for block in re.findall(r"```sh\n(.*?)```", (SOURCES / name).read_text(), re.S):
                    for line in block.strip().split("\n"):
                        if shlex.split(line)[0] != "lockstep":
                            continue
                        done = subprocess.run(
                            f"'{PROGRAMS}/'{line}",
                            shell=True,
                            cwd=directory,
                            capture_output=True,
                            text=True,
                        )
                        self.assertEqual(done.returncode, 0, f"{name}: {line}\n{done.stderr}")
                        ran += 1
            self.assertGreaterEqual(ran, 20)


def build() -> None:
    command = [sys.executable, ROOT / "tools/docs/build.py", "--build", BUILD]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77:
        print(done.stderr)
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    build()
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
