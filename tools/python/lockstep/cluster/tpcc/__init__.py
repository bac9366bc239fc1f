"""TPC-C on the shards of lockstep.cluster: `python -m lockstep.cluster tpcc`.

Warehouses are spread over shards, ITEM is on each. Transactions of one shard run in the procedure
object liblockstep-tpcc-shard.so, in batches. New-Orders and Payments that touch a warehouse of
another shard are transactions over shards, whose steps run in the object.
"""

from ._conditions import check
from ._procedures import make_procedures
from ._run import Measured, measure
from ...tpcc._settings import Settings

__all__ = ["Measured", "Settings", "check", "make_procedures", "measure"]
