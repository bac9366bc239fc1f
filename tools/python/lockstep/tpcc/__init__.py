"""TPC-C in the process of a store, beside its reports: `python -m lockstep.tpcc`.

The transactions run in the procedure object liblockstep-tpcc-shard.so, in batches.
"""

from ._mix import Mix
from ._settings import Settings

__all__ = ["Mix", "Settings"]
