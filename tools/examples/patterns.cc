// patterns.cc - three uses of ordered keys: a job queue, an event store, and an order book.
//
// The comments with arrows mark the parts that the documentation shows.
#include <lockstep/key_reader.h>
#include <lockstep/store.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

using namespace lockstep;

namespace {

// --8<-- [start:queue]
// Keys order by time, then by number: the first record is the job that is due next.
Result<void> add_job(const Index& jobs, Txn& txn, uint64_t due, uint64_t id, Slice work) {
    return jobs.insert(txn, Key().u64(due).u64(id), work);
}

// Takes the next job that is due by now. If the transaction rolls back, the job is there again: so
// a worker that fails loses none.
Result<std::optional<std::string>> take_job(const Index& jobs, Txn& txn, uint64_t now) {
    Cursor cursor = jobs.scan(txn, Key().u64(0), Key().u64(now + 1));
    if (!LOCKSTEP_TRY(cursor.next())) return std::nullopt;
    std::string key(cursor.key()), work(cursor.value());
    LOCKSTEP_TRY(jobs.erase(txn, key));
    return work;
}
// --8<-- [end:queue]

// --8<-- [start:events]
// A stream's events have the keys (stream, 1), (stream, 2), ... Who appends says which version it
// has seen. If another was faster, insert() returns duplicate_key: read again, and decide anew.
Result<void> append(const Index& events, Txn& txn, Slice stream, uint64_t seen, Slice event) {
    return events.insert(txn, Key().text(stream).u64(seen + 1), event);
}

Result<int> replay(const Index& events, Txn& txn, Slice stream) {
    int balance = 0;
    Cursor cursor = events.scan(txn, Key().text(stream).u64(0), Key().text(stream).u64(UINT64_MAX));
    while (LOCKSTEP_TRY(cursor.next())) balance += std::stoi(std::string(cursor.value()));
    return balance;
}
// --8<-- [end:events]

// --8<-- [start:book]
// Offers order by price, and by time within a price. The value is the quantity that is left.
Result<void> offer(const Index& asks, Txn& txn, uint32_t price, uint64_t time, int quantity) {
    return asks.insert(txn, Key().u32(price).u64(time), std::to_string(quantity));
}

// Buys from the cheapest offers up to a price, all in one transaction; returns what was bought.
Result<int> buy(const Index& asks, Txn& txn, uint32_t price_max, int quantity) {
    int bought = 0;
    Cursor cursor = asks.scan(txn, Key().u32(0), Key().u32(price_max + 1));
    while (bought < quantity && LOCKSTEP_TRY(cursor.next())) {
        const std::string key(cursor.key());
        const int there = std::stoi(std::string(cursor.value()));
        const int taken = std::min(there, quantity - bought);
        bought += taken;
        if (taken == there) LOCKSTEP_TRY(asks.erase(txn, key));
        else LOCKSTEP_TRY(asks.update(txn, key, std::to_string(there - taken)));
    }
    return bought;
}
// --8<-- [end:book]

Result<void> use(Store& store) {
    Index jobs, events, asks;
    LOCKSTEP_TRY(store.run([&](Txn& txn) -> Result<void> {
        jobs = LOCKSTEP_TRY(store.open_or_create_index(txn, "jobs"));
        events = LOCKSTEP_TRY(store.open_or_create_index(txn, "events"));
        asks = LOCKSTEP_TRY(store.open_or_create_index(txn, "asks"));
        LOCKSTEP_TRY(add_job(jobs, txn, 200, 1, "send the invoice"));
        LOCKSTEP_TRY(add_job(jobs, txn, 100, 2, "greet"));
        LOCKSTEP_TRY(append(events, txn, "account 7", 0, "50"));
        LOCKSTEP_TRY(append(events, txn, "account 7", 1, "-20"));
        LOCKSTEP_TRY(offer(asks, txn, 101, 1, 5));
        return offer(asks, txn, 100, 2, 3);
    }));
    const auto job = LOCKSTEP_TRY(store.run([&](Txn& txn) { return take_job(jobs, txn, 150); }));
    std::printf("next job: %s\n", job ? job->c_str() : "none");
    const Result<void> late =
        store.run([&](Txn& txn) { return append(events, txn, "account 7", 1, "-40"); });
    std::printf("late writer: %s\n", late ? "taken" : "refused");
    const int balance =
        LOCKSTEP_TRY(store.run([&](Txn& txn) { return replay(events, txn, "account 7"); }));
    std::printf("balance: %d\n", balance);
    const int bought = LOCKSTEP_TRY(store.run([&](Txn& txn) { return buy(asks, txn, 101, 4); }));
    std::printf("bought: %d\n", bought);
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    auto store = Store::open(argc > 1 ? argv[1] : "patterns.db");
    const Result<void> done = store ? use(*store) : Result<void>(Unexpected(store.error()));
    if (done) return 0;
    std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return 1;
}
