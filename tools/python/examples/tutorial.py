"""tutorial - the program of the tutorial: keeps measurements of sensors, and reads them.

The comments with arrows mark the parts that the tutorial shows.
"""

import asyncio
import sys

import lockstep
from lockstep import AsyncTransaction, Index, Store, Transaction


# --8<-- [start:keys]
# A tuple is a key whose bytes sort as its parts do: first by sensor, then by time.
def place(sensor: int, time: int) -> tuple[int, int]:
    return (sensor, time)


# --8<-- [end:keys]


# --8<-- [start:write]
def add(txn: Transaction) -> Index:
    values = txn.index("values", create=True)
    for sensor in (1, 2, 3):
        for time in range(10):
            txn.put(values, place(sensor, time), str(sensor * 100 + time))
    return values


# --8<-- [end:write]


# --8<-- [start:read]
def read(store: Store, values: Index) -> None:
    with store.transaction(read_only=True) as txn:
        value = txn.get(values, place(2, 7))
        if value is not None:
            print("sensor 2 at 7:", value.decode())
        # All of sensor 3 from time 8 on. The end of the range is not part of it.
        for key, value in txn.scan(values, place(3, 8), place(4, 0)):
            sensor, time = lockstep.unpack_key(key, int, int)
            print(f"sensor {sensor} at {time}: {value.decode()}")


# --8<-- [end:read]


# --8<-- [start:savepoint]
def correct(store: Store, values: Index) -> None:
    with store.transaction() as txn:
        txn.update(values, place(1, 0), "corrected")
        before = txn.savepoint()
        txn.erase(values, place(1, 1))
        txn.rollback_to(before)  # the erase is undone, the update stays


# --8<-- [end:savepoint]


# --8<-- [start:errors]
# An exception that leaves the block rolls back. Each error has a class of its own.
def refused(store: Store, values: Index) -> None:
    try:
        with store.transaction() as txn:
            txn.insert(values, place(1, 0), "again")
    except lockstep.DuplicateKey as error:
        print("refused:", error)


# --8<-- [end:errors]


# --8<-- [start:snapshot]
# A snapshot reads one moment. It takes no lock and waits for no transaction.
def count(store: Store, values: Index) -> int:
    with store.snapshot() as txn:
        return sum(1 for _ in txn.scan(values))


# --8<-- [end:snapshot]


# --8<-- [start:concurrent]
# A hundred transactions at once on one thread. run_async() repeats deadlock victims.
async def add_at_once(store: Store, values: Index) -> None:
    async def add_one(time: int) -> None:
        async def put(txn: AsyncTransaction) -> None:
            await txn.put(values, place(9, time), "at once")

        await store.run_async(put)

    await asyncio.gather(*(add_one(time) for time in range(100)))


# --8<-- [end:concurrent]


# --8<-- [start:backup]
def back_up(store: Store, directory: str) -> None:
    made = store.backup(directory)
    print("backup of", made.pages, "pages")
    for fault in lockstep.verify_backup(directory):
        print(fault)


# --8<-- [end:backup]


# --8<-- [start:main]
def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else "tutorial.db"
    with lockstep.open(directory) as store:
        values = store.run(add)
        read(store, values)
        correct(store, values)
        refused(store, values)
        asyncio.run(add_at_once(store, values))
        print(count(store, values), "values")
        back_up(store, directory + ".backup")


if __name__ == "__main__":
    main()
# --8<-- [end:main]
