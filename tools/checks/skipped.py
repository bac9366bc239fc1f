#!/usr/bin/env python3
"""skipped - lists the tests that did not run.

Usage: skipped.py REPORT... A REPORT is what `ctest --output-junit` writes. A test counts as run if
it ran in one of the builds. If LOCKSTEP_MAY_SKIP is set, each other test is an offence: it has the
names of tests that may be skipped, or patterns as of a shell, separated by spaces.
"""

import fnmatch
import os
import sys
import xml.etree.ElementTree as ElementTree

from source import finish


def skipped(reports: list[str]) -> dict[str, str]:
    """Each test that no report shows running, and the last line that it printed."""
    why, ran = {}, set()
    for report in reports:
        for test in ElementTree.parse(report).iter("testcase"):
            printed = (test.findtext("system-out") or "").strip().splitlines()
            if test.get("status") in ("run", "fail"):
                ran.add(test.get("name"))
            else:
                why[test.get("name")] = printed[-1] if printed else test.get("status")
    return {name: text for name, text in sorted(why.items()) if name not in ran}


def main() -> None:
    may_skip = os.environ.get("LOCKSTEP_MAY_SKIP", "*").split()
    offences = []
    for name, why in skipped(sys.argv[1:]).items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in may_skip):
            print(f"{name}: did not run ({why})")
        else:
            offences.append(f"{name}: did not run; LOCKSTEP_MAY_SKIP does not name it ({why})")
    finish(offences, "skipped tests")


if __name__ == "__main__":
    main()
