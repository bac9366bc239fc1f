"""test_transactions - records of indexes and heaps, savepoints, deadlocks, secondary indexes."""

import array
import asyncio
import sys
import threading

import lockstep
import pytest
from lockstep import Access, Batch


def test_records(store, index):
    with store.transaction() as txn:
        txn.insert(index, b"a", b"1")
        txn.put(index, "b", "2")
        txn.put(index, bytearray(b"c"), memoryview(b"3"))
        assert txn.update(index, "a", "11") and not txn.update(index, "z", "")
        assert txn.patch(index, "a", 1, b"2") and not txn.patch(index, "z", 0, b"")
        assert txn.get(index, "a") == b"12" and txn.get(index, "z") is None
        assert txn.get(index, "a", Access.WRITE) == b"12"
        assert txn.get_many(index, ["a", "z", b"c"]) == [b"12", None, b"3"]
        assert txn.erase(index, "b") and not txn.erase(index, "b")
        txn.insert_many(index, [("d", "4"), ["e", "5"], (("f", 1), "6")])
        assert [k for k, _ in txn.scan(index)][:4] == [b"a", b"c", b"d", b"e"]
        assert txn.will_need([(index, "a"), (index, "z")], bytes=10) in (True, False)


@pytest.mark.parametrize("size", [0, 255, 256, 257, 16384, 16385, 100_000, 1_000_000])
def test_values_of_all_sizes(store, index, size):
    value = bytes(n % 251 for n in range(size))
    with store.transaction() as txn:
        txn.put(index, "k", value)
        assert txn.get(index, "k") == value
        assert txn.get_many(index, ["k", "none", "k"]) == [value, None, value]
        assert txn.execute(lockstep.Batch().get(index, "k")) == [value]
        assert list(txn.scan(index)) == [(b"k", value)]
        assert [(bytes(k), bytes(v)) for k, v in txn.scan_views(index)] == [(b"k", value)]
        assert txn.cursor(index).next() == (b"k", value)
        heap = txn.heap("h", create=True)
        if size <= 4096:
            assert txn.heap_get(heap, txn.heap_insert(heap, value)) == value


def test_values_into_buffers(store, index):
    with store.transaction() as txn:
        txn.put(index, "k", memoryview(array.array("I", [1, 2, 3])).cast("B"))
        numbers = array.array("I", [0] * 4)
        assert txn.get_into(index, "k", numbers) == 12
        assert list(numbers) == [1, 2, 3, 0]
        small = bytearray(4)
        assert txn.get_into(index, "k", small) == 12 and small[0] == 1
        assert txn.get_into(index, "none", small) is None
        with pytest.raises(BufferError):
            txn.get_into(index, "k", b"read only")


@pytest.mark.parametrize("bad", [3, 1.5, ["k"]])
def test_what_is_no_key_and_no_value(store, index, bad):
    with store.transaction() as txn:
        with pytest.raises(TypeError, match="a key is bytes, str, a tuple or an object with"):
            txn.put(index, bad, "v")
        with pytest.raises(TypeError, match="a value is bytes, str or an object with a buffer"):
            txn.put(index, "k", bad)
        with pytest.raises(TypeError):
            txn.put(index, "k", ("a", "tuple"))
        with pytest.raises(BufferError):
            txn.put(index, memoryview(b"abcdef")[::2], "v")
        with pytest.raises(UnicodeEncodeError):
            txn.put(index, "\ud800", "v")
        with pytest.raises(TypeError):
            txn.put(index, None, "v")
        for record in (("a",), "ab", None):
            with pytest.raises(TypeError, match="a record is a tuple"):
                txn.insert_many(index, [record])
    assert store.run(lambda txn: list(txn.scan(index))) == []


def test_limits(store, index):
    with store.transaction() as txn:
        txn.put(index, b"k" * lockstep.KEY_BYTES_MAX, "v")
        with pytest.raises(lockstep.KeyTooLong):
            txn.put(index, b"k" * (lockstep.KEY_BYTES_MAX + 1), "v")
        with pytest.raises(lockstep.KeyTooLong):
            txn.get(index, ("k" * 2000,))
        with pytest.raises(lockstep.ValueTooLong):
            txn.put(index, "k", bytes(lockstep.VALUE_BYTES_MAX + 1))


