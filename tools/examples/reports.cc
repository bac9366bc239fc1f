// reports.cc - the program of the tutorial on SQL over live data: the same report without SQL.
//
// The comments with arrows mark the parts that the tutorial shows.
#include <lockstep/plan.h>
#include <lockstep/report.h>
#include <lockstep/store.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

using namespace lockstep;

namespace {

// --8<-- [start:describe]
constexpr const char* kOrders =
    "shop    u8          key\n"
    "number  u32         key\n"
    "placed  time_s      value 0\n"
    "price   decimal(2)  value 8\n"
    "item    text8       value 16\n";
// --8<-- [end:describe]

std::string record(int64_t placed, int64_t cents, const std::string& item) {
    std::string out(16, '\0');
    std::memcpy(out.data(), &placed, 8);
    std::memcpy(out.data() + 8, &cents, 8);
    return out + static_cast<char>(item.size()) + item;
}

Result<void> sell(Store& store, Txn& txn) {
    Index orders = LOCKSTEP_TRY(store.open_or_create_index(txn, "orders"));
    LOCKSTEP_TRY(store.describe(txn, "orders", kOrders));
    for (uint32_t number = 0; number < 1000; ++number) {
        const bool tea = number % 3 == 0;
        const std::string value =
            record(1'780'000'000 + 60 * number, tea ? 499 : 320, tea ? "tea" : "bread");
        LOCKSTEP_TRY(orders.put(txn, Key().u8(1).u32(number), value));
    }
    return {};
}

// --8<-- [start:report]
Result<void> report(Store& store) {
    Report report = LOCKSTEP_TRY(store.report({.max_age = kSecond}));
    Scan scan = LOCKSTEP_TRY(report.scan(
        "orders", {.columns = {"price", "item"},
                   .where = {{.column = "number", .compare = Compare::less, .values = {900}}}}));
    std::map<std::string, int64_t> cents;
    LOCKSTEP_TRY(scan.each([&](const Block& block) -> Result<bool> {
        const std::span<const int64_t> prices = block.numbers<int64_t>(0);
        for (size_t row = 0; row < block.rows(); ++row)
            cents[std::string(block.text(1, row))] += prices[row];
        return true;
    }));
    for (const auto& [item, sum] : cents)
        std::printf("%s: %" PRId64 ".%02d\n", item.c_str(), sum / 100, static_cast<int>(sum % 100));
    return {};
}
// --8<-- [end:report]

// --8<-- [start:plan]
Result<void> sums_by_plan(Store& store) {
    Report report = LOCKSTEP_TRY(store.report({.max_age = kSecond}));
    const Plan plan = Plan::scan("orders", {"price", "item"}, {{"number", Compare::less, {900}}})
                          .group({"item"}, {Aggregate::sum(col("price"), "cents")})
                          .order({{"cents", true}});
    const Rows rows = LOCKSTEP_TRY(report.answer(plan, {.sharing = Sharing::cycle}));
    for (size_t row = 0; row < rows.rows(); ++row)
        std::printf("%s: %" PRId64 " cents\n", std::string(rows.text(row, 0)).c_str(),
                    rows.integer(row, 1));
    return {};
}
// --8<-- [end:plan]

Result<void> work(const char* path) {
    Store store = LOCKSTEP_TRY(Store::open(path, {}));
    LOCKSTEP_TRY(store.run([&](Txn& txn) { return sell(store, txn); }));
    LOCKSTEP_TRY(report(store));
    LOCKSTEP_TRY(sums_by_plan(store));
    return store.close();
}

}  // namespace

int main(int argc, char** argv) {
    const Result<void> done = work(argc > 1 ? argv[1] : "reports.db");
    if (!done) std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return done ? 0 : 1;
}
