// labels: sim memory
// allocation_test.cc - allocations fail, at work or while the store opens: errors come
// back as values, nothing acknowledged is lost.
//
// Concepts   Each injection is a process of its own, on a real directory. Either the n-th
//            allocation fails, or from the n-th on there is no more memory than there was: what the
//            engine itself needs comes out of its reserve (base/memory_reserve.h), and what is
//            begun afterwards is refused. A signal, a hang, a lost acknowledged transaction or an
//            unsound structure fails the test. LOCKSTEP_INJECTIONS=10000 makes more of it;
//            LOCKSTEP_SEED says where to begin.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>

#include "tests/end_child.h"
#include "tests/sm/store_crash_util.h"

namespace {

// In every build, whoever asks: the program is all engine here.
std::atomic<int64_t> countdown{-1};              // allocations until one fails; negative: none does
std::atomic<bool> stays{false};                  // ... and until there is no more memory than now
std::atomic<int64_t> live{0}, limit{INT64_MAX};  // bytes

bool refused(size_t bytes) {
    if (countdown.load(std::memory_order_relaxed) >= 0 && countdown.fetch_sub(1) == 0) {
        if (stays.load()) limit.store(live.load());
        return true;
    }
    return live.load(std::memory_order_relaxed) + static_cast<int64_t>(bytes) >
           limit.load(std::memory_order_relaxed);
}

// As the standard says: while there is a handler it may find some memory.
[[gnu::noinline]] void* allocate(size_t bytes, size_t alignment) {
    for (;;) {
        if (!refused(bytes)) {
            void* const at = alignment <= alignof(std::max_align_t)
                                 ? std::malloc(bytes != 0 ? bytes : 1)
                                 : std::aligned_alloc(
                                       alignment, (bytes + alignment - 1) / alignment * alignment);
            if (at != nullptr)
                live.fetch_add(static_cast<int64_t>(malloc_usable_size(at)),
                               std::memory_order_relaxed);
            return at;
        }
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) return nullptr;
        handler();
    }
}

[[gnu::noinline]] void* allocate_or_throw(size_t bytes, size_t alignment) {
    if (void* at = allocate(bytes, alignment)) return at;
    throw std::bad_alloc();
}

[[gnu::noinline]] void* allocate_or_null(size_t bytes, size_t alignment) noexcept {
    try {
        return allocate(bytes, alignment);
    } catch (const std::bad_alloc&) {  // the handler's word that there is none
        return nullptr;
    }
}

// Out of line: where a delete is inlined, g++ takes its free() for one of a stranger's memory.
[[gnu::noinline]] void deallocate(void* at) noexcept {
    if (at != nullptr)
        live.fetch_sub(static_cast<int64_t>(malloc_usable_size(at)), std::memory_order_relaxed);
    std::free(at);
}

}  // namespace

// Behind the functions that it calls.
#include "tests/replaced_new.h"

namespace lockstep {
namespace {

// Of each process; transactions of each thread.
constexpr uint32_t kThreads = 3, kTransactions = 8;
constexpr uint32_t kRoundsPerStore = 20;

// Shared with the child.
struct Board {
    std::atomic<uint8_t> acknowledged[kThreads][kTransactions];
    // Transactions that failed with a value.
    std::atomic<uint32_t> errors;
    std::atomic<int64_t> left;  // of the countdown, at the end
};

class Allocation : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        void* at =
            mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(at, MAP_FAILED);
        board_ = new (at) Board;
    }
    void TearDown() override {
        munmap(board_, sizeof(Board));
        StoreCrash::TearDown();
    }
    static Options options() {
        Options o = small_options(2);
        o.pool_bytes = 4 << 20;
        o.log_bytes = 8 << 20;
        o.log_segment_bytes = 1 << 20;
        o.log_ring_bytes = 1 << 20;
        o.lock_table_bytes_log2 = 16;
        o.transactions_max = 32;
        o.logger = nullptr;
        return o;
    }
    void make_store() {
        std::filesystem::remove_all(path("a"));
        Store store = open("a", options());
        make(store, "i", "h");
        ASSERT_OK(store.run([&](Txn& txn) { return store.create_index(txn, "done"); }));
        ASSERT_OK(store.close());
        expected_.clear();
    }
    static std::string key_of(uint32_t round, uint32_t thread, uint32_t n) {
        return std::to_string(round) + "/" + std::to_string(thread) + "/" + std::to_string(n);
    }