def test_an_exception_rolls_back(store, index):
    with pytest.raises(ZeroDivisionError):
        with store.transaction() as txn:
            txn.put(index, "k", "v")
            raise ZeroDivisionError
    assert not txn.active
    with store.begin() as txn:
        assert txn.get(index, "k") is None
        txn.abort()
    with pytest.raises(lockstep.Error):
        txn.get(index, "k")
    with pytest.raises(ZeroDivisionError):
        with store.transaction() as txn:
            store.end_transaction(txn.id)
            raise ZeroDivisionError


def test_a_commit_that_fails_ends_the_transaction(store, index):
    txn = store.begin()
    txn.put(index, "k", "v")
    store.end_transaction(txn.id)
    with pytest.raises(lockstep.EndedByOperator):
        txn.commit()
    assert not txn.active and txn.id == 0
    with store.transaction() as after:
        assert after.get(index, "k") is None


def test_savepoints(store, index):
    with store.transaction() as txn:
        txn.put(index, "a", "1")
        savepoint = txn.savepoint()
        txn.put(index, "b", "2")
        txn.rollback_to(savepoint)
        assert txn.get(index, "b") is None
        with pytest.raises(ZeroDivisionError):
            with txn.nested():
                txn.put(index, "c", "3")
                raise ZeroDivisionError
        with txn.nested() as inner:
            txn.put(index, "d", "4")
        assert inner.txn == savepoint.txn == txn.id
        for unknown in (inner._replace(number=7), inner._replace(txn=txn.id + 1)):
            with pytest.raises(lockstep.BadArgument):
                txn.rollback_to(unknown)
        assert list(txn.scan(index)) == [(b"a", b"1"), (b"d", b"4")]


def test_isolation(store, index):
    with store.transaction() as txn:
        txn.put(index, "k", "old")
    with store.snapshot() as reader:
        store.run(lambda txn: txn.put(index, "k", "new"))
        assert reader.get(index, "k") == b"old"
        with pytest.raises(lockstep.ReadOnly):
            reader.put(index, "k", "mine")
    with store.transaction(isolation="read_committed", lock_timeout=0.01) as txn:
        assert txn.get(index, "k") == b"new"
    holder = store.begin()
    holder.put(index, "k", "x")
    with store.transaction(lock_timeout=0.01) as txn:
        with pytest.raises(lockstep.LockTimeout):
            txn.get(index, "k")
        txn.abort()
    holder.abort()


def test_a_transaction_belongs_to_one_call_at_a_time(store, index):
    holder = store.begin()
    holder.put(index, "k", "v")
    waiter = store.begin()
    thread = threading.Thread(target=lambda: waiter.get(index, "k"))
    thread.start()
    while not any(t.state == "lock_wait" for t in store.transactions()):
        pass
    with pytest.raises(lockstep.WrongThread):
        waiter.get(index, "j")
    with pytest.raises(lockstep.WrongThread):
        waiter.commit()
    assert waiter.active
    holder.commit()
    thread.join(30)
    waiter.commit()


