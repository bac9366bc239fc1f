"""Errors of a sharded store."""

from __future__ import annotations

from .._errors import InputOutputError, NoSpace, StoreFailed

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


class NoSuchProcedure(ClusterError):
    """No procedure is registered under that name."""