    // A few records here and there, and the row that says the transaction was.
    static Result<void> transaction(Store& store, Txn& txn, Rng& rng, const std::string& key) {
        const Index index = TRY(store.index("i"));
        const Heap heap = TRY(store.heap("h"));
        for (int k = 0; k < 4; ++k) {
            TRY(index.put(txn, "k" + std::to_string(rng.below(300)),
                          random_text(rng, rng.chance(0.1) ? 5000 : rng.below(300))));
            TRY(heap.insert(txn, random_text(rng, rng.below(400))));
        }
        if (rng.chance(0.3)) {
            Cursor cursor = index.scan(txn);
            for (int k = 0; k < 20 && TRY(cursor.next()); ++k) {}
        }
        if (rng.chance(0.2)) TRY(store.create_index(txn, "made " + key));
        return TRY(store.index("done")).insert(txn, key, "x");
    }

    void work(Store& store, uint64_t seed, uint32_t round) {
        std::vector<Handle<void>> handles;
        for (uint32_t t = 0; t < kThreads; ++t)
            handles.push_back(store.start([&, t]() -> Result<void> {
                Rng rng(seed * 31 + t);
                for (uint32_t n = 0; n < kTransactions; ++n) {
                    const std::string key = key_of(round, t, n);
                    auto done =
                        store.run([&](Txn& txn) { return transaction(store, txn, rng, key); });
                    if (done) board_->acknowledged[t][n].store(1);
                    else board_->errors.fetch_add(1);
                    if (t == 0 && n == kTransactions / 2) (void)store.checkpoint();
                }
                return {};
            }));
        for (auto& handle : handles) (void)handle.join();
    }

    // noexcept: a failure in a child's own code stops it as well, GoogleTest must not catch it.
    [[noreturn]] void works(int64_t nth, bool for_ever, uint64_t seed, uint32_t round) noexcept {
        auto store = Store::open(path("a"), options());
        if (!store) end_child(20);
        stays.store(for_ever);
        countdown.store(nth);
        work(*store, seed, round);
        board_->left.store(countdown.load());
        (void)store->close();
        end_child(0);
    }
    [[noreturn]] void dies_at_work(uint64_t seed, uint32_t round) noexcept {
        auto store = Store::open(path("a"), options());
        if (!store) end_child(20);
        work(*store, seed, round);
        end_child(0);
    }
    [[noreturn]] void opens(int64_t nth, bool for_ever) noexcept {
        // What the test itself allocates nobody can refuse.
        const std::string where = path("a");
        const Options how = options();
        stays.store(for_ever);
        countdown.store(nth);
        auto store = Store::open(where, how);
        board_->errors.store(!store);
        if (store) (void)store->close();
        board_->left.store(countdown.load());
        end_child(0);
    }

    // How the child ended: 0 by itself, else the signal; -1 something else.
    int run_child(const std::function<void()>& child) {
        const pid_t pid = fork();
        if (pid == 0) {
            const int silent = ::open("/dev/null", O_WRONLY);
            // "terminate called ..." is what we want, not what we want to read.
            dup2(silent, 2);
            alarm(60);  // a hang is a failure, too
            child();
        }
        int status = 0;
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status)) return WTERMSIG(status);
        return WEXITSTATUS(status) == 0 ? 0 : -1;
    }

    void judge(uint32_t round) {
        for (uint32_t t = 0; t < kThreads; ++t)
            for (uint32_t n = 0; n < kTransactions; ++n)
                if (board_->acknowledged[t][n].load()) expected_.push_back(key_of(round, t, n));
        Store store = open("a", options());
        const auto found = index_content(store, "done");
        for (const std::string& key : expected_)
            EXPECT_TRUE(found.contains(key)) << "acknowledged and lost: " << key;
        expect_sound(store);
        ASSERT_OK(store.close());
    }

    Board* board_ = nullptr;
    std::vector<std::string> expected_;
};

