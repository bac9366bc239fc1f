"""Packed requests and outcomes of procedure objects: many in one bytes object.

Numbers are little-endian:

    requests   u32 count, u32 size[count], the requests
    outcomes   u32 count, i32 code[count], u32 size[count], the replies or the errors' texts
"""

from __future__ import annotations

import struct
from collections.abc import Sequence


class Packed(bytes):
    """Requests that are packed already."""

    @property
    def requests(self) -> int:
        """Their number."""
        (count,) = struct.unpack_from("<I", self)
        return int(count)


def pack(requests: Sequence[bytes]) -> Packed:
    """Many requests as one bytes object."""
    if isinstance(requests, Packed):
        return requests
    count = len(requests)
    head = struct.pack(f"<I{count}I", count, *map(len, requests))
    return Packed(head + b"".join(requests))


class PackedOutcomes:
    """Code and content of each of many calls, in their order."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        (count,) = struct.unpack_from("<I", packed)
        self._codes: tuple[int, ...] = struct.unpack_from(f"<{count}i", packed, 4)
        self._sizes: tuple[int, ...] = struct.unpack_from(f"<{count}I", packed, 4 + 4 * count)
        self._starts: list[int] | None = None

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def failed(self) -> list[int]:
        """The places of the calls that have failed."""
        return [n for n, code in enumerate(self._codes) if code]

    def outcome(self, at: int) -> tuple[int, bytes]:
        """Of one call: 0 and its reply, or the code and the text of its error."""
        if self._starts is None:
            start = 4 + 8 * len(self)
            self._starts = []
            for size in self._sizes:
                self._starts.append(start)
                start += size
        start = self._starts[at]
        return self._codes[at], self.packed[start : start + self._sizes[at]]
