"""test_examples - the programs in tools/python/examples."""

import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools/python/examples"


def run(name: str, *arguments: object, directory: pathlib.Path) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_first_steps(tmp_path):
    assert run("first_steps.py", directory=tmp_path) == "Lisbon is in Portugal\n"


def test_tutorial(tmp_path):
    lines = run("tutorial.py", tmp_path / "t.db", directory=tmp_path).splitlines()
    assert lines[:3] == ["sensor 2 at 7: 207", "sensor 3 at 8: 308", "sensor 3 at 9: 309"]
    assert lines[3].startswith("refused: duplicate_key: key exists already")
    assert lines[4] == "130 values" and lines[5].startswith("backup of ") and len(lines) == 6


def test_reports(tmp_path):
    picture = tmp_path / "orders.png"
    printed = run("reports.py", tmp_path / "t.db", picture, directory=tmp_path)
    lines = printed.partition("lockstep: warning")[0].splitlines()  # of a busy machine
    counts = [int(line.split()[1]) for line in lines[:3]]
    assert [line.partition(":")[0] for line in lines[:3]] == ["bread", "cheese", "tea"]
    assert sum(counts) == 4000 and lines[0].endswith(f"{counts[0] * 320 / 100:.2f}")
    assert lines[3:] == ["last order of shop 1: 1999", "hours with tea: 34"]
    assert picture.stat().st_size > 10_000


def test_cities(tmp_path):
    printed = run("cities.py", tmp_path, directory=tmp_path)
    assert "6000/6000" in printed and "Quito: 1200 months, 14" in printed
    assert (tmp_path / "cities.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "cities.png").stat().st_size > 10_000
