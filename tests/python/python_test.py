#!/usr/bin/env python3
"""python_test - the tests of the Python package: `./tools/run python-test`.

Usage: python_test.py BUILD [pytest options]. BUILD is a build directory with the library. The
script makes a virtual environment in BUILD/python, builds the extension against the library of
BUILD, checks the types with mypy --strict, runs the tests, and prints which share of the package's
lines they reach. It demands 95% of the extension and of the package. Then it builds the wheel,
installs it into a new environment, and runs the examples there. With pytest options it runs only
those tests. Exit status 77: PyPI cannot be reached.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests/python"
sys.path.insert(0, str(ROOT / "tools/python"))

import environment  # noqa: E402

WANTED = 95  # percent of lines
OMITTED = "--omit=*/lockstep/cluster/*"  # tests/cluster runs it, in processes of Ray
README = ROOT / "README.md"
LINES_MAX = 15
# Prints what a process with the package has loaded from elsewhere although the wheel brings it.
STRANGERS = """
import pathlib, lockstep
brought = {p.name for p in (pathlib.Path(lockstep.__file__).parent / "libs").iterdir()}
loaded = {pathlib.Path(line.split()[-1]) for line in open("/proc/self/maps") if ".so" in line}
found = {path.name for path in loaded if path.parent.name == "libs"}
assert "liblockstep" in " ".join(brought), brought
print(*sorted(brought - found))
"""


def main() -> None:
    build = pathlib.Path(sys.argv[1]).resolve()
    # pytest runs elsewhere: names of tests are those of this folder.
    chosen = [str(p.resolve()) if (p := pathlib.Path(o)).exists() else o for o in sys.argv[2:]]
    python = environment.make_venv(build / "python/venv")
    path = environment.build_extension(build, python, coverage=True)
    if chosen:
        sys.exit(pytest(python, path, chosen, coverage=False))
    check_types(python, path)
    for counts in path.parent.rglob("*.gcda"):
        counts.unlink()
    if pytest(python, path, [str(TESTS)], coverage=True) != 0:
        sys.exit(1)
    shares = {"package": package_share(python, path), "extension": extension_share(path.parent)}
    for name, share in shares.items():
        print(f"lines of the {name} that the tests reach: {share:.1f}%")
    if min(shares.values()) < WANTED:
        sys.exit(f"less than {WANTED}% are reached")
    try_wheel(environment.build_wheel(build, python), build)


def pytest(python: pathlib.Path, path: pathlib.Path, options: list[str], coverage: bool) -> int:
    command = [str(python), "-X", "faulthandler", "-m"]
    if coverage:
        command += ["coverage", "run", "--branch", f"--source={path}/lockstep", OMITTED, "-m"]
    command += ["pytest", "-q", "-p", "no:cacheprovider", *options]
    build = path.parents[2]
    programs = {
        "LOCKSTEP_TPCC_OBJECT": str(build / "lib/liblockstep-tpcc-shard.so"),
        "LOCKSTEP_PROGRAM": str(build / "bin/lockstep"),
    }
    return subprocess.run(command, cwd=path.parent, env={**variables(path), **programs}).returncode


def variables(path: pathlib.Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}


def check_types(python: pathlib.Path, path: pathlib.Path) -> None:
    """mypy --strict on the package and its examples, and on code that it must refuse."""
    settings = ["--config-file", ROOT / "tools/python/pyproject.toml"]
    mypy = [python, "-m", "mypy", "--strict", *settings, "--cache-dir", path.parent / "mypy"]
    examples = sorted((ROOT / "tools/python/examples").glob("*.py"))
    typed = [name for name in examples if name.stem not in ("cities", "reports")]  # pandas
    environment.run(*mypy, "-p", "lockstep", env=variables(path))
    environment.run(*mypy, *typed, env=variables(path))
    wrong = "import lockstep\nlockstep.open('x').index(3)\nlockstep.open('x', colour=1)\n"
    done = subprocess.run(
        [*map(str, mypy), "-c", wrong], env=variables(path), capture_output=True, text=True
    )
    if "Found 2 errors" not in done.stdout:
        sys.exit(f"mypy finds other errors than expected: {done.stdout}")


def package_share(python: pathlib.Path, path: pathlib.Path) -> float:
    """Percent of the package's lines that ran."""
    environment.run(python, "-m", "coverage", "json", "-q", cwd=path.parent, env=variables(path))
    totals = json.loads((path.parent / "coverage.json").read_text())
    for name, found in sorted(totals["files"].items()):
        if found["missing_lines"]:
            print(f"  {pathlib.Path(name).name}: not reached: {found['missing_lines']}")
    return 100 * totals["totals"]["covered_lines"] / totals["totals"]["num_statements"]


def extension_share(out: pathlib.Path) -> float:
    """Percent of the lines of src/ that ran, by gcov."""
    lines: dict[tuple[str, int], int] = {}
    notes = [str(path) for path in out.rglob("_core.dir/src/*.gcda")]
    if not notes:
        sys.exit("the extension has counted no lines")
    with tempfile.TemporaryDirectory() as scratch:
        environment.run("gcov", "--json-format", *notes, cwd=scratch)
        for file in pathlib.Path(scratch).glob("*.gcov.json.gz"):
            for source in json.loads(gzip.decompress(file.read_bytes()))["files"]:
                if "tools/python/src/" not in source["file"]:
                    continue
                name = pathlib.Path(source["file"]).name
                for line in source["lines"]:
                    place = (name, line["line_number"])
                    lines[place] = max(lines.get(place, 0), line["count"])
    missing: dict[str, list[int]] = {}
    for (name, number), count in sorted(lines.items()):
        if count == 0:
            missing.setdefault(name, []).append(number)
    for name, numbers in missing.items():
        print(f"  {name}: not reached: {numbers}")
    return 100 * sum(count > 0 for count in lines.values()) / len(lines)


def readme_example() -> str:
    """The README's example in Python, of at most 15 lines."""
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.S)
    if not found:
        sys.exit("README.md has no example in Python")
    if found[1].count("\n") > LINES_MAX:
        sys.exit(f"README.md: the example in Python has more than {LINES_MAX} lines")
    return found[1]


def try_wheel(wheel: pathlib.Path, build: pathlib.Path) -> None:
    """In a new environment, with nothing else: the README's example and first_steps.py."""
    venv = build / "python/wheel-venv"
    shutil.rmtree(venv, ignore_errors=True)
    environment.run(sys.executable, "-m", "venv", venv)
    install = [venv / "bin/python", "-m", "pip", "install", "-q", "--no-index", wheel]
    environment.run(*install)
    with tempfile.TemporaryDirectory(prefix="lockstep-python-") as directory:
        place = pathlib.Path(directory)
        (place / "readme.py").write_text(readme_example())
        for program in (place / "readme.py", ROOT / "tools/python/examples/first_steps.py"):
            done = subprocess.run(
                [str(venv / "bin/python"), str(program)], cwd=place, capture_output=True, text=True
            )
            if done.returncode != 0 or "Lisbon is in Portugal" not in done.stdout:
                sys.exit(f"{program} printed {done.stdout}{done.stderr}")
    done = subprocess.run(
        [str(venv / "bin/python"), "-c", STRANGERS], capture_output=True, text=True, check=True
    )
    if done.stdout.strip():
        sys.exit(f"the wheel brings these libraries and uses others: {done.stdout}")
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB, installed and tried in a new environment")


if __name__ == "__main__":
    main()
