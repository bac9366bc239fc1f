#include <lockstep/store.h>

#include <cstdio>

using namespace lockstep;

int main(int argc, char** argv) {
    auto store = Store::open(argc > 1 ? argv[1] : "first_steps.db");
    if (!store) return std::puts(store.error().text().c_str()), 1;

    auto written = store->run([&](Txn& txn) -> Result<void> {
        Index cities = LOCKSTEP_TRY(store->open_or_create_index(txn, "cities"));
        return cities.put(txn, "Lisbon", "Portugal");
    });
    if (!written) return std::puts(written.error().text().c_str()), 1;

    auto country = store->run([&](Txn& txn) -> Result<std::string> {
        std::string value;
        LOCKSTEP_TRY(LOCKSTEP_TRY(store->index("cities")).get(txn, "Lisbon", value));
        return value;
    });
    return std::printf("Lisbon is in %s\n", country ? country->c_str() : "?") > 0 && country ? 0
                                                                                             : 1;
}
