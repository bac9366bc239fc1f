"""Messages to a process and back."""

import asyncio
import contextlib
import pickle
import socket
import threading
import time

import pytest
from lockstep.cluster import ClusterError, Overloaded
from lockstep.cluster import _frames
from lockstep.cluster._errors import Restarting
from lockstep.cluster._lane import Desk, Lane, Lost
from lockstep.cluster._messages import Age, CommitBranch, Decide, Prepare, Run

HERE = "127.0.0.1"


def lane_to(desk, **options):
    return Lane(lambda: desk.open(HERE), **options)


async def echo(message):
    await asyncio.sleep(0)
    return message


async def turns(done, limit=5.0):
    """Until done() is true."""
    until = time.monotonic() + limit
    while not done():
        assert time.monotonic() < until
        await asyncio.sleep(0.005)


def test_messages_of_a_turn_travel_together(monkeypatch):
    frames = []
    dumps = pickle.dumps

    def counted(items, protocol):
        frames.append(len(items))
        return dumps(items, protocol)

    monkeypatch.setattr(_frames.pickle, "dumps", counted)

    async def run():
        lane = lane_to(Desk(lambda message: asyncio.sleep(0, message * 2)))
        assert await asyncio.gather(*map(lane.send, range(1000))) == list(range(0, 2000, 2))
        lane.close()

    asyncio.run(run())
    assert frames[0] == 1000
    assert sum(frames) == 2000
    assert len(frames) < 50  # the answers come in a few turns


def test_a_large_message_and_many_small_ones():
    async def run():
        lane = lane_to(Desk(echo))
        sent = [bytes([n]) * (5_000_000 if n == 3 else n) for n in range(50)]
        assert await asyncio.gather(*map(lane.send, sent)) == sent
        lane.close()

    asyncio.run(run())


def test_a_slow_message_does_not_hold_back_the_others():
    async def run():
        go = asyncio.Event()

        async def perform(message):
            if message == "slow":
                await go.wait()
            return message

        lane = lane_to(Desk(perform))
        slow = asyncio.create_task(lane.send("slow"))
        for n in range(20):
            assert await asyncio.wait_for(lane.send(n), 5) == n
        assert not slow.done()
        go.set()
        assert await asyncio.wait_for(slow, 5) == "slow"
        lane.close()

    asyncio.run(run())


def test_errors_reach_their_sender():
    async def run():
        async def perform(message):
            raise KeyError(message)

        lane = lane_to(Desk(perform))
        for n in range(3):
            with pytest.raises(KeyError, match=str(n)):
                await lane.send(n)
        lane.close()

    asyncio.run(run())


def test_a_dead_process_loses_what_was_sent_and_nothing_else():
    async def run():
        never = asyncio.Event()
        dies, lives = Desk(lambda message: never.wait()), Desk(echo)
        desks = [dies, lives]
        lane = Lane(lambda: desks[0].open(HERE))
        first = [asyncio.create_task(lane.send(n)) for n in range(3)]
        await turns(lambda: len(dies._tasks) == 3)
        del desks[0]
        later = asyncio.create_task(lane.send("later"))  # by the connection that is there
        await turns(lambda: len(dies._tasks) == 4)
        for visitor in dies._visitors:
            visitor.frames.close()
        answers = await asyncio.gather(*first, later, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Lost] * 4
        assert await lane.send("again") == "again"
        lane.close()

    asyncio.run(run())


def test_a_full_queue_refuses():
    async def run():
        go = asyncio.Event()
        lane = lane_to(Desk(lambda message: go.wait()), queue_max=3)
        waiting = [asyncio.create_task(lane.send(n)) for n in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="3 messages"):
            await lane.send(3)
        go.set()
        await asyncio.gather(*waiting)
        await lane.send(4)
        lane.close()

    asyncio.run(run())


def test_what_cannot_be_pickled_spoils_nothing_else():
    async def run():
        async def perform(message):
            if message == "result":
                return threading.Lock()
            if message == "error":
                raise Odd(1, 2)
            return message

        lane = lane_to(Desk(perform))
        answers = await asyncio.gather(
            *map(lane.send, ["good", "result", "error", "fine"]), return_exceptions=True
        )
        assert answers[0] == "good" and answers[3] == "fine"
        for answer, match in ((answers[1], "the result cannot be sent"), (answers[2], "read here")):
            assert isinstance(answer, ClusterError) and match in str(answer)
        with pytest.raises(TypeError, match="pickle"):
            await lane.send(threading.Lock())
        assert await lane.send("still") == "still"
        lane.close()

    asyncio.run(run())


class Odd(Exception):
    """Its pickled form cannot be read: the arguments are not those of the constructor."""

    def __init__(self, first, second):
        super().__init__(first)


def test_what_is_not_plain_arrives_too():
    async def run():
        lane = lane_to(Desk(echo))
        local = lambda n: n + 1  # noqa: E731
        sent = [{"a": [1, 2]}, [b"x"], (1, (2.0, None, "t")), {3}]
        assert await asyncio.gather(*map(lane.send, sent)) == sent
        assert (await lane.send(local))(1) == 2
        lane.close()

    asyncio.run(run())


def test_a_message_stands_when_it_is_sent():
    """What its sender changes later does not travel, although the connection is not made yet."""

    async def run():
        lane = lane_to(Desk(echo))
        message = [1]
        answer = asyncio.create_task(lane.send(message))
        await asyncio.sleep(0)
        message.append(2)
        assert await answer == [1]
        lane.close()

    asyncio.run(run())


