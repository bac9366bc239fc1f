"""Branches that one message begins and ends. The engine performs them without a thread of Python.

A step of a procedure object that is the first and the last one on its shard is one request of the
engine: begin, procedure, prepare. So is the step of the shard that decides: begin, procedure, the
decision, commit. The event loop submits requests, and hears of their ends by an eventfd.

Invariants OS-1 A branch is in `running` from its submission until its end has been handed on, so
                what counts the branches of a shard misses no branch.
                [test: test_draining_waits_for_one_and_begins_no_other()]
           OS-2 All but is_idle(), numbers() and stop_all() are calls of one event loop.
           [test: test_draining_waits_for_one_and_begins_no_other()]
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from .. import _aio, _batch, _core
from .._errors import Cancelled, DuplicateKey, Error
from .._options import begin_arguments
from .._store import Store
from ._decisions import Decisions
from ._errors import UNDECIDED, BranchLost, OutcomeUnknown, Wounded
from ._fence import Fence
from ._library import Libraries, error_of
from ._messages import Age, Finish, Step
from ._verdicts import COMMITTED, Verdicts

WOUNDED = "an older transaction needed its locks"
ENDING_SECONDS = 0.005
#: Ahead of transactions of this shard alone: other shards keep locks meanwhile.
_BEGIN = begin_arguments({"priority": 3})


@dataclass
class _OneShot:
    request: _core.Request
    age: Age
    began: float = field(default_factory=time.monotonic)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class OneShots:
    """The branches of one shard."""

    def __init__(
        self, store: Store, libraries: Libraries, verdicts: Verdicts, fence: Fence
    ) -> None:
        self._store = store
        self._libraries = libraries
        self._verdicts = verdicts
        self._fence = fence
        self.running: dict[bytes, _OneShot] = {}

    async def prepare(self, message: Step) -> tuple[bytes, int]:
        """A whole branch; the reply, and the number of the prepared transaction, else 0."""
        request = self._request_of(message)
        request.name(message.gid)
        if Decisions.is_decided_by_shard(message.gid):
            self._verdicts.mark(request, message.gid)
        await self._perform(request, message, _batch.PREPARE)
        self._check(request)
        return self._reply_of(request), request.step_txn() if request.prepared() else 0

    async def finish(self, message: Finish) -> bytes:
        """The step that decides, and its commit; the reply."""
        request = self._request_of(message)
        if message.record:
            request.put(_batch.INSERT, self._verdicts.index, message.gid, COMMITTED)
        await self._perform(request, message, _batch.COMMIT)
        try:
            self._check(request)
        except DuplicateKey:
            if request.step_outcome()[0] == 0:
                raise self._verdicts.asked() from None
            raise
        except UNDECIDED as error:
            if request.step_outcome()[0] == 0:
                raise OutcomeUnknown(f"the commit that decides has failed: {error}") from None
            raise
        return self._reply_of(request)

    async def end(self, gid: bytes, commit: bool) -> None:
        """The second phase, or a rollback, which may come while the branch runs."""
        while (one := self.running.get(gid)) is not None:
            self._stop(one)
            try:
                await asyncio.wait_for(one.ended.wait(), ENDING_SECONDS)
            except TimeoutError:
                pass
        request = _core.Request()
        request.name(gid)
        request.begin_in(self._store._handle, *_BEGIN)
        await self._submit(
            request, _batch.COMMIT_PREPARED if commit else _batch.ROLLBACK_PREPARED
        )
        if request.code() != 0:
            request.fail()

    def is_idle(self, seconds: float) -> bool:
        """Whether no branch has run for so long."""
        began = time.monotonic() - seconds
        return all(one.began > began for one in list(self.running.values()))

    def numbers(self) -> dict[int, Age]:
        """The transactions that have begun, by their numbers."""
        return {one.request.step_txn(): one.age for one in list(self.running.values())}

    def stop_all(self) -> None:
        """Ends what runs: each of them raises Wounded."""
        for one in list(self.running.values()):
            self._stop(one)

    def _stop(self, one: _OneShot) -> None:
        number = one.request.step_txn()
        if number == 0:
            return
        try:
            _core.cancel_transaction(self._store._handle, number)
        except Error:  # it has ended, or is prepared
            pass

    def _request_of(self, message: Step | Finish) -> _core.Request:
        request = _core.Request()
        self._libraries.add_step(request, message.procedure, message.arguments)
        request.begin_in(self._store._handle, *_BEGIN)
        return request

    async def _perform(self, request: _core.Request, message: Step | Finish, end: int) -> None:
        if message.gid in self.running:
            raise BranchLost("the transaction has a branch on this shard that runs")
        one = self.running[message.gid] = _OneShot(request, message.age)
        try:
            self._fence.check(message.gid)
            await self._submit(request, end)
        finally:
            del self.running[message.gid]
            one.ended.set()

    async def _submit(self, request: _core.Request, end: int) -> None:
        await _aio.Loop.running().submit(request, end, 0)

    def _check(self, request: _core.Request) -> None:
        if request.code() == 0:
            return
        code, content = request.step_outcome()
        try:
            if code != 0:
                raise error_of(code, (content or b"").decode(errors="replace"))
            request.fail()
        except Cancelled:
            raise Wounded(WOUNDED) from None

    def _reply_of(self, request: _core.Request) -> bytes:
        return request.step_outcome()[1] or b""
