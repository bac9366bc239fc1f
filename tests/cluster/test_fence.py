"""Decisions that a coordinator which has ended left on shards: when they may go."""

import asyncio
import threading

import lockstep
import pytest
from lockstep.cluster import BranchLost
from lockstep.cluster._decisions import Decisions
from lockstep.cluster._lane import Lost
from lockstep.cluster._messages import (
    Ask,
    Decide,
    Finish,
    ForgetBefore,
    Prepare,
    Settle,
    Step,
)
from library import numbers
from native_shard import OLD
from test_coordinator import Shards
from test_decider import finish
from test_one_shot import run, step
from test_participant import SOON, Shard
from waiting import wait_for

#: Of two openings of a coordinator's decisions, as DE-3 and DE-4 make them.
FIRST, SECOND = (lockstep.pack_key(opening) for opening in (1, 2))
OLD_GID, NEW_GID = (
    Decisions.decided_by(lockstep.pack_key(opening, 7), 0) for opening in (1, 2)
)


@pytest.fixture
def plain(tmp_path):
    """A shard without a procedure object; that of conftest.py has one."""
    made = Shard(tmp_path / "store")
    yield made
    made.participant.close()


def kept(plain):
    store = plain.participant._store
    with store.snapshot() as txn:
        return [gid for gid, _ in txn.scan(store.index("lockstep.decisions"))]


def test_gids_lie_on_their_side(tmp_path):
    for opening in range(1, 4):
        decisions = Decisions(lockstep.open(tmp_path / "store", workers=1), 4)
        assert decisions.first_gid == lockstep.pack_key(opening)
        gid = decisions.new_gid()
        later = lockstep.pack_key(opening + 1)
        assert decisions.first_gid < gid < Decisions.decided_by(gid, 3) < later
        decisions.close()


def test_only_earlier_decisions_go(plain):
    others = [Decisions.decided_by(lockstep.pack_key(1, n), 0) for n in range(10, 1510)]
    plain.do(finish(OLD_GID, "a", "1"))
    plain.do(finish(NEW_GID, "b", "1"))
    for gid in others:
        plain.do(Ask(gid))
    assert len(kept(plain)) == 1502
    plain.do(ForgetBefore(FIRST))
    assert len(kept(plain)) == 1502
    plain.do(ForgetBefore(SECOND))
    assert kept(plain) == [NEW_GID] and plain.do(Ask(NEW_GID)) is True


def test_an_earlier_branch_is_refused(plain):
    assert plain.do(Settle(SECOND)) is True
    for message in (
        finish(OLD_GID, "a", "1"),
        Step(OLD_GID, finish(OLD_GID).age, True, "put", ("a", "1"), last=True),
    ):
        with pytest.raises(BranchLost, match="coordinator .* restarted"):
            plain.do(message)
    assert plain.participant.open_branches == 0 and not plain.participant.in_doubt()
    assert plain.run("get", "a") is None
    assert plain.do(Settle(FIRST)) is True  # the fence does not sink
    with pytest.raises(BranchLost):
        plain.do(finish(OLD_GID, "a", "1"))
    plain.do(finish(NEW_GID, "a", "2"))


def test_what_is_open_or_in_doubt_is_not_settled(plain):
    plain.step(OLD_GID, "put", "a", "1").result(SOON)
    assert plain.do(Settle(SECOND)) is False
    assert plain.do(Prepare(OLD_GID)) is True
    assert plain.do(Settle(SECOND)) is False
    plain.participant.close()
    plain.open()
    assert plain.do(Settle(SECOND)) is False
    assert plain.do(Settle(FIRST)) is True
    plain.do(Decide(OLD_GID, True))
    assert plain.do(Settle(SECOND)) is True
    plain.step(NEW_GID, "put", "a", "2").result(SOON)
    assert plain.do(Settle(SECOND)) is True


def test_a_step_that_waits_is_not_settled(plain):
    plain.step(NEW_GID, "put", "a", "1").result(SOON)
    waits = threading.Event()
    waiting = plain.step(OLD_GID, "put", "a", "2")
    waiting.add_done_callback(lambda _: waits.set())
    wait_for(lambda: plain.participant.open_branches == 2)
    assert not waits.wait(0.1) and plain.do(Settle(SECOND)) is False
    plain.do(Decide(NEW_GID, False))
    waiting.result(SOON)
    plain.do(Decide(OLD_GID, False))
    assert plain.do(Settle(SECOND)) is True


def test_branches_of_one_message_too(shard):
    perform = shard.participant.perform
    run(perform(Settle(SECOND)))
    with pytest.raises(BranchLost, match="coordinator .* restarted"):
        run(perform(step(OLD_GID, "native_deposit", 1, 10)))
    with pytest.raises(BranchLost, match="coordinator .* restarted"):
        run(perform(Finish(OLD_GID, OLD, True, "native_deposit", (numbers(1, 10),), True)))
    assert not shard.participant.in_doubt() and shard.participant.open_branches == 0
    run(perform(step(NEW_GID, "native_deposit", 1, 10)))
    assert run(perform(Settle(SECOND))) == [True]


# The coordinator.


@pytest.fixture
def shards(tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.cluster._coordinator.SETTLE_SECONDS", 0.01)
    made = Shards(tmp_path / "coordinator")
    made.answers |= {Settle: True, ForgetBefore: None}
    yield made
    made.decisions.close()


def start(shards, until):
    async def settle():
        coordinator = shards.make()
        coordinator.start()
        try:
            async with asyncio.timeout(SOON):
                while not until():
                    await asyncio.sleep(0.005)
        finally:
            await coordinator.finish()

    asyncio.run(settle())


def test_all_settle_before_any_forgets(shards):
    refusals = [False, Lost("not there"), False]
    shards.answers[Settle] = lambda shard, _: refusals.pop() if shard == 2 and refusals else True
    start(shards, lambda: len(shards.of(ForgetBefore)) == 4)
    kinds = [type(message) for _, message in shards.said]
    assert kinds == [Settle] * 7 + [ForgetBefore] * 4
    assert {shard for shard, _ in shards.of(Settle)} == {0, 1, 2, 3}
    assert {message.before for _, message in shards.said} == {shards.decisions.first_gid}


def test_a_shard_that_does_not_settle_keeps_all_decisions(shards):
    shards.answers[Settle] = lambda shard, _: shard != 3
    start(shards, lambda: len(shards.of(Settle)) > 10)
    assert not shards.of(ForgetBefore)
    shards.said.clear()
    shards.decisions.close()
    shards.open()
    shards.answers[Settle] = True
    start(shards, lambda: len(shards.of(ForgetBefore)) == 4)
    assert {m.before for _, m in shards.said} == {lockstep.pack_key(2)}
