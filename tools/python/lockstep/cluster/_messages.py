"""What clients, coordinator and shards say to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

#: Global transactions that a coordinator has under way. Others wait for one to end.
ACTIVE_MAX = 256


class Age(NamedTuple):
    """When a transaction was submitted first. It keeps its age when it is repeated."""

    nanos: int
    tie: int


class Run(NamedTuple):
    """A transaction of one shard. The answer is the procedure's result."""

    age: Age
    procedure: str
    arguments: tuple[Any, ...]


class RunMany(NamedTuple):
    """Transactions of one shard, each of a request of its own, in a procedure object.

    The answer is the packed outcomes.
    """

    procedure: str
    requests: bytes  # packed


class Step(NamedTuple):
    """A part of a global transaction. `first`: it begins the branch on this shard.

    `last`: Prepare behind it. The answer is then a pair: the result, and the vote.
    """

    gid: bytes
    age: Age
    first: bool
    procedure: str
    arguments: tuple[Any, ...]
    last: bool = False


class Finish(NamedTuple):
    """The last step of a global transaction, on the shard that decides it, and its commit.

    `record`: other shards are prepared, so the decision is kept for them until Forget.
    """

    gid: bytes
    age: Age
    first: bool
    procedure: str
    arguments: tuple[Any, ...]
    record: bool


class Ask(NamedTuple):
    """What became of a transaction that this shard decides. The answer: whether it committed.

    If it has not, it never will.
    """

    gid: bytes


class Forget(NamedTuple):
    """Every shard has heard these decisions."""

    gids: tuple[bytes, ...]


class Settle(NamedTuple):
    """Nothing of gids below this one begins any more: their coordinators have ended.

    The answer: whether the shard has nothing of them, neither open nor prepared.
    """

    before: bytes


class ForgetBefore(NamedTuple):
    """Every shard has settled below this gid: decisions about gids below it can go."""

    before: bytes


class Prepare(NamedTuple):
    """The first phase. The answer: True if prepared, False if it has ended.

    It ends if it has changed nothing and no shard decides.
    """

    gid: bytes


class CommitBranch(NamedTuple):
    """Commits the only branch of a global transaction, in one phase."""

    gid: bytes


class Decide(NamedTuple):
    """The second phase, or a rollback. It may be repeated, and come for what does not exist."""

    gid: bytes
    commit: bool


class Submit(NamedTuple):
    """A global transaction, for the coordinator."""

    age: Age
    procedure: str
    arguments: tuple[Any, ...]


Message = (
    Run
    | RunMany
    | Step
    | Finish
    | Ask
    | Forget
    | Settle
    | ForgetBefore
    | Prepare
    | CommitBranch
    | Decide
    | Submit
)


def begins(message: Any) -> bool:
    """Whether the message begins something. A process that is about to end refuses only these."""
    match message:
        case Step() | Finish():
            return message.first
        case Run() | RunMany() | Submit():
            return True
        case _:
            return False


#: A message with its number, or the answer to it, as encode() has made it.
Numbered = tuple[int, Any]
