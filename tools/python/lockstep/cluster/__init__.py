"""Stores on several machines: shards as Ray actors, two-phase commit between them.

    import lockstep
    import ray
    from lockstep.cluster import Procedures, ShardedStore

    procedures = Procedures()

    @procedures.local
    def add(txn, objects, account, amount):
        accounts = objects.index("accounts")
        balance = int(txn.get(accounts, account, lockstep.Access.WRITE) or b"0") + amount
        txn.put(accounts, account, str(balance))
        return balance

    @procedures.cross_shard
    async def transfer(txn, source, target, amount):
        await txn.call(source, "add", source, -amount)
        await txn.call(target, "add", target, amount)

    ray.init()
    with ShardedStore("bank", procedures=procedures, shards=4) as store:
        store.call("alice", "add", "alice", 100)
        store.run("transfer", "alice", "bob", 30)

Needs Ray: `pip install './tools/python[cluster]'` in the source brings both.
"""

from ._backup import ClusterBackup, restore
from ._coordinator import GlobalTransaction
from ._errors import (
    BadBackup,
    BranchLost,
    ClusterError,
    NoSuchProcedure,
    NotQuiet,
    OutcomeUnknown,
    Overloaded,
    ProcedureError,
    ProcedureLeft,
    ResultLost,
    ShardUnavailable,
    Wounded,
)
from ._library import Outcomes
from ._procedures import Objects, Procedures
from ._sharded import ShardedStore

__all__ = [
    "BadBackup",
    "BranchLost",
    "ClusterBackup",
    "ClusterError",
    "GlobalTransaction",
    "NoSuchProcedure",
    "NotQuiet",
    "Objects",
    "OutcomeUnknown",
    "Outcomes",
    "Overloaded",
    "ProcedureError",
    "ProcedureLeft",
    "Procedures",
    "ResultLost",
    "ShardUnavailable",
    "ShardedStore",
    "Wounded",
    "restore",
]
