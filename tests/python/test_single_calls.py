"""test_single_calls - calls on an index without a transaction."""

import struct
import threading

import lockstep
import pytest
from conftest import SMALL


def test_an_index_is_used_like_a_mapping(index):
    index["a"] = "one"
    index[("b", 7)] = b"two"
    assert index["a"] == b"one" and index[("b", 7)] == b"two"
    assert "a" in index and "c" not in index
    with pytest.raises(KeyError, match="c"):
        index["c"]
    assert index.get("c") is None and index.get("c", 5) == 5 and index.get("a") == b"one"
    del index["a"]
    with pytest.raises(KeyError, match="a"):
        del index["a"]
    assert "a" not in index and index


def test_methods_say_what_they_found(index):
    index.insert("a", "one", durability="lazy")
    with pytest.raises(lockstep.DuplicateKey):
        index.insert("a", "two")
    index.put("a", "x" * 100_000, durability="lazy")
    assert index["a"] == b"x" * 100_000
    assert index.erase("a") and not index.erase("a", durability="lazy")
    index["n"] = struct.pack("=xq", 5)
    assert index.add("n", 1, 10) == 15 and index.add("n", 1, -20, durability="lazy") == -5
    assert index["n"] == struct.pack("=xq", -5)
    assert index.add("m", 0, 1) is None
    with pytest.raises(lockstep.BadArgument):
        index.add("n", 2, 1)
    with pytest.raises(OverflowError):
        index.add("n", 1, 1 << 63)
    with pytest.raises(ValueError, match="durability"):
        index.put("a", "b", durability="soon")
    with pytest.raises(TypeError):
        index[5]


def test_items_are_those_of_one_moment(index):
    rows = [(b"a%03d" % n, b"%d" % n) for n in range(300)]
    for key, value in rows:
        index.put(key, value, durability="lazy")
    index["b"] = "other"
    assert list(index.items(prefix="a")) == rows
    assert list(index.items("a298")) == [*rows[298:], (b"b", b"other")]
    assert list(index.items("a100", "a102", reverse=True)) == rows[101:99:-1]
    assert list(index)[-1] == b"b"
    assert index.count() == 301 and index.count("a100", "a200") == 100
    seen = []
    for key, _ in index.items():
        seen.append(key)
        index.put(b"z%03d" % len(seen), "new", durability="lazy")
        index.erase(b"a%03d" % (299 - len(seen) // 2), durability="lazy")
    assert seen == [key for key, _ in rows] + [b"b"]
    with pytest.raises(ValueError):
        list(index.items("a", prefix="b"))


def test_an_iteration_that_is_left_ends_its_transaction(store, index):
    index["a"] = "one"
    items = index.items()
    assert next(items) == (b"a", b"one")
    assert len([t for t in store.transactions() if not t.internal]) == 1
    items.close()
    assert not [t for t in store.transactions() if not t.internal]


def test_a_call_beside_an_open_transaction(store, index):
    index["k"] = "old"
    with store.transaction() as txn:
        txn.put(index, "k", "new")
        assert list(index.items()) == [(b"k", b"old")]
        got = []
        reader = threading.Thread(target=lambda: got.append(index["k"]))
        reader.start()
        reader.join(0.05)
        assert reader.is_alive()
    reader.join()
    assert got == [b"new"]


def test_a_store_that_is_closed_or_gone(tmp_path):
    store = lockstep.open(tmp_path / "s", **SMALL)
    index = store.index("i", create=True)
    with store.transaction() as txn:
        in_txn = txn.index("i")
        in_txn["k"] = "v"
        made = txn.create_index("j")
    made["k"] = "v"
    assert index["k"] == b"v"
    store.close()
    for call in (
        lambda: index["k"],
        lambda: index.put("k", "v"),
        lambda: index.count(),
        lambda: index.items(),
        lambda: "k" in index,
    ):
        with pytest.raises(lockstep.StoreClosed):
            call()
    del store
    with pytest.raises(lockstep.StoreClosed):
        index.items()
