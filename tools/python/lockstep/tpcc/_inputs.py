"""The terminals of a store's warehouses: inputs, made by the object in this process."""

from __future__ import annotations

import ctypes
import struct
from typing import NamedTuple

from .._packed import Packed
from ._settings import Settings

#: In the order of the object's TxnType.
TYPES = ("NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel")


class Across(NamedTuple):
    """A transaction over several shards."""

    type: str
    home: int  # its warehouse
    others: tuple[int, ...]  # a warehouse of each other shard
    packet: bytes


class Inputs:
    """Makes batches of inputs for one shard. One thread at a time."""

    def __init__(self, settings: Settings, shard: int, seed: int) -> None:
        self._library = ctypes.CDLL(settings.object_path())
        opened = self._library.lockstep_tpcc_inputs_open
        opened.restype = ctypes.c_void_p
        opened.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
        self._next = self._library.lockstep_tpcc_inputs_next
        self._next.restype = ctypes.c_void_p
        self._next.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_size_t)]
        self._close = self._library.lockstep_tpcc_inputs_close
        self._close.argtypes = [ctypes.c_void_p]
        self._close.restype = None
        text = ctypes.create_string_buffer(1000)
        self._handle = opened(settings.object_options(shard).encode(), seed, text, len(text))
        if not self._handle:
            raise ValueError(text.value.decode(errors="replace"))

    def next(self, count: int) -> tuple[Packed, list[Across]]:
        """The inputs of `count` transactions: those of the shard alone, and the others."""
        size = ctypes.c_size_t()
        at = self._next(self._handle, count, ctypes.byref(size))
        batch = ctypes.string_at(at, size.value)
        (local_size,) = struct.unpack_from("<I", batch)
        local = Packed(batch[4 : 4 + local_size])
        return local, list(_read_across(batch, 4 + local_size))

    def close(self) -> None:
        """Frees the terminals."""
        handle, self._handle = self._handle, None
        if handle:
            self._close(handle)


def _read_across(batch: bytes, at: int) -> list[Across]:
    (count,) = struct.unpack_from("<I", batch, at)
    at += 4
    found = []
    for _ in range(count):
        kind, home, others = struct.unpack_from("<BHB", batch, at)
        at += 4
        warehouses = struct.unpack_from(f"<{others}H", batch, at)
        at += 2 * others
        (size,) = struct.unpack_from("<H", batch, at)
        at += 2
        found.append(Across(TYPES[kind], home, warehouses, batch[at : at + size]))
        at += size
    return found
