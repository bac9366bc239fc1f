// gdb_program.cc - a small store with user threads at known places, for gdb_libraries_test.py.
//
// It is linked twice, with the static and with the shared library. The argument names the store's
// directory. gdb may stop it in all_threads_wait(), or attach to it once it has printed "ready". It
// then writes durably now and then, so that io_uring has kernel threads, until its input ends.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <vector>

#include <lockstep/store.h>

using namespace lockstep;

extern "C" [[gnu::noinline, gnu::used]] void all_threads_wait() { asm volatile("" ::: "memory"); }

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Options options;
    options.workers = 2;
    options.pool_bytes = 4 << 20;
    options.log_bytes = 8 << 20;
    options.log_segment_bytes = options.log_ring_bytes = 1 << 20;
    auto store = Store::open(argv[1], options);
    if (!store) {
        std::fprintf(stderr, "%s\n", store.error().text().c_str());
        return 1;
    }
    std::atomic<int> waiting{0};
    std::atomic<bool> end{false};
    std::vector<Handle<void>> handles;
    for (int n = 0; n < 6; ++n)
        handles.push_back(store->start(
            [&]() -> Result<void> {
                waiting.fetch_add(1);
                waiting.notify_one();
                while (!end.load()) sleep_for(100 * kMillisecond);
                return {};
            },
            n % 2));
    for (int n = 0; (n = waiting.load()) < 6;) waiting.wait(n);
    all_threads_wait();
    std::puts("ready");
    std::fflush(stdout);
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    while (poll(&input, 1, 200) == 0) (void)store->checkpoint();
    end.store(true);
    for (auto& handle : handles) (void)handle.join();
    return store->close() ? 0 : 1;
}
