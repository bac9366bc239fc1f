"""Transactions that a shard decides, over the stores of real participants: they are atomic and
serializable, and no deadlock lasts. Without Ray."""

import asyncio
import time

import lockstep
import pytest
from lockstep.cluster import Procedures, ResultLost
from lockstep.cluster._coordinator import Coordinator
from lockstep.cluster._decisions import Decisions
from lockstep.cluster._encoding import decode, decode_answer, encode, encode_answer
from lockstep.cluster._messages import Age, Submit
from lockstep.cluster._participant import Participant

OLD, YOUNG = Age(1, 0), Age(2, 0)
SOON = 1.0  # a lock times out after many times as long
procedures = Procedures()


@procedures.local
def put(txn, objects, key, value):
    txn.put(objects.index("i"), key, value)


@procedures.local
def put_oddly(txn, objects, key, value):
    put(txn, objects, key, value)
    return (n for n in ())  # cannot be pickled


@procedures.local
def get(txn, objects, key):
    return txn.get(objects.index("i"), key)


@procedures.local
def put_if(txn, objects, wanted, key, value):
    if wanted:
        put(txn, objects, key, value)


@procedures.cross_shard
async def pair(txn, last_step, error=None):
    txn.decide_at(1)
    await txn.call(0, "put", "a", "1", last=True)
    await txn.finish(last_step, "b", "1")
    if error:
        raise error


class Meeting:
    """Lets the first tries of two transactions go on together. Others pass."""

    def __init__(self):
        self._missing = 2
        self._all_here = asyncio.Event()

    async def come(self):
        self._missing -= 1
        if self._missing == 0:
            self._all_here.set()
        await self._all_here.wait()


@procedures.cross_shard
async def skew(txn, meeting, read_at, write_at, voting):
    """Writes at one shard what a record at the other one, which is missing, permits."""
    txn.decide_at(write_at)
    seen = await txn.call(read_at, "get", "k", last=voting)
    await meeting.come()
    await txn.finish("put_if", seen is None, "k", "1")


@procedures.cross_shard
async def cross(txn, meeting, decider, first, second, voting):
    """Changes the shards `first` and `second` in this order, and the decider if it is another."""
    txn.decide_at(decider)
    await txn.call(first, "put", "k", "1", last=voting)
    await meeting.come()
    if second == decider:
        await txn.finish("put", "k", "1")
    else:
        await txn.call(second, "put", "k", "1", last=voting)
        await txn.finish("put", ("other", first), "1")


class Cluster:
    """Three shards and a coordinator in one event loop."""

    def __init__(self, path):
        self._loop = asyncio.get_running_loop()
        self.shards = [self._open(path / f"shard-{number}", number) for number in range(3)]
        store = lockstep.open(path / "coordinator", workers=1, pool_bytes=8 << 20)
        self._decisions = Decisions(store, len(self.shards))
        self.coordinator = Coordinator(self._decisions, procedures, self._send, int)

    def _open(self, path, number):
        store = lockstep.open(path, workers=1, pool_bytes=8 << 20, lock_timeout=10 * SOON)
        store.index("i", create=True)
        return Participant(
            store, procedures, self._ask, shard=number, threads=4, wound=self._wound
        )

    def _ask(self, gids):
        asked = self.coordinator.resolve(gids)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(5 * SOON)

    def _wound(self, gid):
        self._loop.call_soon_threadsafe(self.coordinator.wound, gid)

    async def _send(self, shard, message):
        """As a lane and a desk do it."""
        try:
            value, error = await self.shards[shard].perform(decode(encode(message))), None
        except Exception as raised:
            value, error = None, raised
        value, error = decode_answer(encode_answer(value, error))
        if error is not None:
            raise error
        return value

    def submit(self, procedure, *arguments, age=YOUNG):
        return self.coordinator.submit(Submit(age, procedure, arguments))

    def value(self, shard, key):
        store = self.shards[shard]._store
        with store.snapshot() as txn:
            return txn.get(store.index("i"), key)

    async def settled(self):
        """When nothing is left of any transaction."""
        async with asyncio.timeout(5 * SOON):
            for shard in self.shards:
                while shard.in_doubt() or shard.open_branches or shard._ages._prepared:
                    await asyncio.sleep(0.01)

    async def close(self):
        await self.coordinator.finish()
        for shard in self.shards:
            await asyncio.to_thread(shard.close)
        self._decisions.close()


def in_cluster(path, work):
    async def run():
        cluster = Cluster(path)
        try:
            await work(cluster)
            await cluster.settled()
        finally:
            await cluster.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("last_step", "raised", "expected"),
    [
        ("put", ValueError("behind finish()"), ValueError),
        ("put", lockstep.Deadlock("behind finish()"), lockstep.Deadlock),
        ("put_oddly", None, ResultLost),
    ],
)
def test_what_comes_behind_the_commit_undoes_no_part_of_it(tmp_path, last_step, raised, expected):
    async def work(cluster):
        with pytest.raises(expected):
            await cluster.submit("pair", last_step, raised)
        await cluster.settled()
        assert [cluster.value(0, "a"), cluster.value(1, "b")] == [b"1", b"1"]

    in_cluster(tmp_path, work)


@pytest.mark.parametrize("voting", [True, False])
def test_two_that_read_what_the_other_writes(tmp_path, voting):
    """Write skew: one of them has to see the record of the other one."""

    async def work(cluster):
        meeting, began = Meeting(), time.monotonic()
        await asyncio.gather(
            cluster.submit("skew", meeting, 0, 1, voting, age=OLD),
            cluster.submit("skew", meeting, 1, 0, voting),
        )
        assert time.monotonic() - began < 5 * SOON
        assert sorted(str(cluster.value(shard, "k")) for shard in (0, 1)) == ["None", "b'1'"]

    in_cluster(tmp_path, work)


@pytest.mark.parametrize("voting", [True, False])
@pytest.mark.parametrize("deciders", [(1, 0), (2, 2), (0, 1)])
def test_a_deadlock_over_shards_does_not_last(tmp_path, voting, deciders):
    """It goes through the last step, through a step of a third shard, and through the deciders."""

    async def work(cluster):
        meeting, began = Meeting(), time.monotonic()
        await asyncio.gather(
            cluster.submit("cross", meeting, deciders[0], 0, 1, voting),
            cluster.submit("cross", meeting, deciders[1], 1, 0, voting, age=OLD),
        )
        assert time.monotonic() - began < 5 * SOON
        assert cluster.coordinator.counts["committed"] == 2

    in_cluster(tmp_path, work)
