"""test_backups - backups, restores, the log archive."""

import datetime
import time
import zoneinfo

import lockstep
import pytest
from conftest import SMALL


def test_backups(store, index, tmp_path):
    with store.transaction() as txn:
        txn.insert_many(index, [(n.to_bytes(4, "big"), b"v" * 1000) for n in range(1000)])
    seen = []
    full = store.backup(tmp_path / "full", progress=lambda *now: seen.append(now))
    assert seen and seen[-1][0] <= seen[-1][1]
    with store.transaction() as txn:
        txn.put(index, "later", "x")
    step = store.backup(tmp_path / "step", since=full, bytes_per_second=1 << 30)
    assert step.since == full.lsn and step.pages_copied < full.pages_copied
    assert lockstep.read_backup(tmp_path / "full").lsn == full.lsn
    assert lockstep.verify_backup(tmp_path / "step") == []
    assert lockstep.verify_restore([tmp_path / "full", tmp_path / "step"]) == []
    faults = lockstep.verify_restore([tmp_path / "step"], memory_bytes=1 << 20)
    assert faults and faults[0].startswith(str(tmp_path / "step"))
    with pytest.raises(lockstep.BadArgument, match="archive"):
        lockstep.verify_restore([tmp_path / "full"], until=full.lsn)
    made = lockstep.restore_backup([tmp_path / "full", tmp_path / "step"], tmp_path / "new")
    assert made.lsn == step.lsn
    with lockstep.open(tmp_path / "new", **SMALL) as restored, restored.transaction() as txn:
        assert txn.get(restored.index("records"), "later") == b"x"
    made = lockstep.update_backup(tmp_path / "full", tmp_path / "step")
    assert made.lsn == step.lsn and made.pages_copied == made.pages
    assert lockstep.verify_backup(tmp_path / "full") == []
    with pytest.raises(lockstep.BadBackup, match="only a full backup|follow|incremental one"):
        lockstep.update_backup(tmp_path / "full", tmp_path / "full")
    page = tmp_path / "step"
    file = max(page.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)
    try:
        faults = lockstep.verify_backup(page)
    except lockstep.BadBackup as error:
        faults = [str(error)]
    assert faults
    with pytest.raises(lockstep.Error):
        lockstep.read_backup(tmp_path / "none")


def test_functions_of_a_backup_may_change_records_of_a_secondary_index(store, index, tmp_path):
    """They hold no worker, and not the thread of key functions."""
    by = store.secondary_index("by", index, lambda key, value: value)
    store.run(lambda txn: [txn.put(index, (n,), "v") for n in range(1000)])

    def put(name):
        store.run(lambda txn: txn.put(index, name, "changed"))

    store.backup(tmp_path / "b", progress=lambda *_: put("progress"))
    store.backup_to(lambda *_: put("sink"))
    with store.snapshot() as txn:
        found = [key for key, _ in txn.scan_by(by, only="changed")]
    assert sorted(found) == [b"progress", b"sink"]


def test_restore_to_a_point_of_the_archive(tmp_path):
    with lockstep.open(tmp_path / "db", archive=tmp_path / "archive", **SMALL) as store:
        index = store.index("records", create=True)

        def put(value):
            with store.transaction() as txn:
                txn.put(index, "k", value)

        put("one")
        full = store.backup(tmp_path / "full")
        assert full.ended_at / 1e9 == pytest.approx(time.time(), abs=3600)
        put("two")
        time.sleep(0.3)
        moment = datetime.datetime.now(datetime.UTC)
        time.sleep(0.3)
        put("three")
        assert store.options()["archive"] == str(tmp_path / "archive")
        assert store.stats()["archive_gaps"] == 0

    def restored(name, **options):
        lockstep.restore_backup([tmp_path / "full"], tmp_path / name, **options)
        with lockstep.open(tmp_path / name, **SMALL) as store, store.snapshot() as txn:
            return txn.get(store.index("records"), "k")

    archive = tmp_path / "archive"
    assert restored("a") == b"one"
    assert lockstep.verify_restore([tmp_path / "full"], archive=archive, until=moment) == []
    for lacks in ({"archive": archive, "until": 1 << 60}, {"archive": tmp_path / "none"}):
        faults = lockstep.verify_restore([tmp_path / "full"], **lacks)
        assert faults and faults[0].startswith(str(lacks["archive"])), faults
    assert restored("b", archive=archive, memory_bytes=1 << 20) == b"three"
    assert restored("c", archive=archive, until=moment) == b"two"
    assert restored("d", archive=archive, until=full.lsn, history=full.history) == b"one"
    with pytest.raises(lockstep.BadArchive):
        restored("e", archive=archive, until=1 << 60)
    with pytest.raises(ValueError, match="time zone"):
        restored("f", archive=archive, until=datetime.datetime(2026, 1, 1))
    with pytest.raises(TypeError, match="PathLike"):
        lockstep.open(tmp_path / "g", archive=7)
    with pytest.raises(TypeError, match="option archive is a text"):
        lockstep.open(tmp_path / "g", archive=b"archive")


