// tables.cc - fills REGION, NATION and SUPPLIER.
#include "tpcc/ch/tables.h"

#include <fmt/format.h>

#include <functional>

#include "threads/base/check.h"
#include "threads/base/try.h"
#include "tpcc/columns.h"

namespace lockstep::tpcc::ch {

namespace {

constexpr TableColumns kRegion = {"region", R"(
r_regionkey u8 key
r_name text8 value 0)"};
constexpr TableColumns kNation = {"nation", R"(
n_nationkey u8 key
n_regionkey u8 value 0
n_name text8 value 1)"};
constexpr TableColumns kSupplier = {"supplier", R"(
su_suppkey u32 key
su_nationkey u8 value 0
su_acctbal decimal(2) value 1
su_name text8 value 9
su_comment text8 value 28)"};

constexpr const char* kRegionNames[kRegions] = {"Africa", "America", "Asia", "Europe", "Oceania"};

uint8_t nation_key(uint32_t number) {
    DCHECK(number < kNations);
    if (number < 10) return static_cast<uint8_t>('0' + number);
    if (number < 36) return static_cast<uint8_t>('A' + number - 10);
    return static_cast<uint8_t>('a' + number - 36);
}

std::string text8(const std::string& text) {
    DCHECK(text.size() < 256);
    return std::string(1, static_cast<char>(text.size())) + text;
}

// Row `number`, from 0, of a table.
using MakeRow = std::function<void(uint32_t number, RowKey& key, std::string& value)>;

Result<void> fill(Store& store, const TableColumns& table, uint32_t rows, const MakeRow& make) {
    const auto body = [&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.create_index(txn, table.table));
        TRY(store.describe(txn, table.table, table.text));
        uint32_t number = 0;
        RowKey key;
        std::string row;
        return store.bulk_load(txn, index, [&](Slice& k, Slice& value) {
            if (number == rows) return false;
            key = RowKey();
            row.clear();
            make(number++, key, row);
            k = key;
            value = row;
            return true;
        });
    };
    return store.run(body);
}

void make_supplier(uint32_t number, uint64_t seed, RowKey& key, std::string& value) {
    Rng rng = Rng(seed).fork(number);
    key.u32(number);
    value.push_back(static_cast<char>(nation_key(static_cast<uint32_t>(rng.below(kNations)))));
    const int64_t balance = rng.between(-99'999, 999'999);
    value.append(reinterpret_cast<const char*>(&balance), sizeof balance);
    value += text8(fmt::format("Supplier#{:09}", number));
    value += text8(rng.chance(0.01) ? "Customer Complaints" : "reliable");
}

}  // namespace

Result<void> load_tables(Store& store, uint64_t seed) {
    if (store.index(kSupplier.table)) return {};
    TRY(fill(store, kRegion, kRegions, [](uint32_t number, RowKey& key, std::string& value) {
        key.u8(static_cast<uint8_t>(number));
        value = text8(kRegionNames[number]);
    }));
    TRY(fill(store, kNation, kNations, [](uint32_t number, RowKey& key, std::string& value) {
        key.u8(nation_key(number));
        value.push_back(static_cast<char>(number % kRegions));
        value += text8(fmt::format("Nation {}", static_cast<char>(nation_key(number))));
    }));
    // The last of them: its presence says that all are there.
    return fill(store, kSupplier, kSuppliers,
                [&](uint32_t number, RowKey& key, std::string& value) {
                    make_supplier(number, seed, key, value);
                });
}

}  // namespace lockstep::tpcc::ch
