"""test_refusals - what is refused, by which exception, and what its text names."""

import asyncio
import inspect
import os
import pathlib
import re

import lockstep
import pytest
from conftest import SMALL
from lockstep import _core, _errors

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_bad_options(tmp_path):
    with pytest.raises(TypeError, match="unknown option colour"):
        lockstep.open(tmp_path / "s", colour=1)
    with pytest.raises(TypeError, match="unknown option colour"):
        lockstep.open(tmp_path / "s", steps={"colour": 1})
    refused = (
        ("workers", "two", TypeError, "an int, not 'two' of type str"),
        ("workers", 1.5, TypeError, "an int, not 1.5 of type float"),
        ("workers", None, TypeError, "an int, not None of type NoneType"),
        ("workers", -1, OverflowError, "from 0 to 4294967295, not -1"),
        ("pool_bytes", 1 << 64, OverflowError, "from 0 to 18446744073709551615, not 1844"),
        ("pool_bytes", "x" * 1000, TypeError, r"an int, not 'x{99}\.\.\. of type str"),
        ("sync", 1, TypeError, "True or False, not 1 of type int"),
        ("archive", b"a", TypeError, "a text, not b'a' of type bytes"),
        ("lock_timeout", -1, ValueError, "0 seconds or more, or None for never, not -1"),
        ("lock_timeout", float("nan"), ValueError, "0 seconds or more, or None for never, not nan"),
        ("slice_warning", 1e30, ValueError, "0 seconds or more, or None for never, not 1e"),
        ("slice_warning", 10**400, ValueError, "0 seconds or more, or None for never, not 1000"),
        ("lock_timeout", "1", TypeError, "a number of seconds, or None for never, not '1' of"),
    )
    for name, value, kind, text in refused:
        with pytest.raises(kind, match=f"option {name} is {text}"):
            lockstep.open(tmp_path / "s", **{name: value})
    with pytest.raises(TypeError, match="option team_max is an int, not 'all' of type str"):
        lockstep.open(tmp_path / "s", steps={"team_max": "all"})
    assert not (tmp_path / "s").exists()
    with pytest.raises(ValueError, match="io is one of automatic"):
        lockstep.open(tmp_path / "s", io="fast")
    with pytest.raises(lockstep.BadOption):
        lockstep.open(tmp_path / "s", workers=100000)
    with pytest.raises(lockstep.BadOption):
        lockstep.open(tmp_path / "s", steps={"points": "nowhere"})
    with pytest.raises(lockstep.BadPath):
        lockstep.open(tmp_path / "missing", create=False)


def test_bad_transaction_options(store):
    with pytest.raises(TypeError, match="unknown option speed"):
        store.transaction(speed=1)
    with pytest.raises(ValueError, match="isolation is one of"):
        store.transaction(isolation="none")
    refused = (
        ("lock_timeout", -1, ValueError, "0 seconds or more, or None for never, not -1"),
        ("lock_timeout", [1], TypeError, "a number of seconds, or None for never, not"),
        ("operations", "many", TypeError, "an int, not 'many' of type str"),
        ("priority", 1 << 32, OverflowError, "from 0 to 4294967295, not 4294967296"),
        ("read_only", "yes", TypeError, "True or False, not 'yes' of type str"),
    )
    for name, value, kind, text in refused:
        for call in (store.transaction, store.begin):
            with pytest.raises(kind, match=f"option {name} is {text}"):
                call(**{name: value})


