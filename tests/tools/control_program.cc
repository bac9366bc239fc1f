// control_program.cc - opens a store with a control socket for control_test.py. Prints the number
// of a transaction that it keeps open, and then the error that ends it.
//
// Usage: control-program DIRECTORY
#include <lockstep/store.h>

#include <cstdio>

int main(int argc, char** argv) {
    using namespace lockstep;
    if (argc != 2) return std::puts("usage: control-program DIRECTORY"), 2;
    auto store = Store::open(argv[1], {.pool_bytes = 16ull << 20, .control = true});
    if (!store) return std::puts(store.error().text().c_str()), 2;
    const auto ended = store->run([&](Txn& txn) -> Result<void> {
        Index index = LOCKSTEP_TRY(store->open_or_create_index(txn, "accounts"));
        LOCKSTEP_TRY(index.put(txn, "alice", "1"));
        std::printf("%llu\n", static_cast<unsigned long long>(txn.id().value));
        std::fflush(stdout);
        for (std::string value;;) {
            sleep_for(kMillisecond);
            LOCKSTEP_TRY(index.get(txn, "alice", value));
        }
    });
    std::puts(ended ? "committed" : error_name(ended.error().code));
    return store->close() ? 0 : 1;
}
