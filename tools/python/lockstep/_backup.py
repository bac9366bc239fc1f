"""Backups: what is done with them without an open store."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence

from . import _core, _options
from ._objects import BackupInfo
from ._options import Path


def read_backup(directory: Path) -> BackupInfo:
    """Reads what a backup says of itself."""
    return BackupInfo(*_core.read_backup(_options.path_text(directory)))


def verify_backup(directory: Path) -> list[str]:
    """Checks every page and log record of a backup. The result: faults."""
    return _core.verify_backup(_options.path_text(directory))


def update_backup(full: Path, next: Path) -> BackupInfo:
    """Brings a full backup up to date in place, with an incremental one made since it.

    `full` becomes a full backup of the state of `next`, which is not needed any more. The time that
    takes grows with what has changed. One that was cut off leaves a backup that cannot be used
    until the call is repeated. Raises BadBackup if the two do not fit or one is damaged. Blocks;
    releases the GIL.
    """
    return BackupInfo(*_core.update_backup(_options.path_text(full), _options.path_text(next)))


def restore_backup(
    backups: Sequence[Path],
    to: Path,
    *,
    archive: Path | None = None,
    until: int | datetime.datetime | None = None,
    history: int | None = None,
    memory_bytes: int | None = None,
) -> BackupInfo:
    """Puts a full backup, and the incremental ones after it, together in a directory.

    With the log archive of their store the result is the state at its end, at the LSN `until`, or
    at that time: what was durable before is in it, and nothing that committed later. `lsn` and
    `ended_at` of the result tell the point and the moment that were reached. What was prepared and
    undecided then is in doubt in the result (Store.prepared()). `history` says whose log is
    followed; None is that of the last backup. `memory_bytes` bounds the pages in memory while the
    archive's log is applied to them; None is 1 GB. Blocks; releases the GIL.
    """
    return BackupInfo(
        *_core.restore_backup(
            _directories(backups),
            _options.path_text(to),
            *_where(archive, until, history, memory_bytes),
        )
    )


def verify_restore(
    backups: Sequence[Path],
    *,
    archive: Path | None = None,
    until: int | datetime.datetime | None = None,
    history: int | None = None,
    memory_bytes: int | None = None,
) -> list[str]:
    """Checks what restore_backup() with the same arguments would read, and writes nothing.

    The result: faults; each begins with the directory of its backup or archive. An empty list says
    that the restore would succeed. Blocks; releases the GIL.
    """
    return _core.verify_restore(
        _directories(backups), *_where(archive, until, history, memory_bytes)
    )


def _directories(backups: Sequence[Path]) -> list[str]:
    if isinstance(backups, (str, bytes, os.PathLike)):
        what = "a path" if isinstance(backups, os.PathLike) else "a text"
        raise TypeError(f"backups is a list of directories, not {what}")
    return [_options.path_text(b) for b in backups]


def _where(
    archive: Path | None,
    until: int | datetime.datetime | None,
    history: int | None,
    memory_bytes: int | None,
) -> tuple[str | None, int | None, int | None, int | None, int | None]:
    """What follows the directories in calls of the core: archive and point of a restore."""
    lsn, nanos = _point(until)
    return (
        None if archive is None else _options.path_text(archive),
        lsn,
        nanos,
        history,
        memory_bytes,
    )


def _point(until: int | datetime.datetime | None) -> tuple[int | None, int | None]:
    """A point as an LSN, or as nanoseconds since 1970."""
    if not isinstance(until, datetime.datetime):
        if until is not None and (isinstance(until, bool) or not isinstance(until, int)):
            raise TypeError(f"until is an LSN or a datetime, not {until!r}")
        return until, None
    if until.tzinfo is None:
        raise ValueError("until has no time zone; pass datetime(..., tzinfo=datetime.UTC)")
    moments = {until.replace(fold=fold).astimezone(datetime.UTC) for fold in (0, 1)}
    zone = until.tzinfo
    if all(_clock(m.astimezone(zone)) != _clock(until) for m in moments):
        raise ValueError(f"until {until} is skipped by the clocks of its zone; pass it in UTC")
    if len(moments) > 1:
        raise ValueError(f"until {until} is twice on the clocks of its zone; pass it in UTC")
    since = moments.pop() - datetime.datetime.fromtimestamp(0, datetime.UTC)
    nanos = since // datetime.timedelta(microseconds=1) * 1000
    if nanos < 0:
        raise ValueError(f"until {until} is before 1970: each archive begins later")
    return None, nanos


def _clock(time: datetime.datetime) -> datetime.datetime:
    """What a clock of its zone shows."""
    return time.replace(tzinfo=None, fold=0)
