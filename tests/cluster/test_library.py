"""Procedure objects in a shard, without Ray: calls, batches, branches, refused objects."""

import threading
import time

import library
import lockstep
import pytest
from lockstep.cluster import (
    BranchLost,
    NoSuchProcedure,
    OutcomeUnknown,
    Outcomes,
    ProcedureError,
    Procedures,
    ShardUnavailable,
    Wounded,
)
from lockstep._packed import pack
from lockstep.cluster._messages import CommitBranch, Decide, Prepare, Run, RunMany
from lockstep.cluster._participant import Participant
from library import number, numbers
from native_shard import OLD, SOON, YOUNG, Shard
from waiting import lock_waits, wait_for


def test_a_call_and_python_see_the_same_store(shard):
    assert shard.call("native_deposit", 1, 100) == 100
    assert shard.do(Run(YOUNG, "get", (1,))) == b"100"
    shard.do(Run(YOUNG, "put", (1, "7")))
    assert shard.call("native_balance", 1) == 7


def test_error_text_and_code_arrive(shard):
    with pytest.raises(ProcedureError, match="not enough money") as raised:
        shard.call("native_deposit", 1, -1)
    assert raised.value.code == -7
    shard.call("native_take_part", 1, 5, 77)
    with pytest.raises(lockstep.DuplicateKey, match="duplicate_key"):
        shard.call("native_take_part", 1, 5, 77)
    with pytest.raises(lockstep.BadArgument, match="too many numbers"):
        shard.call("native_deposit", 1, 2, 3, 4)
    assert shard.call("native_balance", 1) == 5
    with pytest.raises(NoSuchProcedure, match="'missing' .*in procedure objects: native_balance"):
        shard.do(Run(YOUNG, "missing", (b"",)))
    with pytest.raises(NoSuchProcedure, match="no procedure object has 'get'"):
        shard.many("get", [b""])
    with pytest.raises(TypeError, match="one argument"):
        shard.do(Run(YOUNG, "native_deposit", (1, 2)))


def test_the_outcome_is_unknown_if_the_store_has_failed(shard, monkeypatch):
    def refuse(procedure, arguments):
        raise lockstep.NoSpace("disk")

    monkeypatch.setattr(shard.participant._libraries, "call", refuse)
    with pytest.raises(lockstep.NoSpace):  # of an operation: it was rolled back
        shard.call("native_deposit", 1, 1)
    monkeypatch.setattr(type(shard.participant._store), "failure", lambda _: "disk")
    with pytest.raises(OutcomeUnknown, match="disk"):
        shard.call("native_deposit", 1, 1)


def test_a_batch_of_a_thousand_runs_side_by_side(shard):
    requests = [numbers(n % 50, 1) for n in range(1000)]
    outcomes = shard.many("native_deposit", requests)
    assert len(outcomes) == 1000 and not outcomes.failed
    assert {number(reply) for reply in outcomes.replies()} == set(range(1, 21))
    assert sum(shard.call("native_balance", n) for n in range(50)) == 1000
    # One by one these would sleep 50 s.
    began = time.monotonic()
    assert not shard.many("native_sleep", [numbers(50_000_000)] * 1000).failed
    assert time.monotonic() - began < 10


def test_a_batch_keeps_what_succeeds(shard):
    outcomes = shard.many("native_deposit", [numbers(1, 5), numbers(2, -5), numbers(3, 6)])
    assert outcomes.failed == [1] and isinstance(outcomes[1], ProcedureError)
    assert [number(reply) for reply in (outcomes[0], outcomes[-1])] == [5, 6]
    assert [type(one) for one in outcomes[:2]] == [bytes, ProcedureError]
    with pytest.raises(ProcedureError):
        list(outcomes.replies())
    assert len(shard.many("native_deposit", [])) == 0
    with pytest.raises(ValueError, match="cut off"):
        shard.do(RunMany("native_deposit", pack([b"12345678"])[:-1]))
    with pytest.raises(ValueError, match="behind"):
        shard.do(RunMany("native_deposit", pack([b"12345678"]) + b"x"))


def test_a_branch_whose_steps_run_in_the_object(shard):
    assert number(shard.step(b"g", "native_deposit", 1, 10).result(SOON)) == 10
    assert number(shard.step(b"g", "native_deposit", 1, 5, first=False).result(SOON)) == 15
    assert shard.do(Prepare(b"g")) is True
    shard.outcomes[b"g"] = None
    shard.participant.close()
    shard.open()  # in doubt; the object's steps are recovered
    assert [gid for gid, _ in shard.participant.in_doubt()] == [b"g"]
    shard.do(Decide(b"g", True))
    assert shard.call("native_balance", 1) == 15


