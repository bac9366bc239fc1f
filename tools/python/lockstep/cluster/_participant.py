"""A shard without Ray: a store, the messages about it, and the deadlocks over several shards.

_branches.py has PA-1 and the branches.

Invariants PA-2 Transactions of this shard alone, first steps and later messages have threads of
                their own. Of the last two there are as many as global transactions under way. So
                nothing that would release a lock, here or on another shard, waits for a thread
                that waits for the lock.
                [test: test_a_decision_passes_steps_that_wait_for_its_locks()]
           PA-3 Only the coordinator may end what is prepared. If the coordinator decides, the
                transaction waits for no lock on any shard, so no deadlock goes through it. If a
                shard decides, it may still wait, at the latest on that shard: the coordinator is
                asked to end it. [test: test_the_prepared_are_not_wounded()]
           PA-4 What begins is counted under the mutex under which a pause begins. So behind a pause
                whose wait has ended nothing is under way. [test: test_nothing_happens_in_a_pause()]
           PA-5 If a shard decides, each branch on another shard is prepared, and keeps its read
                locks until the decision. It votes before the deciding shard has taken its locks, so
                a branch that left at its vote would not be two-phase.
                [test: test_two_that_read_what_the_other_writes()]
Source     Rosenkrantz, Stearns, Lewis, "System Level Concurrency Control for Distributed Database
           Systems", 1978 (wound-wait); Mohan, Lindsay, Obermarck, "Transaction Management in the R*
           Distributed Database Management System", 1986 (presumed abort).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .._batch import Batch
from .._errors import Cancelled, Deadlock, Error
from .._options import FIRST_ATTEMPT
from .._packed import Packed
from .._store import Store
from .._transaction import Transaction
from ._branches import Branch, Branches
from ._decisions import Decisions
from ._errors import (
    UNDECIDED,
    NoSuchProcedure,
    OutcomeUnknown,
    Restarting,
    Wounded,
)
from ._fence import Fence
from ._library import Libraries
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
    Run,
    RunMany,
    Settle,
    Step,
)
from ._one_shot import OneShots
from ._pause import Pause
from ._procedures import Local, Objects, Procedures
from ._verdicts import Verdicts
from ._waits import Ages

#: Asks the coordinator of each gid: True commit, False roll back, None not decided yet.
AskOutcomes = Callable[[list[bytes]], dict[bytes, bool | None]]
LOOK_SECONDS = 0.01
#: A transaction that is waited for may simply end soon. What is in a cycle does not.
PATIENCE_SECONDS = 0.04
ASK_SECONDS = 0.5
REPEATS_MAX = 50
COUNTS = ("runs", "batches", "steps", "prepared", "wounded", "resolved")


def commit(txn: Transaction) -> None:
    """Commits. Raises OutcomeUnknown if the next open of the store decides the outcome."""
    try:
        txn.commit()
    except UNDECIDED as error:
        raise OutcomeUnknown(f"the commit has failed: {error}") from None


class Participant:
    """Performs messages on threads. close() ends it.

    `failed` is called when the store has failed, and must be opened again.
    """

    def __init__(
        self,
        store: Store,
        procedures: Procedures,
        ask: AskOutcomes,
        *,
        shard: int = 0,
        threads: int = 32,
        failed: Callable[[], None] = lambda: None,
        wound: Callable[[bytes], None] = lambda gid: None,
    ) -> None:
        self._store = store
        self._procedures = procedures
        self._ask = ask
        self._failed = failed
        self._ask_to_wound = wound
        self._objects = Objects(store)
        self._libraries = Libraries(store, procedures.libraries, shard)
        self._verdicts = Verdicts(store, self._objects)
        self._ages = Ages()
        self._branches = Branches(store, self._ages)
        self._fence = Fence(
            lambda: [*self._branches, *self._one_shots.running],
            lambda: [gid for gid, _ in self.in_doubt()],
        )
        self._one_shots = OneShots(store, self._libraries, self._verdicts, self._fence)
        if self._libraries.names:
            _ = self._verdicts.index  # made here, so that no event loop has to wait for it
        self._running = 0  # what begins, calls and one-shots; under _admission (PA-4)
        self._admission = threading.Lock()
        self._begins = ThreadPoolExecutor(threads, "begins")
        self._firsts = ThreadPoolExecutor(ACTIVE_MAX, "firsts")
        self._later = ThreadPoolExecutor(ACTIVE_MAX, "later")  # PA-2
        # When each was seen first. What an earlier process prepared has waited long enough.
        self._doubts = dict.fromkeys([gid for gid, _ in self.in_doubt()], float("-inf"))
        self._questions = ThreadPoolExecutor(2, "questions")
        self._stop = threading.Event()
        self._draining = False
        self._pause = Pause()
        self.counts = dict.fromkeys(COUNTS, 0)
        self._watchers = [
            threading.Thread(target=self._repeat, args=(fn, seconds), name=fn.__name__)
            for fn, seconds in (
                (self._wound_younger, LOOK_SECONDS),
                (self._resolve, ASK_SECONDS),
            )
        ]
        for watcher in self._watchers:
            watcher.start()

    def close(self) -> None:
        """Ends the threads, then rolls open branches back and closes the store."""
        self._stop.set()
        for watcher in self._watchers:
            watcher.join()
        self._begins.shutdown()
        self._firsts.shutdown()
        self._later.shutdown()
        self._questions.shutdown()
        while self._one_shots.running:
            self._one_shots.stop_all()
            time.sleep(0.001)
        self._libraries.close()
        self._store.close()

    async def perform(self, message: Message) -> Any:
        """Performs a message, in the event loop's thread if it can. Raises Restarting."""
        match message:
            case Step(first=True, last=True) if message.procedure in self._libraries:
                return await self._prepare_at_once(message)
            case Finish(first=True) if message.procedure in self._libraries:
                return await self._finish_at_once(message)
            case Decide() if message.gid not in self._branches:
                await self._one_shots.end(message.gid, message.commit)
                self._ages.forget(message.gid)  # it may have been prepared meanwhile
            case Forget():
                await self._verdicts.forget(message.gids)
            case _:
                return await asyncio.wrap_future(self.submit(message))

    def submit(self, message: Message) -> Future[Any]:
        """Performs a message on a thread. Raises Restarting behind close()."""
        perform, pool = self._place(message)
        try:
            return pool.submit(perform, message)
        except RuntimeError:
            raise Restarting("the shard has been closed; nothing has been done") from None

    def _place(self, message: Message) -> tuple[Callable[[Any], Any], ThreadPoolExecutor]:
        """What performs a message, and the threads that may (PA-2)."""
        match message:
            case Run():
                return self._run, self._begins
            case RunMany():
                return self._run_many, self._begins
            case Step():
                return self._step, self._firsts if message.first else self._later
            case Finish():
                return self._finish, self._firsts if message.first else self._later
            case Ask():
                return lambda ask: self._verdicts.has_committed(ask.gid), self._questions
            case Settle():
                return lambda settle: self._fence.settle(settle.before), self._questions
            case ForgetBefore():
                return lambda forget: self._verdicts.forget_before(forget.before), self._questions
            case Prepare():
                return self._prepare, self._later
            case CommitBranch():
                return self._commit, self._later
            case Decide():
                return self._decide, self._later
            case _:
                raise TypeError(f"a shard does not know {type(message).__name__}")

    def drain(self, seconds: float) -> bool:
        """Begins nothing more, and waits for what is under way. Whether all of it has ended.

        What would begin raises Restarting, so its sender tries again after the restart.
        """
        with self._admission:
            self._draining = True
        return self._become_quiet(seconds)

    def pause(self, token: str, seconds: float, lasting: float) -> bool:
        """drain() for a while: resume() ends it, or the time `lasting` in seconds.

        False: something did not end within `seconds`. Then there is no pause.
        """
        with self._admission:
            self._pause.begin(token, seconds + lasting)
        if self._become_quiet(seconds):
            return True
        self._pause.end(token)
        return False

    def resume(self, token: str) -> bool:
        """Ends the pause; whether nothing has begun since pause()."""
        with self._admission:
            return self._pause.end(token)

    def stay_paused(self, token: str) -> bool:
        """Turns the pause into one without an end; whether nothing has begun since pause()."""
        with self._admission:
            lasted = self._pause.end(token)
            self._draining = self._draining or lasted
            return lasted

    def _become_quiet(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while self._running or self._ages.open or self._branches or self.in_doubt():
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def in_doubt(self) -> list[tuple[bytes, float]]:
        """What is prepared and not decided: gid and age in seconds, the oldest first."""
        return [(one.gid, one.age_nanos / 1e9) for one in self._store.prepared()]

    @property
    def draining(self) -> bool:
        """Whether nothing begins, because of drain() or of a pause."""
        return self._draining or self._pause.active or self._stop.is_set()

    @property
    def open_branches(self) -> int:
        """Branches that are neither prepared nor ended."""
        return len(self._branches) + len(self._one_shots.running)

    # Messages.

    def _run(self, message: Run) -> Any:
        if message.procedure in self._libraries:
            with self._admitted():
                result = self._run_in_library(message)
            self.counts["runs"] += 1
            return result
        procedure = self._find_local(message.procedure)
        with self._admitted():
            return self._run_local(procedure, message)

    def _run_in_library(self, message: Run) -> bytes:
        try:
            return self._libraries.call(message.procedure, message.arguments)
        except UNDECIDED as error:
            if self._store.failure() is None:
                raise  # of an operation, before the commit
            raise OutcomeUnknown(f"the commit may have failed: {error}") from None

    def _run_local(self, procedure: Local, message: Run) -> Any:
        retry = FIRST_ATTEMPT
        for tried in range(REPEATS_MAX):
            try:
                with self._store.begin(retry=retry) as txn, self._aged(txn, message.age):
                    try:
                        result = procedure(txn, self._objects, *message.arguments)
                    except Deadlock:
                        retry = txn.retry()
                        raise
                    commit(txn)
                self.counts["runs"] += 1
                return result
            except Deadlock:  # the next begin waits for its turn
                pass
            except Cancelled:  # for an elder transaction of several shards, which has no line
                time.sleep(random.random() * 0.001 * (1 << min(tried, 6)))
        raise Wounded(f"{message.procedure}: a victim of deadlocks {REPEATS_MAX} times")

    def _run_many(self, message: RunMany) -> bytes:
        requests = Packed(message.requests)
        with self._admitted():
            outcomes = self._libraries.run(message.procedure, requests)
        self.counts["runs"] += requests.requests
        self.counts["batches"] += 1
        return outcomes

    async def _prepare_at_once(self, message: Step) -> tuple[bytes, bool]:
        with self._admitted():
            self.counts["steps"] += 1
            reply, number = await self._one_shots.prepare(message)
        if number != 0:
            self.counts["prepared"] += 1
            self._ages.prepare(message.gid, number, message.age)
        return reply, number != 0

    async def _finish_at_once(self, message: Finish) -> bytes:
        with self._admitted():
            self.counts["steps"] += 1
            return await self._one_shots.finish(message)

    def _step(self, message: Step) -> Any:
        with self._branch_of_step(message) as branch:
            result = self._perform_step(branch, message)
            return (result, self._prepare_branch(message.gid, branch)) if message.last else result

    def _finish(self, message: Finish) -> Any:
        with self._branch_of_step(message) as branch:
            result = self._perform_step(branch, message)
            if message.record:
                self._verdicts.commit(branch.txn, message.gid)
            commit(branch.txn)
            self._branches.end(message.gid, branch)
        return result

    def _perform_step(self, branch: Branch, message: Step | Finish) -> Any:
        self.counts["steps"] += 1
        if message.procedure in self._libraries:
            txn = branch.txn._handle
            return self._libraries.step(txn, message.procedure, message.arguments)
        procedure = self._find_local(message.procedure)
        return procedure(branch.txn, self._objects, *message.arguments)

    def _prepare(self, message: Prepare) -> bool:
        with self._branches.use(message.gid) as branch:
            return self._prepare_branch(message.gid, branch)

    def _prepare_branch(self, gid: bytes, branch: Branch) -> bool:
        if Decisions.is_decided_by_shard(gid):
            self._prepare_for_decider(gid, branch)
            prepared = True
        else:
            prepared = branch.txn.prepare(gid)
        self._branches.end(gid, branch)
        self.counts["prepared"] += prepared
        return prepared

    def _prepare_for_decider(self, gid: bytes, branch: Branch) -> None:
        mark = Batch()
        self._verdicts.mark(mark._request, gid)
        # Known before the locks are those of a prepared transaction (PA-3).
        self._ages.prepare(gid, branch.number, branch.age)
        try:
            branch.txn.prepare_with(mark, gid)
        except BaseException:
            self._ages.forget(gid)
            raise

    def _commit(self, message: CommitBranch) -> None:
        with self._branches.use(message.gid) as branch:
            commit(branch.txn)
            self._branches.end(message.gid, branch)

    def _decide(self, message: Decide) -> None:
        if message.commit:
            self._store.commit_prepared(message.gid)
        else:
            self._branches.roll_back(message.gid)
            self._store.rollback_prepared(message.gid)
        self._ages.forget(message.gid)  # it may have been prepared meanwhile

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[None]:
        """What begins. Raises Restarting if nothing may (PA-4)."""
        with self._admission:
            if self.draining:
                raise Restarting("the shard is paused or being restarted; nothing has begun")
            self._running += 1
        try:
            yield
        finally:
            with self._admission:
                self._running -= 1

    def _find_local(self, name: str) -> Local:
        try:
            return self._procedures.find_local(name)
        except NoSuchProcedure as missing:
            if not self._libraries.names:
                raise
            names = ", ".join(sorted(self._libraries.names))
            raise NoSuchProcedure(f"{missing}; in procedure objects: {names}") from None

    @contextlib.contextmanager
    def _branch_of_step(self, message: Step | Finish) -> Iterator[Branch]:
        """The branch, which the step begins if it is the first."""
        if message.first:
            if message.procedure not in self._libraries:
                self._find_local(message.procedure)
            with self._admitted():
                self._branches.begin(message.gid, message.age)
        with self._branches.use(message.gid) as branch:
            self._fence.check(message.gid)
            yield branch

    @contextlib.contextmanager
    def _aged(self, txn: Transaction, age: Age) -> Iterator[None]:
        number = txn.id
        self._ages.open[number] = age
        try:
            yield
        finally:
            self._ages.open.pop(number, None)

    # Watchers.

    def _repeat(self, fn: Callable[[], None], seconds: float) -> None:
        while not self._stop.wait(seconds):
            with contextlib.suppress(Exception):
                fn()

    def _wound_younger(self) -> None:
        """Ends each transaction that an older one waits for (PA-3), see Ages.

        The engine itself breaks cycles within this store. Transactions of procedure objects have
        no age. Who waits for such a transaction waits for what that one waits for.
        """
        idle = not self._branches and self._one_shots.is_idle(LOOK_SECONDS)
        known = [] if idle else self._store.transactions()
        waits = {info.id: info.waits_for_ids for info in known if info.waits_for_ids}
        others, now = self._one_shots.numbers(), time.monotonic()
        for victim in self._ages.victims(waits, others, now, PATIENCE_SECONDS):
            if isinstance(victim, bytes):
                self._ask_to_wound(victim)
            else:
                self._wound(victim)

    def _wound(self, number: int) -> None:
        with contextlib.suppress(Error):  # it has ended meanwhile, or is prepared
            self._branches.wound(number)
            self.counts["wounded"] += 1

    def _resolve(self) -> None:
        """Asks the coordinator what became of transactions that have been still for a while."""
        if self._store.failure() is not None:
            self._failed()
        now = time.monotonic()
        doubtful = self._long_in_doubt(now)
        still = self._branches.unused_since(now - ASK_SECONDS)
        if not doubtful and not still:
            return
        for gid, commit in self._ask(doubtful + still).items():
            if commit is not None and not (commit and gid in self._branches):
                self._decide(Decide(gid, commit))
                self.counts["resolved"] += 1

    def _long_in_doubt(self, now: float) -> list[bytes]:
        """By this process's clock: the age in the store jumps when the time of day is set."""
        self._doubts = {gid: self._doubts.get(gid, now) for gid, _ in self.in_doubt()}
        return [gid for gid, since in self._doubts.items() if now - since >= ASK_SECONDS]
