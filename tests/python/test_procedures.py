"""Procedure objects through the extension; lockstep.cluster is built on it (tests/cluster)."""

import os
import pathlib
import struct
import subprocess
import sys

import lockstep
import pytest
from lockstep import _core

PREFIX = pathlib.Path(lockstep.__file__).resolve().parents[3] / "prefix"
os.environ.setdefault("LOCKSTEP_TEST_PREFIX", str(PREFIX))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
import library  # noqa: E402
from library import number, numbers  # noqa: E402


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    return str(library.build(tmp_path_factory.mktemp("objects")))


@pytest.fixture
def opened(tmp_path, bank):
    with lockstep.open(tmp_path / "store", workers=1, pool_bytes=8 << 20) as store:
        made = _core.ProcedureObject(bank, store._handle, "")
        yield store, made
        made.close()
        made.close()  # does nothing
        with pytest.raises(lockstep.StoreClosed, match="is closed"):
            made.run("native_balance", pack())


def pack(*requests):
    sizes = map(len, requests)
    return struct.pack(f"<I{len(requests)}I", len(requests), *sizes) + b"".join(requests)


def test_calls_and_their_outcomes(opened):
    _, made = opened
    assert made.names()[0] == "native_deposit"
    outcomes = made.run("native_deposit", pack(numbers(1, 5), numbers(2, -5)))
    assert struct.unpack_from("<IiiII", outcomes) == (2, 0, -7, 8, 16)
    assert number(outcomes[20:28]) == 5 and outcomes[28:] == b"not enough money"
    for wrong in (b"", pack(numbers(1, 5))[:-1], pack(numbers(1, 5)) + b"x"):
        with pytest.raises(ValueError, match="packed requests"):
            made.run("native_deposit", wrong)


def test_steps_of_a_transaction(opened):
    store, made = opened
    txn = store.begin()
    assert made.step(txn._handle, "native_deposit", numbers(1, 5)) == (0, numbers(5))
    assert made.step(txn._handle, "native_deposit", numbers(2, -5)) == (-7, b"not enough money")
    ended = txn._handle
    txn.abort()
    with pytest.raises(lockstep.TransactionEnded):
        made.step(ended, "native_balance", numbers(1))


@pytest.mark.parametrize("define", ["BANK_NAME=other", "BANK_VERSION=99"])
def test_objects_that_are_refused(tmp_path, define):
    odd = str(library.build(tmp_path, "odd", define))
    with lockstep.open(tmp_path / "store", workers=1, pool_bytes=8 << 20) as store:
        with pytest.raises(lockstep.BadVersion, match="odd.so"):
            _core.ProcedureObject(odd, store._handle, "")
        with pytest.raises(lockstep.BadPath):
            _core.ProcedureObject(str(tmp_path / "none.so"), store._handle, "")


SILENT = """
#include <lockstep/c/procedures.h>

static const char* const names[] = {nullptr};
static int open(lockstep_store*, const char*, void**, lockstep_error*) { return CODE; }
static void run(void*, lockstep_call*, size_t) {}
static void close(void*) {}
extern "C" const lockstep_procedures lockstep_procedure_object = {
    LOCKSTEP_PROCEDURES_VERSION, sizeof(lockstep_procedures), names, open, close, run, nullptr};
"""


@pytest.mark.parametrize(
    "code, kind, text",
    [(4, lockstep.PoolFull, "^pool_full: "), (-7, lockstep.Error, "unknown: number of the appl")],
)
def test_an_object_whose_open_fills_no_error(tmp_path, code, kind, text):
    source, built = tmp_path / "silent.cc", tmp_path / "silent.so"
    source.write_text(SILENT)
    command = ["c++", "-std=c++17", "-shared", "-fPIC", f"-DCODE=({code})", f"-I{PREFIX}/include"]
    subprocess.run([*command, str(source), "-o", str(built)], check=True)
    with lockstep.open(tmp_path / "store", workers=1, pool_bytes=8 << 20) as store:
        for _ in range(3):
            with pytest.raises(kind, match=text) as caught:
                _core.ProcedureObject(str(built), store._handle, "")
            assert type(caught.value) is kind
            assert (caught.value.code, caught.value.numbers) == (code, (0, 0, 0))
