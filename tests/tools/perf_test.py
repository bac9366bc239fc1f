#!/usr/bin/env python3
"""perf_test.py - what perf-compare reads from perf, on texts that perf prints: events that were not
counted are not zero, ratios of pairs, and the flame graph of known stacks.

Usage: perf_test.py SOURCE_ROOT
"""

import argparse
import contextlib
import io
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tools" / "perf"))
import flame
import perf_compare

STAT = """# started on Mon Jan  1 00:00:00 2026

1200.5;msec;task-clock;1200500000;100.00;0.9;CPUs utilized
<not supported>;;cycles:u;0;100.00;;
<not counted>;;branch-misses:u;0;0.00;;
0;;page-faults;1200500000;100.00;0.0;/sec
"""

SCRIPT = """driver  100 1.000000:     250000 cpu-clock:
\t    55d0 leaf+0x10 (/bin/driver)
\t    55d1 middle(int, char)+0x4 (/bin/driver)
\t    55d2 main+0x1 (/bin/driver)

driver  100 1.002000:     250000 cpu-clock:
\t    55d3 other<a & b>+0x10 (/bin/driver)
\t    55d2 main+0x1 (/bin/driver)

"""


def test_stat():
    counts = perf_compare.parse_stat(STAT)
    assert counts == {
        "task-clock": 1200.5,
        "cycles:u": None,
        "branch-misses:u": None,
        "page-faults": 0.0,
    }, counts


def test_table():
    rounds = [
        {"off": {"cycles:u": 10.0, "faults": 0.0}, "on": {"cycles:u": 5.0 + i, "faults": 0.0}}
        for i in range(3)
    ]
    cycles, faults = perf_compare.table(rounds)
    found = [round(cycles[name], 6) for name in ("low", "ratio", "high")]
    assert found == [0.55, 0.6, 0.65], cycles
    assert "ratio" not in faults and faults["on"] == 0, faults


def test_times_have_a_unit_and_their_digits():
    rows = [
        {"event": "task-clock", "off": 0.01541, "on": 0.01376, "low": 0.88, "ratio": 0.893,
         "high": 0.9},
        {"event": "page-faults", "off": 0.0012, "on": 0.0},
    ]
    for pairs, spread in ((4, "0.880 .. 0.900"), (1, "none: one pair")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            perf_compare.show(rows, "on", pairs)
        lines = [line.split("  ") for line in out.getvalue().splitlines()]
        words = [[word.strip() for word in line if word.strip()] for line in lines]
        assert words[1] == ["task-clock, us", "15.41", "13.76", "0.893", spread], words
        assert words[2] == ["page-faults", "0.0012", "0.0000", "-"], words


class Counted(perf_compare.Perf):
    """A driver whose transaction costs 100 events and whose database costs 10 a transaction ever
    run, in each audit; opening it costs 5000."""

    def __init__(self):
        self.driver, self.folder, self.events = "driver", pathlib.Path("/none"), ("cycles:u",)
        self.options = argparse.Namespace(
            transactions=1000, driver_options=["--pool", "1G", "--txn", "mix", "--workers=2"]
        )
        self.rows = 0

    def stat(self, events, words):
        if "--check-only" in words:
            assert words[-3:] == ["--pool", "1G", "--workers=2"], words
            ran = 0
        else:
            ran = words[words.index("--transactions") + 1]
        self.rows += ran
        return {"cycles:u": 5000.0 + 100 * ran + 10 * self.rows}


def test_the_audit_of_a_larger_database_is_not_counted():
    driver = Counted()
    for mode in ("off", "on", "on", "off"):
        found = driver.each(mode)
        assert found == {"cycles:u": 100.0}, found


def test_flame():
    stacks = flame.stacks(SCRIPT.splitlines())
    assert stacks == [["main", "middle(int, char)", "leaf"], ["main", "other<a & b>"]], stacks
    picture = flame.svg(stacks)
    widths = dict(re.findall(r'<title>([^,]*?)[,(].*?width="([\d.]+)"', picture))
    assert widths["all"] == widths["main"] == "1200.0" and widths["leaf"] == "600.0", widths
    assert "other&lt;a &amp; b&gt;, 1 samples, 50.0%" in picture
    assert flame.stacks(["", "no sample"]) == []


for test in (
    test_stat,
    test_table,
    test_times_have_a_unit_and_their_digits,
    test_the_audit_of_a_larger_database_is_not_counted,
    test_flame,
):
    test()
    print(f"{test.__name__}: passed")
