"""A shard without Ray: branches, wounds, doubts."""

import concurrent.futures
import threading
import time

import lockstep
import pytest
from lockstep.cluster import BranchLost, OutcomeUnknown, Procedures, ShardUnavailable, Wounded
from lockstep.cluster._messages import Age, CommitBranch, Decide, Finish, Prepare, Run, Step
from lockstep.cluster._participant import Participant
from waiting import lock_waits, wait_for

OLD, YOUNG = Age(1, 0), Age(2, 0)
SOON = 10.0
procedures = Procedures()


@procedures.local
def put(txn, objects, key, value):
    txn.put(objects.index("i"), key, value)


@procedures.local
def get(txn, objects, key):
    return txn.get(objects.index("i"), key)


class Shard:
    """A participant, and the coordinator's answers."""

    def __init__(self, path):
        self.path = path
        self.outcomes = {}
        self.failures = 0
        self.asked = []
        self.ended = []  # what the store has logged of transactions that were ended
        self.open()

    def open(self):
        store = lockstep.open(
            self.path, workers=1, pool_bytes=8 << 20, lock_timeout=8.0, logger=self.log
        )
        store.index("i", create=True)
        self.participant = Participant(store, procedures, self.ask, threads=4, failed=self.fail)

    def log(self, level, text):
        if " is ended" in text:
            self.ended.append(text)

    def fail(self):
        self.failures += 1

    def ask(self, gids):
        self.asked += gids
        return {gid: self.outcomes.get(gid) for gid in gids}

    def send(self, message):
        return self.participant.submit(message)

    def do(self, message):
        return self.send(message).result(SOON)

    def run(self, procedure, *arguments, age=YOUNG):
        return self.do(Run(age, procedure, arguments))

    def step(self, gid, procedure, *arguments, age=YOUNG, first=True):
        return self.send(Step(gid, age, first, procedure, arguments))


@pytest.fixture
def shard(tmp_path):
    made = Shard(tmp_path / "store")
    yield made
    made.participant.close()  # also the second time


def test_a_branch_prepares_and_commits(shard):
    shard.step(b"g", "put", "a", "1").result(SOON)
    assert shard.step(b"g", "get", "a", first=False).result(SOON) == b"1"
    assert shard.do(Prepare(b"g")) is True
    assert [gid for gid, _ in shard.participant.in_doubt()] == [b"g"]
    for _ in range(2):  # idempotent
        shard.do(Decide(b"g", True))
    assert shard.run("get", "a") == b"1"


def test_a_branch_that_only_read_leaves_at_its_vote(shard):
    shard.step(b"g", "get", "a").result(SOON)
    assert shard.do(Prepare(b"g")) is False
    assert shard.participant.open_branches == 0 and not shard.participant.in_doubt()


def test_one_phase(shard):
    shard.step(b"g", "put", "a", "1").result(SOON)
    shard.do(CommitBranch(b"g"))
    assert shard.run("get", "a") == b"1"
    with pytest.raises(BranchLost):
        shard.do(CommitBranch(b"g"))


@pytest.mark.parametrize("prepared", [False, True])
def test_a_rollback_undoes(shard, prepared):
    shard.step(b"g", "put", "a", "1").result(SOON)
    if prepared:
        shard.do(Prepare(b"g"))
    shard.do(Decide(b"g", False))
    assert shard.run("get", "a") is None
    with pytest.raises(BranchLost):
        shard.step(b"g", "put", "a", "2", first=False).result(SOON)


def test_an_exception_of_a_step_ends_its_branch(shard):
    with pytest.raises(lockstep.ValueTooLong):
        shard.step(b"g", "put", "a", bytes(lockstep.VALUE_BYTES_MAX + 1)).result(SOON)
    assert shard.participant.open_branches == 0
    shard.run("put", "a", "1")


def test_an_older_transaction_wounds_an_idle_younger_one(shard):
    shard.step(b"young", "put", "a", "1", age=YOUNG).result(SOON)
    began = time.monotonic()
    shard.step(b"old", "put", "a", "2", age=OLD).result(SOON)
    assert time.monotonic() - began < 5  # not the timeout of the lock
    with pytest.raises(Wounded):
        shard.step(b"young", "get", "b", first=False).result(SOON)
    shard.do(CommitBranch(b"old"))
    assert shard.run("get", "a") == b"2"
    assert shard.participant.counts["wounded"] == 1
    assert shard.ended == []  # a wound is no order of an operator


def test_an_order_of_an_operator_is_no_wound(shard):
    """So a coordinator does not repeat the transaction."""
    shard.step(b"g", "put", "a", "1").result(SOON)
    shard.participant._store.end_transaction(shard.participant._branches._open[b"g"].number)
    with pytest.raises(lockstep.EndedByOperator):
        shard.step(b"g", "get", "b", first=False).result(SOON)
    assert shard.participant.open_branches == 0 and len(shard.ended) == 1
    assert shard.run("get", "a") is None


def test_an_older_transaction_wounds_a_younger_one_that_waits(shard):
    shard.step(b"old", "put", "a", "1", age=OLD).result(SOON)
    shard.step(b"young", "put", "b", "1", age=YOUNG).result(SOON)
    waits = shard.step(b"young", "put", "a", "2", age=YOUNG, first=False)
    wait_for(lambda: lock_waits(shard))
    shard.step(b"old", "put", "b", "2", age=OLD, first=False).result(SOON)
    # The engine may see the cycle first, and choose the same victim.
    with pytest.raises((Wounded, lockstep.Deadlock)):
        waits.result(SOON)
    assert shard.ended == []


