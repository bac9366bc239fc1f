// labels: unit sim
// prepared_allocation_test.cc - PT-3: nothing is allocated or freed while the spin lock of the gids
// is held.
//
// Concepts   The program replaces operator new and delete. One kernel thread drives the simulated
//            store, and no worker is interrupted. So whoever allocates while the lock is held is
//            its holder.
#include <cstdlib>
#include <memory>
#include <new>
#include <set>

#include "sm/engine/engine.h"
#include "sm/services/prepared_txns.h"
#include "tests/sm/services/prepared_test_util.h"

namespace {

bool (*held)(const void* lock) = nullptr;  // null: nothing is watched
const void* watched = nullptr;
uint64_t seen = 0, under_lock = 0;

void look() {
    if (held == nullptr) return;
    ++seen;
    if (held(watched)) ++under_lock;
}

[[gnu::noinline]] void* allocate_or_null(size_t bytes, size_t alignment) noexcept {
    look();
    void* const at =
        alignment <= alignof(std::max_align_t)
            ? std::malloc(bytes != 0 ? bytes : 1)
            : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (at == nullptr) std::abort();
    return at;
}

void* allocate_or_throw(size_t bytes, size_t alignment) {
    return allocate_or_null(bytes, alignment);
}

// Out of line: where a delete is inlined, g++ takes its free() for one of a stranger's memory.
[[gnu::noinline]] void deallocate(void* at) noexcept {
    if (at != nullptr) look();
    std::free(at);
}

}  // namespace

// Behind the functions that it calls.
#include "tests/replaced_new.h"

namespace lockstep {
namespace {

class PreparedAllocation : public PreparedTest {
protected:
    void TearDown() override {
        held = nullptr;
        PreparedTest::TearDown();
    }
    void watch() {
        watched = engine().prepared.get();
        held = [](const void* of) { return static_cast<const sm::PreparedTxns*>(of)->locked(); };
        seen = under_lock = 0;
    }
    // `what` has just been done.
    static void expect_none(const char* what) {
        EXPECT_GT(std::exchange(seen, 0), 0u) << what;
        EXPECT_EQ(std::exchange(under_lock, 0), 0u) << what;
    }
    // Longer than a string has room for by itself.
    static std::string long_gid(int n) { return std::string(100, 'g') + std::to_string(n); }
};

TEST_F(PreparedAllocation, IsSeenUnderALock) {
    SpinLock lock;
    watched = &lock;
    held = [](const void* of) { return static_cast<const SpinLock*>(of)->is_held(); };
    seen = under_lock = 0;
    auto made = std::make_unique<std::string>(100, 'x');
    EXPECT_EQ(under_lock, 0u);
    {
        const SpinGuard guard(lock);
        made.reset();
        made = std::make_unique<std::string>(100, 'x');
    }
    EXPECT_EQ(under_lock, 4u);
    EXPECT_EQ(seen, 6u);
    held = nullptr;
}

TEST_F(PreparedAllocation, NoneUnderTheLockOfTheGids) {
    configure = [](Options& o) { o.transactions_max = 32; };
    reopen();
    watch();
    for (int i = 0; i < 16; ++i) must_prepare(long_gid(i), put(key_of(i), "v"));
    expect_none("prepare");
    EXPECT_EQ(code_of(prepare(long_gid(3), put("k", "v"))), ErrorCode::already_exists);
    EXPECT_EQ(code_of(prepare(long_gid(16), put("k", "v"))), ErrorCode::too_many);
    expect_none("a prepare that is refused");
    EXPECT_EQ(store().prepared().size(), 16u);
    expect_none("the list");
    EXPECT_EQ(engine().prepared->gid_of(store().prepared()[5].id).size(), long_gid(5).size());
    EXPECT_EQ(get(key_of(5)), "locked");
    expect_none("the name in a lock's error");
    EXPECT_EQ(store().stats().prepared_open, 16u);
    EXPECT_EQ(under_lock, 0u) << "the counts";
    expect_ended(store().commit_prepared(long_gid(0)));
    expect_ended(store().rollback_prepared(long_gid(1)));
    expect_ended(store().commit_prepared(long_gid(0)), false);
    sim().on_thread([&] { expect_ended(store().commit_prepared(long_gid(2))); });
    expect_none("the second phase");
    held = nullptr;
    crash();
    EXPECT_EQ(store().prepared().size(), 13u);
}

}  // namespace
}  // namespace lockstep
