"""Arguments of the commands that run TPC-C."""

from __future__ import annotations

import argparse
import math

from ._settings import Settings

SECONDS_MAX = 10_000_000


def add_tpcc_options(one: argparse.ArgumentParser, given: Settings) -> None:
    """The options of the tables and the terminals, with their defaults."""
    add = one.add_argument
    add("--warehouses", type=whole, default=given.warehouses)
    add("--seconds", type=seconds, default=given.seconds, help="measured")
    add("--workers", type=whole, default=given.workers, help="of each store")
    add("--durability", choices=["durable", "lazy"], default=given.durability,
        help="of the transactions of one store; those over shards are durable")  # fmt: skip
    add("--mix", choices=["full", "without_delivery", "new_order", "payment"], default=given.mix)
    add("--seed", type=int, default=given.seed, help="of the load and the inputs")
    for name in ("items", "customers", "undelivered", "districts"):
        add(f"--{name}", type=whole, default=getattr(given, name), help="smaller: not TPC-C")
    add("--object", default="", help="path of liblockstep-tpcc-shard.so")
    add("--json", metavar="FILE", help="the report")


def whole(text: str) -> int:
    """A number of things. Raises argparse.ArgumentTypeError."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time. Raises argparse.ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= SECONDS_MAX:
        what = f"{text!r} is not a number of seconds from 0 to {SECONDS_MAX}"
        raise argparse.ArgumentTypeError(what)
    return number
