"""cuts - states that a power cut may leave on a disk, made from its write log.

What a completed flush or a write with FUA covers is there. Of the plain writes behind the last
flush any part may be there, since a disk writes its cache back in any order."""

import subprocess

from write_log import DISCARD, FLUSH, FUA

SECTOR = 512


def draw_place(entries, rng):
    """How many entries of the log had happened at the cut."""
    flushes = [i for i, entry in enumerate(entries) if entry.flags & FLUSH]
    kind = rng.randrange(10)
    if flushes and kind < 4:
        return rng.choice(flushes)  # the plain writes are done, the flush is not
    if flushes and kind < 6:
        return rng.choice(flushes) + 1
    return rng.randrange(len(entries) + 1)


def surviving(entries, place, rng):
    """[(entry, bytes)] in order: what is on the disk after a cut at `place`."""
    last_flush = max((i for i in range(place) if entries[i].flags & FLUSH), default=-1)
    share = rng.choice((0.0, 1.0, rng.random()))
    out = []
    for i, entry in enumerate(entries[:place]):
        if entry.length == 0 or entry.flags & DISCARD:
            continue
        if i <= last_flush or entry.flags & FUA:
            out.append((entry, entry.length))
        elif rng.random() < share:
            # The device writes sectors whole; one write of several may be torn.
            torn = rng.random() < 0.2
            length = rng.randrange(1, entry.length // SECTOR + 1) * SECTOR
            out.append((entry, length if torn else entry.length))
    return out


def copy_disk(source, target):
    """A sparse copy."""
    subprocess.run(
        ["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True
    )


def make_disk(base, log, writes, target):
    """The disk `base` with these writes of the log."""
    copy_disk(base, target)
    with open(log, "rb") as source, open(target, "r+b") as disk:
        for entry, length in writes:
            source.seek(entry.at)
            disk.seek(entry.offset)
            disk.write(source.read(length))
