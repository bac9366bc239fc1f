"""Batches to a process and back."""

import asyncio
import threading

import pytest
from lockstep.cluster import ClusterError, Overloaded
from lockstep.cluster._lane import BATCH_MAX, POLL_SECONDS, Desk, Lane, Lost


def test_messages_of_a_turn_share_a_call():
    async def run():
        batches = []
        desk = Desk(lambda message: asyncio.sleep(0, message * 2))

        async def exchange(lane, messages):
            batches.append(len(messages))
            return await desk.exchange(lane, messages)

        lane = Lane(exchange)
        assert await asyncio.gather(*map(lane.send, range(1000))) == list(range(0, 2000, 2))
        assert max(batches) == BATCH_MAX
        assert len(batches) < 50

    asyncio.run(run())


def test_a_slow_message_does_not_hold_back_the_others():
    async def run():
        go = asyncio.Event()

        async def perform(message):
            if message == "slow":
                await go.wait()
            return message

        lane = Lane(Desk(perform).exchange)
        slow = asyncio.create_task(lane.send("slow"))
        for n in range(20):
            assert await asyncio.wait_for(lane.send(n), 5) == n
        assert not slow.done()
        go.set()
        assert await asyncio.wait_for(slow, 5) == "slow"

    asyncio.run(run())


def test_slow_messages_do_not_hold_back_what_is_sent_later():
    """More slow messages, in calls of their own, than a lane has calls under way."""

    async def run():
        go = asyncio.Event()

        async def perform(message):
            if message == "slow":
                await go.wait()
            return message

        lane = Lane(Desk(perform).exchange)
        slow = []
        for _ in range(5):
            slow.append(asyncio.create_task(lane.send("slow")))
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(lane.send("quick"), POLL_SECONDS / 4) == "quick"
        go.set()
        assert await asyncio.wait_for(asyncio.gather(*slow), 5) == ["slow"] * 5

    asyncio.run(run())


def test_errors_reach_their_sender():
    async def run():
        async def perform(message):
            raise KeyError(message)

        lane = Lane(Desk(perform).exchange)
        for n in range(3):
            with pytest.raises(KeyError, match=str(n)):
                await lane.send(n)

    asyncio.run(run())


def test_a_dead_process_loses_what_was_sent_and_nothing_else():
    async def run():
        desk = Desk(lambda message: asyncio.sleep(0, message))
        dead = True

        async def exchange(lane, messages):
            if dead:
                await asyncio.sleep(0.01)
                raise Lost("dead")
            return await desk.exchange(lane, messages)

        lane = Lane(exchange)
        first = [asyncio.create_task(lane.send(n)) for n in range(3)]
        answers = await asyncio.gather(*first, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Lost] * 3
        dead = False
        assert await lane.send("again") == "again"

    asyncio.run(run())


def test_a_full_queue_refuses():
    async def run():
        go = asyncio.Event()

        async def perform(message):
            await go.wait()

        lane = Lane(Desk(perform).exchange, queue_max=3)
        waiting = [asyncio.create_task(lane.send(n)) for n in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="3 messages"):
            await lane.send(3)
        go.set()
        await asyncio.gather(*waiting)
        await lane.send(4)

    asyncio.run(run())


def test_what_cannot_be_pickled_spoils_nothing_else():
    async def run():
        async def perform(message):
            if message == "result":
                return threading.Lock()
            if message == "error":
                raise Odd(1, 2)
            return message

        lane = Lane(Desk(perform).exchange)
        answers = await asyncio.gather(
            *map(lane.send, ["good", "result", "error", "fine"]), return_exceptions=True
        )
        assert answers[0] == "good" and answers[3] == "fine"
        for answer, match in ((answers[1], "the result cannot be sent"), (answers[2], "read here")):
            assert isinstance(answer, ClusterError) and match in str(answer)
        with pytest.raises(TypeError, match="pickle"):
            await lane.send(threading.Lock())
        assert await lane.send("still") == "still"

    asyncio.run(run())


class Odd(Exception):
    """Its pickled form cannot be read: the arguments are not those of the constructor."""

    def __init__(self, first, second):
        super().__init__(first)


def test_any_error_of_the_way_is_a_loss():
    async def run():
        async def exchange(lane, messages):
            raise OSError("network")

        with pytest.raises(Lost, match="network"):
            await Lane(exchange).send(1)

    asyncio.run(run())


def test_a_desk_forgets_lanes_that_have_their_answers():
    async def run():
        desk = Desk(lambda message: asyncio.sleep(0, message))
        for n in range(5):
            assert await Lane(desk.exchange).send(n) == n
        assert desk.lanes == 0

    asyncio.run(run())
