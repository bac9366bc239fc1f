// secondary_index.cc - people by number, found by city and by e-mail address.
//
// The store keeps both secondary indexes up with every change of a person. The functions that
// compute their keys are attached again after each open: open_or_create_index() does both.
#include <lockstep/store.h>

#include <cstdio>
#include <string>

using namespace lockstep;

namespace {

// A value is "name|city|address".
Slice field(Slice value, int number) {
    for (; number > 0; --number) value.remove_prefix(value.find('|') + 1);
    return value.substr(0, value.find('|'));
}
void by_city(Slice, Slice value, SecondaryKeys& keys) { keys.add(field(value, 1)); }
// Without an address a person is not in the index.
void by_address(Slice, Slice value, SecondaryKeys& keys) {
    if (!field(value, 2).empty()) keys.add(field(value, 2));
}

struct People {
    Index people, city, address;
};

Result<People> open(Store& store, Txn& txn) {
    const Index people = LOCKSTEP_TRY(store.open_or_create_index(txn, "people"));
    const Index city =
        LOCKSTEP_TRY(store.open_or_create_index(txn, "city", {.of = people, .key = by_city}));
    const Index address = LOCKSTEP_TRY(store.open_or_create_index(
        txn, "address", {.of = people, .key = by_address, .unique = true}));
    return People{people, city, address};
}

Result<void> show(Store& store, Txn& txn) {
    const People all = LOCKSTEP_TRY(open(store, txn));
    LOCKSTEP_TRY(all.people.put(txn, Key().u32(1), "Ana|Lisbon|ana@example.org"));
    LOCKSTEP_TRY(all.people.put(txn, Key().u32(2), "Bo|Oslo|"));
    LOCKSTEP_TRY(all.people.put(txn, Key().u32(3), "Cid|Lisbon|cid@example.org"));
    LOCKSTEP_TRY(all.people.update(txn, Key().u32(2), "Bo|Lisbon|"));

    SecondaryCursor in_lisbon = find_by(txn, all.city, "Lisbon");
    while (LOCKSTEP_TRY(in_lisbon.next()))
        std::printf("%s lives in Lisbon\n", std::string(field(in_lisbon.value(), 0)).c_str());

    SecondaryRecord found;
    if (LOCKSTEP_TRY(get_by(txn, all.address, "cid@example.org", found)))
        std::printf("cid@example.org is %s's\n", std::string(field(found.value, 0)).c_str());

    // The statement is refused as a whole; the transaction goes on.
    const auto taken = all.people.put(txn, Key().u32(4), "Dan|Rome|ana@example.org");
    std::printf("%s\n", taken ? "taken twice" : "an address belongs to one person");
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    auto store = Store::open(argc > 1 ? argv[1] : "secondary_index.db");
    if (!store) return std::puts(store.error().text().c_str()), 1;
    const auto shown = store->run([&](Txn& txn) { return show(*store, txn); });
    if (!shown) return std::puts(shown.error().text().c_str()), 1;
    const auto faults = store->verify();
    return faults && faults->empty() ? 0 : 1;
}
