"""Branches that one message begins and ends, without Ray: the engine performs them."""

import asyncio
import time

import lockstep
import pytest
from lockstep.cluster import BranchLost, ProcedureError, Wounded
from lockstep.cluster._decisions import Decisions
from lockstep.cluster._errors import Restarting
from lockstep.cluster._messages import Ask, Decide, Finish, Forget, Step
from library import number, numbers
from native_shard import OLD, SOON, YOUNG
from waiting import lock_waits, until, wait_for


def step(gid, procedure, *values, age=YOUNG):
    return Step(gid, age, True, procedure, (numbers(*values),), last=True)


def finish(gid, procedure, *values, age=YOUNG, record=True):
    return Finish(gid, age, True, procedure, (numbers(*values),), record)


def run(*work):
    """The results of coroutines, one after the other, in one event loop."""

    async def each():
        return [await asyncio.wait_for(one, SOON) for one in work]

    return asyncio.run(each())


def in_doubt(shard):
    return [gid for gid, _ in shard.participant.in_doubt()]


def test_a_step_prepares_and_a_decision_ends_it(shard):
    perform = shard.participant.perform
    ((reply, prepared),) = run(perform(step(b"g", "native_deposit", 1, 10)))
    assert number(reply) == 10 and prepared is True
    assert in_doubt(shard) == [b"g"]
    run(perform(Decide(b"g", True)), perform(Decide(b"g", True)))  # it may be repeated
    assert in_doubt(shard) == [] and shard.call("native_balance", 1) == 10
    run(perform(step(b"h", "native_deposit", 1, 5)), perform(Decide(b"h", False)))
    assert in_doubt(shard) == [] and shard.call("native_balance", 1) == 10
    assert shard.participant.counts["prepared"] == 2


def test_what_is_prepared_is_recovered(shard):
    run(shard.participant.perform(step(b"g", "native_deposit", 1, 10)))
    shard.participant.close()
    shard.open()
    assert in_doubt(shard) == [b"g"]
    run(shard.participant.perform(Decide(b"g", True)))
    assert shard.call("native_balance", 1) == 10


def test_a_step_that_only_reads_has_nothing_to_decide(shard):
    ((_, prepared),) = run(shard.participant.perform(step(b"g", "native_balance", 1)))
    assert prepared is False and in_doubt(shard) == []
    assert shard.participant._ages._prepared == {}


def test_a_step_that_only_reads_is_prepared_if_a_shard_decides(shard):
    """The deciding shard has not taken its locks yet."""
    gid = Decisions.decided_by(b"0123456789abcdef", 2)
    shard.outcomes[gid] = None
    ((_, prepared),) = run(shard.participant.perform(step(gid, "native_balance", 1)))
    assert prepared is True and in_doubt(shard) == [gid]
    shard.participant.close()
    shard.open()
    writing = shard.step(b"w", "native_deposit", 1, 10)
    wait_for(lambda: lock_waits(shard))
    assert not writing.done()
    run(shard.participant.perform(Decide(gid, True)))
    assert number(writing.result(SOON)) == 10
    shard.do(Decide(b"w", False))


def test_the_errors_of_a_step(shard):
    perform = shard.participant.perform
    with pytest.raises(ProcedureError, match="not enough money"):
        run(perform(step(b"g", "native_deposit", 1, -1)))
    with pytest.raises(lockstep.BadArgument, match="too many numbers"):
        run(perform(finish(b"g", "native_deposit", 1, 2, 3, 4)))
    with pytest.raises(TypeError, match="one argument"):
        run(perform(Step(b"g", YOUNG, True, "native_deposit", (1, 2), last=True)))
    assert in_doubt(shard) == [] and shard.participant.open_branches == 0


def test_the_deciding_step_commits_with_its_record(shard):
    perform = shard.participant.perform
    (reply,) = run(perform(finish(b"g", "native_deposit", 1, 10)))
    assert number(reply) == 10
    assert run(perform(Ask(b"g"))) == [True]
    run(perform(Forget((b"g",))))
    assert run(perform(Ask(b"g"))) == [False]  # and now it never will
    with pytest.raises(BranchLost, match="somebody has asked"):
        run(perform(finish(b"g", "native_deposit", 1, 10)))
    assert shard.call("native_balance", 1) == 10
    # Without other shards nothing is recorded.
    run(perform(finish(b"h", "native_deposit", 1, 1, record=False)))
    assert run(perform(Ask(b"h"))) == [False]


def test_an_error_of_the_procedure_is_not_taken_for_the_record(shard):
    perform = shard.participant.perform
    run(perform(finish(b"g", "native_take_part", 1, 5, 7)))
    with pytest.raises(lockstep.DuplicateKey):
        run(perform(finish(b"h", "native_take_part", 1, 5, 7)))


