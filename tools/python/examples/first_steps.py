import sys

import lockstep

with lockstep.open(sys.argv[1] if len(sys.argv) > 1 else "first_steps.db") as store:
    cities = store.index("cities", create=True)
    cities["Lisbon"] = "Portugal"
    for city, country in cities.items():
        print(f"{city.decode()} is in {country.decode()}")