def test_a_rollback_ends_a_wait(shard):
    shard.step(b"holder", "put", "a", "1").result(SOON)
    waits = shard.step(b"g", "put", "a", "2")
    wait_for(lambda: lock_waits(shard))
    shard.do(Decide(b"g", False))
    with pytest.raises(Wounded):
        waits.result(SOON)
    assert shard.ended == []


def test_a_younger_transaction_waits(shard):
    shard.step(b"old", "put", "a", "1", age=OLD).result(SOON)
    young = shard.step(b"young", "put", "a", "2", age=YOUNG)
    wait_for(lambda: lock_waits(shard))
    time.sleep(0.3)  # in which a wound would come
    assert not young.done() and shard.participant.counts["wounded"] == 0
    shard.do(CommitBranch(b"old"))
    young.result(SOON)


def test_the_prepared_are_not_wounded(shard):
    shard.outcomes[b"young"] = None
    shard.step(b"young", "put", "a", "1", age=YOUNG).result(SOON)
    shard.do(Prepare(b"young"))
    old = shard.step(b"old", "put", "a", "2", age=OLD)
    wait_for(lambda: lock_waits(shard))
    time.sleep(0.3)  # in which a wound would come
    assert not old.done() and shard.participant.counts["wounded"] == 0
    shard.do(Decide(b"young", True))
    old.result(SOON)


def test_a_decision_passes_steps_that_wait_for_its_locks(shard):
    shard.step(b"g", "put", "a", "1", age=OLD).result(SOON)
    shard.do(Prepare(b"g"))
    waiting = [shard.step(b"w%d" % n, "put", "a", "2") for n in range(20)]
    wait_for(lambda: lock_waits(shard, 4))  # as many as first steps have threads, or more
    shard.do(Decide(b"g", True))
    assert concurrent.futures.wait(waiting, SOON / 2, "FIRST_COMPLETED").done
    for n in range(20):
        shard.send(Decide(b"w%d" % n, False))


def test_the_outcome_of_a_commit_that_fails_is_unknown(shard, monkeypatch):
    """The next open decides it, if the log could not be written."""

    def fail(txn):
        raise lockstep.StoreFailed("disk")

    shard.run("put", "a", "0")
    monkeypatch.setattr(lockstep.Transaction, "commit", fail)
    for message in (
        Run(YOUNG, "put", ("a", "1")),
        Finish(b"decided", YOUNG, True, "put", ("a", "1"), record=False),
    ):
        with pytest.raises(OutcomeUnknown, match="disk"):
            shard.do(message)
    shard.step(b"g", "put", "a", "1").result(SOON)
    with pytest.raises(OutcomeUnknown, match="disk"):
        shard.do(CommitBranch(b"g"))
    assert shard.participant.open_branches == 0


def test_what_is_in_doubt_asks(shard):
    for gid, commit in ((b"yes", True), (b"no", False)):
        shard.step(gid, "put", gid, "1").result(SOON)
        shard.do(Prepare(gid))
    shard.participant.close()
    shard.open()
    assert len(shard.participant.in_doubt()) == 2
    wait_for(lambda: {b"yes", b"no"} <= set(shard.asked))
    assert len(shard.participant.in_doubt()) == 2  # not decided yet
    shard.outcomes.update({b"yes": True, b"no": False})
    wait_for(lambda: not shard.participant.in_doubt())
    assert shard.run("get", b"yes") == b"1" and shard.run("get", b"no") is None


def test_what_is_in_doubt_asks_although_the_clock_was_set_back(shard, monkeypatch):
    prepared = type(shard.participant._store).prepared
    monkeypatch.setattr(
        type(shard.participant._store),
        "prepared",
        lambda store: [one._replace(age_nanos=0) for one in prepared(store)],
    )
    shard.step(b"g", "put", "a", "1").result(SOON)
    shard.do(Prepare(b"g"))
    began = time.monotonic()
    wait_for(lambda: b"g" in shard.asked)
    assert time.monotonic() - began > 0.3  # decisions usually come by themselves
    shard.outcomes[b"g"] = True
    wait_for(lambda: not shard.participant.in_doubt())


def test_a_branch_whose_transaction_has_ended_is_rolled_back(shard):
    """A step that comes after the rollback begins a branch that nobody will end."""
    shard.outcomes[b"late"] = False
    shard.do(Decide(b"late", False))
    shard.step(b"late", "put", "a", "1").result(SOON)
    wait_for(lambda: shard.participant.open_branches == 0)
    assert shard.run("get", "a") is None


def test_draining_ends_what_runs_and_begins_nothing(shard):
    shard.step(b"g", "put", "a", "1").result(SOON)
    drained = []
    thread = threading.Thread(target=lambda: drained.append(shard.participant.drain(SOON)))
    thread.start()
    wait_for(lambda: shard.participant.draining)
    with pytest.raises(ShardUnavailable):
        shard.run("get", "a")
    with pytest.raises(ShardUnavailable):
        shard.step(b"h", "get", "a").result(SOON)
    shard.step(b"g", "put", "b", "2", first=False).result(SOON)
    shard.do(Prepare(b"g"))
    assert not drained
    shard.do(Decide(b"g", True))
    thread.join()
    assert drained == [True]
    shard.participant.close()
    with pytest.raises(ShardUnavailable, match="closed"):
        shard.send(Run(OLD, "get", ("a",)))


def test_a_store_that_has_failed_is_told(shard, monkeypatch):
    monkeypatch.setattr(type(shard.participant._store), "failure", lambda _: "disk")
    wait_for(lambda: shard.failures != 0)