constexpr int64_t kNone = 1'000'000'000;  // an allocation that does not come

TEST_F(Allocation, AFailureAtWorkIsAnErrorAndLosesNothing) {
    const uint64_t injections = number_from("LOCKSTEP_INJECTIONS", 200);
    const uint64_t seed = seed_of_run();
    uint32_t struck = 0, errors = 0;
    int64_t per_run = 0;
    Rng rng(seed);
    for (uint32_t round = 0; struck < injections && !HasFailure(); ++round) {
        if (round % kRoundsPerStore == 0) {
            ASSERT_NO_FATAL_FAILURE(make_store());
            new (board_) Board{};
            // None fails: counts them.
            ASSERT_EQ(run_child([&] { works(kNone, false, seed + round, 0); }), 0);
            per_run = kNone - board_->left.load();
            ASSERT_GT(per_run, 100);
            judge(0);
        }
        const auto nth = static_cast<int64_t>(rng.below(static_cast<uint64_t>(per_run)));
        new (board_) Board{};
        const int end = run_child([&] { works(nth, round % 2 == 1, seed + round, 1 + round); });
        // Schedules differ: it had none so far.
        if (end == 0 && board_->left.load() >= 0) continue;
        ++struck;
        errors += board_->errors.load() > 0;
        EXPECT_EQ(end, 0) << "seed " << seed << ", round " << round << ", allocation " << nth;
        judge(1 + round);
    }
    std::printf("%u allocations failed (of about %lld in a run): %u runs with an error value\n",
                struck, static_cast<long long>(per_run), errors);
    EXPECT_GE(struck, injections);
    EXPECT_GT(errors, 0u);
}

// A restart, too, goes through or is refused, and may be repeated.
TEST_F(Allocation, AFailureWhileAKilledStoreOpensLosesNothing) {
    const uint64_t injections = number_from("LOCKSTEP_INJECTIONS", 200) / 2;
    const uint64_t seed = seed_of_run();
    uint32_t struck = 0, refusals = 0;
    int64_t per_run = 0;
    Rng rng(seed + 1);
    for (uint32_t round = 0; struck < injections && !HasFailure(); ++round) {
        if (round % kRoundsPerStore == 0) {
            ASSERT_NO_FATAL_FAILURE(make_store());
        }
        new (board_) Board{};
        ASSERT_EQ(run_child([&] { dies_at_work(seed + round, 1 + round); }), 0);
        if (per_run == 0) {  // of this store's twin
            std::filesystem::copy(path("a"), path("b"));
            ASSERT_EQ(run_child([&] { opens(kNone, false); }), 0);
            per_run = kNone - board_->left.load();
            ASSERT_GT(per_run, 100);
            std::filesystem::remove_all(path("a"));
            std::filesystem::rename(path("b"), path("a"));
        }
        board_->left.store(-1);
        const auto nth = static_cast<int64_t>(rng.below(static_cast<uint64_t>(per_run)));
        const int end = run_child([&] { opens(nth, round % 2 == 1); });
        struck += end != 0 || board_->left.load() < 0;
        refusals += end == 0 && board_->errors.load() > 0;
        EXPECT_EQ(end, 0) << "seed " << seed << ", round " << round << ", allocation " << nth;
        judge(1 + round);
    }
    std::printf("%u allocations failed (of about %lld in a restart): %u refusals\n", struck,
                static_cast<long long>(per_run), refusals);
    EXPECT_GE(struck, injections);
}

}  // namespace
}  // namespace lockstep
