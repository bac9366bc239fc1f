"""The Ray actors: a shard, and the coordinator. Both restart by themselves and recover.

Actors have names, `<cluster>/shard-<number>` and `<cluster>/coordinator`, in the namespace
`lockstep`. A call to one that has died is never repeated by Ray, since it may have happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import ray
from ray import cloudpickle

from .._backup import update_backup
from .._errors import StoreLocked
from .._objects import BackupInfo
from .._options import Options
from .._store import Store
from .._store import open as open_store
from ._coordinator import Coordinator
from ._decisions import Decisions, Place
from ._errors import answering
from ._gauges import Gauges
from ._lane import Address, Desk, Lane, Lost
from ._messages import Message
from ._move import check_not_moved, send, set_aside
from ._participant import Participant

NAMESPACE = "lockstep"
#: Calls that an actor takes at a time. Messages do not come as calls.
CALLS_MAX = 100
ASK_TIMEOUT = 5.0
#: A thread that comes back from the store waits so long for the GIL while another one computes.
#: Python's own 5 ms would be added to each call of a step.
SWITCH_SECONDS = 0.0002
FREE_TIMEOUT = 60.0
#: How long a closed shard lives on to refuse what was sent before its senders knew.
ANSWER_SECONDS = 0.5
#: Seconds that the coordinator waits for a shard, while other shards keep locks for it.
SHARD_PATIENCE = 2.0


class Layout(NamedTuple):
    """What every process of a cluster must know."""

    name: str
    shards: int
    route: Callable[[Any], int] | None  # None: by hash

    def shard_of(self, key: Any) -> int:
        """The shard of a key, 0 to shards - 1."""
        if self.route is not None:
            return answering(self.route, "the route of a key")(key) % self.shards
        digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.shards

    def shard_name(self, shard: int) -> str:
        """The name of the shard's actor."""
        return f"{self.name}/shard-{shard}"

    @property
    def coordinator_name(self) -> str:
        """The name of the coordinator's actor."""
        return f"{self.name}/coordinator"


def lane_to(name: str, *, patience: float, queue_max: int = 4096) -> Lane:
    """A lane to a named actor.

    It waits until the actor says that it is ready, at most `patience` seconds.
    """

    async def reach() -> Address:
        until = time.monotonic() + patience
        while True:
            try:
                desk = ray.get_actor(name, namespace=NAMESPACE).desk.remote()
                address: Address | None = await asyncio.wait_for(
                    desk, max(until - time.monotonic(), 0.1)
                )
                if address is not None:
                    return address
                why = "it is being restarted"
            except (ray.exceptions.RayError, ValueError, TimeoutError) as error:
                why = type(error).__name__
            if time.monotonic() > until:
                raise Lost(f"{name}: {why}")
            await asyncio.sleep(0.05)

    return Lane(reach, queue_max=queue_max)


