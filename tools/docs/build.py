#!/usr/bin/env python3
"""build.py - builds the documentation site from the sources, into BUILD/docs/site.

Usage: build.py [--build BUILD] [--serve [PORT]]. BUILD is a build directory with the programs.
Their --help and output stand in the site. mkdocs is installed into BUILD/docs/venv if it is not
there. Exit status 77: it cannot be installed. --serve then serves the site to this machine, until
Ctrl-C.
"""

import argparse
import contextlib
import functools
import http.server
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import project_documents  # noqa: E402
import reference  # noqa: E402

PROGRAMS = ("lockstep", "lockstep-tpcc", "lockstep-bench", "lockstep-icache")
# Their output stands in the pages.
EXAMPLES = ("tutorial", "patterns", "object_storage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--build", type=pathlib.Path, default=ROOT / "build/release", help="build directory"
    )
    parser.add_argument("--serve", type=int, nargs="?", const=8000, help="port of 127.0.0.1")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    programs = [build / "bin" / name for name in PROGRAMS]
    examples = [build / "examples" / name for name in EXAMPLES]
    for program in [*programs, *examples]:
        if not program.exists():
            sys.exit(f"build.py: {program} does not exist; build it, or name the --build directory")
    out = build / "docs"
    need_mkdocs(out / "venv")
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(HERE / "pages", pages)
    project_documents.copy(ROOT, pages)
    made = reference.pages(ROOT, programs)
    for name, text in made.items():
        path = pages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in pages.rglob("*.md"):
        page = path.relative_to(pages).as_posix()
        path.write_text(reference.with_header_links(path.read_text(), made, page))
    for example in examples:
        (out / f"{example.name}.txt").write_text(output_of(example))
    (out / "mkdocs.yml").write_text(settings(made, out))
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(out / "mkdocs.yml")]
    done = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode != 0:
        sys.exit("build.py: mkdocs found faults, see above")
    print(out / "site/index.html")
    if arguments.serve:
        serve(out / "site", arguments.serve)


def serve(site: pathlib.Path, port: int) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C ends)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def need_mkdocs(venv: pathlib.Path) -> None:
    """Goes on in the virtual environment, which it makes if that is new or incomplete."""
    wanted = (HERE / "requirements.txt").read_text()
    if importlib.util.find_spec("material") and importlib.util.find_spec("mkdocs"):
        return
    done = venv / "requirements.txt"
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(venv, ignore_errors=True)
        install = [venv / "bin/pip", "install", "-q", "-r", HERE / "requirements.txt"]
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
            subprocess.run(install, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            print(f"build.py: mkdocs cannot be installed: {error.stderr}", file=sys.stderr)
            sys.exit(77)
        done.write_text(wanted)
    os.execv(venv / "bin/python", [str(venv / "bin/python"), *sys.argv])


def output_of(program: pathlib.Path) -> str:
    with tempfile.TemporaryDirectory(prefix="lockstep-docs-") as directory:
        command = [str(program), f"{directory}/{program.name}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def settings(made: reference.Pages, out: pathlib.Path) -> str:
    """mkdocs.yml with the reference in the navigation, and with absolute paths."""
    text = (HERE / "mkdocs.yml").read_text()
    nav = "".join(f"      {line}\n" for line in navigation_lines(reference.navigation(made)))
    snippets = [str(ROOT), str(out)]
    for what, by in (
        ("  - Reference: REFERENCE\n", f"  - Reference:\n{nav}"),
        ("PAGES", str(out / "pages")),
        ("SITE", str(out / "site")),
        ("VERSION", version()),
        ("SNIPPETS", str(snippets)),
    ):
        text = text.replace(what, by)
    return text


def version() -> str:
    text = (ROOT / "sm/include/lockstep/c/version.h").read_text()
    return ".".join(re.findall(r"LOCKSTEP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def navigation_lines(groups: list[tuple[str, list[str]]]) -> list[str]:
    lines = []
    for title, pages in groups:
        if len(pages) == 1:
            lines.append(f"- {title}: {pages[0]}")
        else:
            lines += [f"- {title}:", *(f"    - {page}" for page in pages)]
    return lines


if __name__ == "__main__":
    main()
