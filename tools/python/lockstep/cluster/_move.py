"""The way of a shard's store to another node: files as bytes, through Ray."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import ray

from .._backup import update_backup, verify_backup
from .._objects import BackupInfo
from .._store import Store
from . import _rounds
from ._backup import CHANGES, FULL
from ._errors import BadBackup

#: Pieces on their way at a time.
UNDER_WAY_MAX = 8
MOVED = ".moved"
INCOMING = ".incoming"


@ray.remote(max_restarts=0, num_cpus=0)
class Receiver:
    """Takes a backup on the node where the shard will be, and then the changes since."""

    def __init__(self, directory: str) -> None:
        self._to = pathlib.Path(directory)
        self._incoming = self._to.with_name(self._to.name + INCOMING)

    def begin(self) -> None:
        """Checks that there is room for the store."""
        if self._to.exists():
            raise FileExistsError(f"{self._to} exists already on the node; name another directory")
        shutil.rmtree(self._incoming, ignore_errors=True)

    def write(self, part: str, file: str, offset: int, data: bytes) -> None:
        """A piece of a file."""
        path = self._incoming / part / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "r+b" if path.exists() else "w+b") as out:
            out.seek(offset)
            out.write(data)

    def check(self) -> None:
        """Reads the full backup that has arrived."""
        if faults := verify_backup(self._incoming / FULL):
            raise BadBackup(f"the copy of the store in {self._incoming / FULL}: {faults[0]}")

    def update(self) -> None:
        """Brings the full backup up to date with the changes that have arrived."""
        update_backup(self._incoming / FULL, self._incoming / CHANGES)
        shutil.rmtree(self._incoming / CHANGES)

    def place(self) -> None:
        """Gives the store its name."""
        os.rename(self._incoming / FULL, self._to)
        shutil.rmtree(self._incoming)
        sync_directory(self._to.parent)

    def give_up(self) -> None:
        """Removes what was made here."""
        shutil.rmtree(self._incoming, ignore_errors=True)
        shutil.rmtree(self._to, ignore_errors=True)


def sync_directory(path: pathlib.Path) -> None:
    """Makes the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def send(store: Store, receiver: Any, part: str, since: BackupInfo | None) -> BackupInfo:
    """Backs the store up to the receiver, which has everything when this returns.

    The checkpoint before lets the next backup since this one read only what has changed.
    """
    under_way: list[Any] = []

    def sink(file: str, offset: int, data: bytes) -> None:
        under_way.append(receiver.write.remote(part, file, offset, bytes(data)))
        if len(under_way) >= UNDER_WAY_MAX:
            ray.get(under_way.pop(0))

    store.checkpoint()
    made = store.backup_to(sink, since=since)
    ray.get(under_way)
    return made


class Sending:
    """A store on its way from a shard to a receiver."""

    def __init__(self, shard: Any, receiver: Any) -> None:
        self._shard, self._receiver = shard, receiver
        self._sent: BackupInfo | None = None

    def send_ahead(self) -> int:
        """While transactions run: the store, and rounds of changes. The result: their number."""
        self._sent = self._send(FULL)
        ray.get(self._receiver.check.remote())
        return _rounds.run(self.send_changes)

    def send_changes(self) -> None:
        """What has changed since the last call."""
        self._sent = self._send(CHANGES)
        ray.get(self._receiver.update.remote())

    def _send(self, part: str) -> BackupInfo:
        made: BackupInfo = ray.get(self._shard.send.remote(self._receiver, part, self._sent))
        return made


def set_aside(directory: str) -> None:
    """The store has moved: no process opens it here again by its old name."""
    os.rename(directory, directory + MOVED)


def check_not_moved(directory: str) -> None:
    """Raises FileNotFoundError if the store was set aside, and so must not be made anew."""
    if os.path.exists(directory + MOVED) and not os.path.exists(directory):
        raise FileNotFoundError(
            f"{directory}: the shard has moved away, its old store is {directory}{MOVED}. If the"
            " move was cut off, name that directory as before, and start again"
        )