def test_run_repeats_deadlock_victims(store, index):
    both = threading.Barrier(2)
    tries = [0, 0]

    def swap(me):
        def body(txn):
            tries[me] += 1
            txn.get(index, str(me), Access.WRITE)
            if tries[me] == 1:
                both.wait(30)
            txn.put(index, str(1 - me), f"by {me}")
            txn.put(index, str(me), f"by {me}")
            return me

        assert store.run(body) == me

    store.run(lambda txn: txn.insert_many(index, [("0", ""), ("1", "")]))
    threads = [threading.Thread(target=swap, args=(me,)) for me in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(tries) == 3
    with store.transaction() as txn:
        (_, first), (_, second) = txn.scan(index)
        assert first == second and first.startswith(b"by ")


def test_run_gives_up_at_last(tmp_path):
    with lockstep.open(tmp_path / "s", workers=1, pool_bytes=16 << 20, retries_max=2) as store:
        tries = []

        def victim(txn):
            tries.append(txn)
            raise lockstep.Deadlock("as if")

        with pytest.raises(lockstep.Deadlock):
            store.run(victim)
        assert len(tries) == 3


def test_heaps(store, heap):
    with store.transaction() as txn:
        ids = [txn.heap_insert(heap, f"row {n}") for n in range(100)]
        assert ids[0] == lockstep.RecordId(ids[0].page, ids[0].slot)
        assert txn.heap_get(heap, ids[7]) == b"row 7"
        assert txn.heap_get(heap, ids[7], Access.UPDATE) == b"row 7"
        assert txn.heap_update(heap, ids[7], b"seven") and txn.heap_erase(heap, ids[8])
        assert not txn.heap_erase(heap, ids[8]) and not txn.heap_update(heap, ids[8], b"x")
        assert txn.heap_get(heap, ids[8]) is None
        rows = dict(txn.heap_scan(heap))
        assert len(rows) == 99 and rows[ids[7]] == b"seven"
        seen = []
        txn.heap_each(heap, lambda id, record: seen.append((id, record)))
        assert dict(seen) == rows
        seen.clear()

        def three(id, record):
            seen.append(id)
            return len(seen) < 3

        txn.heap_each(heap, three)
        assert len(seen) == 3
        with pytest.raises(ZeroDivisionError):
            txn.heap_each(heap, lambda id, record: 1 // 0)


def test_bulk_load(store, index):
    with store.transaction() as txn:
        txn.bulk_load(index, (((n,), str(n)) for n in range(3000)), fill_percent=80)
        assert sum(1 for _ in txn.scan(index)) == 3000
    with store.transaction() as txn:
        other = txn.create_index("other")
        with pytest.raises(lockstep.Error):
            txn.bulk_load(other, [("b", ""), ("a", "")])
        txn.abort()
    for bad in (iter([("a", "1"), 7]), (1 // zero for zero in (1, 0)), 3):
        with pytest.raises(Exception) as caught:
            with store.transaction() as txn:
                txn.bulk_load(txn.create_index("other"), bad)
        assert not isinstance(caught.value, lockstep.Error)


def fields(key, value):
    return value.split(b",")


def test_secondary_indexes(store, index):
    with store.transaction() as txn:
        txn.put(index, "1", "red,round")
        told = []
        by = txn.secondary_index(
            "by", index, fields, build_bytes=1 << 20, progress=lambda *now: told.append(now)
        )
        txn.put(index, "2", "red,square")
        assert list(txn.scan_by(by, only="red")) == [(b"1", b"red,round"), (b"2", b"red,square")]
        assert [k for k, _ in txn.scan_by(by, "red", "ree", reverse=True)] == [b"2", b"1"]
        with txn.cursor_by(by, "round") as cursor:
            assert cursor.next() == (b"1", b"red,round") and cursor.secondary_key == b"round"
            assert cursor.next() == (b"2", b"red,square") and cursor.secondary_key == b"square"
            assert cursor.next() is None and cursor.secondary_key == b""
            with pytest.raises(lockstep.Unsupported):
                cursor.patch(0, b"x")
        with pytest.raises(ValueError):
            txn.scan_by(by, "a", only="b")
        with pytest.raises(lockstep.AlreadyExists):
            txn.secondary_index("by", index, fields, new=True)
    assert [o.of != 0 for o in store.objects()] == [True, False]
    unique = store.secondary_index("unique", index, lambda key, value: value, unique=True)
    with store.transaction() as txn:
        with pytest.raises(lockstep.DuplicateKey):
            txn.put(index, "3", "red,round")
        txn.abort()
    assert unique.name == "unique"


def test_key_functions_after_an_open(tmp_path):
    with lockstep.open(tmp_path / "s", workers=1, pool_bytes=16 << 20) as store:
        index = store.index("i", create=True)
        store.secondary_index("by", index, fields)
    with lockstep.open(tmp_path / "s", workers=1, pool_bytes=16 << 20) as store:
        index = store.index("i")
        with store.transaction() as txn:
            with pytest.raises(lockstep.KeyFunctionMissing):
                txn.put(index, "k", "v")
        store.attach_key("by", lambda key, value: None if value == b"hidden" else [value])
        with store.transaction() as txn:
            txn.put(index, "k", "v")
            txn.put(index, "l", "hidden")
            assert list(txn.scan_by(store.index("by"))) == [(b"k", b"v")]


@pytest.fixture
def unraisable(monkeypatch):
    """What goes to sys.unraisablehook."""
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: raised.append(info.exc_value))
    return raised


def inverse(_, value):
    """A key function that raises for the values `zero`, `number` and `list`."""
    if value == b"zero":
        return str(1 // 0)
    return {b"number": 3, b"list": [b"good", None]}.get(value, value)


def test_a_call_raises_what_its_key_function_has_raised(store, index, unraisable):
    by = store.secondary_index("by", index, inverse)
    bad = {"zero": ZeroDivisionError, "number": TypeError, "list": TypeError}
    with store.transaction() as txn:
        txn.put(index, "good", "good")
        for value, kind in bad.items():
            for call in (txn.put, txn.insert):
                with pytest.raises(kind) as caught:
                    call(index, "k\0", value)
                assert any("inverse" in str(entry) for entry in caught.traceback) == (
                    kind is ZeroDivisionError
                )
                assert caught.value.__notes__ == [
                    "the key function of 'by' has raised this for the record of key b'k\\x00'"
                ]
            with pytest.raises(kind):
                txn.update(index, "good", value)
            with pytest.raises(kind):
                txn.insert_many(index, [("m", "before"), ("n", value)])
            txn.erase(index, "m")
            with pytest.raises(kind):
                txn.execute(Batch().put(index, "k", value))
        assert list(txn.scan_by(by)) == [(b"good", b"good")]
        with pytest.raises(lockstep.KeyTooLong):
            txn.put(index, "k", "x" * 2000)
    with pytest.raises(ZeroDivisionError):
        store.run(lambda txn: txn.put(index, "k", "zero"))
    with pytest.raises(ZeroDivisionError):
        store.execute(Batch().put(index, "k", "zero"))
    assert unraisable == []


def test_an_exception_that_takes_no_note_is_raised(store, index):
    class Bare(Exception):
        add_note = None

    def key(key, value):
        raise Bare

    store.secondary_index("by", index, key)
    with pytest.raises(Bare):
        store.run(lambda txn: txn.put(index, "k", "v"))


def test_key_functions_that_raise_in_coroutines(store, index, unraisable):
    store.secondary_index("by", index, inverse, unique=True)

    async def main():
        with pytest.raises(ZeroDivisionError):
            async with store.transaction() as txn:
                await txn.put(index, "k", "zero")
        with pytest.raises(ZeroDivisionError):
            await store.execute_async(Batch().put(index, "k", "zero"))

    asyncio.run(main())
    assert unraisable == []


def test_a_build_raises_what_the_key_function_has_raised(store, index, unraisable):
    with store.transaction() as txn:
        txn.insert_many(index, (((n,), b"v" * 1000) for n in range(2000)))
    with pytest.raises(ZeroDivisionError):
        store.secondary_index("by", index, lambda key, value: str(1 // 0))
    assert [o.name for o in store.objects()] == ["records"] and unraisable == []


def test_each_call_raises_its_own_exception(store, index, unraisable):
    """Many threads at once, also more than exceptions that are kept."""

    class Mine(Exception):
        pass

    def key(key, value):
        raise Mine(key)

    store.secondary_index("by", index, key)
    wrong = []

    def work(n):
        for turn in range(30):
            try:
                store.run(lambda txn: txn.put(index, f"{n}.{turn}", "v"))
            except Mine as error:
                if error.args != (f"{n}.{turn}".encode(),):
                    wrong.append(error)
            else:
                wrong.append((n, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == [] and unraisable == []


def test_an_exception_that_no_call_raises_is_not_lost(tmp_path, unraisable):
    """verify() returns faults, so what a key function has raised goes to sys.unraisablehook."""
    with lockstep.open(tmp_path / "s", workers=1, pool_bytes=16 << 20) as store:
        index = store.index("i", create=True)
        store.secondary_index("by", index, fields)
        store.run(lambda txn: [txn.put(index, (n,), "v") for n in range(40)])
        store.attach_key("by", lambda key, value: str(1 // 0))
        assert store.verify() != []
        assert len(unraisable) == 80
    assert {type(error) for error in unraisable} == {ZeroDivisionError}


def test_many_threads(store, index):
    """Transfers between accounts from 8 threads: the sum stays."""
    store.run(lambda txn: txn.insert_many(index, (((n,), b"\0\0\0d") for n in range(10))))

    def transfers(seed):
        for n in range(40):
            source, target = (seed + n) % 10, (seed * 7 + n * 3) % 10
            if source == target:
                continue

            def move(txn):
                low, high = sorted((source, target))
                values = {
                    account: int.from_bytes(txn.get(index, (account,), Access.UPDATE), "big")
                    for account in (low, high)
                }
                values[source] -= 1
                values[target] += 1
                for account, value in values.items():
                    txn.put(index, (account,), value.to_bytes(4, "big"))

            store.run(move, durability="lazy")

    failures = []

    def guarded(seed):
        try:
            transfers(seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    with store.snapshot() as txn:
        assert sum(int.from_bytes(value, "big") for _, value in txn.scan(index)) == 1000
