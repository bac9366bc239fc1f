"""Backups of every store of a sharded store at one point, and their restore.

A backup has two parts for each store: `full`, taken and brought up to date while transactions run,
and `rest`, the changes since, taken in a pause. In the pause no transaction is under way and every
decision has been heard, so the parts together are one state that all transactions before, and none
behind, have made.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import time
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import ray

from .._backup import restore_backup
from .._objects import BackupInfo
from . import _rounds
from ._errors import BadBackup, NotQuiet

MANIFEST = "cluster.json"
FULL, REST = "full", "rest"
#: Changes that bring `full` up to date.
CHANGES = "changes"
#: How long a pause lasts at most. Callers of a shard wait a little longer for it.
LASTING_SECONDS = 50.0


class ClusterBackup(NamedTuple):
    """A backup of a sharded store."""

    #: Names of the parts: `coordinator`, `shard-0` and so on.
    parts: list[str]
    #: Seconds in which nothing could begin.
    pause_seconds: float


def take(coordinator: Any, shards: Sequence[Any], to: str, patience: float) -> ClusterBackup:
    """ShardedStore.backup()."""
    root = pathlib.Path(to).resolve()
    if (root / MANIFEST).exists():
        raise FileExistsError(f"{root} has a backup already; name another directory")
    copies = Copies(root, {"coordinator": coordinator, **shards_by_name(shards)})
    try:
        full = copies.take(FULL, {})

        def bring_up_to_date() -> None:
            full.update(copies.take(CHANGES, full))
            copies.update()

        _rounds.run(bring_up_to_date)
        began = time.monotonic()
        with Paused([coordinator], shards, patience) as paused:
            copies.take(REST, full)
            paused.end()
        pause = time.monotonic() - began
        root.mkdir(parents=True, exist_ok=True)
        unfinished = root / (MANIFEST + ".part")
        unfinished.write_text(json.dumps({"parts": list(copies.actors)}))
        os.replace(unfinished, root / MANIFEST)
    except BaseException:
        copies.remove()
        raise
    return ClusterBackup(list(copies.actors), pause)


def shards_by_name(shards: Sequence[Any]) -> dict[str, Any]:
    """The shards by the names of their parts."""
    return {f"shard-{number}": shard for number, shard in enumerate(shards)}


class Copies:
    """The copies of a backup that is being taken, each made by its process on its node."""

    def __init__(self, root: pathlib.Path, actors: dict[str, Any]) -> None:
        self.actors = actors
        self._root = root
        self._made: list[tuple[Any, str]] = []

    def take(self, part: str, since: dict[str, BackupInfo]) -> dict[str, BackupInfo]:
        """All copies of a part, at the same time. Raises the first error when all have ended."""
        under_way = []
        for name, actor in self.actors.items():
            path = str(self._root / name / part)
            under_way.append((name, path, actor.backup.remote(path, since.get(name))))
        infos, errors = {}, []
        for name, path, copy in under_way:
            try:
                infos[name] = ray.get(copy)
                self._made.append((self.actors[name], path))
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return infos

    def update(self) -> None:
        """Brings every full copy up to date with its changes, which are removed."""
        copies = [self._root / name for name in self.actors]
        under_way = [
            actor.update_copy.remote(str(copy / FULL), str(copy / CHANGES))
            for actor, copy in zip(self.actors.values(), copies, strict=True)
        ]
        ray.get(under_way)

    def remove(self) -> None:
        """Removes what is there. What a process that has died had made stays."""
        for actor, path in reversed(self._made):
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(actor.remove_copy.remote(path))


class Paused:
    """A pause of these actors, the first ones first. end() proves that it lasted."""

    def __init__(self, first: Sequence[Any], then: Sequence[Any], patience: float) -> None:
        self._groups = (first, then)
        self._patience = patience
        self.token = uuid.uuid4().hex

    def __enter__(self) -> Paused:
        try:
            for group in self._groups:
                began = [
                    actor.pause.remote(self.token, self._patience, LASTING_SECONDS)
                    for actor in group
                ]
                if not all(ray.get(began)):
                    raise NotQuiet(
                        f"transactions did not end within {self._patience} s; nothing was done."
                        " `python -m lockstep.cluster status` shows what is open or in doubt"
                    )
        except BaseException:
            self._resume()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._resume()

    def end(self) -> None:
        """Ends the pause. Raises NotQuiet if something may have begun in it."""
        if not all(self._resume()):
            raise self.broken()

    @staticmethod
    def broken() -> NotQuiet:
        """The error of a pause that did not last."""
        return NotQuiet(
            f"the pause took longer than {LASTING_SECONDS} s, or a process was restarted in it;"
            " nothing was done"
        )

    def _resume(self) -> list[bool]:
        lasted = []
        for actor in [*self._groups[1], *self._groups[0]]:
            try:
                lasted.append(ray.get(actor.resume.remote(self.token)))
            except ray.exceptions.RayError:
                lasted.append(False)
        return lasted


def restore(
    backup: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    parts: Sequence[str] | None = None,
) -> list[str]:
    """Puts a backup of ShardedStore.backup() into a directory, for a ShardedStore to open.

    `parts`: only these, for example those whose directory is on this node; None: all. No store of a
    part may be there. The result: the parts. Blocks. Raises BadBackup, and what restore_backup()
    raises.
    """
    source = pathlib.Path(backup).resolve()
    try:
        found = json.loads((source / MANIFEST).read_text())["parts"]
    except (OSError, ValueError, KeyError) as error:
        raise BadBackup(
            f"{source} is no complete backup of a sharded store: {MANIFEST}: {error}"
        ) from None
    unknown = [part for part in parts or () if part not in found]
    if unknown:
        raise BadBackup(f"{source} has no part {unknown[0]!r}; it has {', '.join(found)}")
    to = pathlib.Path(directory).resolve()
    to.mkdir(parents=True, exist_ok=True)
    chosen = list(parts if parts is not None else found)
    for part in chosen:
        restore_backup([source / part / FULL, source / part / REST], to / part)
    return chosen
