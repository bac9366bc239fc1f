// c_api.cc - what the C interface adds to a get: callback form, sessions, batches.
//
// Concepts   A round runs each variant once, with transactions of 512 random gets, so that begin
//            and commit count little. The results are the medians over the rounds, and the medians
//            of the ratios to the C++ call of the same round. Other load of the machine thereby
//            meets all variants alike.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include <lockstep/lockstep.h>  // keep: the whole C interface
#include "sm/c/objects.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"

namespace lockstep::bench {
namespace {

constexpr uint32_t kGets = 512;        // of a transaction
constexpr uint32_t kBatch = 16;        // operations of a request
constexpr uint32_t kTransactions = 8;  // of a variant in a round

struct Gets {
    lockstep_store* handle;
    Store& store;
    Index index;
    lockstep_index* c_index;
    uint64_t rows;
    Rng rng{7};
    std::array<char, kRowBytes> buffer = {};

    lockstep_key key() {
        lockstep_key made;
        lockstep_key_init(&made);
        lockstep_key_u64(&made, rng.below(rows));
        return made;
    }
    int get(lockstep_txn* txn) {
        const lockstep_key k = key();
        return lockstep_get(txn, c_index, lockstep_key_slice(&k), LOCKSTEP_ACCESS_READ,
                            buffer.data(), buffer.size(), nullptr, nullptr, nullptr);
    }
};

void by_cpp(Gets& g) {
    CHECK(g.store.run([&](Txn& txn) -> Result<void> {
        const std::span room(reinterpret_cast<std::byte*>(g.buffer.data()), g.buffer.size());
        for (uint32_t i = 0; i < kGets; ++i)
            TRY(g.index.get(txn, Key().u64(g.rng.below(g.rows)), room));
        return {};
    }));
}

void by_callback(Gets& g) {
    const auto body = [](lockstep_txn* txn, void* arg) {
        int code = 0;
        for (uint32_t i = 0; i < kGets && code == 0; ++i) code = static_cast<Gets*>(arg)->get(txn);
        return code;
    };
    CHECK(lockstep_run(g.handle, body, &g, nullptr, nullptr) == LOCKSTEP_OK);
}

void by_session(Gets& g) {
    lockstep_txn* txn = nullptr;
    CHECK(lockstep_begin(g.handle, nullptr, &txn, nullptr) == LOCKSTEP_OK);
    for (uint32_t i = 0; i < kGets; ++i) CHECK(g.get(txn) == LOCKSTEP_OK);
    CHECK(lockstep_commit(txn, nullptr, nullptr) == LOCKSTEP_OK);
}

void by_batches(Gets& g) {
    lockstep_operation ops[kBatch] = {};
    lockstep_key keys[kBatch];
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = g.handle;
    request.operations = ops;
    request.count = kBatch;
    for (uint32_t i = 0; i < kGets / kBatch; ++i) {
        for (uint32_t k = 0; k < kBatch; ++k) {
            keys[k] = g.key();
            ops[k].kind = LOCKSTEP_OP_GET;
            ops[k].index = g.c_index;
            ops[k].key = lockstep_key_slice(&keys[k]);
            ops[k].buffer = g.buffer.data();
            ops[k].room = g.buffer.size();
        }
        CHECK(lockstep_batch(&request) == LOCKSTEP_OK);
    }
    CHECK(lockstep_commit(request.txn, nullptr, nullptr) == LOCKSTEP_OK);
}

struct Variant {
    const char* name;
    void (*run)(Gets&);
    const char* goal;
    std::vector<double> nanos = {}, ratios = {}, extra = {};  // of a get, by round
};

void measure_rounds(double seconds, Gets& gets, std::span<Variant> variants) {
    const MonotonicClock clock;
    const Nanos end = clock.now() + static_cast<Nanos>(seconds * 4 * kSecond);
    do {
        for (Variant& v : variants) {
            const Nanos begin = clock.now();
            for (uint32_t n = 0; n < kTransactions; ++n) v.run(gets);
            v.nanos.push_back(static_cast<double>(clock.now() - begin) / (kTransactions * kGets));
            v.ratios.push_back(v.nanos.back() / variants[0].nanos.back());
            v.extra.push_back(v.nanos.back() - variants[0].nanos.back());
        }
    } while (clock.now() < end);
}

}  // namespace

Result<void> bench_c_api(const Settings& settings, Report& report) {
    const uint64_t bytes = settings.bytes != 0 ? settings.bytes : 16ull << 20;
    lockstep_options options;
    lockstep_options_init(&options, sizeof options);
    options.workers = settings.workers;
    options.pool_bytes = 2 * bytes + (64ull << 20);
    lockstep_store* store = nullptr;
    lockstep_index* index = nullptr;
    CHECK(lockstep_open((settings.directory + "/c-api").c_str(), &options, &store, nullptr) == 0);
    {
        const c::StorePin pinned = TRY(c::pin(store));
        const uint64_t rows = rows_for(bytes);
        const Index cpp = TRY(load_rows(pinned->store, rows));
        CHECK(lockstep_find_index(store, "bench", &index, nullptr) == LOCKSTEP_OK);
        Gets gets{
            .handle = store, .store = pinned->store, .index = cpp, .c_index = index, .rows = rows};
        Variant variants[] = {{"get, C++ call", by_cpp, ""},
                              {"get, C callback form", by_callback, ""},
                              {"get, C session in batches of 16", by_batches, "<= 1.3"},
                              {"get, C session alone", by_session, ""}};
        measure_rounds(settings.seconds, gets, variants);
        for (const Variant& v : variants) {
            report.measurement(v.name, median(v.nanos), "ns");
            report.measurement(fmt::format("{}, ratio", v.name), median(v.ratios), "x", v.goal);
        }
        report.measurement("get, C session alone, over the C++ call", median(variants[3].extra),
                           "ns", "<= 3000");
    }
    CHECK(lockstep_close(store, nullptr) == LOCKSTEP_OK);
    return {};
}

}  // namespace lockstep::bench
