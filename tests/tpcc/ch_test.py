#!/usr/bin/env python3
"""ch_test.py - lockstep-ch from outside: right answers and conditions, its figures, and options
that cannot be used.

Usage: ch_test.py LOCKSTEP_CH
"""

import json
import pathlib
import subprocess
import sys
import tempfile

CH = pathlib.Path(sys.argv[1]).resolve()


def run(*words, says=(), status=0):
    done = subprocess.run([CH, *words], capture_output=True, text=True, timeout=280)
    text = done.stdout + done.stderr
    assert done.returncode == status, (words, done.returncode, text)
    for part in says:
        assert part in text, (words, part, text)
    return text


def test_bad_options(scratch):
    run(says=["--path is required"], status=106)
    run("--path", scratch / "x", "--policy", "best", says=["--policy: "], status=105)
    run("--path", "/proc/nothing", says=["lockstep-ch: /proc/nothing: "], status=2)


def test_a_run(scratch):
    """Loads, then goes on with the same store and another policy."""
    file = scratch / "ch.json"
    for policy in ("automatic", "relevance"):
        run(
            *("--path", scratch / "store", "--seconds", "1", "--json", file),
            *("--policy", policy),
            says=[
                "answers after the load: 7 of 7 equal those of cursors",
                "answers after the run: 7 of 7 equal those of cursors",
                "conditions of TPC-C: all hold",
            ],
        )
        found = json.loads(file.read_text())
        assert found["wrong answers"] == 0 and found["conditions hold"], found
        assert found["queries an hour"] > 0 and found["sharing factor"] >= 1, found
        assert found["freshness, worst"] >= found["freshness"] >= 0, found


with tempfile.TemporaryDirectory() as directory:
    test_bad_options(pathlib.Path(directory))
    test_a_run(pathlib.Path(directory))