def test_a_point_is_no_truth_value(store, index, tmp_path):
    """Zero, the epoch, False and empty texts are no way to say "none"."""
    full = store.backup(tmp_path / "full")
    with lockstep.open(tmp_path / "other", archive=tmp_path / "archive", **SMALL) as other:
        other.index("records", create=True)
        other.backup(tmp_path / "of_other")

    def restore(**options):
        lockstep.restore_backup([tmp_path / "of_other"], tmp_path / "new", **options)

    with_archive = {"archive": tmp_path / "archive"}
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    skipped = datetime.datetime(2026, 3, 29, 2, 30, tzinfo=berlin)
    twice = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    for until, kind, text in (
        (0, lockstep.BadArchive, "before the backup's point"),
        (epoch, lockstep.BadArchive, "before the backup's end"),
        (skipped, ValueError, "skipped"),
        (twice, ValueError, "twice"),
        (epoch - datetime.timedelta(1), ValueError, "before 1970"),
        (False, TypeError, "an LSN or a datetime, not False"),
        (0.0, TypeError, "an LSN or a datetime"),
        (float("nan"), TypeError, "an LSN or a datetime"),
        (-1, OverflowError, "until is from 0"),
        (1 << 64, OverflowError, "until is from 0"),
    ):
        with pytest.raises(kind, match=text):
            restore(until=until, **with_archive)
    for options, kind in (
        ({"archive": ""}, lockstep.BadArgument),
        ({"history": False, **with_archive}, TypeError),
        ({"memory_bytes": 0, **with_archive}, lockstep.BadArgument),
        ({"until": 0}, lockstep.BadArgument),
    ):
        with pytest.raises(kind):
            restore(**options)
    for rate, kind in (
        (0, lockstep.BadArgument),
        (False, TypeError),
        (-1, OverflowError),
        ((1 << 64) - 1, OverflowError),
    ):
        with pytest.raises(kind):
            store.backup(tmp_path / "b", bytes_per_second=rate)
    with pytest.raises(lockstep.BadBackup, match="redo_from"):
        store.backup(tmp_path / "b", since=full._replace(redo_from=0))
    assert not (tmp_path / "new").exists() and not list((tmp_path / "b").glob("*"))


def test_options_that_are_left_out_are_none(tmp_path):
    names = (
        "transaction_age_max", "checkpoint_log_bytes", "version_bytes", "escalate_at",
        "slice_warning", "archive_interval", "archive_backlog_bytes",
    )  # fmt: skip
    for name in names:
        with pytest.raises(lockstep.BadOption, match=name):
            lockstep.open(tmp_path / "s", **{name: 0})
        with pytest.raises(TypeError, match=name):
            lockstep.open(tmp_path / "s", **{name: False})
    with pytest.raises(lockstep.BadOption, match="archive"):
        lockstep.open(tmp_path / "s", archive="")
    none = dict.fromkeys(names)
    with lockstep.open(tmp_path / "s", **{**SMALL, **none}) as store:
        options = store.options()
        assert {name: options[name] for name in names} == none


def test_backup_to_a_function(store, index):
    with store.transaction() as txn:
        txn.put(index, "k", "v")
    files: dict[str, bytearray] = {}

    def sink(file, offset, data):
        content = files.setdefault(file, bytearray())
        content.extend(b"\0" * (offset + len(data) - len(content)))
        content[offset : offset + len(data)] = data

    info = store.backup_to(sink)
    assert info.bytes > 0 and sum(map(len, files.values())) >= info.pages_copied

    def full(file, offset, data):
        raise RuntimeError("disk is full")

    with pytest.raises(RuntimeError, match="disk is full"):
        store.backup_to(full)
