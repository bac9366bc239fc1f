"""The way of a shard's store to another node: files as bytes, through Ray."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import ray

from .._objects import BackupInfo
from .._store import Store, restore_backup
from ._backup import FULL, REST

#: Pieces on their way at a time.
UNDER_WAY_MAX = 8
MOVED = ".moved"
INCOMING = ".incoming"


@ray.remote(max_restarts=0, num_cpus=0)
class Receiver:
    """Takes the parts of a backup on the node where the shard will be."""

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

    def restore(self) -> None:
        """Makes the store of the parts."""
        self._to.parent.mkdir(parents=True, exist_ok=True)
        restore_backup([self._incoming / FULL, self._incoming / REST], self._to)
        shutil.rmtree(self._incoming)

    def give_up(self) -> None:
        """Removes what was made here."""
        shutil.rmtree(self._incoming, ignore_errors=True)
        shutil.rmtree(self._to, ignore_errors=True)


def send(store: Store, receiver: Any, part: str, since: BackupInfo | None) -> BackupInfo:
    """Backs the store up to the receiver, which has everything when this returns."""
    under_way: list[Any] = []

    def sink(file: str, offset: int, data: bytes) -> None:
        under_way.append(receiver.write.remote(part, file, offset, bytes(data)))
        if len(under_way) >= UNDER_WAY_MAX:
            ray.get(under_way.pop(0))

    made = store.backup_to(sink, since=since)
    ray.get(under_way)
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
