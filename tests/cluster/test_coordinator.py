"""Two-phase commit with shards that answer as the test says."""

import asyncio

import lockstep
import pytest
from lockstep.cluster import ClusterError, OutcomeUnknown, Procedures, Wounded
from lockstep.cluster._coordinator import Coordinator
from lockstep.cluster._decisions import Decisions
from lockstep.cluster._lane import Lost
from lockstep.cluster._messages import Age, CommitBranch, Decide, Prepare, Step, Submit

procedures = Procedures()


@procedures.cross_shard
async def visit(txn, shards):
    return [await txn.call(shard, "anything") for shard in shards]


class Shards:
    """Answers by kind of message; an exception is raised."""

    def __init__(self, path, procedures=procedures):
        self.path = path
        self.procedures = procedures
        self.said = []
        self.answers = {Step: "done", Prepare: True, CommitBranch: None, Decide: None}
        self.open()

    def open(self):
        store = lockstep.open(self.path, workers=1, pool_bytes=8 << 20)
        self.decisions = Decisions(store, 4)
        self.failures = 0

    def make(self):
        return Coordinator(self.decisions, self.procedures, self.send, int, failed=self.fail)

    def fail(self):
        self.failures += 1

    async def send(self, shard, message):
        self.said.append((shard, message))
        answer = self.answers[type(message)]
        if callable(answer):
            answer = answer(shard, message)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def of(self, kind):
        return [(shard, message) for shard, message in self.said if isinstance(message, kind)]


@pytest.fixture
def shards(tmp_path):
    made = Shards(tmp_path / "coordinator")
    yield made
    made.decisions.close()


def submit(shards, where, finish=True):
    async def run():
        coordinator = shards.make()
        try:
            return await coordinator.submit(Submit(Age(1, 1), "visit", (where,)))
        finally:
            if finish:
                await coordinator.finish()

    return asyncio.run(run())


def test_one_shard_takes_one_phase(shards):
    assert submit(shards, [2, 2]) == ["done", "done"]
    assert [m.first for _, m in shards.of(Step)] == [True, False]
    assert len(shards.of(CommitBranch)) == 1 and not shards.of(Prepare)


def test_two_phases_and_nothing_remains(shards):
    submit(shards, [0, 1])
    assert [shard for shard, _ in shards.of(Prepare)] == [0, 1]
    assert [(shard, m.commit) for shard, m in shards.of(Decide)] == [(0, True), (1, True)]
    assert not shards.decisions.pending


def test_those_that_only_read_hear_no_decision(shards):
    shards.answers[Prepare] = lambda shard, _: shard == 1
    submit(shards, [0, 1, 2])
    assert [shard for shard, _ in shards.of(Decide)] == [1]


def test_one_refusal_rolls_all_back(shards):
    shards.answers[Prepare] = lambda shard, _: shard != 1 or lockstep.NoSpace("full")
    with pytest.raises(lockstep.NoSpace):
        submit(shards, [0, 1])
    assert {(shard, m.commit) for shard, m in shards.of(Decide)} == {(0, False), (1, False)}
    assert not shards.decisions.pending


def test_a_victim_is_repeated_with_its_age_and_another_gid(shards):
    failures = [Wounded("by an older one"), lockstep.Deadlock("cycle"), Lost("dead")]
    shards.answers[Step] = lambda *_: failures.pop() if failures else "done"
    assert submit(shards, [0, 1]) == ["done", "done"]
    steps = [message for _, message in shards.of(Step)]
    assert len({m.gid for m in steps}) == 4 and {m.age for m in steps} == {Age(1, 1)}


def test_it_does_not_repeat_for_ever(shards, monkeypatch):
    monkeypatch.setattr("lockstep.cluster._coordinator.REPEATS_MAX", 3)
    shards.answers[Step] = Wounded("again")
    with pytest.raises(ClusterError, match="3 times"):
        submit(shards, [0])


def test_the_outcome_of_one_phase_may_be_unknown(shards):
    for answer in (Lost("dead"), OutcomeUnknown("the commit has failed")):
        shards.answers[CommitBranch] = answer
        with pytest.raises(OutcomeUnknown):
            submit(shards, [0])
    assert not shards.of(Decide)


def test_a_decision_outlives_the_coordinator(shards):
    shards.answers[Decide] = Lost("dead")
    submit(shards, [0, 1], finish=False)
    (gid,) = shards.decisions.pending
    shards.decisions.close()
    shards.open()
    assert shards.decisions.pending == {gid: (0, 1)}
    assert shards.make().outcomes([gid, b"never heard of"]) == {gid: True, b"never heard of": False}
    shards.answers[Decide] = None
    shards.said.clear()

    async def run():
        coordinator = shards.make()
        coordinator.start()
        await coordinator.finish()

    asyncio.run(run())
    assert sorted(shard for shard, _ in shards.of(Decide)) == [0, 1]
    assert not shards.decisions.pending
    assert shards.decisions.new_gid() != gid


def test_while_it_is_not_decided_it_says_so(shards):
    async def run():
        coordinator = shards.make()
        heard = []

        def vote(shard, message):
            heard.append(coordinator.outcomes([message.gid])[message.gid])
            return True

        shards.answers[Prepare] = vote
        shards.answers[Decide] = lambda _, m: heard.append(coordinator.outcomes([m.gid])[m.gid])
        await coordinator.submit(Submit(Age(1, 1), "visit", ([0, 1],)))
        await coordinator.finish()
        assert heard == [None, None, True, True]

    asyncio.run(run())


@pytest.mark.parametrize("error", [lockstep.StoreFailed, asyncio.CancelledError])
def test_a_decision_that_may_be_on_disk_is_neither_taken_back_nor_told(
    shards, monkeypatch, error
):
    async def fail(gid, changed):
        raise error("disk")

    monkeypatch.setattr(shards.decisions, "commit", fail)

    async def run():
        coordinator = shards.make()
        with pytest.raises(OutcomeUnknown, match="disk"):
            await coordinator.submit(Submit(Age(1, 1), "visit", ([0, 1],)))
        await coordinator.finish()
        (gid,) = {message.gid for _, message in shards.of(Prepare)}
        assert coordinator.outcomes([gid]) == {gid: None}

    asyncio.run(run())
    assert not shards.of(Decide) and shards.failures == 1


def test_the_number_of_shards_is_kept(shards):
    shards.decisions.close()
    store = lockstep.open(shards.path, workers=1, pool_bytes=8 << 20)
    shards.decisions = Decisions(store, 5)
    assert shards.decisions.shards == 4
