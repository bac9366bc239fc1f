"""How messages and answers travel in a batch. Ray pickles the batch as a whole.

What consists of plain values goes as it is. All else is pickled for itself, with cloudpickle, so
that a value that cannot be pickled, or not be read, does not spoil its batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ray import cloudpickle

from ._errors import ClusterError, ResultLost, as_error, shown
from ._messages import Age, Message

_PLAIN = frozenset({bytes, int, str, bool, float, type(None), Age})


class Pickled(NamedTuple):
    """A value in bytes."""

    bytes: bytes


class Failure(NamedTuple):
    """The answer is an error."""

    error: Pickled


def encode(message: Message) -> Any:
    """A message. Raises what pickling it raises."""
    plain = all(map(_is_plain, message)) if isinstance(message, tuple) else _is_plain(message)
    return message if plain else Pickled(cloudpickle.dumps(message))


def decode(encoded: Any) -> Message:
    """The message."""
    message: Message = (
        cloudpickle.loads(encoded.bytes) if type(encoded) is Pickled else encoded
    )
    return message


def encode_answer(value: Any, error: Exception | None) -> Any:
    """The answer to a message. If it cannot be pickled, it is an error that says so."""
    if error is None and _is_plain(value):
        return value
    try:
        pickled = Pickled(cloudpickle.dumps(value if error is None else error))
    except BaseException as refused:  # of the application's classes, as below
        why = f"cannot be sent: {shown(refused)}"
        if error is None:
            error = ResultLost(f"done, but the result {why}")
        else:
            error = ClusterError(f"failed, and the error {shown(error)} {why}")
        pickled = Pickled(cloudpickle.dumps(error))
    return pickled if error is None else Failure(pickled)


def decode_answer(encoded: Any) -> tuple[Any, Exception | None]:
    """The value, or the error."""
    failed = type(encoded) is Failure
    try:
        if failed:
            return None, as_error(cloudpickle.loads(encoded.error.bytes), "the procedure")
        return cloudpickle.loads(encoded.bytes) if type(encoded) is Pickled else encoded, None
    except BaseException as refused:
        why = f"cannot be read here: {shown(refused)}"
        if failed:
            return None, ClusterError(f"failed, and the error {why}")
        return None, ResultLost(f"done, but the result {why}")


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind is tuple and all(map(_is_plain, value)))