def test_arguments_of_a_wrong_type_are_named(store, index, heap, tmp_path):
    batch = lockstep.Batch
    with store.transaction() as txn:
        id = txn.heap_insert(heap, "row")
        refused = (
            ("a key is", lambda: txn.put(index, None, "v")),
            ("a value is", lambda: txn.put(index, "k", None)),
            ("a value is", lambda: txn.update(index, "k", 1)),
            ("a key is", lambda: txn.get(index, None)),
            ("a key is", lambda: txn.erase(index, None)),
            ("bytes-like object", lambda: txn.get_into(index, "k", None)),
            ("a key is", lambda: txn.get_many(index, [None])),
            ("keys is a list of keys, not a text", lambda: txn.get_many(index, "abc")),
            ("not iterable", lambda: txn.insert_many(index, None)),
            ("access is an int, not 'read'", lambda: txn.get(index, "k", "read")),
            ("access is an int", lambda: txn.scan(index, access=None)),
            ("access is an int", lambda: txn.heap_get(heap, id, "read")),
            ("offset is an int, not '1'", lambda: txn.patch(index, "k", "1", "v")),
            ("a value is", lambda: txn.patch(index, "k", 0, None)),
            ("fill_percent is an int", lambda: txn.bulk_load(index, [], "full")),
            ("id is a RecordId, not 7", lambda: txn.heap_get(heap, 7)),
            ("page of the id is an int", lambda: txn.heap_erase(heap, ("a", 1))),
            ("a value is", lambda: txn.heap_insert(heap, None)),
            ("a value is", lambda: txn.heap_update(heap, id, None)),
            ("each is a function", lambda: txn.heap_each(heap, None)),
            ("a value is", lambda: txn.prepare(None)),
            ("name is a text, not 3", lambda: txn.index(3)),
            ("name is a text, not None", lambda: txn.create_heap(None)),
            ("name is a text", lambda: txn.drop(None)),
            ("key is a function", lambda: txn.secondary_index("by", index, "value")),
            ("unique is True", lambda: txn.secondary_index("by", index, len, unique=1)),
            ("build_bytes is", lambda: txn.secondary_index("by", index, len, build_bytes=1.5)),
            ("progress is", lambda: txn.secondary_index("by", index, len, progress=1)),
            ("a key is", lambda: batch().get(index, None)),
            ("a value is", lambda: batch().put(index, "k", None)),
            ("offset is an int", lambda: batch().patch(index, "k", None, "v")),
            ("access is an int", lambda: batch().get(index, "k", "read")),
            ("id is a RecordId", lambda: batch().heap_get(heap, None)),
            ("a value is", lambda: batch().heap_update(heap, id, None)),
            ("name is a text, not 3", lambda: store.index(3)),
            ("name is a text", lambda: store.attach_key(None, len)),
            ("key is a function", lambda: store.attach_key("by", None)),
            ("threads is an int", lambda: store.verify("all")),
            ("lsn is an int", lambda: store.wait_durable(None)),
            ("id is an int", lambda: store.end_transaction("1")),
            ("a value is", lambda: store.commit_prepared(None)),
            ("bytes_per_second is", lambda: store.backup(tmp_path, bytes_per_second=0.5)),
            ("progress is a function", lambda: store.backup(tmp_path, progress=7)),
            ("sink is a function", lambda: store.backup_to(None)),
            ("backups is a list of directories, not a text", lambda: restore("full")),
            ("backups is a list of directories, not a path", lambda: restore(tmp_path)),
            ("history is an int", lambda: restore([tmp_path], history="1")),
            ("since is a BackupInfo", lambda: store.backup(tmp_path, since="full")),
            ("keys is a list of keys, not a text", lambda: asyncio.run(get_many())),
            ("option logger is a function", lambda: lockstep.open(tmp_path / "s", logger=1)),
            ("option steps is a mode or", lambda: lockstep.open(tmp_path / "s", steps=1)),
            ("until is an LSN or a datetime", lambda: restore([tmp_path], until="now")),
        )

        async def get_many():
            async with store.transaction() as asynchronous:
                await asynchronous.get_many(index, "abc")

        def restore(backups, **options):
            lockstep.restore_backup(backups, tmp_path / "to", **options)

        for text, call in refused:
            with pytest.raises(TypeError, match=text) as caught:
                call()
            assert "arg0" not in str(caught.value)
        with pytest.raises(OverflowError, match="offset is from 0 to [0-9]*, not -1"):
            txn.patch(index, "k", -1, "v")


def test_names_and_paths_with_a_zero_byte_are_not_cut(store, tmp_path):
    path = f"{tmp_path}/a\0b"
    calls = (
        lambda: store.index("a\0b", create=True),
        lambda: store.heap("a\0b"),
        lambda: store.attach_key("a\0b", len),
        lambda: store.backup(path),
        lambda: lockstep.open(path),
        lambda: lockstep.open(tmp_path / "s", archive=path),
        lambda: lockstep.read_backup(path),
        lambda: lockstep.verify_backup(path),
        lambda: lockstep.verify_restore([path]),
        lambda: lockstep.restore_backup([path], tmp_path / "to"),
        lambda: lockstep.restore_backup([tmp_path], path),
        lambda: lockstep.update_backup(path, tmp_path),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"has no zero byte, not '.*a\\x00b'"):
            call()
    assert store.objects() == [] and os.listdir(tmp_path) == ["store"]


def test_paths_of_a_wrong_type_or_spelling(tmp_path):
    with pytest.raises(TypeError, match="a path is a text or a pathlib.Path, not b'a' of type"):
        lockstep.open(b"a")
    with pytest.raises(TypeError, match="expected str, bytes or os.PathLike object, not NoneType"):
        lockstep.open(None)
    with pytest.raises(ValueError, match="a path is UTF-8"):
        lockstep.open(os.fsdecode(b"a\xff"))


def test_run_takes_no_coroutine_function(store, index):
    async def fn(txn):
        await txn.put(index, "k", "v")

    with pytest.raises(TypeError, match=r"returned a coroutine; run_async\(\) awaits it"):
        store.run(fn)


