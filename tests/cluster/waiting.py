"""waiting - waits for events, with a deadline. No test sleeps until something has probably come."""

import asyncio
import time

SOON = 10.0


def wait_for(condition, seconds=SOON):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it has not come"
        time.sleep(0.01)


async def until(condition, seconds=SOON):
    """wait_for() in an event loop."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it has not come"
        await asyncio.sleep(0.005)


def lock_waits(shard, count=1):
    """Whether so many transactions of a shard wait for locks."""
    found = [t for t in shard.participant._store.transactions() if t.state == "lock_wait"]
    return len(found) >= count
