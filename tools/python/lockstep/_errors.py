"""Exceptions: one class for each error code of the engine, with the engine's text."""

from __future__ import annotations

from . import _core


class Error(Exception):
    """An operation failed. `str()` is the engine's text: name, meaning, object, numbers, remedy."""

    #: Number of the error, as in the C interface.
    code: int = 0
    #: errno if a call of the operating system failed, else 0.
    os: int = 0
    #: Numbers that the text explains: page, LSN, id ...
    numbers: tuple[int, int, int] = (0, 0, 0)


class InputOutputError(Error):
    code = 1


class NoSpace(Error):
    code = 2


class LogFull(Error):
    code = 3


class PoolFull(Error):
    code = 4


class OutOfMemory(Error):
    code = 5


class CorruptPage(Error):
    code = 6


class LostWrite(Error):
    code = 7


class CorruptLog(Error):
    code = 8


class CorruptSuperblock(Error):
    code = 9


class BadVersion(Error):
    code = 10


class StoreFailed(Error):
    code = 11


class StoreClosed(Error):
    code = 12


class StoreLocked(Error):
    code = 13


class BadPath(Error):
    code = 14


class BadOption(Error):
    code = 15


class BadArgument(Error):
    code = 16


class NoSuchObject(Error):
    code = 17


class AlreadyExists(Error):
    code = 18


class WrongKind(Error):
    code = 19


class DuplicateKey(Error):
    code = 20


class NoSuchRecord(Error):
    code = 21


class KeyTooLong(Error):
    code = 22


class ValueTooLong(Error):
    code = 23


class Deadlock(Error):
    code = 24


class LockTimeout(Error):
    code = 25


class SelfDeadlock(Error):
    code = 26


class Timeout(Error):
    code = 27


class Cancelled(Error):
    code = 28


class TransactionEnded(Error):
    code = 29


class TransactionAborting(Error):
    code = 30


class ReadOnly(Error):
    code = 31


class WrongThread(Error):
    code = 32


class TooMany(Error):
    code = 33


class RolledBack(Error):
    code = 34


class Unsupported(Error):
    code = 35


class Forked(Error):
    code = 36


class EndedByOperator(Error):
    code = 37


class TransactionTooOld(Error):
    code = 38


class NotClosed(Error):
    code = 39


class KeyFunctionMissing(Error):
    code = 40


class IndexMismatch(Error):
    code = 41


class SnapshotTooOld(Error):
    code = 42


class BadBackup(Error):
    code = 43


class BadArchive(Error):
    code = 44


class ArchiveFailed(Error):
    code = 45


class LockRefused(Error):
    code = 46


class UserError(Error):
    code = 47


class ChangesLost(Error):
    code = 48


#: The class of each code. A code of a newer engine gives the class Error itself.
CLASSES: dict[int, type[Error]] = {cls.code: cls for cls in Error.__subclasses__()}
for _cls in CLASSES.values():
    _cls.__doc__ = f"{_core.error_name(_cls.code)}: {_core.strerror(_cls.code)}"


def make_error(code: int, os: int, a: int, b: int, c: int, text: str) -> Error:
    """The exception of an error; the extension calls it."""
    error = CLASSES.get(code, Error)(text)
    error.code = code
    error.os = os
    error.numbers = (a, b, c)
    return error


def refused(cls: type[Error], what: str) -> Error:
    """The exception of a call that never reaches the engine, with a text as the engine's."""
    name, meaning = _core.error_name(cls.code), _core.strerror(cls.code)
    return make_error(cls.code, 0, 0, 0, 0, f"{name}: {meaning}: {what}")
