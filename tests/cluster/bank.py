"""bank - accounts over shards, and the rule that no money appears or disappears.

Each transfer has a number and writes a receipt on both shards, so that after crashes every
acknowledged transfer can be looked for.
"""

import os
import time

import leaving
import lockstep
from lockstep.cluster import Procedures
from ray import cloudpickle

# The procedures travel by value. So does what they use of other modules of these tests.
cloudpickle.register_pickle_by_value(leaving)
procedures = Procedures()
WRITE = lockstep.Access.WRITE


@procedures.local
def deposit(txn, objects, account, amount):
    accounts = objects.index("accounts")
    balance = int(txn.get(accounts, (account,), WRITE) or b"0") + amount
    txn.put(accounts, (account,), str(balance))
    return balance


@procedures.local
def fill(txn, objects, first, count, size):
    """Puts records that nothing else touches, different ones each time."""
    filler = objects.index("filler")
    for number in range(first, first + count):
        txn.put(filler, (number,), os.urandom(size))


@procedures.local
def take_part(txn, objects, account, amount, receipt):
    txn.insert(objects.index("receipts"), (account, receipt), str(amount))
    return deposit(txn, objects, account, amount)


@procedures.local
def leave(txn, objects, account, how):
    """Changes the account, and ends in one of the ways of leaving.py."""
    deposit(txn, objects, account, 1)
    leaving.WAYS[how]()


@procedures.local
def balance(txn, objects, account):
    return int(txn.get(objects.index("accounts"), (account,)) or b"0")


@procedures.local
def wait_for_file(txn, objects, account, path):
    """Makes `path`.begun, and stays open until the file `path` is there, a minute at most."""
    open(path + ".begun", "w").close()
    until = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.02)
    return balance(txn, objects, account)


@procedures.local
def everything(txn, objects):
    accounts = {lockstep.unpack_key(k, int)[0]: int(v) for k, v in
                txn.scan(objects.index("accounts"))}
    receipts = {lockstep.unpack_key(k, int, int): int(v) for k, v in
                txn.scan(objects.index("receipts"))}
    return accounts, receipts


@procedures.local
def decisions(txn, objects):
    return len(list(txn.scan(objects.index("lockstep.decisions"))))


@procedures.cross_shard
async def transfer(txn, source, target, amount, receipt):
    left = await txn.call(source, "take_part", source, -amount, receipt)
    if left < 0:
        raise ValueError("not enough money")
    await txn.call(target, "take_part", target, amount, receipt)
    return left


@procedures.cross_shard
async def transfer_decided_there(txn, source, target, amount, receipt):
    """transfer(), which the target's shard decides."""
    txn.decide_at(target)
    left = await txn.call(source, "take_part", source, -amount, receipt, last=True)
    if left < 0:
        raise ValueError("not enough money")
    await txn.finish("take_part", target, amount, receipt)
    return left


@procedures.cross_shard
async def leave_on_the_way(txn, account, how):
    await txn.call(account, "deposit", account, 1)
    leaving.WAYS[how]()


@procedures.cross_shard
async def leave_on_a_shard(txn, account, how):
    await txn.call(account + 1, "deposit", account + 1, 1)
    await txn.call(account, "leave", account, how)


@procedures.cross_shard
async def total(txn, accounts):
    return sum([await txn.call(account, "balance", account) for account in accounts])
