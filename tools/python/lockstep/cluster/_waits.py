"""What a transaction of a shard waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

#: Of each transaction that waits for locks, by its number: those that it waits for.
Waits = Mapping[int, Sequence[int]]


def awaited(waiter: int, waits: Waits, has_age: Callable[[int], bool]) -> list[int]:
    """The transactions with an age that a transaction waits for.

    It waits for them directly, or behind transactions without an age.
    """
    found, seen = [], {waiter}
    behind = list(waits[waiter])
    while behind:
        number = behind.pop()
        if number in seen:
            continue
        seen.add(number)
        if has_age(number):
            found.append(number)
        else:
            behind += waits.get(number, ())
    return found