def test_a_rollback_reaches_a_step_that_waits(shard):
    perform = shard.participant.perform

    async def both():
        await perform(step(b"holder", "native_deposit", 1, 10, age=OLD))
        waits = asyncio.create_task(perform(step(b"g", "native_deposit", 1, 1)))
        await until(lambda: lock_waits(shard))
        assert shard.participant.open_branches == 1 and not waits.done()
        began = time.monotonic()
        await perform(Decide(b"g", False))
        assert time.monotonic() - began < 2
        with pytest.raises(Wounded):
            await waits
        assert in_doubt(shard) == [b"holder"]

    asyncio.run(both())


def test_a_rollback_beside_a_step_leaves_nothing(shard, monkeypatch):
    """It comes too late to end the step, which is prepared."""
    perform = shard.participant.perform
    monkeypatch.setattr(shard.participant._one_shots, "_stop", lambda one: None)

    async def both():
        voting = asyncio.create_task(perform(step(b"g", "native_deposit", 1, 10)))
        await asyncio.sleep(0)
        assert shard.participant.open_branches == 1
        await perform(Decide(b"g", False))
        assert (await voting)[1] is True

    asyncio.run(both())
    assert in_doubt(shard) == [] and shard.participant._ages._prepared == {}


def test_an_older_branch_wounds_a_younger_one(shard):
    """The young one waits behind a transaction that holds what the old one needs."""
    perform = shard.participant.perform

    async def work():
        shard.step(b"holder", "native_deposit", 9, 1, age=OLD).result(SOON)
        # It has receipt (1, 9), and waits for account 9.
        young = asyncio.create_task(perform(step(b"young", "native_take_part", 9, 1, 5)))
        await until(lambda: lock_waits(shard))
        old = asyncio.create_task(perform(step(b"old", "native_take_part", 9, 1, 5, age=OLD)))
        with pytest.raises(Wounded):
            await asyncio.wait_for(young, 5)
        assert not old.done()
        await perform(Decide(b"holder", False))
        assert (await old)[1] is True

    asyncio.run(work())
    wait_for(lambda: shard.participant.counts["wounded"] >= 1)  # counted behind the wound
    assert shard.ended == []  # a wound is no order of an operator


def test_a_prepared_one_is_named_to_the_coordinator(shard):
    perform = shard.participant.perform
    asked = []
    shard.participant._ask_to_wound = asked.append

    async def work():
        await perform(step(b"young", "native_deposit", 1, 1))
        old = asyncio.create_task(perform(step(b"old", "native_deposit", 1, 1, age=OLD)))
        await until(lambda: asked)
        assert set(asked) == {b"young"}
        await perform(Decide(b"young", False))
        assert number((await old)[0]) == 1

    asyncio.run(work())


def test_a_short_wait_wounds_nobody(shard):
    """Time is what tells a cycle from a queue."""
    perform = shard.participant.perform
    asked = []
    shard.participant._ask_to_wound = asked.append

    async def work():
        for n in range(5):
            await perform(step(b"young%d" % n, "native_deposit", 1, 1))
            old = asyncio.create_task(perform(step(b"old%d" % n, "native_deposit", 1, 1, age=OLD)))
            await asyncio.sleep(0.02)
            await perform(Decide(b"young%d" % n, True))
            await old
            await perform(Decide(b"old%d" % n, True))

    asyncio.run(work())
    assert asked == [] and shard.participant.counts["wounded"] == 0
    assert shard.call("native_balance", 1) == 10


def test_draining_waits_for_one_and_begins_no_other(shard):
    perform = shard.participant.perform

    async def work():
        await perform(step(b"holder", "native_deposit", 1, 1))
        waits = asyncio.create_task(perform(finish(b"g", "native_deposit", 1, 1)))
        await until(lambda: lock_waits(shard))
        drain = asyncio.create_task(asyncio.to_thread(shard.participant.drain, SOON))
        await until(lambda: shard.participant.draining)
        for message in (step(b"h", "native_deposit", 2, 1), finish(b"h", "native_deposit", 2, 1)):
            with pytest.raises(Restarting):
                await perform(message)
        assert not drain.done()
        await perform(Decide(b"holder", True))
        assert number(await waits) == 2
        assert await drain is True

    asyncio.run(work())


def test_closing_ends_what_runs(shard):
    perform = shard.participant.perform

    async def work():
        await perform(step(b"holder", "native_deposit", 1, 1))
        waits = asyncio.create_task(perform(finish(b"g", "native_deposit", 1, 1)))
        await until(lambda: lock_waits(shard))
        await asyncio.wait_for(asyncio.to_thread(shard.participant.close), 5)
        with pytest.raises(Wounded):
            await waits

    asyncio.run(work())
    shard.open()
    assert in_doubt(shard) == [b"holder"]
