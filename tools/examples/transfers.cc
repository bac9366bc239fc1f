// transfers - 10,000 money transfers at once, each a transaction on a user thread of its own, from
// a plain main().
//
// Every transfer takes from one account and gives to another; at the end the sum is what it was.
// The next run goes on with the same accounts. Deadlock victims are run again by the store. No
// kernel thread waits for a lock, a page or the log: they all share `workers` of them.
#include <lockstep/store.h>

#include <cstdio>
#include <cstring>
#include <vector>

using namespace lockstep;

namespace {

constexpr uint32_t kAccounts = 1000, kTransfers = 10'000;
constexpr int64_t kOpening = 1'000;

Slice bytes_of(const int64_t& n) { return {reinterpret_cast<const char*>(&n), sizeof(n)}; }

Result<int64_t> balance(Txn& txn, Index accounts, uint32_t account, Access access) {
    int64_t amount = 0;
    if (!LOCKSTEP_TRY(accounts.get(txn, Key().u32(account),
                                   std::as_writable_bytes(std::span(&amount, 1)), access)))
        return fail(ErrorCode::no_such_record, "account", account);
    return amount;
}

Result<void> transfer(Txn& txn, Index accounts, uint32_t from, uint32_t to, int64_t amount) {
    const int64_t left = LOCKSTEP_TRY(balance(txn, accounts, from, Access::update)) - amount;
    LOCKSTEP_TRY(accounts.update(txn, Key().u32(from), bytes_of(left)));
    const int64_t grown = LOCKSTEP_TRY(balance(txn, accounts, to, Access::update)) + amount;
    LOCKSTEP_TRY(accounts.update(txn, Key().u32(to), bytes_of(grown)));
    return {};
}

Result<Index> open_accounts(Store& store) {
    return store.run([&](Txn& txn) -> Result<Index> {
        Index accounts = LOCKSTEP_TRY(store.open_or_create_index(txn, "accounts"));
        if (LOCKSTEP_TRY(accounts.scan(txn).next()))
            return accounts;  // an earlier run has filled it
        for (uint32_t a = 0; a < kAccounts; ++a)
            LOCKSTEP_TRY(accounts.insert(txn, Key().u32(a), bytes_of(kOpening)));
        return accounts;
    });
}

Result<int64_t> total(Store& store, Index accounts) {
    return store.run([&](Txn& txn) -> Result<int64_t> {
        int64_t sum = 0;
        for (Cursor c = accounts.scan(txn); LOCKSTEP_TRY(c.next());) {
            int64_t amount;
            std::memcpy(&amount, c.value().data(), sizeof(amount));
            sum += amount;
        }
        return sum;
    });
}

Result<void> run(const char* path) {
    Store store = LOCKSTEP_TRY(Store::open(path, {.workers = 2}));
    const Index accounts = LOCKSTEP_TRY(open_accounts(store));

    std::vector<Handle<void>> running;
    running.reserve(kTransfers);
    for (uint32_t i = 0; i < kTransfers; ++i) {
        const uint32_t from = i * 7919u % kAccounts,
                       to = (from + 1 + i % (kAccounts - 1)) % kAccounts;
        running.push_back(
            store.spawn([=](Txn& txn) { return transfer(txn, accounts, from, to, 1 + i % 10); }));
    }
    for (auto& handle : running) LOCKSTEP_TRY(handle.join());

    const int64_t sum = LOCKSTEP_TRY(total(store, accounts));
    const StoreStats s = store.stats();
    std::printf(
        "%u transfers, %llu user threads at most, %llu lock waits, %llu deadlock retries, %llu log "
        "syncs; sum %lld, expected %lld\n",
        kTransfers, (unsigned long long)s.threads_max, (unsigned long long)s.lock_waits,
        (unsigned long long)s.deadlock_retries, (unsigned long long)s.log_syncs, (long long)sum,
        (long long)kOpening * kAccounts);
    if (sum != kOpening * kAccounts) return fail(ErrorCode::bad_argument, "money was made or lost");
    return store.close();
}

}  // namespace

int main(int argc, char** argv) {
    const auto done = run(argc > 1 ? argv[1] : "transfers.db");
    if (!done) std::puts(done.error().text().c_str());
    return done ? 0 : 1;
}
