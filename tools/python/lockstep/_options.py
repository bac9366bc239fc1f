"""Options of stores and transactions as keyword arguments. Times are in seconds."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from enum import IntFlag
from numbers import Real
from operator import index
from typing import Any, Literal, SupportsIndex, TypedDict, get_args

from . import _core


class Access(IntFlag):
    """The lock that a read takes: READ, UPDATE or WRITE.

    With NO_WAIT a read of an index raises LockRefused where it would have to wait, and the
    transaction goes on. With SKIP_LOCKED it passes such a record over, as if it did not exist:
    `transaction.scan(index, access=Access.UPDATE | Access.SKIP_LOCKED)`.
    """

    READ = 0
    UPDATE = 1
    WRITE = 2
    NO_WAIT = 16
    SKIP_LOCKED = 32


#: Of files and directories; texts are UTF-8.
Path = str | os.PathLike[str]
Isolation = Literal["serializable", "repeatable_read", "read_committed", "snapshot"]
Durability = Literal["durable", "lazy"]
StepsMode = Literal["off", "on", "grouping", "prefetch", "ctx_only", "fastctx", "ctx"]
TeamPolicy = Literal["last_leaver", "largest", "oldest"]
TeamGate = Literal["t_gated", "d_gated", "c_gated"]
PacketPolicy = Literal["fifo", "priority"]
LockPolicy = Literal["fifo", "short_first", "priority", "local_first"]
ArchiveFailure = Literal["stop_writers", "go_on"]
IoMethod = Literal["automatic", "io_uring", "pool"]
#: Takes a line of the store's log: level (0 error, 1 warning, 2 information) and text.
Logger = Callable[[int, str], object]


class StepsOptions(TypedDict, total=False):
    """How user threads are grouped into teams; `<lockstep/steps_options.h>` explains the fields."""

    mode: StepsMode
    team_max: int
    policy: TeamPolicy
    gate: TeamGate
    rounds_max: int
    points: int | str
    window_records: int
    float_state: bool
    ignore_latches: bool


class Options(TypedDict, total=False):
    """How a store runs; `<lockstep/options.h>` explains the fields. Bytes are bytes."""

    create: bool
    read_only: bool
    pin_workers: bool
    sync: bool
    control: bool
    workers: int
    pool_bytes: int
    stack_bytes: int
    transactions_max: int
    user_threads_max: int
    executors: int
    packets_max: int
    packet_policy: PacketPolicy
    lock_policy: LockPolicy
    lock_bypass_max: int
    io: IoMethod
    transaction_age_max: float | None
    log_bytes: int
    log_segment_bytes: int | None
    log_ring_bytes: int | None
    lazy_flush_interval: float
    checkpoint_log_bytes: int | None
    lock_timeout: float | None
    lock_table_bytes_log2: int
    escalate_at: int | None
    version_bytes: int | None
    retries_max: int
    offload_threads: int
    slice_warning: float | None
    archive: Path | None
    archive_interval: float | None
    archive_backlog_bytes: int | None
    archive_failure: ArchiveFailure
    file_mode: int
    scan_bytes: int
    scan_share: float
    scan_workers: int
    changes_log_bytes: int
    logger: Logger | None
    steps: StepsOptions | StepsMode


class TransactionOptions(TypedDict, total=False):
    """How a transaction runs; `<lockstep/txn_options.h>` explains the fields.

    A `lock_timeout` of None is that of the store.
    """

    isolation: Isolation
    durability: Durability
    read_only: bool
    operations: int
    priority: int
    lock_timeout: float | None
    retry: Retry


_CHOICES: dict[str, tuple[str, ...]] = {
    "isolation": get_args(Isolation),
    "durability": get_args(Durability),
    "mode": get_args(StepsMode),
    "policy": get_args(TeamPolicy),
    "gate": get_args(TeamGate),
    "packet_policy": get_args(PacketPolicy),
    "lock_policy": get_args(LockPolicy),
    "io": get_args(IoMethod),
    "archive_failure": get_args(ArchiveFailure),
}
_U32_MAX = (1 << 32) - 1
_SECONDS = (
    "transaction_age_max",
    "lazy_flush_interval",
    "lock_timeout",
    "slice_warning",
    "archive_interval",
)

#: What the engine takes where None is given.
_NONE = {
    "log_segment_bytes": _core.DERIVED,
    "log_ring_bytes": _core.DERIVED,
    "checkpoint_log_bytes": _core.DERIVED,
    "version_bytes": _core.DERIVED,
    "archive_backlog_bytes": _core.DERIVED,
    "escalate_at": _core.NO_ESCALATION,
}
#: What a deadlock victim leaves to its repetition: `Transaction.retry()` makes it, and the option
#: `retry` of the next begin takes it. The repetition waits for its turn.
Retry = tuple[int, int, int, int]
FIRST_ATTEMPT: Retry = (0, 0, 0, 0)

#: What `_core.begin()` takes behind the store.
Begin = tuple[int, int, bool, int, int, int, Retry]
DEFAULT_BEGIN: Begin = (0, 0, False, 0, 0, _core.NEVER, FIRST_ATTEMPT)


def nanos(name: str, seconds: Any) -> int:
    """The seconds of an option as nanoseconds; None is never. Raises TypeError, ValueError."""
    if seconds is None:
        return _core.NEVER
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise wrong_type(name, "a number of seconds, or None for never", seconds)
    try:
        nanoseconds = float(seconds) * 1e9
    except OverflowError:
        nanoseconds = math.inf
    if not 0 <= nanoseconds < _core.NEVER:
        raise ValueError(
            f"option {name} is 0 seconds or more, or None for never, not {seconds!r}"
        )
    return round(nanoseconds)


def wrong_type(name: str, wanted: str, value: Any) -> TypeError:
    """The exception for an option of another type, as that of the extension."""
    return TypeError(f"option {name} is {wanted}, not {value!r} of type {type(value).__name__}")


def path_text(path: Path) -> str:
    """A path as the extension takes it. Raises TypeError, ValueError."""
    given = os.fspath(path)
    if not isinstance(given, str):
        raise TypeError(f"a path is a text or a pathlib.Path, not {given!r} of type bytes")
    if "\0" in given:
        raise ValueError(f"a path has no zero byte, not {given!r}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError(f"a path is UTF-8, not {given!r}") from None
    return given


def whole(name: str, value: Any) -> int:
    """The value of an option of a transaction that is an unsigned integer of 4 bytes."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise wrong_type(name, "an int", value)
    if not 0 <= index(value) <= _U32_MAX:
        raise OverflowError(f"option {name} is from 0 to {_U32_MAX}, not {value!r}")
    return index(value)


