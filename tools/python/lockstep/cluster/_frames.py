"""A connection that carries pickled objects. What a turn of the event loop sends is one frame.

A frame is 8 bytes, the length of the rest in big-endian order, and a pickled list of objects. A
connection whose other end has vanished without a word is closed after a few seconds.

Invariants FR-1 The end that waits for a token reads no pickled object before the token has come.
           [test: test_a_desk_reads_nothing_before_its_token()]
"""

from __future__ import annotations

import asyncio
import hmac
import pickle
import socket
from collections.abc import Callable
from typing import Any, cast

_HEAD = 8
VANISHED_SECONDS = 10


class Frames(asyncio.Protocol):
    """Belongs to one event loop. `closed` is called once, if the connection has been made.

    An end that has given a `token` to show sends these bytes first. An end with a `token_wanted`
    closes a connection that does not begin with it.
    """

    def __init__(
        self,
        received: Callable[[Any], None],
        closed: Callable[[Exception | None], None],
        *,
        token: bytes = b"",
        token_wanted: bytes = b"",
    ) -> None:
        self._received = received
        self._closed = closed
        self._token = token
        self._token_wanted = token_wanted
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._arrived = bytearray()
        self._leaving: list[Any] = []

    def send(self, item: Any) -> None:
        """Sends an object at the end of this turn. Does nothing if the connection is closed."""
        self._leaving.append(item)
        if len(self._leaving) == 1:
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Closes the connection at once. What has not been sent is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        found = transport.get_extra_info("socket")
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, VANISHED_SECONDS // 2)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_SECONDS * 1000)
        self._transport.write(self._token)

    def data_received(self, data: bytes) -> None:
        """Of asyncio."""
        arrived = self._arrived
        arrived += data
        if self._token_wanted and not self._take_token():
            return
        while len(arrived) >= _HEAD:
            end = _HEAD + int.from_bytes(arrived[:_HEAD], "big")
            if len(arrived) < end:
                return
            with memoryview(arrived) as view, view[_HEAD:end] as frame:
                items = pickle.loads(frame)
            del arrived[:end]
            for item in items:
                self._received(item)

    def connection_lost(self, error: Exception | None) -> None:
        """Of asyncio."""
        self._transport = None
        self._closed(error)

    def _take_token(self) -> bool:
        size = len(self._token_wanted)
        if len(self._arrived) < size:
            return False
        if not hmac.compare_digest(self._arrived[:size], self._token_wanted):
            self._arrived.clear()
            self.close()
            return False
        del self._arrived[:size]
        self._token_wanted = b""
        return True

    def _flush(self) -> None:
        items, self._leaving = self._leaving, []
        if self._transport is not None:
            frame = pickle.dumps(items, pickle.HIGHEST_PROTOCOL)
            self._transport.writelines((len(frame).to_bytes(_HEAD, "big"), frame))
