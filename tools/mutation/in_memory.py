"""in_memory - where programs that run again and again keep their files.

A test that opens a store mostly waits for the disk. Mutants need no disk, so their files lie in
memory, as those of the repetitions in tools/cmake/LockstepTests.cmake."""

import re
import subprocess

ROOM_MB = 4000  # for several programs at a time


def directory():
    """/dev/shm if it has room; else None, by which tempfile takes its usual directory."""
    done = subprocess.run(
        ["df", "--block-size=1M", "--output=fstype,avail", "/dev/shm"],
        capture_output=True,
        text=True,
    )
    room = re.search(r"tmpfs +([0-9]+)", done.stdout)
    return "/dev/shm" if room and int(room[1]) > ROOM_MB else None
