"""project_documents - the documents of the source tree as pages of the site.

Links between two documents become links between their pages. A link to any other file becomes the
file's name: the site has no sources.
"""

import pathlib
import posixpath
import re
import shutil

PAGES = {
    "CONTRIBUTING.md": "contribute/contributing.md",
    "tests/README.md": "contribute/tests.md",
    "tests/sim/README.md": "contribute/sim.md",
    "tools/README.md": "contribute/tools.md",
    "tools/python/README.md": "contribute/python.md",
    "tools/xa/README.md": "contribute/xa.md",
    "threads/io/README.md": "contribute/io.md",
    "sm/scan/README.md": "explanation/reports.md",
    "sm/report/README.md": "explanation/plans.md",
    "tools/python/MEASUREMENTS.md": "benchmarks/measurements_python.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "threads/README.md": "explanation/threads.md",
    "txn/README.md": "explanation/txn.md",
    "sm/README.md": "explanation/sm.md",
    "sm/btree/README.md": "explanation/indexes.md",
    "sm/version/README.md": "explanation/snapshots.md",
    "sm/recovery/README.md": "explanation/recovery.md",
    "sm/backup/README.md": "explanation/backups.md",
    "sm/changes/README.md": "explanation/changes.md",
    "sm/PUBLIC_CALLS.md": "reference/public_calls.md",
    "sm/c/README.md": "tutorial_c.md",
    "sm/FORMAT.md": "explanation/format.md",
    "tpcc/README.md": "benchmarks/tpcc.md",
    "threads/MEASUREMENTS.md": "benchmarks/measurements_threads.md",
    "txn/MEASUREMENTS.md": "benchmarks/measurements_txn.md",
    "sm/MEASUREMENTS.md": "benchmarks/measurements_sm.md",
    "tools/MEASUREMENTS.md": "benchmarks/measurements_tools.md",
    "tools/python/lockstep/cluster/README.md": "explanation/cluster.md",
    "tools/python/lockstep/cluster/MEASUREMENTS.md": "benchmarks/measurements_cluster.md",
}
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\((?!\w+:)([^)\s]+)\)")


def copy(root: pathlib.Path, out: pathlib.Path) -> None:
    for source, page in PAGES.items():
        text = (root / source).read_text()
        target = out / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LINK.sub(lambda m: link(m, root, source, page, out), text))


def link(m: re.Match, root: pathlib.Path, source: str, page: str, out: pathlib.Path) -> str:
    picture, text, goal = m[1], m[2], m[3]
    path, _, anchor = goal.partition("#")
    if not path:
        return m[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    here = posixpath.dirname(page)
    if picture:
        (out / "pictures").mkdir(parents=True, exist_ok=True)
        shutil.copy(root / file, out / "pictures")
        return f"![{text}]({posixpath.relpath('pictures/' + posixpath.basename(file), here)})"
    target = PAGES.get(file) or file.partition("tools/docs/pages/")[2]
    if target:
        other = posixpath.relpath(target, here)
        return f"[{text}]({other}{'#' + anchor if anchor else ''})"
    return text if "/" in text or "`" in text else f"{text} (`{file}`)"
