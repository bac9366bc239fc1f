"""reports - the program of the tutorial on SQL over live data: orders come in, reports see them.

The comments with arrows mark the parts that the tutorial shows.
"""

import random
import struct
import sys
import threading

import lockstep
from lockstep import U8, U32, Index, Store

# --8<-- [start:describe]
ORDERS = """
shop    u8          key
number  u32         key
placed  time_s      value 0
price   decimal(2)  value 8
item    text8       value 16
"""


def make(store: Store) -> Index:
    orders = store.index("orders", create=True)
    store.describe("orders", ORDERS)
    return orders


# --8<-- [end:describe]


# --8<-- [start:record]
def record(placed: int, cents: int, item: str) -> bytes:
    name = item.encode()
    return struct.pack("<qqB", placed, cents, len(name)) + name


# --8<-- [end:record]

ITEMS = (("bread", 320), ("cheese", 845), ("tea", 499))
BEGIN = 1_780_000_000  # 2026-05-28, in seconds since 1970


# --8<-- [start:write]
def sell(store: Store, orders: Index, shop: int, count: int) -> None:
    """Each order is a transaction, as in an application that serves customers."""
    chance = random.Random(shop)
    for number in range(count):
        item, cents = chance.choice(ITEMS)

        value = record(BEGIN + 60 * number, cents, item)
        with store.transaction(durability="lazy") as txn:
            txn.insert(orders, (U8(shop), U32(number)), value)


# --8<-- [end:write]


# --8<-- [start:sql]
def ask(store: Store) -> None:
    with store.report(max_age=1.0) as report:
        revenue = report.sql(
            "select item, count(*), sum(price) from orders group by item order by item"
        )
        largest = report.sql("select max(number) from orders where shop = 1")
    for item, count, total in revenue.fetchall():
        print(f"{item}: {count} orders, {total}")
    print("last order of shop 1:", largest.fetchall()[0][0])


# --8<-- [end:sql]


# --8<-- [start:frame]
def hours(store: Store) -> None:
    import polars

    with store.report() as report:
        per_hour = (
            report.frame("orders")
            .filter(polars.col("item") == "tea")  # only what the scan needs is read
            .group_by(polars.col("placed").dt.truncate("1h"))
            .agg(polars.col("price").sum())
            .sort("placed")
            .collect()
        )
    print("hours with tea:", per_hour.height)


# --8<-- [end:frame]


# --8<-- [start:plot]
def plot(store: Store, path: str) -> None:
    import matplotlib.pyplot
    import pandas

    with store.report() as report:
        sold = pandas.DataFrame.from_arrow(report.table("orders", ["shop", "placed"]))
    axes = sold.groupby([sold.placed.dt.floor("1h"), "shop"]).size().unstack().plot()
    axes.set_ylabel("orders an hour")
    matplotlib.pyplot.savefig(path)


# --8<-- [end:plot]


def main(path: str, picture: str, count: int = 2000) -> None:
    with lockstep.open(path, workers=2) as store:
        orders = make(store)
        # --8<-- [start:beside]
        shops = [
            threading.Thread(target=sell, args=(store, orders, shop, count)) for shop in (1, 2)
        ]
        for thread in shops:
            thread.start()
        seen = []
        while any(thread.is_alive() for thread in shops):
            with store.report() as report:
                seen.append(report.sql("select count(*) from orders").fetchall()[0][0])
        # --8<-- [end:beside]
        for thread in shops:
            thread.join()
        assert seen == sorted(seen)  # each report sees what those before have seen
        ask(store)
        hours(store)
        plot(store, picture)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