def test_an_error_of_a_step_ends_its_branch(shard):
    shard.step(b"g", "native_deposit", 1, 10).result(SOON)
    with pytest.raises(ProcedureError, match="not enough"):
        shard.step(b"g", "native_deposit", 2, -10, first=False).result(SOON)
    assert shard.participant.open_branches == 0
    assert shard.call("native_balance", 1) == 0
    with pytest.raises(BranchLost):
        shard.step(b"g", "native_balance", 1, first=False).result(SOON)


def test_an_older_branch_wounds_a_younger_one_that_waits_in_the_object(shard):
    shard.step(b"old", "native_deposit", 1, 1, age=OLD).result(SOON)
    shard.step(b"young", "native_deposit", 2, 1).result(SOON)
    waits = shard.step(b"young", "native_deposit", 1, 1, first=False)
    wait_for(lambda: lock_waits(shard))
    shard.step(b"old", "native_deposit", 2, 1, age=OLD, first=False).result(SOON)
    with pytest.raises((Wounded, lockstep.Deadlock)):
        waits.result(SOON)
    shard.do(CommitBranch(b"old"))
    assert shard.call("native_balance", 1) == 1


def test_a_wound_reaches_through_a_batch(shard):
    """The old branch waits for a transaction of a batch, which waits for the young branch."""
    shard.step(b"young", "native_deposit", 2, 1).result(SOON)
    shard.step(b"old", "native_balance", 5, age=OLD).result(SOON)
    batch = shard.participant.submit(RunMany("native_take_part", pack([numbers(2, 1, 9)])))
    wait_for(lambda: lock_waits(shard))  # it has receipt (2, 9), and waits for account 2
    began = time.monotonic()
    step = shard.step(b"old", "native_take_part", 2, 1, 9, age=OLD, first=False)
    with pytest.raises(lockstep.DuplicateKey):
        step.result(SOON)
    assert time.monotonic() - began < 5  # not the timeout of the lock
    assert not Outcomes(batch.result(SOON)).failed
    with pytest.raises(Wounded):
        shard.step(b"young", "native_balance", 1, first=False).result(SOON)


def test_draining_waits_for_a_batch(shard):
    batch = shard.participant.submit(RunMany("native_sleep", pack([numbers(500_000_000)])))
    wait_for(lambda: shard.participant._running)
    drained = []
    thread = threading.Thread(target=lambda: drained.append(shard.participant.drain(SOON)))
    thread.start()
    wait_for(lambda: shard.participant.draining)
    assert not drained and not batch.done()
    with pytest.raises(ShardUnavailable):
        shard.many("native_sleep", [numbers(1)])
    thread.join()
    assert drained == [True] and batch.done()


def test_options_reach_the_object(tmp_path, bank):
    made = Shard(tmp_path / "limit", bank, lambda shard: f"limit={10 * shard}", shard=3)
    assert made.call("native_deposit", 1, 30) == 30
    with pytest.raises(ProcedureError):
        made.call("native_deposit", 1, 31)
    made.participant.close()
    with pytest.raises(lockstep.BadOption, match="limit=NUMBER"):
        Shard(tmp_path / "bad", bank, "x")


@pytest.mark.parametrize(
    ("define", "match"),
    [
        ("BANK_NAME=another_name", "does not export lockstep_procedure_object"),
        ("BANK_VERSION=99", "has version 99 .*not version 1"),
    ],
)
def test_an_object_that_does_not_fit_is_refused(tmp_path, define, match):
    made = library.build(tmp_path, "odd", define)
    with pytest.raises(lockstep.BadVersion, match=match):
        Shard(tmp_path / "store", made)


def test_what_is_no_object_is_refused(tmp_path, bank):
    with pytest.raises(lockstep.BadPath, match=r"missing\.so"):
        Shard(tmp_path / "a", tmp_path / "missing.so")
    procedures = Procedures()
    procedures.library(bank)
    procedures.library(bank)
    store = lockstep.open(tmp_path / "b", workers=1, pool_bytes=8 << 20)
    with pytest.raises(ValueError, match="another object has a procedure"):
        Participant(store, procedures, lambda gids: {})
    store.close()
