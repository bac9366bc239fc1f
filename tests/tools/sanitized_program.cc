// sanitized_program.cc - throws out of run() and spawn(), from deep stacks that alternate.
// It is built with a sanitizer, and linked to a library without: see sanitized_program_test.py.
#include <cstdio>
#include <stdexcept>
#include <string>

#include <lockstep/store.h>

namespace {

using namespace lockstep;

Result<void> deep(Txn& txn, Index rows, int depth) {
    char local[200];
    std::snprintf(local, sizeof local, "key%d", depth);
    LOCKSTEP_TRY(rows.put(txn, local, local));
    yield();
    if (depth == 0) throw std::runtime_error("out of run()");
    return deep(txn, rows, depth - 1);
}

}  // namespace

int main(int, char** arguments) {
    constexpr int kTimes = 20;
    Result<Store> store = Store::open(arguments[1], {.workers = 2, .pool_bytes = 16 << 20});
    if (!store) return 1;
    Index rows;
    const auto made = store->run([&](Txn& txn) -> Result<void> {
        rows = LOCKSTEP_TRY(store->open_or_create_index(txn, "rows"));
        return {};
    });
    if (!made) return 2;
    const auto body = [&](Txn& txn) -> Result<void> { return deep(txn, rows, 5); };
    int caught = 0;
    const auto count = [&](auto call) {
        try {
            (void)call();
        } catch (const std::runtime_error&) {
            ++caught;
        }
    };
    for (int i = 0; i < kTimes; ++i) count([&] { return store->run(body); });
    Handle<void> all[kTimes];
    for (Handle<void>& one : all) one = store->spawn(body);
    for (Handle<void>& one : all) count([&] { return one.join(); });
    return caught == 2 * kTimes && store->close() ? 0 : 3;
}