@pytest.mark.parametrize("wrong", ["records", None, 7, "the other kind"])
def test_what_is_no_index_and_no_heap(store, index, heap, wrong):
    batch = lockstep.Batch()
    no_index, no_heap = (heap, index) if wrong == "the other kind" else (wrong, wrong)
    with store.transaction() as txn:
        id = txn.heap_insert(heap, "row")
        indexes = (
            lambda: txn.get(no_index, "k"),
            lambda: txn.get_into(no_index, "k", bytearray(1)),
            lambda: txn.get_many(no_index, ["k"]),
            lambda: txn.insert(no_index, "k", "v"),
            lambda: txn.insert_many(no_index, [("k", "v")]),
            lambda: txn.put(no_index, "k", "v"),
            lambda: txn.update(no_index, "k", "v"),
            lambda: txn.patch(no_index, "k", 0, "v"),
            lambda: txn.erase(no_index, "k"),
            lambda: txn.bulk_load(no_index, []),
            lambda: txn.will_need([(no_index, "k")]),
            lambda: txn.scan(no_index),
            lambda: txn.scan_views(no_index),
            lambda: txn.cursor(no_index),
            lambda: batch.get(no_index, "k"),
            lambda: batch.insert(no_index, "k", "v"),
            lambda: batch.put(no_index, "k", "v"),
            lambda: batch.update(no_index, "k", "v"),
            lambda: batch.patch(no_index, "k", 0, "v"),
            lambda: batch.erase(no_index, "k"),
            lambda: asyncio.run(get()),
        )
        heaps = (
            lambda: txn.heap_insert(no_heap, "row"),
            lambda: txn.heap_get(no_heap, id),
            lambda: txn.heap_update(no_heap, id, "row"),
            lambda: txn.heap_erase(no_heap, id),
            lambda: txn.heap_scan(no_heap),
            lambda: txn.heap_each(no_heap, print),
            lambda: batch.heap_insert(no_heap, "row"),
            lambda: batch.heap_get(no_heap, id),
            lambda: batch.heap_update(no_heap, id, "row"),
            lambda: batch.heap_erase(no_heap, id),
        )
        named = (
            ("of", lambda: txn.secondary_index("by", no_index, print)),
            ("secondary", lambda: txn.scan_by(no_index)),
            ("secondary", lambda: txn.scan_by(no_index, only="k")),
            ("secondary", lambda: txn.cursor_by(no_index)),
            *(("index", call) for call in indexes),
            *(("heap", call) for call in heaps),
        )

        async def get():
            async with store.transaction() as asynchronous:
                await asynchronous.get(no_index, "k")

        for name, call in named:
            wanted = "a Heap, from Store.heap()" if name == "heap" else "an Index, from Store.ind"
            given = no_heap if name == "heap" else no_index
            text = re.escape(f"{name} is {wanted}") + f".*, not {re.escape(repr(given))} of type"
            with pytest.raises(TypeError, match=text):
                call()
    assert len(batch) == 0


def test_each_code_has_a_class():
    header = (ROOT / "threads/include/lockstep/result.h").read_text()
    names = re.findall(r"^    X\((\w+), ", header, re.M)
    assert sorted(_errors.CLASSES) == list(range(1, len(names) + 1))
    for code, cls in _errors.CLASSES.items():
        assert getattr(lockstep, cls.__name__) is cls
        error = _errors.make_error(code, 2, 3, 4, 5, _core.strerror(code))
        assert type(error) is cls and error.code == code and str(error) == _core.strerror(code)
        assert (error.os, error.numbers) == (2, (3, 4, 5))
        assert _core.error_name(code) == names[code - 1]
    assert type(_errors.make_error(1000, 0, 0, 0, 0, "new")) is lockstep.Error


def test_help_has_a_text_for_each_public_name():
    aliases = {"Key", "KeyFunction", "Part", "Value"}
    numbers = {"GID_BYTES_MAX", "KEY_BYTES_MAX", "VALUE_BYTES_MAX"}
    without = []
    for name in set(lockstep.__all__) - aliases - numbers:
        thing = getattr(lockstep, name)
        members = vars(thing).items() if inspect.isclass(thing) else ()
        of_class = [f for m, f in members if inspect.isfunction(f) and not m.startswith("_")]
        without += [one.__qualname__ for one in (thing, *of_class) if not one.__doc__]
    assert without == []
    assert lockstep.LogFull.__doc__ == "log_full: log is full"


def test_errors_have_the_engines_text(store, index):
    with store.transaction() as txn:
        txn.insert(index, "k", "v")
        with pytest.raises(lockstep.DuplicateKey) as caught:
            txn.insert(index, "k", "w")
    assert str(caught.value).startswith("duplicate_key: key exists already")
    assert caught.value.code == 20


