"""The way to one process: messages go in batches, answers come back in batches.

A lane sends whatever waits as soon as fewer than two calls are under way, so batches grow with the
load. A call returns when it has at least one answer, and brings those of earlier calls too: no
answer waits for a slow neighbour. A call that waits for answers returns when the lane's next call
comes, so no message waits behind slow ones either. While an answer is missing at least one call is
under way, so the death of the process is noticed.

Invariants LA-1 A lane belongs to one event loop.
           LA-2 At most `queue_max` messages wait or are unanswered. More raise Overloaded.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ray import cloudpickle

from ._errors import ClusterError, Overloaded, Restarting
from ._messages import Message, Numbered

#: Hands messages to the process and brings answers: (lane, messages).
Exchange = Callable[[int, list[Numbered]], Awaitable[list[Numbered]]]
BATCH_MAX = 256
CALLS_MAX = 2
POLL_SECONDS = 1.0


class Lost(Exception):
    """The process died, or cannot be reached. Whether it has seen the message is unknown."""


class Lane:
    """send() is the only call. `exchange` raises Lost if the process cannot be reached.

    `restarting` is called when the process says that it begins nothing more.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        queue_max: int = 4096,
        restarting: Callable[[], None] = lambda: None,
    ) -> None:
        self._exchange = exchange
        self._queue_max = queue_max
        self._restarting = restarting
        self._name = int.from_bytes(os.urandom(8), "big")
        self._numbers = itertools.count(1)
        self._queue: deque[Numbered] = deque()
        self._missing: dict[int, asyncio.Future[Any]] = {}
        self._sent: set[int] = set()
        self._calls = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, message: Message) -> Any:
        """The answer. Raises its error, Lost, Overloaded, and what pickling the message raises."""
        if len(self._missing) >= self._queue_max:
            raise Overloaded(f"{self._queue_max} messages wait for one process")
        pickled = cloudpickle.dumps(message)
        number = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        self._missing[number] = answer
        self._queue.append((number, pickled))
        if self._calls < CALLS_MAX:
            self._start()
        try:
            return await answer
        finally:
            self._missing.pop(number, None)

    def _start(self) -> None:
        self._calls += 1
        task = asyncio.get_running_loop().create_task(self._call())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self) -> None:
        await asyncio.sleep(0)  # what else this turn of the loop sends joins the batch
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX))]
        self._sent.update(number for number, _ in batch)
        try:
            answers = await self._exchange(self._name, batch)
        except Exception as error:
            sent, self._sent = self._sent, set()
            for number in sent:
                self._answer(number, None, error if isinstance(error, Lost) else Lost(repr(error)))
        else:
            for number, pickled in answers:
                self._sent.discard(number)
                self._answer(number, *_loads(pickled))
        finally:
            self._calls -= 1
        if self._queue or (self._sent and self._calls == 0):
            self._start()

    def _answer(self, number: int, value: Any, error: BaseException | None) -> None:
        if isinstance(error, Restarting):
            self._restarting()
        waiting = self._missing.get(number)
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(error)


@dataclass
class _Visitor:
    """A lane as its other end sees it."""

    ready: list[Numbered] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)  # of its newest call
    running: int = 0


class Desk:
    """The other end, in the process: collects answers by lane. Belongs to one event loop."""

    def __init__(self, perform: Callable[[Message], Awaitable[Any]]) -> None:
        self._perform = perform
        self._visitors: dict[int, _Visitor] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def exchange(self, lane: int, messages: list[Numbered]) -> list[Numbered]:
        """Performs messages; the answers that are ready, at least one or none after a second."""
        visitor = self._visitors.setdefault(lane, _Visitor())
        loop = asyncio.get_running_loop()
        for number, pickled in messages:
            visitor.running += 1
            task = loop.create_task(self._answer(visitor, number, pickled))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        visitor.waiting.set()  # the call before makes room for the lane's next one
        mine = visitor.waiting = asyncio.Event()
        if not visitor.ready:
            try:
                await asyncio.wait_for(mine.wait(), POLL_SECONDS)
            except TimeoutError:
                pass
            await asyncio.sleep(0)  # what else is done in this turn
        answers, visitor.ready = visitor.ready, []
        if visitor.running == 0 and self._visitors.get(lane) is visitor:
            del self._visitors[lane]  # it comes anew, if it comes again
        return answers

    @property
    def lanes(self) -> int:
        """Lanes that wait for an answer, or have not fetched one."""
        return len(self._visitors)

    async def _answer(self, visitor: _Visitor, number: int, pickled: bytes) -> None:
        try:
            value, error = await self._perform(cloudpickle.loads(pickled)), None
        except Exception as raised:
            value, error = None, raised
        visitor.running -= 1
        visitor.ready.append((number, _dumps(value, error)))
        visitor.waiting.set()


def _dumps(value: Any, error: Exception | None) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps((value, error))
    except Exception as refused:
        what = "result" if error is None else f"error {error!r}"
        text = f"done, but the {what} cannot be sent: {refused}"
        pickled = cloudpickle.dumps((None, ClusterError(text)))
    return pickled


def _loads(pickled: bytes) -> tuple[Any, BaseException | None]:
    try:
        value, error = cloudpickle.loads(pickled)
        return value, error
    except Exception as refused:
        return None, ClusterError(f"done, but the answer cannot be read here: {refused}")
