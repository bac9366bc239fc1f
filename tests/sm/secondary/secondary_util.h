// secondary_util.h - a store with the index "i" and a secondary index "s" of the first field of its
// values.
#pragma once

#include <set>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep {

// The first field of a value ends at '|' and is a list with commas. An empty list: no entry.
inline void first_field(Slice, Slice value, SecondaryKeys& keys) {
    Slice field = value.substr(0, value.find('|'));
    while (!field.empty()) {
        const size_t comma = field.find(',');
        keys.add(field.substr(0, comma));
        field.remove_prefix(comma == Slice::npos ? field.size() : comma + 1);
    }
}

class SecondaryStore : public StoreCrash {
protected:
    using Pairs = std::set<std::pair<std::string, std::string>>;  // secondary key, primary key

    static Result<void> make_primary(Store& store) {
        return store.run([&](Txn& txn) -> Result<void> {
            LOCKSTEP_TRY(store.create_index(txn, "i"));
            return {};
        });
    }
    static Result<Index> make_secondary(Store& store, Txn& txn, bool unique = false,
                                        const char* name = "s") {
        return store.create_index(
            txn, name,
            {.of = LOCKSTEP_TRY(store.index(txn, "i")), .key = first_field, .unique = unique});
    }
    Store open_both(const char* name = "a", bool unique = false, uint32_t workers = 1) {
        Store store = open(name, small_options(workers));
        EXPECT_TRUE(make_primary(store));
        const auto made = store.run([&](Txn& txn) -> Result<void> {
            LOCKSTEP_TRY(make_secondary(store, txn, unique));
            return {};
        });
        EXPECT_TRUE(made) << made.error().text();
        return store;
    }
    // As the cursor gives them; each value must be the record's.
    static Result<Pairs> pairs_of(Store& store, Txn& txn, const char* name = "s") {
        Pairs pairs;
        std::string last;
        SecondaryCursor cursor = scan_by(txn, LOCKSTEP_TRY(store.index(txn, name)));
        while (LOCKSTEP_TRY(cursor.next())) {
            EXPECT_LE(last, cursor.secondary_key());
            last = cursor.secondary_key();
            EXPECT_TRUE(pairs.emplace(cursor.secondary_key(), cursor.key()).second);
            std::string value;
            EXPECT_TRUE(*LOCKSTEP_TRY(store.index(txn, "i")).get(txn, cursor.key(), value));
            EXPECT_EQ(value, cursor.value());
        }
        return pairs;
    }
    static Pairs pairs_of(Store& store, const char* name = "s") {
        Pairs pairs;
        const auto done = store.run([&](Txn& txn) -> Result<void> {
            pairs = LOCKSTEP_TRY(pairs_of(store, txn, name));
            return {};
        });
        EXPECT_TRUE(done) << done.error().text();
        return pairs;
    }
};

}  // namespace lockstep
