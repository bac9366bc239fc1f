"""cities - from a CSV file to a table and a plot, as one would work in a notebook.

Usage: cities.py [DIRECTORY]. The cells load a CSV file with a progress bar, read a snapshot into a
pandas DataFrame while a writer goes on, and draw a plot into cities.png. Needs tqdm, pandas and
matplotlib.
"""

# %% A CSV file of cities with their temperatures by month; here it is made first.
import csv
import itertools
import math
import pathlib
import random
import sys
import tempfile

import lockstep
import matplotlib
import pandas
from tqdm import tqdm

matplotlib.use("Agg")
directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
CITIES = {"Lisbon": 17.5, "Oslo": 6.3, "Quito": 14.0, "Nairobi": 18.8, "Sydney": 18.2}
chance = random.Random(7)
with open(directory / "cities.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["city", "year", "month", "degrees"])
    for city, mean in CITIES.items():
        for year, month in itertools.product(range(1900, 2000), range(1, 13)):
            season = 8 * math.cos((month - 7) * math.pi / 6)
            writer.writerow([city, year, month, f"{mean + season + chance.gauss(0, 1):.2f}"])

# %% Load it, 1000 rows a transaction.
store = lockstep.open(directory / "cities.db")
degrees = store.index("degrees", create=True)
total = sum(1 for _ in open(directory / "cities.csv")) - 1
with open(directory / "cities.csv", newline="") as file, tqdm(total=total, unit="row") as bar:
    rows = csv.DictReader(file)
    while part := list(itertools.islice(rows, 1000)):
        with store.transaction(durability="lazy") as txn:
            txn.insert_many(
                degrees,
                [
                    ((row["city"], int(row["year"]), int(row["month"])), row["degrees"])
                    for row in part
                ],
            )
        bar.update(len(part))
store.wait_durable(txn.lsn)

# %% A snapshot as a DataFrame. What is committed meanwhile does not appear in it.
with store.snapshot() as now:
    with store.transaction() as txn:
        txn.put(degrees, ("Oslo", 2000, 1), "-40.0")
    table = pandas.DataFrame(
        (
            (*lockstep.unpack_key(key, str, int, int), float(bytes(value)))
            for key, value in now.scan_views(degrees)
        ),
        columns=["city", "year", "month", "degrees"],
    )
assert len(table) == total
print(table.groupby("city")["degrees"].describe().round(1))

# %% One city only, by the first part of the key.
with store.snapshot() as now:
    quito = [float(value) for _, value in now.scan(degrees, prefix=("Quito",))]
print(f"Quito: {len(quito)} months, {sum(quito) / len(quito):.1f} degrees on average")

# %% Plot the mean of each month.
means = table.pivot_table(index="month", columns="city", values="degrees", aggfunc="mean")
axes = means.plot(figsize=(8, 4), ylabel="degrees", title="Mean temperature by month")
axes.figure.tight_layout()
axes.figure.savefig(directory / "cities.png")
print(directory / "cities.png")
store.close()
