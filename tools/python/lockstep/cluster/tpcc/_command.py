"""`python -m lockstep.cluster tpcc`: loads shards, runs terminals, checks the conditions."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import ray

from ...tpcc._arguments import add_tpcc_options, seconds, whole
from ...tpcc._settings import Settings
from .._sharded import ShardedStore
from ._conditions import check
from ._procedures import make_procedures
from ._report import html_of, report_of, text_of
from ._run import measure


def add_parser(commands: Any) -> None:
    """Adds the command to the others of `python -m lockstep.cluster`."""
    one = commands.add_parser(
        "tpcc",
        help="TPC-C over shards, with the consistency conditions over all of them",
        description="Loads TPC-C into shards, runs terminals in batches, and checks all "
        "consistency conditions over all shards. Exit status 1: a transaction failed, or a "
        "condition does not hold.",
    )
    add_options(one)
    one.set_defaults(perform=perform)


def add_options(one: argparse.ArgumentParser) -> None:
    """The options of the command."""
    given = Settings()
    add_tpcc_options(one, given)
    add = one.add_argument
    add("--shards", type=whole, default=given.shards, help="at most one for each warehouse")
    add("--duration", dest="seconds", type=seconds, help=argparse.SUPPRESS)
    add("--warmup", type=seconds, default=given.warmup, help="seconds")
    add("--remote", choices=["standard", "0"], default="standard",
        help="shares of remote warehouses: the standard's, or none")  # fmt: skip
    add("--batch", type=whole, default=given.batch, help="transactions of a batch")
    add("--under-way", type=whole, default=given.under_way, help="batches of a shard at a time")
    add("--nodes", type=whole, default=1, help="Ray nodes, all on this machine")
    add("--address", help="of a Ray cluster that runs, in the place of --nodes")
    add("--path", help="directory of the stores, on each node; default: a temporary one")
    add("--html", metavar="FILE", help="the report as a page")


def contradiction(given: argparse.Namespace) -> str:
    """What no run can do; empty: nothing."""
    if given.seconds == 0:
        return "--seconds is more than 0"
    if given.shards > given.warehouses:
        return (
            f"--shards {given.shards} is more than --warehouses {given.warehouses}: each shard has"
            " a warehouse"
        )
    return ""


def check_files(given: argparse.Namespace) -> None:
    """Whether the reports can be written: a run may be long. Raises OSError."""
    for file in (given.json, given.html):
        if file:
            pathlib.Path(file).open("a").close()


def perform(given: argparse.Namespace) -> int:
    """Runs the command; its exit status."""
    if wrong := contradiction(given):
        print(f"lockstep.cluster: {wrong}", file=sys.stderr)
        return 1
    names = {field.name for field in dataclasses.fields(Settings)}
    settings = Settings(**{name: value for name, value in vars(given).items() if name in names})
    settings.remote = given.remote == "standard"
    try:
        settings.object_path()
        check_files(given)
    except OSError as error:
        print(f"lockstep.cluster: {error}", file=sys.stderr)
        return 1
    with contextlib.ExitStack() as stack:
        resources = stack.enter_context(start_ray(given.nodes, given.address))
        path = given.path or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="lockstep-tpcc-")
        )
        report = run(settings, path, resources)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report, indent=2) + "\n")
    if given.html:
        pathlib.Path(given.html).write_text(html_of(report) + "\n")
    print(text_of(report))
    return 0 if report["ok"] else 1


def run(
    settings: Settings, path: str, resources: tuple[dict[str, float], ...]
) -> dict[str, Any]:
    """Loads, runs and checks; the report. ray.init() has been called."""
    began = time.monotonic()
    with ShardedStore(
        path,
        procedures=make_procedures(settings),
        shards=settings.shards,
        name="tpcc",
        route=settings.shard_of,
        resources=resources,
        options=settings.store_options(),
        queue_max=1 << 20,
    ) as store:
        load_seconds = time.monotonic() - began
        print(f"{settings.warehouses} warehouses on {settings.shards} shards: open after"
              f" {load_seconds:.1f} s", flush=True)  # fmt: skip
        measured = measure(store, settings)
        return report_of(settings, measured, check(store, settings), load_seconds)


@contextlib.contextmanager
def start_ray(nodes: int, address: str | None) -> Iterator[tuple[dict[str, float], ...]]:
    """A Ray cluster, or the one at `address`; the resources that tie shards to nodes.

    Ray gives its workers a low priority (nice 15). A shard is not work in the background.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address:
        ray.init(address=address, **quiet)
        yield ({},)
        ray.shutdown()
        return
    if nodes == 1:
        ray.init("local", num_cpus=1, include_dashboard=False, **quiet)
        yield ({},)
        ray.shutdown()
        return
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "resources": {"node0": 1000}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for node in range(1, nodes):
        cluster.add_node(num_cpus=1, resources={f"node{node}": 1000})
    ray.init(address=cluster.address, **quiet)
    try:
        yield tuple({f"node{node}": 1} for node in range(nodes))
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> int:
    """The console script lockstep-tpcc-cluster."""
    parser = argparse.ArgumentParser("lockstep-tpcc-cluster")
    add_options(parser)
    return perform(parser.parse_args())
