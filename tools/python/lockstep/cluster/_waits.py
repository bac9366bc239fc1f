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


class Ages:
    """The ages of the transactions of a shard that may hold locks, and which of them must end.

    If each transaction ends that an older one waits for, no cycle over several shards lasts: along
    it the ages would fall for ever. The younger only wait (Rosenkrantz, Stearns, Lewis, 1978).
    """

    def __init__(self) -> None:
        self.open: dict[int, Age] = {}  # of transactions that are not prepared, by their number
        self._prepared: dict[int, tuple[bytes, Age]] = {}  # by their number
        self._numbers: dict[bytes, int] = {}  # of these
        self._since: dict[int | bytes, float] = {}  # of what an older one waits for

    def prepare(self, gid: bytes, number: int, age: Age) -> None:
        """It is prepared, or about to be, and may still wait elsewhere."""
        self._prepared[number] = gid, age
        self._numbers[gid] = number

    def forget(self, gid: bytes) -> None:
        """prepare() holds no longer. It need not have been called."""
        number = self._numbers.pop(gid, None)
        if number is not None:
            self._prepared.pop(number, None)

    def victims(
        self, waits: Waits, others: Mapping[int, Age], now: float, patience: float
    ) -> list[int | bytes]:
        """What older ones have awaited for `patience` seconds: numbers, gids of what is prepared.

        Called again and again. `others` are further ages, by number.
        """
        found = set(self._awaited_by_older(waits, {**self.open, **others}))
        self._since = {victim: self._since.get(victim, now) for victim in found}
        return [victim for victim, since in self._since.items() if now - since >= patience]

    def _awaited_by_older(self, waits: Waits, ages: Mapping[int, Age]) -> Iterator[int | bytes]:
        prepared = self._prepared.copy()
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
