"""The transactions over several shards. They run in the coordinator; their steps in the object."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._coordinator import GlobalTransaction
    from .._procedures import Procedures
    from ...tpcc._settings import Settings


async def tpcc_new_order(
    txn: GlobalTransaction, home: int, others: Sequence[int], packet: bytes
) -> None:
    """The stock of other shards first, side by side; then the order, whose shard decides.

    Raises ProcedureError with the code -1 if the input demands a rollback.
    """
    txn.decide_at(home)
    replies = await asyncio.gather(
        *(txn.call(other, "tpcc.stock", packet, last=True) for other in others),
        return_exceptions=True,
    )
    request = struct.pack("<H", len(packet)) + packet
    for reply in replies:  # all of them have ended now
        if isinstance(reply, BaseException):
            raise reply
        request += reply
    await txn.finish("tpcc.new_order", request)


async def tpcc_payment(
    txn: GlobalTransaction, home: int, others: Sequence[int], packet: bytes
) -> None:
    """The customer first; then the warehouse, whose shard decides: all its payments change it."""
    txn.decide_at(home)
    customer = await txn.call(others[0], "tpcc.pay_customer", packet, last=True)
    await txn.finish("tpcc.payment", struct.pack("<H", len(packet)) + packet + customer)


def make_procedures(settings: Settings) -> Procedures:
    """All that the shards and the coordinator need."""
    from .._procedures import Procedures

    made = Procedures()
    made.library(settings.object_path(), settings.object_options)
    made.cross_shard(tpcc_new_order)
    made.cross_shard(tpcc_payment)
    return made