class ShardLanes:
    """The lanes of a coordinator. Not a part of the actor: Ray wraps each method of an actor."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lanes: dict[int, Lane] = {}

    async def send(self, shard: int, message: Message) -> Any:
        """Lane.send() to a shard."""
        lane = self._lanes.get(shard)
        if lane is None:
            name = self._layout.shard_name(shard)
            lane = self._lanes[shard] = lane_to(name, patience=SHARD_PATIENCE)
        return await lane.send(message)


def back_up(store: Store, directory: str, since: BackupInfo | None) -> BackupInfo:
    """Store.backup(), to a directory in a folder that is made. A failure leaves no part of it.

    The checkpoint before lets the next backup since this one read only what has changed.
    """
    made = not os.path.exists(directory)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    try:
        store.checkpoint()
        return store.backup(directory, since=since)
    except BaseException:
        if made:
            remove_copy(directory)
        raise


def update_copy(full: str, changes: str) -> None:
    """Brings a full copy up to date with its changes, and removes those."""
    update_backup(full, changes)
    shutil.rmtree(changes)


def remove_copy(directory: str) -> None:
    """Removes what back_up() has made, and its folder if that is empty then."""
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(directory))


def end_process() -> None:
    """The store has failed. Ray starts the process again, which opens and recovers it."""
    os._exit(1)


def open_when_free(directory: str, options: Options) -> Store:
    """Opens a store, in a folder that is made. The process before may take a while to end."""
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    until = time.monotonic() + FREE_TIMEOUT
    while True:
        try:
            return open_store(directory, **options)
        except StoreLocked:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@ray.remote(max_restarts=-1, max_task_retries=0, max_concurrency=CALLS_MAX)
class Shard:
    """A store and its participant."""

    def __init__(
        self, layout: Layout, number: int, directory: str, procedures: bytes, options: Options
    ) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._number = number
        self._directory = directory
        self._arguments = (layout, number, directory, procedures, options)
        check_not_moved(directory)
        began = time.monotonic()
        store = open_when_free(directory, options)
        self._recovery_seconds = time.monotonic() - began
        self._coordinator: Any = None
        self._coordinator_name = layout.coordinator_name
        self._participant = Participant(
            store,
            cloudpickle.loads(procedures),
            self._ask,
            failed=end_process,
            shard=number,
            wound=self._wound,
        )
        self._store = store
        self._desk = Desk(self._participant.perform)
        self._gauges = Gauges(layout.name, str(number), self._figures)

    async def desk(self) -> Address | None:
        """Where lanes connect to; None: it takes no messages now."""
        if self._participant.draining:
            return None
        return await self._desk.open(ray.util.get_node_ip_address())

    async def status(self) -> dict[str, Any]:
        """Figures for `python -m lockstep.cluster status`."""
        return {
            "shard": self._number,
            "directory": self._directory,
            "node": ray.get_runtime_context().get_node_id(),
            "pid": os.getpid(),
            "recovery_seconds": self._recovery_seconds,
            **self._figures(),
        }

    async def metrics(self) -> str:
        """The store's metrics, as text in the format of Prometheus."""
        return self._store.metrics()

    async def verify(self) -> list[str]:
        """Store.verify(); no transaction may be active."""
        return await asyncio.to_thread(self._store.verify)

    async def drain(self, seconds: float) -> bool:
        """Participant.drain()."""
        return await asyncio.to_thread(self._participant.drain, seconds)

    async def pause(self, token: str, seconds: float, lasting: float) -> bool:
        """Participant.pause()."""
        return await asyncio.to_thread(self._participant.pause, token, seconds, lasting)

    async def resume(self, token: str) -> bool:
        """Participant.resume()."""
        return self._participant.resume(token)

    async def backup(self, directory: str, since: BackupInfo | None) -> BackupInfo:
        """Store.backup(), to a directory on this node."""
        return await asyncio.to_thread(back_up, self._store, directory, since)

    async def remove_copy(self, directory: str) -> None:
        """Of a backup that has failed on another shard."""
        await asyncio.to_thread(remove_copy, directory)

    async def update_copy(self, full: str, changes: str) -> None:
        """Brings a full copy on this node up to date."""
        await asyncio.to_thread(update_copy, full, changes)

    async def send(self, receiver: Any, part: str, since: BackupInfo | None) -> BackupInfo:
        """Sends a part of a backup to another node."""
        return await asyncio.to_thread(send, self._store, receiver, part, since)

    async def leave(self, token: str) -> bool:
        """Closes the store for good, because it is elsewhere. False: the pause did not last."""
        if not self._participant.stay_paused(token):
            return False
        await self.close()
        await asyncio.to_thread(set_aside, self._directory)
        return True

    async def arguments(self) -> tuple[Layout, int, str, bytes, Options]:
        """What made it."""
        return self._arguments

    async def close(self) -> None:
        """Closes the store, so that the next process finds nothing to recover."""
        self._gauges.close()
        self._desk.end()
        await asyncio.to_thread(self._participant.close)

    def _figures(self) -> dict[str, float]:
        doubts = self._participant.in_doubt()
        return {
            "open_branches": self._participant.open_branches,
            "in_doubt": len(doubts),
            "in_doubt_age_seconds": max((age for _, age in doubts), default=0.0),
            **self._participant.counts,
        }

    def _wound(self, gid: bytes) -> None:
        self._find_coordinator().wound.remote(gid)

    def _find_coordinator(self) -> Any:
        if self._coordinator is None:
            self._coordinator = ray.get_actor(self._coordinator_name, namespace=NAMESPACE)
        return self._coordinator

    def _ask(self, gids: list[bytes]) -> dict[bytes, bool | None]:
        self._find_coordinator()
        try:
            answer = self._coordinator.outcomes.remote(gids).future()
            outcomes: dict[bytes, bool | None] = answer.result(ASK_TIMEOUT)
            return outcomes
        except (ray.exceptions.RayError, TimeoutError):
            self._coordinator = None
            return {}


