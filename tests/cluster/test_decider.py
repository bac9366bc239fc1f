"""Transactions that a shard decides: that shard, the others, and the coordinator."""

import asyncio
import time

import lockstep
import pytest
from lockstep.cluster import BranchLost, ClusterError, OutcomeUnknown, Procedures, Wounded
from lockstep.cluster._decisions import Decisions
from lockstep.cluster._lane import Lost
from lockstep.cluster._messages import (
    Age,
    Ask,
    CommitBranch,
    Decide,
    Finish,
    Forget,
    Prepare,
    Step,
    Submit,
)
from test_coordinator import Shards
from test_participant import OLD, SOON, YOUNG, Shard, wait_for

GID = Decisions.decided_by(b"0123456789abcdef", 2)


@pytest.fixture
def shard(tmp_path):
    made = Shard(tmp_path / "store")
    yield made
    made.participant.close()


def finish(gid, *arguments, first=True, record=True, age=YOUNG):
    return Finish(gid, age, first, "put", arguments, record)


# The deciding shard.


def test_the_last_step_decides_and_is_remembered(shard):
    shard.do(finish(GID, "a", "1"))
    assert shard.run("get", "a") == b"1" and shard.participant.open_branches == 0
    shard.participant.close()
    shard.open()
    assert shard.do(Ask(GID)) is True
    shard.do(Forget((GID,)))
    shard.do(finish(GID, "a", "2", record=False))  # nobody else takes part: nothing is kept
    assert shard.do(Ask(GID)) is False


def test_who_has_asked_first_has_rolled_it_back(shard):
    assert shard.do(Ask(GID)) is False
    with pytest.raises(BranchLost, match="somebody has asked"):
        shard.do(finish(GID, "a", "1"))
    assert shard.run("get", "a") is None
    assert shard.do(Ask(GID)) is False


def test_a_step_before_and_a_failure_of_the_last_one(shard):
    shard.step(GID, "put", "a", "1").result(SOON)
    with pytest.raises(lockstep.ValueTooLong):
        shard.do(finish(GID, "b", bytes(lockstep.VALUE_BYTES_MAX + 1), first=False))
    assert shard.run("get", "a") is None and shard.do(Ask(GID)) is False


def test_a_question_waits_for_the_commit(shard):
    """The decision is in the transaction that it decides."""
    shard.step(b"old", "put", "a", "0", age=OLD).result(SOON)
    deciding = shard.send(finish(GID, "a", "1"))
    time.sleep(0.2)
    assert not deciding.done()
    assert shard.do(Ask(GID)) is False
    shard.do(CommitBranch(b"old"))
    with pytest.raises(BranchLost):
        deciding.result(SOON)
    assert shard.run("get", "a") == b"0"


# The others.


def last(shard, gid, key, age=YOUNG):
    return shard.do(Step(gid, age, True, "put", (key, "1"), True))


def test_the_last_step_of_the_others_votes(shard):
    shard.outcomes[GID] = None
    assert last(shard, GID, "a") == (None, True)
    assert [gid for gid, _ in shard.participant.in_doubt()] == [GID]
    assert shard.do(Step(b"reader", YOUNG, True, "get", ("b",), True)) == (None, False)
    shard.do(Decide(GID, True))
    assert shard.run("get", "a") == b"1" and not shard.participant.open_branches


def test_what_votes_early_can_be_wounded_through_the_coordinator(shard):
    wounds = []
    shard.participant._ask_to_wound = wounds.append
    shard.outcomes[GID] = None
    last(shard, GID, "a")
    older = shard.step(b"old", "put", "a", "2", age=OLD)
    wait_for(lambda: GID in wounds)
    assert not older.done()  # only the coordinator may end what is prepared
    shard.do(Decide(GID, False))
    older.result(SOON)
    del wounds[:]
    shard.do(CommitBranch(b"old"))
    last(shard, b"older" + GID, "a", age=Age(0, 0))
    younger = shard.step(b"young", "put", "a", "3")
    time.sleep(0.2)
    assert not wounds and not younger.done()
    shard.do(Decide(b"older" + GID, True))
    younger.result(SOON)


# The coordinator.

procedures = Procedures()


@procedures.cross_shard
async def at_home(txn, home, others, voting):
    txn.decide_at(home)
    for other in others:
        await txn.call(other, "anything", last=voting)
    return await txn.finish("anything")


@procedures.cross_shard
async def wrong(txn, how):
    if how == "late":
        await txn.call(1, "anything")
    if how != "last":
        txn.decide_at(2)
    if how == "last":
        await txn.call(1, "anything", last=True)
    if how == "again":
        await txn.call(1, "anything", last=True)
        await txn.call(1, "anything")


