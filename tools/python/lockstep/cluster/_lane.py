"""The way to one process: messages go, and answers come back in any order.

The process has a desk, which lanes connect to. Ray tells where that is. A call of Ray takes more
processor time than all that a shard does with a message, so messages do not travel as calls. What a
turn of an event loop sends travels together.

Invariants DL-1 A lane belongs to one event loop, and so does a desk. [kept by: Desk.open()]
           DL-2 At most `queue_max` messages wait or are unanswered. More raise Overloaded.
           [test: test_a_full_queue_refuses()]
           DL-3 A desk reads nothing from a connection that has not shown its token (FR-1).
           [test: test_a_desk_reads_nothing_before_its_token()]
           DL-4 What ends a transaction does not wait for the next process: the one that runs has to
                hear it before it can end.
                [test: test_what_ends_a_transaction_reaches_a_process_that_begins_nothing_more()]
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ._encoding import decode, decode_answer, encode, encode_answer
from ._errors import Overloaded, Restarting, as_error
from ._frames import Frames
from ._messages import Message, Numbered, begins


class Address(NamedTuple):
    """Where a desk is. Whoever has the token may use it."""

    host: str
    port: int
    token: bytes


class Lost(Exception):
    """The process died, or cannot be reached. Whether it has seen the message is unknown."""


class _Link:
    """A connection of a lane, and the messages that it has carried."""

    def __init__(self, lane: Lane, token: bytes) -> None:
        self._lane = lane
        self._sent: dict[int, bool] = {}  # whether it begins something
        self._left = False
        self.closed = False
        self.frames = Frames(self._received, self._closed, token=token)

    def send(self, numbered: Numbered, begin: bool) -> None:
        self._sent[numbered[0]] = begin
        self.frames.send(numbered)

    def leave(self) -> None:
        """Carries nothing more; closes when all answers have come."""
        self._left = True
        self._lane._forget(self)
        if not self._sent:
            self.frames.close()

    def _received(self, item: Numbered | None) -> None:
        if item is None:  # the desk ends
            self.leave()
            return
        number, encoded = item
        begin = self._sent.pop(number, False)
        value, error = decode_answer(encoded)
        self._lane._answer(number, value, error)
        if isinstance(error, Restarting) and begin:
            self._lane._rest(self)
        elif isinstance(error, Restarting) or (self._left and not self._sent):
            self.leave()

    def _closed(self, error: Exception | None) -> None:
        self.closed = True
        self._lane._forget(self)
        sent, self._sent = self._sent, {}
        for number in sent:
            self._lane._answer(number, None, Lost(f"the connection has ended: {error}"))


class Lane:
    """send() is the only call. `reach` finds the desk, and raises Lost if it cannot be reached.

    The lane connects when there is something to send. When the process says that it begins nothing
    more, the lane looks for the desk anew for what begins. Until it has found it, what does not
    begin anything goes the old way (DL-4).
    """

    def __init__(
        self, reach: Callable[[], Awaitable[Address]], *, queue_max: int = 4096
    ) -> None:
        self._reach = reach
        self._queue_max = queue_max
        self._numbers = itertools.count(1)
        self._queue: list[tuple[Numbered, bool]] = []  # until there is a link
        self._missing: dict[int, asyncio.Future[Any]] = {}
        self._link: _Link | None = None
        self._resting: _Link | None = None  # to a process that begins nothing more
        self._connecting: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> Any:
        """The answer. Raises its error, Lost, Overloaded, and what pickling the message raises."""
        if len(self._missing) >= self._queue_max:
            raise Overloaded(f"{self._queue_max} messages wait for one process")
        numbered = next(self._numbers), encode(message)
        answer = self._missing[numbered[0]] = asyncio.get_running_loop().create_future()
        begin = begins(message)
        link = self._link if begin else self._link or self._resting
        if link is not None:
            link.send(numbered, begin)
        else:
            self._queue.append((numbered, begin))
            if self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
        try:
            return await answer
        finally:
            del self._missing[numbered[0]]

    def close(self) -> None:
        """Closes the connection. What is unanswered is lost."""
        if self._connecting is not None:
            self._connecting.cancel()
        for link in (self._link, self._resting):
            if link is not None:
                link.frames.close()
        for number in list(self._missing):
            self._answer(number, None, Lost("the lane was closed"))

    async def _connect(self) -> None:
        try:
            address = await self._reach()
            link = _Link(self, address.token)
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: link.frames, address.host, address.port)
            if link.closed:  # _closed() did not find it in the lane
                raise Lost("the connection has ended at once")
        except Exception as error:
            lost = error if isinstance(error, Lost) else Lost(repr(error))
            for (number, _), _ in self._take_queue():
                self._answer(number, None, lost)
        else:
            if self._resting is not None:
                self._resting.leave()
            self._link = link
            for numbered, begin in self._take_queue():
                link.send(numbered, begin)

    def _take_queue(self) -> list[tuple[Numbered, bool]]:
        self._connecting = None
        queue, self._queue = self._queue, []
        return [(numbered, begin) for numbered, begin in queue if numbered[0] in self._missing]

    def _rest(self, link: _Link) -> None:
        if self._link is link:
            self._link, self._resting = None, link

    def _forget(self, link: _Link) -> None:
        if self._link is link:
            self._link = None
        if self._resting is link:
            self._resting = None

    def _answer(self, number: int, value: Any, error: Exception | None) -> None:
        waiting = self._missing.get(number)
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(error)


class _Visitor:
    """A connection as the desk sees it."""

    def __init__(self, desk: Desk) -> None:
        self.frames = Frames(
            lambda numbered: desk._begin(self, *numbered),
            lambda error: desk._leave(self),
            token_wanted=desk.token,
        )


class Desk:
    """The other end, in the process: performs messages, each in a task of its own."""

    def __init__(self, perform: Callable[[Message], Awaitable[Any]]) -> None:
        self._perform = perform
        self.token = secrets.token_bytes(16)
        self._server: asyncio.Server | None = None
        self._visitors: set[_Visitor] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()

    async def open(self, host: str) -> Address:
        """Where it is, from the first call on."""
        async with self._opening:
            if self._server is None:
                loop = asyncio.get_running_loop()
                self._server = await loop.create_server(self._enter, host, 0)
        return Address(host, self._server.sockets[0].getsockname()[1], self.token)

    def end(self) -> None:
        """Tells the lanes to look for the next process. What they send all the same is answered."""
        for visitor in self._visitors:
            visitor.frames.send(None)

    @property
    def lanes(self) -> int:
        """Lanes that are connected."""
        return len(self._visitors)

    def _enter(self) -> Frames:
        visitor = _Visitor(self)
        self._visitors.add(visitor)
        return visitor.frames

    def _leave(self, visitor: _Visitor) -> None:
        self._visitors.discard(visitor)

    def _begin(self, visitor: _Visitor, number: int, encoded: Any) -> None:
        work = self._answer(visitor, number, encoded)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, visitor: _Visitor, number: int, encoded: Any) -> None:
        try:
            value, error = await self._perform(decode(encoded)), None
        except BaseException as raised:  # also of reading the message: every one is answered
            value, error = None, as_error(raised, "the message")
        visitor.frames.send((number, encode_answer(value, error)))
