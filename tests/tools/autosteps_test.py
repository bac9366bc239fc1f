#!/usr/bin/env python3
"""autosteps_test - the algorithm on streams whose cuts can be worked out by hand, the tool on the
real engine, and bad input.

Usage: autosteps_test.py SOURCE_ROOT LOCKSTEP_ICACHE operations|transactions
"""

import array
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(ROOT / "tools" / "autosteps"))
import knees  # noqa: E402
import trace  # noqa: E402

TOOL = ROOT / "tools" / "autosteps" / "autosteps.py"
BASE = 0x400000


def straight_line(size, instruction_bytes=4):
    stream = trace.Operation()
    for at in range(0, size, 16):
        stream.add(BASE + at, 16, 16 // instruction_bytes)
    return stream


def tool(*words, expect=0):
    done = subprocess.run(
        [sys.executable, str(TOOL), *map(str, words)], capture_output=True, text=True, timeout=200
    )
    assert (
        done.returncode == expect
    ), f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_straight_line_of_three_caches():
    """Every line beyond the cache drives out one of the same segment: cuts at one and two cache
    sizes, whatever the ways.
    """
    for ways in (1, 4, 0):
        geometry = knees.Geometry(16384, ways, 64)
        stream = straight_line(3 * 16384)
        result = knees.find(stream, geometry, 200, 4)
        assert [a - BASE for a in result.addresses] == [16384, 32768], result.addresses
        assert result.misses == [] and len(result.cuts) == 2
        refs = knees.references(stream, 64)
        assert len(refs) == 768 and len(knees.plain_misses(refs, geometry)) == 768
        assert len(knees.steps_misses(refs, geometry, [])) == 512
        assert knees.steps_misses(refs, geometry, result.cuts) == []


def test_loop_is_cut_at_each_turn():
    """A loop of twice the cache, three times: the first turn's cut is executed in each."""
    stream = trace.Operation()
    for _ in range(3):
        for at in range(0, 2 * 4096, 16):
            stream.add(BASE + at, 16, 4)
    result = knees.find(stream, knees.Geometry(4096, 4, 64), 200, 4)
    assert 2 <= len(result.addresses) <= 3 and len(result.cuts) >= 5, (
        result.addresses,
        result.cuts,
    )
    assert result.misses == []


def test_gaps_and_heights():
    """Single evictions far apart make no knee, until a segment has collected twice the height."""
    stream = trace.Operation()
    hot = [
        (BASE + 4096 * i, 16, 4) for i in range(1, 3)
    ]  # two lines of one set, direct mapped: they drive each other out
    for _ in range(10):
        for run in hot:
            stream.runs += [run] + [
                (BASE + 64, 16, 4)
            ] * 100  # 400 instructions between two evictions
    stream.instructions = sum(r[2] for r in stream.runs)
    geometry = knees.Geometry(4096, 1, 64)
    assert knees.find(stream, geometry, 200, 16).addresses == []
    assert knees.find(stream, geometry, 200, 4).addresses != []  # the cap of 2 H
    assert len(knees.find(stream, geometry, 1000, 4).cuts) >= len(
        knees.find(stream, geometry, 200, 4).cuts
    )


def write_trace(path, stream):
    words = array.array("Q", [trace.MAGIC])
    for address, size, instructions in stream.runs:
        words.append(trace.run_word(address, size, instructions))
    path.write_bytes(words.tobytes())


def test_tool_on_a_hand_made_trace(scratch):
    write_trace(scratch / "line", straight_line(3 * 16384))
    for repeat in ("one", "two"):
        tool(
            "--trace",
            scratch / "line",
            "--geometry",
            "16384,4,64",
            "--json",
            scratch / f"{repeat}.json",
            "--emit",
            scratch / f"{repeat}.points",
            "--sweep",
        )
    for name in ("json", "points"):
        assert (scratch / f"one.{name}").read_text() == (
            scratch / f"two.{name}"
        ).read_text(), "two runs differ"
    analysis = json.loads((scratch / "one.json").read_text())["analyses"][0]
    assert analysis["points"] == 2 and analysis["steps"] == 0 and analysis["plain"] == 768, analysis
    assert (
        tool("--trace", scratch / "line", "--geometry", "64K,2,64").stdout.count("fits this cache")
        == 1
    )
    for text in ("12K,3", "24K,6", "48K,12", "192K,6,64"):
        tool("--trace", scratch / "line", "--geometry", text)
    assert "16384,8,64" in tool("--trace", scratch / "line", "--op-cache").stdout


def test_bad_input(scratch):
    write_trace(scratch / "line", straight_line(4096))
    (scratch / "none").write_bytes(b"not a trace of anything")
    for words in (
        ["--trace", scratch / "line", "--geometry", "x"],
        ["--trace", scratch / "line", "--geometry", "3000,2,64"],
        ["--trace", scratch / "line", "--geometry", "48K,8"],
        ["--trace", scratch / "line", "--width", "0"],
        ["--trace", scratch / "missing"],
        ["--trace", scratch / "none"],
        [],
        ["fetch"],
        ["fetch", "--icache", "/nowhere"],
        ["--trace", scratch / "line", "--program", "/nowhere", "--geometry", "4K,1,64"],
    ):
        done = tool(*words, expect=2)
        assert done.stderr.startswith("autosteps: ") and "Traceback" not in done.stderr, done.stderr


def test_real_operations(scratch):
    icache = sys.argv[2]
    tool(
        "--icache",
        icache,
        "fetch",
        "--geometry",
        "4096,8,64",
        "--json",
        scratch / "a.json",
        "--emit",
        scratch / "auto",
        "--sweep",
    )
    data = json.loads((scratch / "a.json").read_text())
    a = data["analyses"][0]
    assert (
        a["points"] >= 1
        and a["steps"] <= 0.4 * a["plain"]
        and a["steps"] <= 2 * max(a["manual"]["misses"], 5)
    ), a
    assert (
        len(a["manual"]["points"]) >= 2
    ), "the team passed no named points: is the watched function still the one that is called?"
    names = [
        line.split()[0]
        for line in (scratch / "auto").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert names and set(names) <= set(a["manual"]["points"]), names
    for width in (50, 100, 200, 400):
        rows = sorted((r for r in data["sweep"] if r["width"] == width), key=lambda r: r["height"])
        assert (
            rows[0]["misses"] <= rows[-1]["misses"] and rows[0]["switches"] >= rows[-1]["switches"]
        ), rows
    # What it proposes must hold in a real team too. Which lines compete for a set is the linker's
    # choice: not so in a fully associative cache. The trace has none of the switch's own lines, so
    # points for the whole cache can miss by one line: points for half of it leave space for them.
    tool("--icache", icache, "fetch", "--geometry", "2048,full,64", "--emit", scratch / "half")
    names = [
        line.split()[0]
        for line in (scratch / "half").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    run = subprocess.run(
        [
            icache,
            "run",
            "fetch",
            "--no-time",
            "--geometry",
            "4096,full,64",
            "--points",
            ",".join(names),
            "--json",
            str(scratch / "r.json"),
        ],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
    machine = json.loads((scratch / "r.json").read_text())["comparisons"][0]["machines"][0]
    assert machine["team_cold"]["follower"] < 0.4 * machine["serial_warm"]["l1i"], machine
    names_none = subprocess.run(
        [icache, "run", "fetch", "--no-time", "--geometry", "4096,8,64", "--points", "none"],
        capture_output=True,
        timeout=200,
    )
    assert names_none.returncode == 0


def test_whole_transactions(scratch):
    """A Payment passes many operations' points, and its footprint stands beside that of `run`."""
    out = scratch / "payment.json"
    tool("--icache", sys.argv[2], "payment", "--geometry", "16K,8", "--json", out)
    [a] = json.loads(out.read_text())["analyses"]
    assert a["operation"] == "payment" and a["instructions"] > 5000, a
    assert len(a["manual"]["points"]) >= 3 and a["manual"]["switches"] >= 4, a["manual"]
    assert a["steps"] < a["plain"], a
    assert 0.5 < a["footprint"] / a["footprint_run"] < 2, (a["footprint"], a["footprint_run"])


def main():
    with_files = [test_whole_transactions]
    if sys.argv[3] == "operations":
        with_files = [test_tool_on_a_hand_made_trace, test_bad_input, test_real_operations]
        for test in (
            test_straight_line_of_three_caches,
            test_loop_is_cut_at_each_turn,
            test_gaps_and_heights,
        ):
            test()
            print(f"{test.__name__}: passed", flush=True)
    for test in with_files:
        with tempfile.TemporaryDirectory() as scratch:
            test(pathlib.Path(scratch))
        print(f"{test.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
