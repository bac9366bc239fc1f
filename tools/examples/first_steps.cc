#include <lockstep/store.h>

#include <cstdio>

int main(int argc, char** argv) {
    auto store = lockstep::Store::open(argc > 1 ? argv[1] : "first_steps.db");
    if (!store) return std::puts(store.error().text().c_str()), 1;
    auto cities =
        store->run([&](lockstep::Txn& txn) { return store->open_or_create_index(txn, "cities"); });
    if (!cities) return std::puts(cities.error().text().c_str()), 1;
    std::string country;
    if (!cities->put("Lisbon", "Portugal")) return 1;
    if (!cities->get("Lisbon", country).value_or(false)) return 1;
    std::printf("Lisbon is in %s\n", country.c_str());
}