@ray.remote(max_restarts=-1, max_task_retries=0, max_concurrency=CALLS_MAX)
class CoordinatorActor:
    """Decisions and global transactions."""

    def __init__(
        self, layout: Layout, directory: str, procedures: bytes, options: Options
    ) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._decisions = Decisions(open_when_free(directory, options), layout.shards)
        self._started = False
        self._gauges = Gauges(layout.name, "coordinator", self._figures)
        self._coordinator = Coordinator(
            self._decisions,
            cloudpickle.loads(procedures),
            ShardLanes(layout).send,
            layout.shard_of,
            failed=end_process,
        )
        self._desk = Desk(self._coordinator.perform)

    async def desk(self) -> Address:
        """Where lanes connect to."""
        self._start()
        return await self._desk.open(ray.util.get_node_ip_address())

    def _start(self) -> None:
        """Tells the shards what was decided before a restart, once there is an event loop."""
        if not self._started:
            self._started = True
            self._coordinator.start()

    async def outcomes(self, gids: list[bytes]) -> dict[bytes, bool | None]:
        """What a participant in doubt asks."""
        self._start()
        return await self._coordinator.resolve(gids)

    async def wound(self, gid: bytes) -> None:
        """What a participant asks whose prepared branch holds up an older transaction."""
        self._coordinator.wound(gid)

    async def pause(self, token: str, seconds: float, lasting: float) -> bool:
        """Coordinator.pause()."""
        self._start()
        return await self._coordinator.pause(token, seconds, lasting)

    async def resume(self, token: str) -> bool:
        """Coordinator.resume()."""
        return self._coordinator.resume(token)

    async def backup(self, directory: str, since: BackupInfo | None) -> BackupInfo:
        """The same of the decisions."""
        return await asyncio.to_thread(back_up, self._decisions.store, directory, since)

    async def remove_copy(self, directory: str) -> None:
        """Of a backup that has failed on a shard."""
        await asyncio.to_thread(remove_copy, directory)

    async def update_copy(self, full: str, changes: str) -> None:
        """The same of the decisions' copy."""
        await asyncio.to_thread(update_copy, full, changes)

    async def places(self) -> dict[int, Place]:
        """Where the shards are that have moved."""
        return self._decisions.places

    async def move(self, shard: int, place: Place) -> None:
        """Decisions.move()."""
        await self._decisions.move(shard, place)

    async def status(self) -> dict[str, Any]:
        """Figures for `python -m lockstep.cluster status`."""
        self._start()
        return {
            "shards": self._decisions.shards,
            "node": ray.get_runtime_context().get_node_id(),
            "pid": os.getpid(),
            **self._figures(),
        }

    async def close(self) -> None:
        """Closes the store of decisions, when the shards have heard them."""
        self._gauges.close()
        await self._coordinator.finish()
        await asyncio.to_thread(self._decisions.close)

    def _figures(self) -> dict[str, float]:
        return {
            "active": self._coordinator.active,
            "undelivered": self._coordinator.undelivered,
            **self._coordinator.counts,
        }
