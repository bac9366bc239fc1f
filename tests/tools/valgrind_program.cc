// valgrind_program.cc - opens a store with default I/O, commits, reads and closes, for
// valgrind_test.py.
//
// The argument names the store's directory, which must not exist. The program prints the I/O
// backend. Its exit status is 0 if every step succeeded.
#include <cstdio>
#include <string>

#include <lockstep/store.h>
#include "threads/base/try.h"

using namespace lockstep;

namespace {

Result<void> work(Store& store) {
    for (int n = 0; n < 8; ++n)
        TRY(store.run([&](Txn& t) -> Result<void> {
            const Index index = n == 0 ? TRY(store.create_index(t, "i")) : TRY(store.index("i"));
            return index.insert(t, std::to_string(n), "value");
        }));
    return store.run([&](Txn& t) -> Result<void> {
        std::string value;
        if (!TRY(TRY(store.index("i")).get(t, "7", value)))
            return fail(ErrorCode::bad_argument, "the key is not found");
        return {};
    });
}

Result<void> run(const char* directory) {
    Options options;
    options.workers = 2;
    options.pool_bytes = 4 << 20;
    options.log_bytes = 8 << 20;
    options.log_segment_bytes = options.log_ring_bytes = 1 << 20;
    for (int round = 0; round < 2; ++round) {
        Store store = TRY(Store::open(directory, options));
        std::printf("%s\n", store.stats().io_backend.c_str());
        std::fflush(stdout);
        if (round == 0) TRY(work(store));
        TRY(store.close());
    }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const Result<void> done = run(argv[1]);
    if (!done) std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return done ? 0 : 1;
}
