import sys

import lockstep

with lockstep.open(sys.argv[1] if len(sys.argv) > 1 else "first_steps.db") as store:
    cities = store.index("cities", create=True)
    with store.transaction() as txn:
        txn.put(cities, "Lisbon", "Portugal")
    with store.snapshot() as txn:
        for city, country in txn.scan(cities):
            print(f"{city.decode()} is in {country.decode()}")
