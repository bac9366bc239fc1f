"""Functions of the application that are left in any way: each caller gets an answer, and the
process goes on. Without Ray; test_sharded.py does the same with processes."""

import asyncio

import lockstep
import pytest
from leaving import WAYS
from lockstep.cluster import ClusterError, ProcedureLeft, Procedures
from lockstep.cluster._coordinator import Coordinator
from lockstep.cluster._decisions import Decisions
from lockstep.cluster._lane import Desk, Lane
from lockstep.cluster._messages import Age, Decide, Run, Step, Submit
from lockstep.cluster._participant import Participant
from waiting import SOON

AGE = Age(1, 0)
procedures = Procedures()


@procedures.local
def leave(txn, objects, how):
    txn.put(objects.index("i"), "left", how)
    WAYS[how]()


@procedures.local
def look(txn, objects):
    return txn.get(objects.index("i"), "left")


@procedures.cross_shard
async def leave_all(txn, how):
    await txn.call(0, "look")
    WAYS[how]()


@procedures.cross_shard
def leave_at_once(txn, how):
    """It leaves before there is a coroutine."""
    WAYS[how]()


class Pickles:
    """An argument or a result that is left as it is pickled or read."""

    def __init__(self, how, reads):
        self.how, self.reads = how, reads

    def __reduce__(self):
        if self.reads:
            return WAYS[self.how], ()
        return WAYS[self.how]()


@pytest.fixture
def shard(tmp_path):
    store = lockstep.open(tmp_path / "shard", workers=1, pool_bytes=8 << 20)
    made = Participant(store, procedures, lambda gids: {}, threads=2)
    yield made
    made.close()


def served(perform, *messages):
    """What a lane to a desk answers to each message, and then to one that is plain."""

    async def run():
        desk = Desk(perform)
        lane = Lane(lambda: desk.open("127.0.0.1"))
        found = []
        for message in messages:
            sent = asyncio.wait_for(lane.send(message), SOON)
            found += await asyncio.gather(sent, return_exceptions=True)
        lane.close()
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("how", WAYS)
def test_a_procedure_of_one_shard(shard, how):
    run = Run(AGE, "leave", (how,))
    step = Step(b"g", AGE, True, "leave", (how,), last=True)
    answers = served(
        shard.perform, run, step, Decide(b"g", False), Run(AGE, "look", ())
    )
    for answer in answers[:2]:
        assert isinstance(answer, ProcedureLeft) and "'leave' was left by" in str(answer)
    assert answers[2:] == [None, None]  # nothing remains of either
    assert shard.drain(SOON) is True


@pytest.mark.parametrize("procedure", ["leave_all", "leave_at_once"])
@pytest.mark.parametrize("how", WAYS)
def test_a_procedure_over_shards(tmp_path, how, procedure):
    async def send(shard, message):
        return None

    store = lockstep.open(tmp_path / "coordinator", workers=1, pool_bytes=8 << 20)
    decisions = Decisions(store, 2)
    coordinator = Coordinator(decisions, procedures, send, int)
    message = Submit(AGE, procedure, (how,))
    answers = served(coordinator.perform, message, message)
    # A coroutine that raises StopIteration raises a RuntimeError, says Python.
    for answer in answers:
        assert isinstance(answer, ProcedureLeft | RuntimeError), answer
    assert coordinator.active == 0 and coordinator.counts["rolled_back"] == 2
    decisions.close()


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("how", WAYS)
def test_what_is_left_as_it_is_pickled(how, reads):
    async def perform(message):
        return Pickles(how, reads) if message == "result" else message

    sent = [Pickles(how, True)] if reads else []
    answers = served(perform, "result", *sent, "plain")
    assert answers[-1] == "plain"
    for answer in answers[:-1]:
        assert isinstance(answer, ClusterError), answer
