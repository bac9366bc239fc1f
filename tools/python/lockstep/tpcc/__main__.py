"""python -m lockstep.tpcc: TPC-C in the process of a store, beside its reports.

    python -m lockstep.tpcc ch [options]           CH-benCHmark's queries by DuckDB
    python -m lockstep.tpcc dashboard [options]    a page with live figures

Needs the extra `reports` of the package, and liblockstep-tpcc-shard.so (--object).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import tempfile

from .._errors import Error
from . import _ch, _dashboard
from ._arguments import add_tpcc_options
from ._settings import Settings

GIVEN = Settings(warehouses=1, shards=1, workers=2, durability="lazy", ch=True)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; its exit status."""
    assert __doc__
    parser = argparse.ArgumentParser(
        "python -m lockstep.tpcc", description=__doc__.split("\n")[0].partition(": ")[2]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for module in (_ch, _dashboard):
        one = module.add_parser(commands)
        add_tpcc_options(one, GIVEN)
        one.add_argument("--path", help="directory of the store; default: a temporary one")
    given = parser.parse_args(arguments)
    names = {field.name for field in dataclasses.fields(Settings)}
    told = {name: value for name, value in vars(given).items() if name in names}
    settings = dataclasses.replace(GIVEN, **told)
    try:
        settings.object_path()
        with contextlib.ExitStack() as stack:
            given.path = given.path or stack.enter_context(
                tempfile.TemporaryDirectory(prefix="lockstep-tpcc-")
            )
            status: int = given.perform(given, settings)
            return status
    except (Error, OSError, ModuleNotFoundError) as error:
        print(f"lockstep.tpcc: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
