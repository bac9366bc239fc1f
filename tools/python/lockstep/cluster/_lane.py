"""The way to one process: messages go in batches, answers come back in batches.

A lane sends whatever waits as soon as fewer than two calls are under way, so batches grow with the
load. A call returns when it has at least one answer, and brings those of earlier calls too: no
answer waits for a slow neighbour. While an answer is missing at least one call is under way, so the
death of the process is noticed.

Invariants LA-1 A lane belongs to one event loop.
           LA-2 At most `queue_max` messages wait or are unanswered. More raise Overloaded.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ._errors import Overloaded
from ._messages import Answer, Message

#: Hands messages with their numbers to the process, and brings answers: (lane, messages).
Exchange = Callable[[int, list[tuple[int, Message]]], Awaitable[list[Answer]]]
BATCH_MAX = 256
CALLS_MAX = 2


class Lost(Exception):
    """The process died, or cannot be reached. Whether it has seen the message is unknown."""


class Lane:
    """send() is the only call. `exchange` raises Lost if the process cannot be reached."""

    _lanes = itertools.count(time.time_ns())

    def __init__(self, exchange: Exchange, *, queue_max: int = 4096) -> None:
        self._exchange = exchange
        self._queue_max = queue_max
        self._name = next(Lane._lanes)
        self._numbers = itertools.count(1)
        self._queue: deque[tuple[int, Message]] = deque()
        self._missing: dict[int, asyncio.Future[Any]] = {}
        self._sent: set[int] = set()
        self._calls = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, message: Message) -> Any:
        """The answer. Raises its error, Lost, Overloaded."""
        if len(self._missing) >= self._queue_max:
            raise Overloaded(f"{self._queue_max} messages wait for one process")
        number = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        self._missing[number] = answer
        self._queue.append((number, message))
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
        except Lost as lost:
            sent, self._sent = self._sent, set()
            for number in sent:
                self._answer(Answer(number, None, Lost(str(lost))))
        else:
            for answer in answers:
                self._sent.discard(answer.number)
                self._answer(answer)
        finally:
            self._calls -= 1
        if self._queue or (self._sent and self._calls == 0):
            self._start()

    def _answer(self, answer: Answer) -> None:
        waiting = self._missing.get(answer.number)
        if waiting is None or waiting.done():
            return
        if answer.error is None:
            waiting.set_result(answer.value)
        else:
            waiting.set_exception(answer.error)


class Desk:
    """The other end, in the process: collects answers by lane. Belongs to one event loop."""

    def __init__(self, perform: Callable[[Message], Awaitable[Any]]) -> None:
        self._perform = perform
        self._ready: dict[int, list[Answer]] = {}
        self._waiting: dict[int, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def exchange(self, lane: int, messages: list[tuple[int, Message]]) -> list[Answer]:
        """Performs messages; the answers that are ready, at least one or none after a second."""
        ready = self._ready.setdefault(lane, [])
        event = self._waiting.setdefault(lane, asyncio.Event())
        loop = asyncio.get_running_loop()
        for number, message in messages:
            task = loop.create_task(self._answer(ready, event, number, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if not ready:
            event.clear()
            try:
                await asyncio.wait_for(event.wait(), 1.0)
            except TimeoutError:
                return []
            await asyncio.sleep(0)
        answers, ready[:] = ready[:], []
        return answers

    async def _answer(
        self, ready: list[Answer], event: asyncio.Event, number: int, message: Message
    ) -> None:
        try:
            ready.append(Answer(number, await self._perform(message), None))
        except Exception as error:
            ready.append(Answer(number, None, error))
        event.set()