@pytest.fixture
def shards(tmp_path):
    made = Shards(tmp_path / "coordinator", procedures)
    made.answers |= {Step: answer_step, Finish: "done", Ask: True, Forget: None}
    yield made
    made.decisions.close()


def answer_step(shard, step):
    return ("done", True) if step.last else "done"


def submit(shards, procedure, *arguments):
    async def run():
        coordinator = shards.make()
        shards.coordinator = coordinator
        try:
            return await coordinator.submit(Submit(Age(1, 1), procedure, arguments))
        finally:
            await coordinator.finish()

    return asyncio.run(run())


@pytest.mark.parametrize("voting", [True, False])
def test_the_others_are_prepared_before_the_last_step(shards, voting):
    assert submit(shards, "at_home", 2, [0, 1], voting) == "done"
    kinds = [type(message) for _, message in shards.said]
    votes = [] if voting else [Prepare, Prepare]
    assert kinds == [Step, Step, *votes, Finish, Decide, Decide, Forget]
    ((shard, message),) = shards.of(Finish)
    assert (shard, message.first, message.record) == (2, True, True)
    assert Decisions.decider(message.gid) == 2
    assert not shards.decisions.pending and shards.coordinator.undelivered == 0


def test_the_deciding_shard_does_not_vote(shards):
    submit(shards, "at_home", 2, [0, 2], True)
    assert [(shard, step.last) for shard, step in shards.of(Step)] == [(0, True), (2, False)]
    assert [message.first for _, message in shards.of(Finish)] == [False]


def test_nobody_else_takes_part(shards):
    submit(shards, "at_home", 2, [], True)
    assert [message.record for _, message in shards.of(Finish)] == [False]
    assert not shards.of(Decide) and not shards.of(Forget)


def test_a_victim_is_rolled_back_and_repeated(shards):
    refused = []

    def once(shard, message):
        if not refused:
            refused.append(message.gid)
            return Wounded("older")
        return "done"

    shards.answers[Finish] = once
    submit(shards, "at_home", 2, [0], True)
    rolled = {message.gid for _, message in shards.of(Decide) if not message.commit}
    assert rolled == set(refused) and len(shards.of(Finish)) == 2


def test_the_deciding_shard_dies(shards):
    """Nobody is told anything: those in doubt ask, and the shard is asked for them."""
    shards.answers[Finish] = Lost("died")
    with pytest.raises(OutcomeUnknown, match="died as it decided"):
        submit(shards, "at_home", 2, [0], True)
    assert not shards.of(Decide)
    gid = shards.of(Finish)[0][1].gid
    for answer, expected in ((True, True), (False, False), (Lost("not back"), None)):
        shards.answers[Ask] = answer
        found = asyncio.run(shards.make().resolve([gid, b"other"]))
        assert found == {gid: expected, b"other": False}
    assert {shard for shard, _ in shards.of(Ask)} == {2}


def test_what_is_under_way_is_not_decided(shards):
    heard = []

    def ask_meanwhile(shard, message):
        heard.append(shards.coordinator.outcomes([message.gid])[message.gid])
        return "done"

    shards.answers[Finish] = ask_meanwhile
    submit(shards, "at_home", 2, [0], True)
    assert heard == [None]


def test_a_wound_ends_the_last_step(shards):
    """The prepared branch of a younger transaction holds up an older one."""

    def wounded(shard, message):
        if len(shards.of(Finish)) == 1:
            shards.coordinator.wound(message.gid)
            return Wounded("ended by the coordinator")
        return "done"

    shards.answers[Finish] = wounded
    submit(shards, "at_home", 2, [0], True)
    first = shards.of(Finish)[0][1].gid
    assert (2, Decide(first, False)) in shards.said


def test_a_wound_between_two_steps_ends_the_transaction(shards):
    def wound_once(shard, message):
        if len(shards.of(Step)) == 1:
            shards.coordinator.wound(message.gid)
        return answer_step(shard, message)

    shards.answers[Step] = wound_once
    submit(shards, "at_home", 2, [0], True)
    assert len(shards.of(Step)) == 2 and len(shards.of(Finish)) == 1


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ("late", "first call"),
        ("last", "behind decide_at"),
        ("again", "behind the last"),
        ("unfinished", "ends with finish"),
    ],
)
def test_wrong_use(shards, how, match):
    with pytest.raises(ClusterError, match=match):
        submit(shards, "wrong", how)
    assert not shards.of(Finish)
