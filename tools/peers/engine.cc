// engine.cc - the list of engines, and what several of them share.
#include "tools/peers/engine.h"

#include <fmt/core.h>

#include <thread>

#include "threads/base/try.h"

namespace lockstep::peers {

// tools/cmake/LockstepPeers.cmake defines these words for the libraries that it finds.
std::span<const Product> products() {
    static const std::vector<Product> kAll = {
        kLockstep,
#ifdef PEERS_LMDB
        kLmdb,
#endif
#ifdef PEERS_WIREDTIGER
        kWiredTiger,
#endif
#ifdef PEERS_ROCKSDB
        kRocksDb,
#endif
#ifdef PEERS_SQLITE
        kSqlite,
#endif
#ifdef PEERS_BERKELEYDB
        kBerkeleyDb,
#endif
    };
    return kAll;
}

std::span<const Missing> missing_products() {
    static const std::vector<Missing> kAll = {
#ifndef PEERS_LMDB
        {"lmdb", "liblmdb-dev"},
#endif
#ifndef PEERS_WIREDTIGER
        {"wiredtiger", "libwiredtiger-dev"},
#endif
#ifndef PEERS_ROCKSDB
        {"rocksdb", "librocksdb-dev"},
#endif
#ifndef PEERS_SQLITE
        {"sqlite", "libsqlite3-dev"},
#endif
#ifndef PEERS_BERKELEYDB
        {"berkeleydb", "libdb5.3-dev"},
#endif
    };
    return kAll;
}

Result<void> run_on_threads(unsigned sessions, Engine::Body body,
                            FunctionRef<Result<std::unique_ptr<Session>>()> make_session) {
    std::vector<Result<void>> outcomes(sessions);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < sessions; ++i)
        threads.emplace_back([&, i] {
            outcomes[i] = [&]() -> Result<void> {
                const std::unique_ptr<Session> session = TRY(make_session());
                return body(i, *session);
            }();
        });
    for (std::thread& thread : threads) thread.join();
    for (const Result<void>& outcome : outcomes)
        if (!outcome) return outcome;
    return {};
}

Unexpected engine_failed(const char* what, int code, const char* text) {
    fmt::print(stderr, "lockstep-peers: {}: {} ({})\n", what, text, code);
    return fail(ErrorCode::io_error, what, static_cast<uint64_t>(code));
}

Unexpected conflict(const char* what) { return fail(ErrorCode::deadlock, what); }

}  // namespace lockstep::peers
