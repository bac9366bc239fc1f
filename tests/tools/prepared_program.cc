// prepared_program.cc - prepares transactions for prepared_test.py, says so, and waits for the end
// of its input.
//
// Usage: prepared-program DIRECTORY GID...
#include <lockstep/store.h>

#include <cstdio>

int main(int argc, char** argv) {
    using namespace lockstep;
    if (argc < 3) return std::puts("usage: prepared-program DIRECTORY GID..."), 2;
    auto store = Store::open(argv[1], {.pool_bytes = 16ull << 20, .control = true});
    if (!store) return std::puts(store.error().text().c_str()), 2;
    for (int i = 2; i < argc; ++i) {
        const auto done = store->run([&](Txn& txn) -> Result<void> {
            Index index = LOCKSTEP_TRY(store->index("accounts"));
            LOCKSTEP_TRY(index.put(txn, argv[i], "1"));
            LOCKSTEP_TRY(txn.prepare(argv[i]));
            return {};
        });
        if (done) continue;
        const auto made = store->run([&](Txn& txn) -> Result<void> {
            LOCKSTEP_TRY(store->open_or_create_index(txn, "accounts"));
            return {};
        });
        if (!made) return std::puts(made.error().text().c_str()), 1;
        --i;  // again, with the index
    }
    std::puts("prepared");
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
    return store->close() ? 0 : 1;
}
