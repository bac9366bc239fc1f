"""Transactions that a shard decides: that shard, the others, and the coordinator."""

import asyncio
import threading
import time

import lockstep
import pytest
from lockstep.cluster import (
    BranchLost,
    ClusterError,
    OutcomeUnknown,
    Procedures,
    ResultLost,
    ShardUnavailable,
    Wounded,
)
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
from test_participant import OLD, SOON, YOUNG, Shard
from waiting import lock_waits, wait_for

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
    asyncio.run(shard.participant.perform(Forget((GID,))))
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
    wait_for(lambda: lock_waits(shard))
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


def records(shard):
    store = shard.participant._store
    with store.snapshot() as txn:
        return list(txn.scan(store.index("lockstep.decisions")))


@pytest.mark.parametrize("voting", [True, False])
def test_what_only_reads_keeps_its_locks_until_the_decision(shard, voting):
    """The deciding shard has not taken its locks when the others vote."""
    shard.outcomes[GID] = None
    answer = shard.do(Step(GID, YOUNG, True, "get", ("a",), voting))
    assert (answer[1] if voting else shard.do(Prepare(GID))) is True
    for restart in (False, True):
        if restart:
            shard.participant.close()
            shard.open()
        assert [gid for gid, _ in shard.participant.in_doubt()] == [GID]
        writing = shard.step(b"writer%d" % restart, "put", "a", "1")
        wait_for(lambda: lock_waits(shard))
        assert not writing.done()
        shard.do(Decide(b"writer%d" % restart, False))
        with pytest.raises(Wounded):
            writing.result(SOON)
    shard.do(Decide(GID, True))
    shard.run("put", "a", "1")
    assert records(shard) == []


def test_marks_of_other_transactions_do_not_meet(shard):
    """Each transaction leaves its mark in the same index."""
    gids = [Decisions.decided_by(b"0123456789abcde%d" % n, 2) for n in range(9)]
    began = time.monotonic()
    for gid in (gids[4], *gids[:4], *gids[5:]):
        shard.outcomes[gid] = None
        assert shard.do(Step(gid, YOUNG, True, "get", ("a",), True)) == (None, True)
    shard.do(finish(GID, "b", "1"))
    assert time.monotonic() - began < SOON / 2
    for gid in gids:
        shard.do(Decide(gid, gid != gids[4]))
    assert [gid for gid, _ in records(shard)] == [GID]


def test_what_is_prepared_before_the_last_step_can_be_wounded(shard):
    """It waits on the deciding shard."""
    wounds = []
    shard.participant._ask_to_wound = wounds.append
    shard.outcomes[GID] = None
    shard.step(GID, "put", "a", "1").result(SOON)
    shard.do(Prepare(GID))
    older = shard.step(b"old", "put", "a", "2", age=OLD)
    wait_for(lambda: GID in wounds)
    shard.do(Decide(GID, False))
    older.result(SOON)


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
    oldest = Decisions.decided_by(b"fedcba9876543210", 2)
    last(shard, oldest, "a", age=Age(0, 0))
    younger = shard.step(b"young", "put", "a", "3")
    wait_for(lambda: lock_waits(shard))
    time.sleep(0.2)  # in which a wound would come
    assert not wounds and not younger.done()
    shard.do(Decide(oldest, True))
    younger.result(SOON)


def test_a_rollback_beside_the_vote_leaves_nothing(shard, monkeypatch):
    """It comes too late to end the step, which is prepared."""
    perform, comes, go_on = shard.participant._perform_step, threading.Event(), threading.Event()

    def wait(branch, message):
        comes.set()
        go_on.wait(SOON)
        return perform(branch, message)

    monkeypatch.setattr(shard.participant, "_perform_step", wait)
    monkeypatch.setattr(shard.participant._branches, "wound", lambda number: None)
    voting = shard.send(Step(GID, YOUNG, True, "put", ("a", "1"), True))
    assert comes.wait(SOON)
    rolling_back = shard.send(Decide(GID, False))
    time.sleep(0.1)
    go_on.set()
    assert voting.result(SOON) == (None, True)
    rolling_back.result(SOON)
    assert shard.participant._ages._prepared == {} and not shard.participant.in_doubt()
    assert shard.run("get", "a") is None


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


@procedures.cross_shard
async def beyond(txn, how):
    """Does something wrong behind finish()."""
    txn.decide_at(2)
    await txn.call(0, "anything", last=True)
    result = await txn.finish("anything")
    if how == "call":
        await txn.call(1, "anything")
    if how == "finish":
        await txn.finish("anything")
    raise {"raise": ValueError, "victim": lockstep.Deadlock}[how](result)


