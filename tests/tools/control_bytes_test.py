#!/usr/bin/env python3
"""control_bytes_test.py - no program prints control bytes: neither in the help of any command, nor
in the error about any option.

Usage: control_bytes_test.py PROGRAM...
"""

import concurrent.futures
import os
import re
import subprocess
import sys

WRONG_VALUES = ("", "nonsense", "-1", "1e99")


def said_by(program, *arguments):
    done = subprocess.run(
        [program, *arguments], capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr


def offence(command, text):
    """Control bytes, or an error without its end: a NUL cuts what C prints."""
    found = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", text)
    if found:
        return f"{' '.join(command)}: byte {found.group(0)!r} in {text[:300]!r}"
    whole = text.endswith(b"\n") and text.count(b"{") == text.count(b"}")
    return "" if whole else f"{' '.join(command)}: cut off: {text[:300]!r}"


def commands_of(text):
    """Sub-commands, as CLI11 lists them."""
    part = text.partition(b"COMMANDs:")[2] or text.partition(b"Subcommands:")[2]
    return [name.decode() for name in re.findall(rb"^  ([a-z][a-z-]*)", part, re.M)]


def options_of(text):
    """Options that take a value."""
    lines = re.findall(rb"^\s+(?:-\w,)?(--[a-z0-9-]+)[ =]+(?=[A-Z{\[])[^\n]*", text, re.M)
    return sorted({name.decode() for name in lines} - {"--help", "--version"})


def offences_of(program):
    found = []
    status, text = said_by(program, "--help")
    helps = [((), status, text)]
    for name in commands_of(text):
        if name != "help":
            helps.append(((name,), *said_by(program, name, "--help")))
    tries = 0
    for command, status, text in helps:
        shown = (os.path.basename(program), *command, "--help")
        found.append(offence(shown, text))
        if status != 0:
            found.append(f"{' '.join(shown)}: status {status}")
        for option in options_of(text):
            for value in WRONG_VALUES:
                # Behind an unknown option, so that nothing is done.
                given = (*command, "--no-such-option", option, value)
                tries += 1
                status, said = said_by(program, *given)
                found.append(offence((os.path.basename(program), *given), said))
                if status == 0:
                    found.append(f"{given}: status 0")
    print(f"{os.path.basename(program)}: {len(helps)} helps, {tries} errors")
    return [one for one in found if one]


def main():
    programs = sys.argv[1:]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [one for all_of in pool.map(offences_of, programs) for one in all_of]
    for one in found:
        print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
