"""Global transactions without Ray: procedures over several shards, and two-phase commit.

Invariants CD-1 A gid is in `_active` from its first message until its outcome is known. Until then
                participants that ask hear that it is not decided.
                [test: test_while_it_is_not_decided_it_says_so()]
           CD-2 If the decision cannot be written, it may be on disk all the same. Nobody is told
                anything then, and the gid stays active, until the decisions are opened again.
                [test: test_a_decision_that_may_be_on_disk_is_neither_taken_back_nor_told()]
           CD-3 The caller hears of a commit when the decision is durable. Locks are released when
                the decision reaches the shard, so no later transaction sees the state before.
                [test: test_a_decision_outlives_the_coordinator()]
           CD-4 What a shard decides is known there only. If it is not active here, that shard is
                asked, and its answer is final (VE-1).
                [test: test_what_is_under_way_is_not_decided()]
           CD-5 Once Finish is sent, only the answer of the deciding shard counts. Whatever the
                procedure raises then neither rolls back nor repeats the transaction.
                [test: test_an_error_behind_finish_takes_nothing_back()]
Source     Mohan, Lindsay, Obermarck, 1986: presumed abort. A rollback is neither written nor
           acknowledged. A participant that has changed nothing leaves at its vote, unless a shard
           decides (PA-5).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .._errors import Deadlock, LockTimeout
from ._decisions import Decisions
from ._errors import (
    BranchLost,
    ClusterError,
    OutcomeUnknown,
    ResultLost,
    ShardUnavailable,
    Wounded,
)
from ._lane import Lost
from ._messages import (
    ACTIVE_MAX,
    Age,
    Ask,
    CommitBranch,
    Decide,
    Finish,
    Forget,
    ForgetBefore,
    Message,
    Prepare,
    Settle,
    Step,
    Submit,
)
from ._pause import Pause
from ._procedures import Global, Procedures

#: Sends a message to a shard; the answer. Raises its error or Lost.
Send = Callable[[int, Message], Awaitable[Any]]
Route = Callable[[Any], int]
#: The transactions under way.
Active = dict[bytes, "GlobalTransaction"]
REPEATS_MAX = 100
#: The errors after which a transaction is repeated.
REPEATABLE = (Deadlock, Wounded, BranchLost, LockTimeout, ShardUnavailable)
PAUSED_LOOK_SECONDS = 0.005
FORGET_SECONDS = 0.02
SETTLE_SECONDS = 1.0
WOUNDED = "an older transaction needed the locks that this one has prepared"


class DecisionFailed(Exception):
    """A decision could not be written (CD-2)."""


class GlobalTransaction:
    """What a cross-shard procedure gets.

    A transaction ends in one of two ways. If the procedure simply returns, all shards vote, and the
    coordinator decides. If it has called decide_at(), the shard of that key decides: it runs the
    last step, finish(), and commits with it, when all others are prepared. That shard then holds
    its locks for the time of the step only, which matters if all transactions use its rows. What
    the procedure raises behind finish() reaches the caller, but does not undo the commit.
    """

    def __init__(self, gid: bytes, age: Age, send: Send, route: Route, active: Active) -> None:
        self.gid = gid
        self._age = age
        self._send = send
        self._route = route
        self._active = active
        self.shards: dict[int, None] = {}  # in the order of their first steps
        self._votes: dict[int, bool] = {}  # of shards whose last step was told so
        self.decider: int | None = None
        self.finishing = False  # Finish is sent
        self.refused = False  # ... and the deciding shard has rolled back
        self.wounded = False
        self.changed: tuple[int, ...] | None = None  # that must hear of the commit by the decider

    def decide_at(self, key: Any) -> None:
        """The shard of `key` decides. To be called before all else; finish() must be the end."""
        if self.shards or self.decider is not None:
            raise ClusterError("decide_at() is the first call of a transaction")
        self.decider = self._route(key)
        del self._active[self.gid]
        self.gid = Decisions.decided_by(self.gid, self.decider)
        self._active[self.gid] = self

    async def call(self, key: Any, procedure: str, *arguments: Any, last: bool = False) -> Any:
        """Runs a local procedure on the shard of `key`, within this transaction.

        Calls may run side by side (asyncio.gather) if they go to different shards. `last`: it is
        the last one on its shard before finish(), so the shard votes with its answer. Only behind
        decide_at(). The deciding shard does not vote.
        """
        shard = self._route(key)
        if last and self.decider is None:
            raise ClusterError("a call with last=True comes behind decide_at()")
        last = last and shard != self.decider
        step = Step(self.gid, self._age, self._enter(shard), procedure, arguments, last)
        try:
            answer = await self._send(shard, step)
        except Lost as lost:
            raise ShardUnavailable(f"shard {shard}: {lost}") from None
        except ResultLost as lost:  # of a step: nothing has committed
            raise ClusterError(str(lost)) from None
        if last:
            answer, self._votes[shard] = answer
        return answer

    async def finish(self, procedure: str, *arguments: Any) -> Any:
        """The last step, on the shard that decides, and the commit. The result is the step's.

        Raises ResultLost if that has committed, but its result cannot be read here.
        """
        if self.decider is None or self.changed is not None:
            raise ClusterError("finish() is the end of a transaction that has called decide_at()")
        others = [shard for shard in self.shards if shard != self.decider]
        voters = [shard for shard in others if shard not in self._votes]
        votes = await gather_votes(self._send, self.gid, voters)
        self._votes.update(zip(voters, votes, strict=True))
        changed = tuple(shard for shard in others if self._votes[shard])
        if self.wounded:
            raise Wounded(WOUNDED)
        first = self._enter(self.decider)
        message = Finish(self.gid, self._age, first, procedure, arguments, bool(changed))
        self.finishing = True
        try:
            result = await self._send(self.decider, message)
        except Lost as lost:
            raise OutcomeUnknown(f"shard {self.decider} died as it decided: {lost}") from None
        except OutcomeUnknown:
            raise
        except ResultLost:
            self.changed = changed
            raise
        except Exception:
            self.refused = True
            raise
        self.changed = changed
        return result

    def _enter(self, shard: int) -> bool:
        """Whether the step is the first one on the shard."""
        if self.wounded:
            raise Wounded(WOUNDED)
        if self.gid not in self._active:
            raise ClusterError("a step behind the end of the transaction")
        if shard in self._votes or self.finishing:
            raise ClusterError(f"a step on shard {shard} behind the last one")
        first = shard not in self.shards
        self.shards[shard] = None
        return first


async def gather_votes(send: Send, gid: bytes, shards: list[int]) -> list[bool]:
    """The first phase. Raises the error of a shard that did not vote to commit."""
    if not shards:
        return []
    votes = await asyncio.gather(
        *(send(shard, Prepare(gid)) for shard in shards), return_exceptions=True
    )
    for shard, vote in zip(shards, votes, strict=True):
        if isinstance(vote, Lost):
            raise ShardUnavailable(f"shard {shard}: {vote}")
        if isinstance(vote, BaseException):
            raise vote
    return [bool(vote) for vote in votes]


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
        self._active: Active = {}
        self._telling = 0
        self._told: dict[int, list[bytes]] = {}  # by their deciders; what these may forget
        self._admission = asyncio.Semaphore(ACTIVE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._wounding: set[bytes] = set()  # whose steps are being ended
        self._settling: asyncio.Task[None] | None = None
        self._pause = Pause()
        self._under_way = 0  # submitted transactions, also between two tries
        self.counts = {"committed": 0, "rolled_back": 0, "repeated": 0}

    def start(self) -> None:
        """Tells every shard the decisions that it may not have heard. In an event loop."""
        for gid, shards in list(self._decisions.pending.items()):
            self._background(self._tell(gid, shards))
        self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def perform(self, message: Message) -> Any:
        """Performs a message of a client."""
        if not isinstance(message, Submit):
            raise TypeError(f"the coordinator does not know {type(message).__name__}")
        return await self.submit(message)

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
            txn = GlobalTransaction(gid, message.age, self._send, self._route, self._active)
            self._active[gid] = txn  # CD-1
            undecided = False
            try:
                result = await procedure(txn, *message.arguments)
                await self._end(txn)
                self.counts["committed"] += 1
                return result
            except DecisionFailed as failure:
                undecided = True
                self._failed()
                raise OutcomeUnknown(str(failure)) from None
            except BaseException as error:
                if not self._may_repeat(txn, error):
                    raise
            finally:
                if not undecided:
                    self._active.pop(txn.gid, None)
            await asyncio.sleep(random.random() * min(0.002 * (1 << min(tried, 8)), 0.2))
        raise ClusterError(f"{message.procedure}: rolled back {REPEATS_MAX} times")

    def _may_repeat(self, txn: GlobalTransaction, error: BaseException) -> bool:
        """Ends a try that has raised `error`. Raises OutcomeUnknown if it may have committed."""
        if txn.finishing and not txn.refused:  # CD-5
            if txn.changed is not None:
                self.counts["committed"] += 1
                self._tell_voters(txn)
            elif isinstance(error, Exception) and not isinstance(error, OutcomeUnknown):
                raise OutcomeUnknown(f"no answer of shard {txn.decider}: {error!r}") from error
            return False
        if isinstance(error, OutcomeUnknown):
            return False
        self._roll_back(txn.gid, list(txn.shards))
        repeatable = isinstance(error, REPEATABLE)
        self.counts["repeated" if repeatable else "rolled_back"] += 1
        return repeatable

    def outcomes(self, gids: list[bytes]) -> dict[bytes, bool | None]:
        """Of each gid: True committed, False rolled back (also if unknown), None not decided."""
        pending = self._decisions.pending
        return {
            gid: True if gid in pending else None if gid in self._active else False for gid in gids
        }

    async def resolve(self, gids: list[bytes]) -> dict[bytes, bool | None]:
        """outcomes(), and for what a shard decides what the shard says (CD-4)."""
        found = self.outcomes(gids)
        for gid in gids:
            decider = self._decisions.decider(gid)
            if decider is not None and gid not in self._active:
                try:
                    found[gid] = await self._send(decider, Ask(gid))
                except Exception:  # it is not back yet, or is restarted
                    found[gid] = None
        return found

    def wound(self, gid: bytes) -> None:
        """An older transaction waits for what this one has prepared (PA-3)."""
        txn = self._active.get(gid)
        if txn is None or txn.decider is None:
            return
        txn.wounded = True
        if gid not in self._wounding:
            self._wounding.add(gid)
            # If it is not finishing, it never will: all of it can be rolled back.
            shards = [txn.decider] if txn.finishing else list(txn.shards)
            self._background(self._end_steps(gid, shards))

    async def _end_steps(self, gid: bytes, shards: list[int]) -> None:
        decide = Decide(gid, commit=False)
        try:
            await asyncio.gather(*(self._forgotten(shard, decide) for shard in shards))
        finally:
            self._wounding.discard(gid)

    async def finish(self) -> None:
        """Waits until the shards have heard what was decided. No transaction may be under way."""
        if self._settling is not None:
            self._settling.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks)

    @property
    def active(self) -> int:
        """Global transactions under way."""
        return len(self._active)

    @property
    def undelivered(self) -> int:
        """Commits that not every shard has heard."""
        return len(self._decisions.pending) + self._telling

    async def _end(self, txn: GlobalTransaction) -> None:
        if txn.decider is None:
            await self._commit(txn.gid, list(txn.shards))
        elif txn.changed is None:
            raise ClusterError("a procedure that calls decide_at() ends with finish()")
        else:
            self._tell_voters(txn)

    async def _commit(self, gid: bytes, shards: list[int]) -> None:
        if len(shards) == 1:
            try:
                await self._send(shards[0], CommitBranch(gid))
            except Lost as lost:
                raise OutcomeUnknown(f"shard {shards[0]} died at the commit: {lost}") from None
            return
        votes = await gather_votes(self._send, gid, shards)
        changed = tuple(shard for shard, vote in zip(shards, votes, strict=True) if vote)
        if changed:
            try:
                await self._decisions.commit(gid, changed)
            except (Exception, asyncio.CancelledError) as error:
                raise DecisionFailed(f"the decision could not be written: {error}") from None
            self._background(self._tell(gid, changed))

    def _tell_voters(self, txn: GlobalTransaction) -> None:
        """The second phase of what a shard has decided, if other shards have prepared."""
        if txn.decider is not None and txn.changed:
            self._background(self._tell_and_forget(txn.gid, txn.decider, txn.changed))

    async def _tell(self, gid: bytes, shards: tuple[int, ...]) -> None:
        """The second phase, until every shard has answered."""
        await self._decide_all(gid, shards)
        await self._decisions.forget(gid)

    async def _tell_and_forget(self, gid: bytes, decider: int, shards: tuple[int, ...]) -> None:
        """_tell() of a decision that a shard has made and keeps."""
        self._telling += 1
        try:
            await self._decide_all(gid, shards)
        finally:
            self._telling -= 1
        told = self._told.setdefault(decider, [])
        told.append(gid)
        if len(told) == 1:
            self._background(self._forget_soon(decider))

    async def _forget_soon(self, decider: int) -> None:
        """Records that a shard needs no longer, together."""
        await asyncio.sleep(FORGET_SECONDS)
        await self._forgotten(decider, Forget(tuple(self._told.pop(decider))))

    async def _settle(self) -> None:
        """Has the shards remove decisions of earlier processes, see _fence.py."""
        before = self._decisions.first_gid
        for message in (Settle(before), ForgetBefore(before)):
            for shard in range(self._decisions.shards):
                while not await self._has_done(shard, message):
                    await asyncio.sleep(SETTLE_SECONDS)

    async def _has_done(self, shard: int, message: Message) -> bool:
        try:
            return await self._send(shard, message) is not False
        except Exception:  # it is restarted
            return False

    async def _decide_all(self, gid: bytes, shards: tuple[int, ...]) -> None:
        if len(shards) == 1:
            await self._decide(gid, shards[0])
        else:
            await asyncio.gather(*(self._decide(gid, shard) for shard in shards))

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
