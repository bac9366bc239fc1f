"""What a transaction of a shard waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ._messages import Age

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


def victims(
    waits: Waits, ages: Mapping[int, Age], prepared: Mapping[int, tuple[bytes, Age]]
) -> Iterator[int | bytes]:
    """What an older transaction waits for: the number, or the gid of what is prepared.

    If each of these ends, no cycle over several shards lasts: along it the ages would fall for
    ever. The younger only wait (Rosenkrantz, Stearns, Lewis 1978).
    """
    for waiter in waits:
        age = ages.get(waiter)
        if age is None:
            continue
        for number in awaited(waiter, waits, lambda n: n in ages or n in prepared):
            if number in ages:
                if ages[number] > age:
                    yield number
            elif prepared[number][1] > age:
                yield prepared[number][0]
