// restart.cc - how long a store takes to open after its process was killed with much log behind the
// last checkpoint.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/bench.h"

namespace lockstep::bench {
namespace {

Options restart_options(uint64_t bytes) {
    return {.workers = 2,
            .pool_bytes = 2ull << 30,
            .log_bytes = 8 * bytes,
            .checkpoint_log_bytes = 3 * bytes};
}

// In a child: writes until the log has grown by `bytes`, then dies without any farewell.
[[noreturn]] void write_and_die(const std::string& path, uint64_t bytes) {
    auto store = Store::open(path, restart_options(bytes));
    if (!store) _exit(2);
    constexpr uint64_t kRows = 1'000'000;
    const auto index = load_rows(*store, kRows);
    if (!index || !store->checkpoint()) _exit(3);
    const uint64_t goal = store->stats().log_bytes + bytes;
    std::vector<Handle<void>> running;
    for (uint32_t t = 0; t < 16; ++t)
        running.push_back(store->start([&, t]() -> Result<void> {
            Rng rng(t);
            std::string value(kRowBytes, 'r');
            while (store->stats().log_bytes < goal) {
                Txn txn = TRY(store->begin({.durability = Durability::lazy}));
                for (int k = 0; k < 10; ++k) {
                    for (auto& c : value) c = static_cast<char>('a' + rng.below(26));
                    const auto done =
                        index->update(txn, Key().u64(t + 16 * rng.below(kRows / 16)), value);
                    if (!done.has_value()) return {};
                }
                TRY(txn.commit());
            }
            return {};
        }));
    for (auto& handle : running) (void)handle.join();
    auto point = store->run([&](Txn& txn) { return index->put(txn, Key().u64(0), "last"); });
    _exit(point ? 0 : 4);
}

}  // namespace

Result<void> bench_restart(const Settings& settings, Report& report) {
    const uint64_t bytes = settings.bytes != 0 ? settings.bytes : 1ull << 30;
    const std::string path = settings.directory + "/restart";
    const pid_t child = fork();
    if (child == 0) write_and_die(path, bytes);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail(ErrorCode::io_error, "the writing child failed", static_cast<uint64_t>(status));
    const MonotonicClock clock;
    const Nanos begin = clock.now();
    Options options = restart_options(bytes);
    std::string said;
    options.logger = [&](int, std::string_view text) { said = text; };
    Store store = TRY(Store::open(path, options));
    report.measurement(fmt::format("restart with {} MB of log", bytes >> 20),
                       static_cast<double>(clock.now() - begin) / 1e9, "s", "<= 10");
    report.note(said);
    return store.close();
}

}  // namespace lockstep::bench
