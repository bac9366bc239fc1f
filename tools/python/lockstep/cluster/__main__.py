"""python -m lockstep.cluster: looks at a sharded store, and runs TPC-C on one.

    python -m lockstep.cluster status [--name NAME] [--address ADDRESS] [--json]
    python -m lockstep.cluster metrics --shard NUMBER
    python -m lockstep.cluster tpcc [options]

Exit status 1: no such sharded store is running, a process does not answer, or TPC-C has failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import ray

from ._actors import NAMESPACE
from .tpcc._command import add_parser

WAIT = 10.0
COLUMNS = ("runs", "steps", "prepared", "wounded", "resolved", "open_branches", "in_doubt")


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; its exit status."""
    assert __doc__
    parser = argparse.ArgumentParser(
        "python -m lockstep.cluster", description=__doc__.split("\n")[0].partition(": ")[2]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="processes, nodes, and what is in doubt")
    status.add_argument("--json", action="store_true", help="one JSON object")
    metrics = commands.add_parser("metrics", help="a shard's metrics in Prometheus' format")
    metrics.add_argument("--shard", type=int, required=True)
    for command in (status, metrics):
        command.add_argument("--name", default="default", help="of the sharded store")
        command.add_argument("--address", default="auto", help="of the Ray cluster")
    add_parser(commands)
    given = parser.parse_args(arguments)
    if given.command == "tpcc":
        status_of_run: int = given.perform(given)
        return status_of_run
    try:
        ray.init(address=given.address, logging_level="ERROR", log_to_driver=False)
        if given.command == "metrics":
            shard = ray.get_actor(f"{given.name}/shard-{given.shard}", namespace=NAMESPACE)
            print(ray.get(shard.metrics.remote(), timeout=WAIT), end="")
            return 0
        found = look(given.name)
    except (ConnectionError, ValueError, ray.exceptions.RayError, TimeoutError) as error:
        print(f"lockstep.cluster: {given.name}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found) if given.json else text(found))
    return 0


def look(name: str) -> dict[str, Any]:
    """What every process says of itself. Raises ValueError if there is no such sharded store."""
    coordinator = ray.get_actor(f"{name}/coordinator", namespace=NAMESPACE)
    first: dict[str, Any] = ray.get(coordinator.status.remote(), timeout=WAIT)
    shards = [
        ray.get_actor(f"{name}/shard-{number}", namespace=NAMESPACE).status.remote()
        for number in range(first["shards"])
    ]
    return {"coordinator": first, "shards": ray.get(shards, timeout=WAIT)}


def text(found: dict[str, Any]) -> str:
    """The same as a table."""
    one = found["coordinator"]
    lines = [
        f"coordinator: pid {one['pid']} on {one['node'][:8]}; {one['committed']} committed,"
        f" {one['repeated']} repeated, {one['active']} under way,"
        f" {one['undelivered']} decisions not delivered",
        f"{'shard':>5} {'node':>8} {'pid':>8} "
        + " ".join(f"{name.replace('_', ' '):>13}" for name in COLUMNS)
        + f" {'oldest s':>9}",
    ]
    for shard in found["shards"]:
        lines.append(
            f"{shard['shard']:>5} {shard['node'][:8]:>8} {shard['pid']:>8} "
            + " ".join(f"{shard[name]:>13}" for name in COLUMNS)
            + f" {shard['in_doubt_age_seconds']:>9.1f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