@procedures.cross_shard
async def impatient(txn, how):
    """Does not wait for the answer to finish(), or does not heed it."""
    txn.decide_at(2)
    await txn.call(0, "anything", last=True)
    try:
        await asyncio.wait_for(txn.finish("anything"), 0.01 if how == "timeout" else SOON)
    except ClusterError:
        if how == "again":
            await txn.finish("anything")


@procedures.cross_shard
async def forgotten_finish(txn, tasks):
    txn.decide_at(2)
    await txn.call(0, "anything", last=True)
    tasks.append(asyncio.create_task(txn.finish("anything")))
    raise ValueError("while finish() has not begun")


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


def told(shards):
    return [(shard, message.commit) for shard, message in shards.of(Decide)]


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ("raise", ValueError, "done"),
        ("victim", lockstep.Deadlock, "done"),
        ("call", ClusterError, "behind the last"),
        ("finish", ClusterError, "the end of a transaction"),
    ],
)
def test_an_error_behind_finish_takes_nothing_back(shards, how, error, match):
    """The deciding shard has committed."""
    with pytest.raises(error, match=match):
        submit(shards, "beyond", how)
    assert told(shards) == [(0, True)] and len(shards.of(Finish)) == 1
    assert len(shards.of(Forget)) == 1
    assert shards.coordinator.counts == {"committed": 1, "rolled_back": 0, "repeated": 0}


def test_a_result_that_is_lost_takes_nothing_back(shards):
    shards.answers[Finish] = ResultLost("done, but the result cannot be sent")
    with pytest.raises(ResultLost):
        submit(shards, "at_home", 2, [0, 1], True)
    assert told(shards) == [(0, True), (1, True)] and shards.coordinator.active == 0


def test_a_step_whose_result_is_lost_ends_the_transaction(shards):
    shards.answers[Step] = ResultLost("done, but the result cannot be sent")
    with pytest.raises(ClusterError, match="cannot be sent") as raised:
        submit(shards, "at_home", 2, [0, 1], True)
    assert not isinstance(raised.value, ResultLost)  # nothing has committed
    assert told(shards) == [(0, False)] and not shards.of(Finish)


@pytest.mark.parametrize("how", ["timeout", "swallowed", "again"])
def test_without_an_answer_of_the_deciding_shard_nothing_is_told(shards, how):
    answer = asyncio.sleep(SOON) if how == "timeout" else Lost("died")

    async def send(shard, message):
        shards.said.append((shard, message))
        if not isinstance(message, Finish):
            return answer_step(shard, message)
        if isinstance(answer, Lost):
            raise answer
        await answer

    shards.send = send
    with pytest.raises(OutcomeUnknown):
        submit(shards, "impatient", how)
    assert not told(shards) and len(shards.of(Finish)) == 1


def test_what_the_deciding_shard_refuses_is_rolled_back(shards):
    shards.answers[Finish] = lockstep.NoSpace("full")
    with pytest.raises(lockstep.NoSpace):
        submit(shards, "at_home", 2, [0], True)
    assert told(shards) == [(0, False), (2, False)]


def test_a_victim_whose_error_is_swallowed_is_rolled_back(shards):
    shards.answers[Finish] = ShardUnavailable("nothing has begun")
    with pytest.raises(ClusterError, match="ends with finish"):
        submit(shards, "impatient", "swallowed")
    assert told(shards) == [(0, False), (2, False)]


def test_finish_does_nothing_behind_the_end(shards):
    tasks = []

    async def run():
        coordinator = shards.make()
        with pytest.raises(ValueError, match="not begun"):
            await coordinator.submit(Submit(Age(1, 1), "forgotten_finish", (tasks,)))
        with pytest.raises(ClusterError, match="behind the end"):
            await tasks[0]
        await coordinator.finish()

    asyncio.run(run())
    assert told(shards) == [(0, False)] and not shards.of(Finish)


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
    """Its steps are ended everywhere, since one of them may wait."""

    def wound_once(shard, message):
        if len(shards.of(Step)) == 2:
            for _ in range(3):  # a shard asks again and again
                shards.coordinator.wound(message.gid)
        return answer_step(shard, message)

    shards.answers[Step] = wound_once
    submit(shards, "at_home", 2, [0, 1], True)
    assert len(shards.of(Step)) == 4 and len(shards.of(Finish)) == 1
    first = shards.of(Step)[0][1].gid
    wounded = [shard for shard, message in shards.of(Decide) if message == Decide(first, False)]
    assert sorted(wounded) == [0, 0, 1, 1]  # by the wound, and by the end of the transaction


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
