"""test_batch - many operations in one hand-over."""

import threading

import lockstep
import pytest
from lockstep import Batch


def test_all_operations(store, index, heap):
    batch = Batch().insert(index, "a", "1").put(index, "b", b"2").update(index, "a", "11")
    batch.patch(index, "a", 1, "2").get(index, "a").erase(index, "b").get(index, "b")
    batch.heap_insert(heap, "row")
    assert len(batch) == 8
    *results, id = store.execute(batch, durability="lazy")
    assert results == [None, None, True, True, b"12", True, None]
    again = Batch().heap_get(heap, id).heap_update(heap, id, "new").heap_get(heap, id)
    again.heap_erase(heap, id).heap_get(heap, id).heap_update(heap, id, "")
    assert store.execute(again) == [b"row", True, b"new", True, None, False]


def test_an_error_rolls_a_whole_transaction_back(store, index):
    with pytest.raises(lockstep.DuplicateKey):
        store.execute(Batch().put(index, "k", "v").insert(index, "k", "w"))
    assert store.execute(Batch().get(index, "k")) == [None]


def test_an_open_transaction_goes_on_behind_an_error(store, index):
    with store.transaction() as txn:
        with pytest.raises(lockstep.DuplicateKey):
            txn.execute(Batch().put(index, "k", "v").insert(index, "k", "w"))
        assert txn.execute(Batch().get(index, "k")) == [b"v"]


def test_values_longer_than_expected_are_performed_once(store, index, heap):
    """What comes before and behind a long value is done once, in both forms."""
    store.run(lambda txn: txn.put(index, "long", b"x" * 5000))
    (id,) = store.execute(Batch().heap_insert(heap, b"y" * 4000))

    def batch():
        made = Batch(room=16).insert(index, "before", "1").get(index, "long")
        return made.heap_get(heap, id).insert(index, "behind", "2").get(index, "long")

    results = [None, b"x" * 5000, b"y" * 4000, None, b"x" * 5000]
    with store.transaction() as txn:
        assert txn.execute(batch()) == results
        txn.abort()
    assert store.execute(batch()) == results
    assert store.execute(Batch(room=0).get(index, "long").get(index, "before")) == [
        b"x" * 5000,
        b"1",
    ]


def test_a_batch_that_commits(store, index):
    txn = store.begin()
    assert txn.commit_with(Batch().put(index, "k", "v").get(index, "k")) == [None, b"v"]
    assert txn.lsn > 0 and not txn.active
    txn = store.begin()
    with pytest.raises(lockstep.DuplicateKey):
        txn.commit_with(Batch().insert(index, "k", "v"))
    assert txn.active
    txn.abort()


def test_a_batch_may_be_repeated(store, index):
    value = bytearray(b"1")
    batch = Batch().put(index, "k", value).get(index, "k")
    assert store.execute(batch) == [None, b"1"]
    value[0] = ord("2")
    assert store.execute(batch) == [None, b"2"]
    assert store.execute(Batch()) == []


def test_bad_operations(store, index):
    batch = Batch()
    with pytest.raises(TypeError):
        batch.put(index, 1, "v")
    with pytest.raises(TypeError):
        batch.put(index, "k", 1)
    assert len(batch) == 0
    with pytest.raises(lockstep.KeyTooLong):
        store.execute(Batch().put(index, "k" * 2000, ""))


def test_a_batch_that_runs_is_left_alone(store, index):
    holder = store.begin()
    holder.put(index, "k", "v")
    batch = Batch().get(index, "k")
    thread = threading.Thread(target=store.execute, args=(batch,))
    thread.start()
    while not any(t.state == "lock_wait" for t in store.transactions()):
        pass
    for use in (lambda: batch.get(index, "j"), lambda: store.execute(batch)):
        with pytest.raises(RuntimeError, match="is running"):
            use()
    holder.commit()
    thread.join(30)
    assert batch._request.results() == [b"v"]
