"""python -m lockstep.cluster: looks at a sharded store, and runs TPC-C on one.

    python -m lockstep.cluster status [--name NAME] [--address ADDRESS] [--json]
    python -m lockstep.cluster metrics --shard NUMBER
    python -m lockstep.cluster backup TO [--patience SECONDS]
    python -m lockstep.cluster restore BACKUP DIRECTORY [--part NAME ...]
    python -m lockstep.cluster tpcc [options]

Exit status 1: no such sharded store is running, a process does not answer, the backup or the
restore has failed, or TPC-C has.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import ray

from .._errors import Error
from ._actors import NAMESPACE
from ._backup import restore, take
from ._errors import ClusterError
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
    backup = commands.add_parser("backup", help="copies all stores as they are at one point")
    backup.add_argument("to", metavar="TO", help="a directory on every node")
    backup.add_argument("--patience", type=float, default=10.0, metavar="SECONDS",
                        help="for what is under way to end (default: 10)")  # fmt: skip
    back = commands.add_parser("restore", help="puts a backup into a directory")
    back.add_argument("backup", metavar="BACKUP")
    back.add_argument("directory", metavar="DIRECTORY", help="of the new sharded store")
    back.add_argument("--part", action="append", metavar="NAME",
                      help="only this part, such as shard-0; may be repeated")  # fmt: skip
    for command in (status, metrics, backup):
        command.add_argument("--name", default="default", help="of the sharded store")
        command.add_argument("--address", default="auto", help="of the Ray cluster")
    add_parser(commands)
    given = parser.parse_args(arguments)
    if given.command == "tpcc":
        status_of_run: int = given.perform(given)
        return status_of_run
    try:
        if given.command == "restore":
            parts = restore(given.backup, given.directory, parts=given.part)
            print(f"restored {', '.join(parts)} in {given.directory}")
            return 0
        ray.init(address=given.address, logging_level="ERROR", log_to_driver=False)
        if given.command == "metrics":
            shard = ray.get_actor(f"{given.name}/shard-{given.shard}", namespace=NAMESPACE)
            print(ray.get(shard.metrics.remote(), timeout=WAIT), end="")
        elif given.command == "backup":
            taken = take(*actors(given.name), given.to, given.patience)
            print(f"{', '.join(taken.parts)} in {given.to}; pause {taken.pause_seconds:.2f} s")
        else:
            found = look(given.name)
            print(json.dumps(found) if given.json else text(found))
    except (OSError, ValueError, Error, ClusterError, ray.exceptions.RayError) as error:
        print(f"lockstep.cluster: {given.command}: {error}", file=sys.stderr)
        return 1
    return 0


def look(name: str) -> dict[str, Any]:
    """What every process says of itself. Raises ValueError if there is no such sharded store."""
    coordinator, shards = actors(name)
    return {
        "coordinator": ray.get(coordinator.status.remote(), timeout=WAIT),
        "shards": ray.get([shard.status.remote() for shard in shards], timeout=WAIT),
    }


def actors(name: str) -> tuple[Any, list[Any]]:
    """The coordinator and the shards. Raises ValueError if there is no such sharded store."""
    coordinator = ray.get_actor(f"{name}/coordinator", namespace=NAMESPACE)
    shards: int = ray.get(coordinator.status.remote(), timeout=WAIT)["shards"]
    return coordinator, [
        ray.get_actor(f"{name}/shard-{number}", namespace=NAMESPACE) for number in range(shards)
    ]


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
