"""Errors of a sharded store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from .._errors import InputOutputError, NoSpace, StoreFailed

P = ParamSpec("P")
R = TypeVar("R")
#: After such an error of a commit, the next open of the store decides whether it has committed.
UNDECIDED = (StoreFailed, InputOutputError, NoSpace)


class ClusterError(Exception):
    """A call of a sharded store failed."""


class OutcomeUnknown(ClusterError):
    """A process or store failed as it ended the transaction, which is whole or absent."""


class ResultLost(ClusterError):
    """The work is done, and its transaction has committed. Only the result cannot be read."""


class ShardUnavailable(ClusterError):
    """The process did not answer, and nothing of the transaction remains."""


class Restarting(ShardUnavailable):
    """The shard begins nothing more, because it is about to be restarted."""


class NotQuiet(ClusterError):
    """Transactions did not end within the time given, or a process was restarted in the pause."""


class BadBackup(ClusterError):
    """The directory is not a complete backup of a sharded store."""


class Wounded(ClusterError):
    """An older transaction needed a lock of this one, which was rolled back. It may be repeated."""


class BranchLost(ClusterError):
    """A shard was restarted in the middle of the transaction, which was rolled back everywhere."""


class Overloaded(ClusterError):
    """The queue of a shard is full."""


class ProcedureError(ClusterError):
    """A procedure of a procedure object ended with a number of its own, which is negative."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return self.text


class ProcedureLeft(ClusterError):
    """A function of the application was left by what is no error, such as SystemExit.

    Its transaction was rolled back. No answer can carry the exception: it would end who gets it.
    """


class NoSuchProcedure(ClusterError):
    """No procedure is registered under that name."""


def shown(error: BaseException) -> str:
    """repr(), or the name of the class if that raises."""
    try:
        return repr(error)
    except BaseException:  # of the application's class
        return type(error).__name__


def as_error(error: BaseException, what: str) -> Exception:
    """The error that answers for an exception. Futures and tasks take no other kind."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    return ProcedureLeft(f"{what} was left by {shown(error)}, which is no error")


def answering(fn: Callable[P, R], what: str) -> Callable[P, R]:
    """The function of the application, which raises errors only."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except BaseException as error:
            if (answer := as_error(error, what)) is error:
                raise
            raise answer from error

    return call


async def answered(work: Awaitable[R], what: str) -> R:
    """The result of an awaitable of the application, which raises errors only.

    A cancellation is passed on, and so is the end of the coroutine.
    """
    try:
        return await work
    except GeneratorExit:
        raise
    except BaseException as error:  # a StopIteration is a RuntimeError here
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            raise
        if (answer := as_error(error, what)) is error:
            raise
        raise answer from error
