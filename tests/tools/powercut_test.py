#!/usr/bin/env python3
"""Tests of tools/powercut: its reader of write logs, the states that it makes, and one boot with
four cuts. Without User-Mode Linux the boot is left out, and the exit status is 77.

Usage: powercut_test.py LOCKSTEP_ACKED"""

import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/powercut"))

from cuts import draw_place, make_disk, surviving  # noqa: E402
from write_log import FLUSH, FUA, MAGIC, MARK, acknowledged, read_log  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
SECTOR = 512
skipped = []


def write(log, records):
    """A log as the kernel writes it, of (flags, sector, data) and marks (MARK, text)."""
    body = b""
    for flags, *rest in records:
        if flags == MARK:
            head = struct.pack("<QQQQ", 0, 0, MARK, len(rest[0])) + rest[0].encode()
            body += head.ljust(SECTOR, b"\0")
            continue
        sector, data = rest
        head = struct.pack("<QQQQ", sector, len(data) // SECTOR, flags, 0)
        body += head.ljust(SECTOR, b"\0") + data
    head = struct.pack("<QQQI", MAGIC, 1, len(records), SECTOR).ljust(SECTOR, b"\0")
    log.write_bytes(head + body)


class Parts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-powercut-test-")
        self.addCleanup(scratch.cleanup)
        self.place = pathlib.Path(scratch.name)
        self.log = self.place / "log"
        write(
            self.log,
            [
                (0, 0, b"a" * SECTOR),
                (0, 1, b"b" * 2 * SECTOR),
                (FLUSH, 0, b""),
                (FUA, 4, b"c" * SECTOR),
                (MARK, "0:1"),
                (0, 0, b"d" * SECTOR),
                (0, 6, b"e" * 2 * SECTOR),
                (FLUSH, 0, b""),
                (MARK, "1:7"),
            ],
        )
        self.entries = read_log(self.log)

    def test_the_log_is_read(self):
        self.assertEqual([e.offset // SECTOR for e in self.entries if e.length], [0, 1, 4, 0, 6])
        self.assertEqual([e.mark for e in self.entries if e.mark], ["0:1", "1:7"])
        self.assertEqual(acknowledged(self.entries, 2), [1, 7])
        self.assertEqual(acknowledged(self.entries[:5], 2), [1, 0])

    def test_a_log_without_a_flush_is_empty(self):
        self.log.write_bytes(bytes(4096))
        self.assertEqual(read_log(self.log), [])

    def states(self, place):
        """All that seeds make of a cut there: {(index of the entry, bytes)} each."""
        out = set()
        for seed in range(300):
            found = surviving(self.entries, place, random.Random(seed))
            out.add(frozenset((self.entries.index(e), n) for e, n in found))
        return out

    def test_what_is_flushed_survives(self):
        durable = {(0, SECTOR), (1, 2 * SECTOR), (3, SECTOR)}
        self.assertEqual(self.states(5), {frozenset(durable)})
        whole = durable | {(5, SECTOR), (6, 2 * SECTOR)}
        self.assertEqual(self.states(9), {frozenset(whole)})

    def test_the_rest_survives_in_part(self):
        durable = {(0, SECTOR), (1, 2 * SECTOR), (3, SECTOR)}
        parts = [set(), {(5, SECTOR)}]
        ends = [set(), {(6, SECTOR)}, {(6, 2 * SECTOR)}]
        self.assertEqual(
            self.states(7), {frozenset(durable | a | b) for a in parts for b in ends}
        )

    def test_a_disk_is_made(self):
        base, target = self.place / "base", self.place / "target"
        base.write_bytes(b"." * 10 * SECTOR)
        make_disk(base, self.log, [(self.entries[1], SECTOR), (self.entries[5], SECTOR)], target)
        sectors = [target.read_bytes()[i * SECTOR] for i in range(10)]
        self.assertEqual(bytes(sectors), b"db........")
        self.assertEqual(base.read_bytes(), b"." * 10 * SECTOR)

    def test_every_place_is_drawn(self):
        rng = random.Random(1)
        drawn = {draw_place(self.entries, rng) for _ in range(500)}
        self.assertEqual(drawn, set(range(len(self.entries) + 1)))


@unittest.skipIf(PROGRAM is None, "needs the path of lockstep-acked")
class Boot(unittest.TestCase):
    def test_four_cuts(self):
        done = subprocess.run(
            [
                *(sys.executable, ROOT / "tools/powercut/powercut.py", PROGRAM),
                *("--cuts", "4", "--cuts-of-a-boot", "4", "--seconds", "1", "--seed", "1"),
                *("--types", "ext4"),
            ],
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        if done.returncode == 77:
            skipped.append(done.stdout.strip())
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 cuts in 1 boots", done.stdout)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if skipped:
        print(skipped[0])
        sys.exit(77)
