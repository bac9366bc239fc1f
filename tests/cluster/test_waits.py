"""Which transactions a shard ends for older ones."""

from lockstep.cluster._messages import Age
from lockstep.cluster._waits import Ages, awaited

OLD, MIDDLE, YOUNG = Age(1, 0), Age(2, 0), Age(3, 0)


def victims(ages, waits, now=0.0, others=None, patience=0.0):
    return ages.victims(waits, others or {}, now, patience)


def test_the_younger_only_wait():
    ages = Ages()
    ages.open.update({1: OLD, 2: YOUNG})
    assert victims(ages, {2: [1]}) == []
    assert victims(ages, {1: [2]}) == [2]
    assert victims(ages, {1: [1]}) == []


def test_a_wait_reaches_through_what_has_no_age():
    ages = Ages()
    ages.open.update({1: OLD, 2: YOUNG})
    waits = {1: [7], 7: [8, 2], 8: [7]}
    assert awaited(1, waits, lambda n: n < 3) == [2]
    assert victims(ages, waits) == [2]
    assert victims(ages, {7: [2]}) == []


def test_what_is_prepared_is_named_by_its_gid():
    ages = Ages()
    ages.prepare(b"g", 2, YOUNG)
    assert victims(ages, {1: [2]}, others={1: OLD}) == [b"g"]
    assert victims(ages, {3: [2]}, others={3: YOUNG}) == []
    ages.forget(b"g")
    ages.forget(b"g")
    assert victims(ages, {1: [2]}, others={1: OLD}) == []


def test_only_a_wait_that_lasts_counts():
    ages = Ages()
    ages.open.update({1: OLD, 2: MIDDLE, 3: YOUNG})
    assert victims(ages, {1: [2]}, now=0.0, patience=1.0) == []
    assert victims(ages, {1: [2, 3]}, now=0.9, patience=1.0) == []
    assert victims(ages, {1: [2, 3]}, now=1.0, patience=1.0) == [2]
    assert victims(ages, {}, now=1.1, patience=1.0) == []
    assert victims(ages, {1: [2]}, now=1.2, patience=1.0) == []  # a new wait
    assert victims(ages, {1: [2]}, now=2.2, patience=1.0) == [2]
