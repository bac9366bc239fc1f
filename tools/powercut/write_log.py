"""write_log - reads what dm-log-writes has written: every write of a disk in order, with flushes.

The format is that of the Linux kernel (drivers/md/dm-log-writes.c). A plain write is logged when a
later flush begins, directly before that flush. A write with FUA and a mark are logged at once."""

import mmap
import struct
from dataclasses import dataclass

MAGIC = 0x6A736677736872
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


@dataclass
class Entry:
    """A write of `length` bytes to `offset`, whose data lie at `at` in the log; or a mark."""

    flags: int
    offset: int
    length: int
    at: int
    mark: str = ""

    @property
    def plain(self):
        """Whether a power cut may lose it until the next flush."""
        return self.length > 0 and not self.flags & (FUA | DISCARD)


def read_log(path):
    """All entries that the log's superblock counts."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
        magic, version, count, sector = SUPER.unpack_from(log)
        if magic != MAGIC:
            return []  # nothing was flushed yet
        if version != 1:
            raise ValueError(f"{path}: version {version} of dm-log-writes is unknown")
        entries, at = [], sector
        for _ in range(count):
            where, sectors, flags, text_bytes = ENTRY.unpack_from(log, at)
            entry = Entry(flags, where * sector, sectors * sector, at + sector)
            if flags & MARK:
                begin = at + ENTRY.size
                entry.mark = log[begin : begin + text_bytes].split(b"\0")[0].decode()
            entries.append(entry)
            at += sector + (0 if flags & DISCARD else entry.length)
        return entries


def acknowledged(entries, clients):
    """The newest acknowledged transaction of each client."""
    newest = [0] * clients
    for entry in entries:
        if entry.flags & MARK:
            client, number = entry.mark.split(":")
            newest[int(client)] = max(newest[int(client)], int(number))
    return newest
