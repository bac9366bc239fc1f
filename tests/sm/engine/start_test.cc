// labels: unit
// start_test.cc - a user thread that cannot be made: start() says so at once, and names the limit.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include "tests/end_child.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/sanitized.h"

namespace lockstep::start_test {

class Start : public StoreCrash {};

TEST_F(Start, MoreThanUserThreadsMaxAreRefusedAtOnce) {
    Options options = small_options();
    options.user_threads_max = 8;
    Store store = open("db", options);
    std::atomic<bool> go{false};
    std::atomic<int> begun{0};
    std::vector<Handle<int>> handles;
    for (int n = 0; n < 8; ++n) {
        handles.push_back(store.start([&, n]() -> Result<int> {
            ++begun;
            while (!go.load()) sleep_for(kMillisecond);
            return n;
        }));
        ASSERT_OK(handles.back().started());
    }
    while (begun < 8) sleep_for(kMillisecond);  // those that have not begun do not count
    bool called = false;
    auto refused = store.spawn([&](Txn&) -> Result<int> { return called = true; });
    ASSERT_FALSE(refused.started());
    EXPECT_EQ(refused.started().error().code, ErrorCode::too_many);
    EXPECT_NE(refused.started().error().text().find("user_threads_max"), std::string::npos);
    EXPECT_EQ(refused.started().error().a, 8u);
    const auto joined = refused.join();
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::too_many);
    // run() is bounded by the kernel threads that call it.
    ASSERT_OK(store.run([](Txn&) -> Result<void> { return {}; }));
    go.store(true);
    for (int n = 0; n < 8; ++n) EXPECT_EQ(handles[static_cast<size_t>(n)].join().value_or(-1), n);
    EXPECT_FALSE(called);
    // The thread counts until it has ended, which is shortly after its handle says so.
    for (int n = 0; n < 10'000; ++n) {
        auto started = store.start([]() -> Result<int> { return 1; });
        const bool ok = started.started().has_value();
        EXPECT_EQ(started.join().has_value(), ok);
        if (ok) break;
        ASSERT_LT(n, 9'999);
        sleep_for(kMillisecond);
    }
    ASSERT_OK(store.close());
}

TEST_F(Start, TheDefaultIsDocumented) {
    EXPECT_EQ(Options{}.user_threads_max, 32000u);
    Options options;
    options.user_threads_max = 0;
    EXPECT_FALSE(check_options(options));
}

// In a child, so that the limit is its own. The status names the broken promise.
void without_address_space(const std::string& directory, Options options) {
    options.stack_bytes = 8 << 20;
    auto store = Store::open(directory, options);
    if (!store) end_child(1);
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) end_child(2);
    std::atomic<bool> go{false};
    std::atomic<int> begun{0};
    std::vector<Handle<int>> handles;
    handles.reserve(1000);
    int refused = 0;
    for (int n = 0; n < 1000 && refused == 0; ++n) {
        // The one before begins, or there is no stack for it; the next one is refused then.
        for (int waited = 0; begun < n && waited < 100; ++waited) sleep_for(kMillisecond);
        handles.push_back(store->start([&]() -> Result<int> {
            ++begun;
            while (!go.load()) sleep_for(kMillisecond);
            return 1;
        }));
        if (const auto& started = handles.back().started(); !started) {
            ++refused;
            if (started.error().code != ErrorCode::out_of_memory) end_child(3);
            if (started.error().text().find("vm.max_map_count") == std::string::npos) end_child(4);
            if (handles.back().join()) end_child(5);
        }
    }
    if (refused == 0) end_child(6);
    go.store(true);
    handles.pop_back();
    for (auto& handle : handles)
        if (!handle.join()) end_child(7);
    end_child(store->close() ? 0 : 8);
}

TEST_F(Start, WithoutMemoryForAStackNamesTheLimit) {
    if (kAddressSanitizer) GTEST_SKIP() << "the address sanitizer needs address space itself";
    EXPECT_EXIT(without_address_space(path("db"), small_options()), testing::ExitedWithCode(0), "");
}

}  // namespace lockstep::start_test
