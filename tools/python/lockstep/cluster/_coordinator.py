"""Global transactions without Ray: procedures over several shards, and two-phase commit.

Invariants CO-1 A gid is in `_active` from its first message until its outcome is known. Until then
                participants that ask hear that it is not decided.
           CO-2 If the decision cannot be written, it may be on disk all the same. Nobody is told
                anything then, and the gid stays active, until the decisions are opened again.
           CO-3 The caller hears of a commit when the decision is durable. Locks are released when
                the decision reaches the shard, so no later transaction sees the state before.
Source     Mohan, Lindsay, Obermarck, 1986: presumed abort. A rollback is neither written nor
           acknowledged, and a participant that has changed nothing leaves at its vote.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .._errors import Deadlock, LockTimeout
from ._decisions import Decisions
from ._errors import BranchLost, ClusterError, OutcomeUnknown, ShardUnavailable, Wounded
from ._lane import Lost
from ._messages import ACTIVE_MAX, Age, CommitBranch, Decide, Message, Prepare, Step, Submit
from ._pause import Pause
from ._procedures import Global, Procedures

#: Sends a message to a shard; the answer. Raises its error or Lost.
Send = Callable[[int, Message], Awaitable[Any]]
Route = Callable[[Any], int]
REPEATS_MAX = 100
PAUSED_LOOK_SECONDS = 0.005


class DecisionFailed(Exception):
    """A decision could not be written (CO-2)."""


class GlobalTransaction:
    """What a cross-shard procedure gets."""

    def __init__(self, gid: bytes, age: Age, send: Send, route: Route) -> None:
        self._gid = gid
        self._age = age
        self._send = send
        self._route = route
        self.shards: dict[int, None] = {}  # in the order of their first steps

    async def call(self, key: Any, procedure: str, *arguments: Any) -> Any:
        """Runs a local procedure on the shard of `key`, within this transaction.

        Calls may run side by side (asyncio.gather) if they go to different shards.
        """
        shard = self._route(key)
        first = shard not in self.shards
        self.shards[shard] = None
        step = Step(self._gid, self._age, first, procedure, arguments)
        try:
            return await self._send(shard, step)
        except Lost as lost:
            raise ShardUnavailable(f"shard {shard}: {lost}") from None


class Coordinator:
    """Runs global transactions. start() tells shards what an earlier process had decided.

    `failed` is called when the store of decisions has failed, and must be opened again.
    """

    def __init__(
        self,
        decisions: Decisions,
        procedures: Procedures,
        send: Send,
        route: Route,
        *,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._decisions = decisions
        self._failed = failed
        self._procedures = procedures
        self._send = send
        self._route = route
        self._active: set[bytes] = set()
        self._admission = asyncio.Semaphore(ACTIVE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause = Pause()
        self._under_way = 0  # submitted transactions, also between two tries
        self.counts = {"committed": 0, "rolled_back": 0, "repeated": 0}

    def start(self) -> None:
        """Tells every shard the decisions that it may not have heard. In an event loop."""
        for gid, shards in list(self._decisions.pending.items()):
            self._background(self._tell(gid, shards))

    async def submit(self, message: Submit) -> Any:
        """Runs a cross-shard procedure as a transaction; its result.

        Victims of deadlocks and of restarts are repeated, with the age of the first try.
        """
        procedure = self._procedures.find_cross_shard(message.procedure)
        async with self._admission:
            while self._pause.active:
                await asyncio.sleep(PAUSED_LOOK_SECONDS)
            self._under_way += 1
            try:
                return await self._repeat(procedure, message)
            finally:
                self._under_way -= 1

    async def pause(self, token: str, seconds: float, lasting: float) -> bool:
        """Begins nothing more, until resume() or for the time `lasting` in seconds.

        True: no transaction is under way, and every shard has heard what was decided. False: that
        took longer than `seconds`, and there is no pause. Submitters wait meanwhile.
        """
        self._pause.begin(token, seconds + lasting)
        until = time.monotonic() + seconds
        while self._under_way or self._tasks or self._decisions.pending:
            if time.monotonic() > until:
                self._pause.end(token)
                return False
            await asyncio.sleep(PAUSED_LOOK_SECONDS)
        return True

    def resume(self, token: str) -> bool:
        """Ends the pause; whether nothing has begun since pause()."""
        return self._pause.end(token)

    async def _repeat(self, procedure: Global, message: Submit) -> Any:
        for tried in range(REPEATS_MAX):
            gid = self._decisions.new_gid()
            txn = GlobalTransaction(gid, message.age, self._send, self._route)
            self._active.add(gid)  # CO-1
            undecided = False
            try:
                result = await procedure(txn, *message.arguments)
                await self._commit(gid, list(txn.shards))
                self.counts["committed"] += 1
                return result
            except OutcomeUnknown:
                raise
            except DecisionFailed as failure:
                undecided = True
                self._failed()
                raise OutcomeUnknown(str(failure)) from None
            except (Deadlock, Wounded, BranchLost, LockTimeout, ShardUnavailable):
                self._roll_back(gid, list(txn.shards))
                self.counts["repeated"] += 1
            except BaseException:
                self._roll_back(gid, list(txn.shards))
                self.counts["rolled_back"] += 1
                raise
            finally:
                if not undecided:
                    self._active.discard(gid)
            await asyncio.sleep(random.random() * min(0.002 * (1 << min(tried, 8)), 0.2))
        raise ClusterError(f"{message.procedure}: rolled back {REPEATS_MAX} times")

    def outcomes(self, gids: list[bytes]) -> dict[bytes, bool | None]:
        """Of each gid: True committed, False rolled back (also if unknown), None not decided."""
        pending = self._decisions.pending
        return {
            gid: True if gid in pending else None if gid in self._active else False for gid in gids
        }

    async def finish(self) -> None:
        """Waits until the shards have heard what was decided. No transaction may be under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    @property
    def active(self) -> int:
        """Global transactions under way."""
        return len(self._active)

    @property
    def undelivered(self) -> int:
        """Commits that not every shard has heard."""
        return len(self._decisions.pending)

    async def _commit(self, gid: bytes, shards: list[int]) -> None:
        if len(shards) == 1:
            try:
                await self._send(shards[0], CommitBranch(gid))
            except Lost as lost:
                raise OutcomeUnknown(f"shard {shards[0]} died at the commit: {lost}") from None
            return
        votes = await asyncio.gather(
            *(self._send(shard, Prepare(gid)) for shard in shards), return_exceptions=True
        )
        for shard, vote in zip(shards, votes, strict=True):
            if isinstance(vote, Lost):
                raise ShardUnavailable(f"shard {shard}: {vote}")
            if isinstance(vote, BaseException):
                raise vote
        changed = tuple(shard for shard, vote in zip(shards, votes, strict=True) if vote)
        if changed:
            try:
                await self._decisions.commit(gid, changed)
            except Exception as error:
                raise DecisionFailed(f"the decision could not be written: {error}") from None
            self._background(self._tell(gid, changed))

    async def _tell(self, gid: bytes, shards: tuple[int, ...]) -> None:
        """The second phase, until every shard has answered."""
        await asyncio.gather(*(self._decide(gid, shard) for shard in shards))
        await self._decisions.forget(gid)

    async def _decide(self, gid: bytes, shard: int) -> None:
        while True:
            try:
                await self._send(shard, Decide(gid, commit=True))
                return
            except Exception:  # the decision stands, whatever the shard says now
                await asyncio.sleep(0.1)

    def _roll_back(self, gid: bytes, shards: list[int]) -> None:
        """Tells the shards, once. One that does not hear it will ask."""
        for shard in shards:
            self._background(self._forgotten(shard, Decide(gid, commit=False)))

    async def _forgotten(self, shard: int, message: Message) -> None:
        try:
            await self._send(shard, message)
        except Exception:
            pass

    def _background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
