#!/usr/bin/env python3
"""page_test.py - the page of a run opens in Chromium without network: no console error, all
pictures there, no text cut, at the width of a screen and of a small window.

Usage: page_test.py DRIVER     Needs chromium (Debian: chromium); without it, status 77.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import chromium_page

DRIVER = sys.argv[1]


def run(*arguments, status=0):
    done = subprocess.run([DRIVER, *arguments], capture_output=True, text=True, timeout=200)
    if done.returncode != status:
        sys.exit(f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")


def inspect(page, pictures):
    for width in (1400, 620):
        faults, found = chromium_page.inspect(page, width)
        if faults or found != pictures:
            sys.exit(f"{page} at {width}: {found} pictures; " + "\n".join(faults))


# The probe itself sees what it is for.
def check_probe(directory):
    bad = os.path.join(directory, "bad.html")
    with open(bad, "w") as file:
        file.write(
            '<html><body><svg viewBox="0 0 100 40" width="300"><text x="90" y="20">far too long'
            '</text><text x="92" y="22">over</text></svg><img src="http://none.invalid/x.png">'
            "<script>nothing()</script></body></html>"
        )
    faults = "\n".join(chromium_page.inspect(bad)[0])
    for what in ("text outside", "text over", "picture missing", "console", "refers to http"):
        assert what in faults, (what, faults)


def check(directory):
    db, page, out = (os.path.join(directory, name) for name in ("db", "run.html", "run.json"))
    base = ["--path", db, "--pool", "300M", "--interval", "0.1", "--html", page, "--json", out]
    run(*base, "-w", "1", "--warmup", "0.3", "--duration", "1.5", "--durability", "durable")
    inspect(page, 5)
    with open(page) as file:
        text = file.read()
    with open(out) as file:
        result = json.load(file)
    # What the page says is what the JSON says.
    rate = f"<h1>TPC-C: {result['tx_per_s']:.0f} transactions a second</h1>"
    # A busy machine may leave too little for a throughput.
    assert (rate if result["enough"] else "<h1>TPC-C: a short run</h1>") in text
    assert "<p class=\"soft\">CPU: " in text
    for part in (result["build"]["commit"], result["machine"]["kernel"], "--interval 0.1"):
        assert part in text, part
    assert text.count("outside the specification</td>") == result["verdict"]["outside"]
    assert text.count(">holds<") == 16 and "BROKEN" not in text
    points = re.search(r'class="line0" points="([^"]*)"', text).group(1).split()
    assert len(points) >= 10, points
    # Few transactions, one type, an offered rate; the run is too short for a point.
    run(*base, "--weights", "0,1,0,0,0", "--transactions", "20", "--rate", "1000")
    inspect(page, 5)
    check_ramp(base, page, out)


# The rate doubles while answers may take a second, until the machine has enough.
def check_ramp(base, page, out):
    run(*base, "--ramp", "1000", "--rate", "20000", "--duration", "0.3", "--warmup", "0.1")
    inspect(page, 6)
    with open(out) as file:
        result = json.load(file)
    ramp = result["ramp"]
    with open(page) as file:
        text = file.read()
    for step in ramp["steps"]:
        assert f"<td>{step['rate']:.0f}</td>" in text, step
    slow = [step["rate"] for step in ramp["steps"] if not step["holds"]]
    too_high = {rate for rate in slow if slow.count(rate) == 2}
    assert too_high and ramp["bound_ms"] == 1000, ramp
    assert ramp["steps"][0]["rate"] == 20000 and ramp["knee"] not in too_high, ramp
    if ramp["knee"]:  # the other figures are those of its run
        assert ramp["knee"] < min(too_high) <= 1.06 * ramp["knee"], ramp
        assert result["offered"]["tx_per_s"] == ramp["knee"] and "Up to " in text
    else:
        assert too_high == {20000} and "Already 20000 " in text, ramp



if not chromium_page.find():
    print("chromium is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="lockstep-page-test-") as place:
    check_probe(place)
    check(place)
print("the page is sound")