def test_any_error_of_the_way_is_a_loss():
    async def run():
        async def reach():
            raise OSError("network")

        lane = Lane(reach)
        for _ in range(2):
            with pytest.raises(Lost, match="network"):
                await lane.send(1)

    asyncio.run(run())


def test_a_connection_that_ends_at_once_is_a_loss(monkeypatch):
    """asyncio may tell of the end before create_connection() returns."""

    class Transport:
        def get_extra_info(self, name):
            return socket.socket()

        def write(self, data):
            pass

    async def run():
        loop = asyncio.get_running_loop()
        made = loop.create_connection

        async def end_at_once(make, host, port):
            protocol = make()
            protocol.connection_made(Transport())
            protocol.connection_lost(ConnectionResetError())

        lane = lane_to(Desk(echo))
        monkeypatch.setattr(loop, "create_connection", end_at_once)
        for n in range(2):
            with pytest.raises(Lost, match="ended at once"):
                await asyncio.wait_for(lane.send(n), 5)
        monkeypatch.setattr(loop, "create_connection", made)
        assert await asyncio.wait_for(lane.send("again"), 5) == "again"
        lane.close()

    asyncio.run(run())


def test_a_process_that_begins_nothing_more_is_left():
    """Answers that are still due come; what is sent later goes to the next process."""

    async def run():
        go, served = asyncio.Event(), []

        async def perform(message):
            if message == "slow":
                await go.wait()
            elif message == "refused":
                raise Restarting("nothing has begun")
            served.append(message)
            return message

        old, new = Desk(perform), Desk(lambda message: asyncio.sleep(0, "new"))
        desks = [old, new]
        lane = Lane(lambda: desks[0].open(HERE))
        slow = asyncio.create_task(lane.send("slow"))
        await turns(lambda: len(old._tasks) == 1)
        del desks[0]
        with pytest.raises(Restarting):
            await lane.send("refused")
        assert await lane.send("next") == "new"
        assert old.lanes == 1 and not slow.done()
        go.set()
        assert await slow == "slow"
        await turns(lambda: old.lanes == 0)
        assert served == ["slow"]
        lane.close()

    asyncio.run(run())


def test_what_ends_a_transaction_reaches_a_process_that_begins_nothing_more():
    """It waits for that message before it ends. What begins goes to the next process."""

    async def run():
        ended, there = [], asyncio.Event()

        async def perform(message):
            if isinstance(message, Run):
                raise Restarting("nothing has begun")
            ended.append(message)

        old, new = Desk(perform), Desk(lambda message: asyncio.sleep(0, "new"))
        desks = [old]

        async def reach():
            if desks[0] is new:
                await there.wait()
            return await desks[0].open(HERE)

        lane = Lane(reach)
        transaction = Run(Age(1, 1), "deposit", ())
        with pytest.raises(Restarting):
            await lane.send(transaction)
        desks[0] = new
        later = asyncio.create_task(lane.send(transaction))
        await asyncio.sleep(0)
        for message in (Prepare(b"1"), Decide(b"1", True), CommitBranch(b"2")):
            await asyncio.wait_for(lane.send(message), 5)
            assert ended.pop() == message
        assert not later.done() and old.lanes == 1
        there.set()
        assert await asyncio.wait_for(later, 5) == "new"
        await turns(lambda: old.lanes == 0)
        assert await lane.send(CommitBranch(b"3")) == "new" and not ended
        lane.close()

    asyncio.run(run())


def test_a_desk_that_ends_sends_idle_lanes_away():
    async def run():
        old, new = Desk(echo), Desk(lambda message: asyncio.sleep(0, "new"))
        desks = [old, new]
        lane = Lane(lambda: desks[0].open(HERE))
        assert await lane.send("first") == "first"
        del desks[0]
        old.end()
        await turns(lambda: old.lanes == 0)
        assert await lane.send("second") == "new"
        lane.close()

    asyncio.run(run())


class Loaded:
    """Notes that it has been unpickled."""

    count = 0

    def __setstate__(self, state):
        Loaded.count += 1


def test_a_desk_reads_nothing_before_its_token():
    async def run():
        desk = Desk(echo)
        address = await desk.open(HERE)
        loaded = Loaded()
        loaded.state = 1
        frame = pickle.dumps([(1, loaded)])
        frame = len(frame).to_bytes(8, "big") + frame
        for token in (b"x" * len(address.token), b"", address.token[:-1] + b"\0"):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(token + frame)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        assert Loaded.count == 0 and desk.lanes == 0
        reader, writer = await asyncio.open_connection(address.host, address.port)
        for piece in (address.token[:5], address.token[5:], frame[:3], frame[3:]):
            writer.write(piece)
            await asyncio.sleep(0.01)
        await turns(lambda: Loaded.count == 1)
        writer.close()

    asyncio.run(run())


def test_a_lane_that_is_closed_answers():
    async def run():
        lane = lane_to(Desk(lambda message: asyncio.Event().wait()))
        waiting = [asyncio.create_task(lane.send(n)) for n in range(2)]
        await asyncio.sleep(0)
        lane.close()
        for one in waiting:
            with pytest.raises(Lost, match="closed"):
                await one

    asyncio.run(run())
