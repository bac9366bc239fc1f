"""ShardedStore: what a program uses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pathlib
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

import ray

from .._options import Options
from .._packed import Packed, pack
from . import _backup
from ._actors import ANSWER_SECONDS, NAMESPACE, CoordinatorActor, Layout, Shard, lane_to
from ._backup import ClusterBackup, Paused
from ._decisions import Place
from ._errors import ClusterError, OutcomeUnknown, Restarting, ShardUnavailable, answered
from ._lane import Lane, Lost
from ._library import Outcomes
from ._messages import Age, Message, Run, RunMany, Submit
from ._move import Receiver, Sending
from ._procedures import Procedures

R = TypeVar("R")
#: Steps of transactions over shards come first at locks, as other shards keep locks meanwhile.
DEFAULTS: Options = {"workers": 1, "lock_timeout": 5.0, "lock_policy": "priority"}
#: How long a call waits for a shard that is being restarted.
RESTART_SECONDS = 60.0


class ShardedStore:
    """Shards on the nodes of a Ray cluster, and the coordinator of transactions over several.

    ray.init() must have been called. A shard keeps its store in `directory`/shard-<number> on the
    node where it runs. `route` maps a key to a number, the shard is that number modulo `shards`;
    without it the key's hash decides. `resources` gives each shard the Ray resources that tie it
    to its node; shard i takes entry i modulo their number, the coordinator the first. Without
    them a shard must not move to a node that cannot see its directory.

    call() runs a procedure on one shard, run() one over several; submit_call() and submit_run()
    return a Future, call_async() and run_async() are coroutines. Any thread may use it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        procedures: Procedures,
        shards: int = 2,
        name: str = "default",
        route: Callable[[Any], int] | None = None,
        resources: Sequence[dict[str, float]] = ({},),
        options: Options | None = None,
        queue_max: int = 4096,
    ) -> None:
        if shards < 1:
            raise ValueError(f"shards is {shards}; a sharded store has at least one")
        self._layout = Layout(name, shards, route)
        self._queue_max = queue_max
        self._ties = itertools.count(os.getpid() << 32)
        root = pathlib.Path(directory).resolve()
        given: Options = {**DEFAULTS, **(options or {})}
        try:
            self._find_actors(root, procedures.pickle(), resources, given)
        except BaseException:
            # The error's traceback keeps this object, and so the actors that were made for it.
            self.__dict__.clear()
            raise
        self._closed = False
        self._lanes: dict[str, Lane] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lockstep.cluster")
        self._thread.daemon = True
        self._thread.start()

    def _find_actors(
        self,
        root: pathlib.Path,
        procedures: bytes,
        resources: Sequence[dict[str, float]],
        options: Options,
    ) -> None:
        """The coordinator and the shards, made if they do not run; waits until all answer."""
        layout = self._layout
        common = {"namespace": NAMESPACE, "get_if_exists": True, "num_cpus": 0}
        self.coordinator = CoordinatorActor.options(  # type: ignore[attr-defined]
            name=layout.coordinator_name, resources=dict(resources[0]), **common
        ).remote(layout, str(root / "coordinator"), procedures, options)
        made = ray.get(self.coordinator.status.remote())["shards"]
        if made != layout.shards:
            raise ValueError(
                f"{layout.name!r} in {root} was made with {made} shards, not {layout.shards}; keys"
                " would be looked for in the wrong ones"
            )
        first = [
            Place(str(root / f"shard-{number}"), dict(resources[number % len(resources)]))
            for number in range(layout.shards)
        ]
        moved: dict[int, Place] = ray.get(self.coordinator.places.remote())
        self.shards = [
            self._make_shard(number, moved.get(number, first[number]), procedures, options)
            for number in range(layout.shards)
        ]
        ray.get([shard.status.remote() for shard in self.shards])

    def _make_shard(self, number: int, place: Place, procedures: bytes, options: Options) -> Any:
        return Shard.options(  # type: ignore[attr-defined]
            name=self._layout.shard_name(number),
            namespace=NAMESPACE,
            get_if_exists=True,
            num_cpus=0,
            resources=place.resources,
        ).remote(self._layout, number, place.directory, procedures, options)

    def close(self) -> None:
        """Closes every store and ends the actors, for all programs that use them.

        Transactions that run are rolled back. A process that has died has nothing to close: the
        next one recovers its store. Does nothing the second time, and behind detach().
        """
        if self._closed:
            return
        self._close_store(self.coordinator.close.remote())
        for closing in [shard.close.remote() for shard in self.shards]:
            self._close_store(closing)
        for actor in [*self.shards, self.coordinator]:
            ray.kill(actor, no_restart=True)
        self.detach()

    @staticmethod
    def _close_store(closing: Any) -> None:
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(closing)

    def detach(self) -> None:
        """Ends this program's use of the store; its shards go on for other programs.

        Ray ends them when the program that made them ends. What was submitted and has no answer
        raises OutcomeUnknown. Does nothing the second time.
        """
        if self._closed:
            return
        self._closed = True
        asyncio.run_coroutine_threadsafe(self._close_lanes(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> ShardedStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Transactions.

    def call(self, key: Any, procedure: str, *arguments: Any) -> Any:
        """Runs a local procedure as a transaction on the shard of `key`; its result, durable.

        Raises what the procedure raised, OutcomeUnknown, Overloaded.
        """
        return self.submit_call(key, procedure, *arguments).result()

    def submit_call(self, key: Any, procedure: str, *arguments: Any) -> Future[Any]:
        """call() without waiting."""
        return self._submit(self._call(key, procedure, arguments))

    async def call_async(self, key: Any, procedure: str, *arguments: Any) -> Any:
        """call() for an event loop."""
        return await asyncio.wrap_future(self.submit_call(key, procedure, *arguments))

    def call_many(self, key: Any, procedure: str, requests: Sequence[bytes]) -> Outcomes:
        """Runs a procedure of a procedure object once for each request, on the shard of `key`.

        Each request is a transaction of its own. They run side by side, in any order, without
        Python. The outcomes stand in the order of the requests: replies, and errors of single
        requests, which are not raised. A request whose error is StoreFailed may have committed.
        Raises OutcomeUnknown if the shard dies meanwhile: any of the transactions may have
        committed. Raises NoSuchProcedure, Overloaded.
        """
        return self.submit_call_many(key, procedure, requests).result()

    def submit_call_many(
        self, key: Any, procedure: str, requests: Sequence[bytes]
    ) -> Future[Outcomes]:
        """call_many() without waiting."""
        return self._submit(self._call_many(key, procedure, pack(requests)))

    async def call_many_async(
        self, key: Any, procedure: str, requests: Sequence[bytes]
    ) -> Outcomes:
        """call_many() for an event loop."""
        return await asyncio.wrap_future(self.submit_call_many(key, procedure, requests))

    def run(self, procedure: str, *arguments: Any) -> Any:
        """Runs a cross-shard procedure as one transaction; its result, durable everywhere.

        Raises what the procedure raised, OutcomeUnknown, Overloaded.
        """
        return self.submit_run(procedure, *arguments).result()

    def submit_run(self, procedure: str, *arguments: Any) -> Future[Any]:
        """run() without waiting."""
        return self._submit(self._run(procedure, arguments))

    async def run_async(self, procedure: str, *arguments: Any) -> Any:
        """run() for an event loop."""
        return await asyncio.wrap_future(self.submit_run(procedure, *arguments))

    def shard_of(self, key: Any) -> int:
        """The number of the key's shard."""
        return self._layout.shard_of(key)

    # Operation.

    def restart(self, shard: int, *, drain_seconds: float = 10.0) -> bool:
        """Restarts a shard's process, for a new version of procedures or of the package.

        It begins nothing new, ends what is under way, and closes its store. Callers wait
        meanwhile, and see no error. False: something did not end within `drain_seconds`, and was
        rolled back.
        """
        actor = self.shards[shard]
        drained: bool = ray.get(actor.drain.remote(drain_seconds))
        ray.get(actor.close.remote())
        time.sleep(ANSWER_SECONDS)
        ray.kill(actor, no_restart=False)
        return drained

    def backup(
        self, directory: str | os.PathLike[str], *, patience: float = 10.0
    ) -> ClusterBackup:
        """Copies every store to `directory`, so that all copies show one point.

        Most is copied while transactions run. Then everything pauses for the changes since: what
        is under way ends, within `patience` seconds, and callers wait. Each process writes below
        `directory` on its own node; lockstep.cluster.restore() reads a directory that has all of
        them. Blocks. Raises NotQuiet, FileExistsError, and what Store.backup() raises. A backup
        that fails removes its copies, but not those of a process that has died.
        """
        return _backup.take(self.coordinator, self.shards, os.fspath(directory), patience)

    def move(
        self,
        shard: int,
        directory: str | os.PathLike[str],
        *,
        resources: dict[str, float] | None = None,
        patience: float = 10.0,
    ) -> float:
        """Moves a shard to the node that has `resources`, with its store in `directory` there.

        The store is sent while transactions run, and then what has changed meanwhile, again and
        again. Then the shard pauses, and its callers wait: what is under way ends within `patience`
        seconds, the last changes are sent, and the store is opened there. The pause grows with the
        rate of the changes, not with the store. One of more than 50 s is given up. The result is
        the pause in seconds. The old store is kept under the name `<directory>.moved`. The new
        place is remembered with the decisions. This program must be the one that made the store.
        Blocks. Raises NotQuiet, FileExistsError, ShardUnavailable if a process ends meanwhile, and
        what the backup raises; the shard then stays where it is, and the move can be repeated. If
        the answer to the last step is lost, nothing is removed on either node.
        """
        place = Place(os.path.abspath(directory), dict(resources or {}))
        old = self.shards[shard]
        *_, pickled, options = ray.get(old.arguments.remote())
        receiver = Receiver.options(  # type: ignore[attr-defined]
            resources=place.resources
        ).remote(place.directory)
        ray.get(receiver.begin.remote())
        leaving = False
        try:
            sending = Sending(old, receiver)
            sending.send_ahead()
            began = time.monotonic()
            with Paused([], [old], patience) as paused:
                sending.send_changes()
                ray.get(receiver.place.remote())
                leaving = True  # if its answer is lost, both copies are kept
                leaving = ray.get(old.leave.remote(paused.token))
                if not leaving:
                    raise paused.broken()
        except BaseException as error:
            if leaving:
                raise
            with contextlib.suppress(ray.exceptions.RayActorError):
                ray.get(receiver.give_up.remote())
            if isinstance(error, ray.exceptions.RayActorError):
                raise ShardUnavailable(
                    f"a process ended while shard {shard} moved to {place.directory}; the shard"
                    " stays where it is. Move it again"
                ) from error
            raise
        self._remember(shard, place)
        time.sleep(ANSWER_SECONDS)
        ray.kill(old, no_restart=True)
        self.shards[shard] = self._make_new(shard, place, pickled, options)
        return time.monotonic() - began

    def _remember(self, shard: int, place: Place) -> None:
        """Has the coordinator note the place, also if it is being restarted."""
        until = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                ray.get(self.coordinator.move.remote(shard, place))
                return
            except ray.exceptions.RayActorError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _make_new(self, number: int, place: Place, pickled: bytes, options: Options) -> Any:
        """The shard's actor at a new place, when Ray has forgotten the old one."""
        until = time.monotonic() + RESTART_SECONDS
        while True:
            made = self._make_shard(number, place, pickled, options)
            try:
                if ray.get(made.status.remote())["directory"] == place.directory:
                    return made
                why = "the old process has not ended"
            except ray.exceptions.RayError as error:
                why = str(error)
            if time.monotonic() > until:
                raise ShardUnavailable(f"shard {number}, moved to {place.directory}: {why}")
            time.sleep(0.05)

    # Observation.

    def status(self) -> dict[str, Any]:
        """The figures of the coordinator and of each shard."""
        return {
            "coordinator": ray.get(self.coordinator.status.remote()),
            "shards": ray.get([shard.status.remote() for shard in self.shards]),
        }

    # Parts.

    def _submit(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        if self._closed:
            work.close()
            raise ClusterError("this program has closed the sharded store, or detached from it")
        # The route, and what pickles the arguments, are the application's.
        return asyncio.run_coroutine_threadsafe(answered(work, "the call"), self._loop)

    async def _call(self, key: Any, procedure: str, arguments: tuple[Any, ...]) -> Any:
        return await self._begin(key, Run(self._new_age(), procedure, arguments))

    async def _call_many(self, key: Any, procedure: str, requests: Packed) -> Outcomes:
        return Outcomes(await self._begin(key, RunMany(procedure, bytes(requests))))

    async def _begin(self, key: Any, message: Run | RunMany) -> Any:
        name = self._layout.shard_name(self._layout.shard_of(key))
        until = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return await self._send(name, message)
            except Restarting:  # nothing has begun
                if time.monotonic() > until:
                    raise

    async def _run(self, procedure: str, arguments: tuple[Any, ...]) -> Any:
        message = Submit(self._new_age(), procedure, arguments)
        return await self._send(self._layout.coordinator_name, message)

    async def _send(self, name: str, message: Message) -> Any:
        if name not in self._lanes:
            self._lanes[name] = lane_to(
                name, patience=RESTART_SECONDS, queue_max=self._queue_max
            )
        try:
            return await self._lanes[name].send(message)
        except Lost as lost:
            raise OutcomeUnknown(str(lost)) from None

    async def _close_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        await asyncio.sleep(0)  # the connections end behind this turn

    def _new_age(self) -> Age:
        return Age(time.time_ns(), next(self._ties))
