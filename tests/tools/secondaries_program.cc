// secondaries_program.cc - a store with secondary indexes, for secondaries_test.py.
//
// The arguments are the store's directory and a number of records. The program opens or makes the
// index people and its secondary indexes city and address, and adds as many records. Then it prints
// the records of each index and checks the store. Its exit status is 0 if the store is sound.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <lockstep/store.h>
#include "threads/base/try.h"

using namespace lockstep;

namespace {

// A value is "city|address|text".
Slice field(Slice value, int number) {
    for (; number > 0; --number) value.remove_prefix(value.find('|') + 1);
    return value.substr(0, value.find('|'));
}
void by_city(Slice, Slice value, SecondaryKeys& keys) { keys.add(field(value, 0)); }
void by_address(Slice, Slice value, SecondaryKeys& keys) {
    if (!field(value, 1).empty()) keys.add(field(value, 1));
}

Result<void> fill(Store& store, Txn& txn, uint32_t records) {
    const Index people = TRY(store.open_or_create_index(txn, "people"));
    const Index city = TRY(store.open_or_create_index(txn, "city", {.of = people, .key = by_city}));
    const Index address = TRY(store.open_or_create_index(
        txn, "address", {.of = people, .key = by_address, .unique = true}));
    for (uint32_t n = 0; n < records; ++n) {
        const std::string number = std::to_string(n),
                          mail = n % 3 == 0 ? "" : number + "@example.org";
        TRY(people.insert(
            txn, Key().u32(n),
            "city " + std::to_string(n % 37) + "|" + mail + "|" + std::string(n % 100, 'x')));
    }
    size_t found[2] = {0, 0};
    for (SecondaryCursor at = scan_by(txn, city); TRY(at.next());) ++found[0];
    for (SecondaryCursor at = scan_by(txn, address); TRY(at.next());) ++found[1];
    std::printf("city %zu address %zu\n", found[0], found[1]);
    return {};
}

Result<bool> run(const char* directory, uint32_t records) {
    Options options;
    options.workers = 1;
    Store store = TRY(Store::open(directory, options));
    TRY(store.run([&](Txn& txn) { return fill(store, txn, records); }));
    const auto faults = TRY(store.verify());
    for (const std::string& fault : faults) std::fprintf(stderr, "%s\n", fault.c_str());
    TRY(store.close());
    return faults.empty();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const auto sound = run(argv[1], static_cast<uint32_t>(std::atoi(argv[2])));
    if (!sound.has_value()) std::fprintf(stderr, "%s\n", sound.error().text().c_str());
    return sound.has_value() && *sound ? 0 : 1;
}
