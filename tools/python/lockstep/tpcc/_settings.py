"""The settings of a run, and what follows from them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from dataclasses import dataclass
from typing import Any

from .._options import Options

OBJECT = "liblockstep-tpcc-shard.so"
#: Bytes of a warehouse, of the rest of a shard, and of what a shard's rows grow in a second.
WAREHOUSE_BYTES, SHARD_BYTES, GROWTH_BYTES = 130 << 20, 128 << 20, 12 << 20


@dataclass
class Settings:
    """What the commands of TPC-C are told. A store alone has `shards=1`."""

    warehouses: int = 4
    shards: int = 2
    seconds: float = 10.0
    warmup: float = 1.0
    remote: bool = True
    batch: int = 64
    under_way: int = 2
    workers: int = 1
    durability: str = "durable"
    mix: str = "full"
    seed: int = 1
    items: int = 100_000
    customers: int = 3000
    undelivered: int = 900
    districts: int = 10
    ch: bool = False  # the tables of CH-benCHmark, too
    object: str = ""

    def object_path(self) -> str:
        """The procedure object. Raises FileNotFoundError."""
        places = [pathlib.Path(self.object)] if self.object else find_places()
        for place in places:
            if place.is_file():
                return str(place.resolve())
        looked = ", ".join(map(str, places))
        raise FileNotFoundError(f"{OBJECT} is not there; give --object PATH. Looked for: {looked}")

    def object_options(self, shard: int) -> str:
        """What the object of a shard, or the inputs of its terminals, get."""
        scale = ("warehouses", "districts", "customers", "undelivered", "items", "shards", "seed")
        ways = ("remote", "ch", "mix", "durability")
        given = {name: getattr(self, name) for name in scale + ways}
        return json.dumps({**given, "shard": shard})

    def shard_of(self, warehouse: int) -> int:
        """The shard of a warehouse, as the object has it."""
        return (warehouse * self.shards - 1) // self.warehouses

    def store_options(self) -> Options:
        """Of each shard: all of its rows fit into the pool, and the load into the log."""
        here = -(-self.warehouses // self.shards)
        part = self.districts * self.customers / 30_000 / 2 + self.items / 100_000 / 2
        data = int(here * WAREHOUSE_BYTES * part) + SHARD_BYTES
        grown = int(min(self.seconds + self.warmup, 120) * self.workers * GROWTH_BYTES)
        log = max(256 << 20, 2 * data)
        return {
            "workers": self.workers,
            "pool_bytes": data + grown,
            "log_bytes": (log + (64 << 20) - 1) // (64 << 20) * (64 << 20),
            "transactions_max": 2048,
        }

    def as_dict(self) -> dict[str, Any]:
        """For the report."""
        return dataclasses.asdict(self)


def find_places() -> list[pathlib.Path]:
    """Where the object may lie: beside the package, or where the package `tools` puts it."""
    package = pathlib.Path(__file__).resolve().parents[1]
    prefixes = [pathlib.Path(sys.prefix), pathlib.Path("/usr/local"), pathlib.Path("/usr")]
    folders = [package / "libs"]
    for prefix in prefixes:
        folders += sorted(prefix.glob("lib/*-linux-gnu/lockstep")) + [prefix / "lib/lockstep"]
    return [folder / OBJECT for folder in folders]