def number(name: str, value: Any) -> Any:
    """The value of an option as the engine takes it: choices and times become numbers."""
    if name in _SECONDS:
        return nanos(name, value)
    if name == "archive" and value is not None:
        given = os.fspath(value)
        return path_text(given) if isinstance(given, str) else given
    if name == "points" and isinstance(value, str):
        return _core.ctx_points(value)
    if name in _NONE:
        return optional(name, value)
    choices = _CHOICES.get(name)
    if choices is None:
        return value
    if value not in choices:
        raise ValueError(f"{name} is one of {', '.join(choices)}, not {value!r}")
    return choices.index(value)


def optional(name: str, value: Any) -> Any:
    """The value of an option that may be None."""
    none = _NONE[name]
    if value is None:
        return none
    if isinstance(value, int) and value == none:
        raise OverflowError(f"option {name} is from 0 to {none - 1}, or None, not {value!r}")
    return value


def text(name: str, value: Any) -> Any:
    """The reverse of number()."""
    if name in _NONE:
        return None if value == _NONE[name] else value
    if name in _SECONDS:
        return None if value == _core.NEVER else value / 1e9
    return _CHOICES[name][value] if name in _CHOICES else value


def begin_arguments(options: TransactionOptions) -> Begin:
    """The arguments of a begin."""
    if not options:
        return DEFAULT_BEGIN
    given: dict[str, Any] = {name: number(name, value) for name, value in options.items()}
    unknown = given.keys() - TransactionOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option {min(unknown)}")
    read_only = given.get("read_only", False)
    if not isinstance(read_only, bool):
        raise wrong_type("read_only", "True or False", read_only)
    return (
        given.get("isolation", 0),
        given.get("durability", 0),
        read_only,
        whole("operations", given.get("operations", 0)),
        whole("priority", given.get("priority", 0)),
        given.get("lock_timeout", _core.NEVER),
        _retry(given.get("retry", FIRST_ATTEMPT)),
    )


def _retry(value: Any) -> Retry:
    if (
        not isinstance(value, tuple)
        or len(value) != len(FIRST_ATTEMPT)
        or not all(type(part) is int for part in value)
    ):
        raise wrong_type("retry", "the result of Transaction.retry()", value)
    return value


def repeated(begin: Begin, retry: Retry) -> Begin:
    """The arguments of a begin that repeats a transaction."""
    return (*begin[:-1], retry)


def steps_arguments(steps: StepsOptions | StepsMode) -> dict[str, Any]:
    """The options of STEPS, or a mode alone."""
    if not isinstance(steps, (str, dict)):
        raise wrong_type("steps", "a mode or a dictionary", steps)
    given: dict[str, Any] = {"mode": steps} if isinstance(steps, str) else dict(steps)
    return {name: number(name, value) for name, value in given.items()}
