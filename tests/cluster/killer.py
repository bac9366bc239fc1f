"""killer - SIGKILL of shards, of the coordinator and of a node, and what must be true then."""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import time

import ray
from lockstep.cluster.tpcc._conditions import OPEN
from ray.cluster_utils import Cluster

BETWEEN = (0.5, 1.5)  # seconds from one kill to the next
DOUBT_MAX = 10.0
NODES = ({"first": 1}, {"second": 1})  # the resources that tie shards to the two nodes


class Killer:
    """The second node comes with it. `store` is set when it is open."""

    def __init__(self, cluster, rng):
        self._cluster = cluster
        self.store = None
        self._rng = rng
        self._node = self._add_node()
        self.counts = {"shard": 0, "coordinator": 0, "node": 0}

    def _add_node(self):
        return self._cluster.add_node(num_cpus=1, resources={"second": 100})

    async def kill(self):
        kind = self._rng.choices(["shard", "coordinator", "node"], [6, 3, 1])[0]
        self.counts[kind] += 1
        if kind == "node":
            self._cluster.remove_node(self._node, allow_graceful=False)
            await asyncio.sleep(self._rng.uniform(0, 1))
            self._node = self._add_node()
            return
        actors = self.store.shards if kind == "shard" else [self.store.coordinator]
        try:
            status = await asyncio.wait_for(self._rng.choice(actors).status.remote(), 20)
        except (ray.exceptions.RayError, TimeoutError):
            return  # it is not back yet
        try:
            os.kill(status["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass


async def wait_until_back(store):
    """Until every process answers; then until nothing is in doubt. The second time in seconds."""
    while True:
        try:
            await asyncio.wait_for(store.coordinator.status.remote(), 60)
            await asyncio.gather(*(shard.status.remote() for shard in store.shards))
            break
        except ray.exceptions.RayError:
            await asyncio.sleep(0.1)
    back = time.monotonic()
    while True:
        found = await asyncio.gather(
            store.coordinator.status.remote(), *(shard.status.remote() for shard in store.shards)
        )
        if not any(one.get(what) for one in found for what in OPEN):
            return time.monotonic() - back
        if time.monotonic() - back > DOUBT_MAX:
            sys.exit(f"still in doubt {DOUBT_MAX} s after every process was back: {found}")
        await asyncio.sleep(0.05)


async def kill_beside(killer, store, clients, kills, rng):
    """Starts the clients, each with the event that ends it, and kills. Then wait_until_back()."""
    stop = asyncio.Event()
    running = [asyncio.create_task(client(stop)) for client in clients]
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(*BETWEEN))
        await killer.kill()
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*running)
    return await wait_until_back(store)


def parse(what):
    """The options of a kill test."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


@contextlib.contextmanager
def two_nodes(seed):
    """Two Ray nodes on this machine; the killer of the second, and its random numbers."""
    rng = random.Random(seed)
    first = {"num_cpus": 1, "resources": {"first": 100}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=first)
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    try:
        yield Killer(cluster, rng), rng
    finally:
        ray.shutdown()
        cluster.shutdown()