def test_calls_on_what_is_closed(tmp_path):
    store = lockstep.open(tmp_path / "s", **SMALL)
    index, heap = store.index("i", create=True), store.heap("h", create=True)
    with store.transaction() as txn:
        txn.put(index, "k", "v")
    handle = store._handle
    txn, other = store.begin(), store.begin()
    context, batch = store.transaction(), lockstep.Batch().get(index, "k")
    cursor, scan = txn.cursor(index), txn.scan(index)
    store.close()

    async def begin():
        async with context:
            pass

    calls = (
        store.options,
        store.stats,
        store.metrics,
        store.failure,
        store.objects,
        store.transactions,
        store.checkpoint,
        store.give_back_space,
        store.verify,
        store.begin,
        store.transaction,
        store.snapshot,
        store.prepared,
        context.__enter__,
        lambda: asyncio.run(begin()),
        lambda: asyncio.run(store.execute_async(batch)),
        lambda: asyncio.run(store.run_async(lambda txn: txn.get(index, "k"))),
        lambda: asyncio.run(store.prepare_async(batch, "g")),
        lambda: asyncio.run(store.commit_prepared_async("g")),
        lambda: store.run(lambda txn: None),
        lambda: store.execute(batch),
        lambda: store.prepare(batch, "g"),
        lambda: store.commit_prepared("g"),
        lambda: store.rollback_prepared("g"),
        lambda: store.index("i"),
        lambda: store.index("i", create=True),
        lambda: store.heap("h"),
        lambda: store.heap("h", create=True),
        lambda: store.secondary_index("by", index, lambda key, value: value),
        lambda: store.attach_key("by", lambda key, value: value),
        lambda: store.wait_durable(1),
        lambda: store.backup(tmp_path / "b"),
        lambda: store.backup_to(print),
        lambda: store.set_steps("on"),
        lambda: store.end_transaction(1),
        lambda: txn.get(index, "k"),
        lambda: txn.put(index, "k", "v"),
        lambda: txn.heap_insert(heap, "row"),
        lambda: txn.index("i"),
        lambda: txn.execute(batch),
        txn.savepoint,
        txn.commit,
        txn.abort,
        other.abort,
        cursor.next,
        cursor.seek,
        lambda: cursor.patch(0, "v"),
        cursor.close,
        lambda: next(scan),
    )
    for call in calls:
        with pytest.raises(lockstep.StoreClosed, match=re.escape(repr(store.path))) as caught:
            call()
        assert caught.value.code == 12
    assert str(caught.value) == f"store_closed: store is closed: store {store.path!r}"
    assert not txn.active and txn.id == 0
    for call in (_core.metrics, _core.stats, _core.checkpoint, _core.objects):
        with pytest.raises(lockstep.StoreClosed):
            call(handle)
        with pytest.raises(lockstep.BadArgument):
            call(12345)
    with lockstep.open(tmp_path / "s", **SMALL) as again, again.snapshot() as txn:
        with pytest.raises(lockstep.StoreClosed, match="index or heap of a store that is closed"):
            txn.get(index, "k")
        assert txn.get(again.index("i"), "k") == b"v"


def test_a_block_whose_store_is_closed_does_not_seem_to_commit(tmp_path):
    async def main():
        with lockstep.open(tmp_path / "s", **SMALL) as store:
            index = store.index("i", create=True)
            with pytest.raises(lockstep.StoreClosed):
                async with store.transaction() as txn:
                    await txn.put(index, "lost", "v")
                    store.close()
            assert not txn.active
            with pytest.raises(lockstep.StoreClosed):
                await txn.get(index, "k")

    asyncio.run(main())
    with lockstep.open(tmp_path / "s", **SMALL) as store:
        index = store.index("i")
        with pytest.raises(lockstep.StoreClosed):
            with store.transaction() as txn:
                txn.put(index, "lost", "v")
                store.close()
        with pytest.raises(ZeroDivisionError):
            with lockstep.open(tmp_path / "s", **SMALL) as again, again.begin() as txn:
                again.close()
                raise ZeroDivisionError
    with lockstep.open(tmp_path / "s", **SMALL) as store, store.snapshot() as txn:
        assert txn.get(store.index("i"), "lost") is None


def test_what_has_ended_says_so(store, index):
    txn = store.begin()
    with txn.cursor(index) as cursor:
        pass
    with pytest.raises(lockstep.TransactionEnded, match="cursor, which was closed"):
        cursor.next()
    later = txn.cursor(index)
    txn.commit()
    for call in (txn.commit, txn.abort, lambda: txn.get(index, "k"), later.next):
        with pytest.raises(lockstep.TransactionEnded, match="was committed, rolled back or"):
            call()
