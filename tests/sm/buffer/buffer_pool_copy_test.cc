// labels: unit
// buffer_pool_copy_test.cc - copies of pages for a backup, made beside the worker that changes the
// pages.
#include "tests/sm/buffer/pool_test_util.h"
#include "threads/io/aligned_buffer.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::buffer_pool_copy_test {

constexpr uint32_t kPages = 16;
static_assert(kPages <= BufferPool::kCopyMax);

std::span<const std::byte> body_of(const Page& page) {
    return {page.bytes() + sizeof(PageHeader), kPageBytes - sizeof(PageHeader)};
}

// A writer fills whole pages with one byte while they are copied. A copy that is half of one state
// and half of another would get a checksum that says nothing about it.
TEST(BufferPoolCopy, APageThatChangesIsCopiedInOneState) {
    PagesRig rig(kPages, {});
    constexpr int kFillsAtOnce = 20;
    constexpr uint64_t kStates = 500;
    std::atomic<bool> stop{false};
    threads::OffloadPool copier{1};
    uint64_t states = 0;  // copies that differ from the one before
    const auto fill = [&](std::byte with) {
        for (const PageId id : rig.pages) {
            auto page = rig.pool().fix_exclusive(id);
            ASSERT_TRUE(page) << page.error().text();
            const auto body = body_of(**page);
            std::memset(const_cast<std::byte*>(body.data()), static_cast<int>(with), body.size());
        }
    };
    rig.run([&] { fill(std::byte{0}); });
    rig.run_all(
        {[&] {
             for (unsigned n = 0; !stop.load();) {
                 for (int i = 0; i < kFillsAtOnce; ++i) fill(static_cast<std::byte>(++n));
                 threads::yield();
             }
         },
         [&] {
             auto memory =
                 threads::make_aligned_buffer(kPages * kPageBytes, threads::PageSize::huge);
             ASSERT_TRUE(memory);
             Page* const out = reinterpret_cast<Page*>(memory->get());
             std::byte before{};
             for (int n = 0; states < kStates && !testing::Test::HasFailure(); ++n) {
                 uint32_t count = kPages;
                 const auto done = rig.pool().copy_pages(rig.pages.front(), count, out, copier);
                 EXPECT_TRUE(done) << done.error().text();
                 EXPECT_EQ(count, kPages);
                 for (uint32_t i = 0; i < count; ++i) {
                     const auto body = body_of(out[i]);
                     EXPECT_EQ(out[i].header.page_id, rig.pages[i].value);
                     EXPECT_EQ(out[i].header.checksum, page_checksum(out[i], rig.pages[i]));
                     EXPECT_TRUE(std::ranges::equal(body.first(body.size() - 1), body.subspan(1)))
                         << "copy " << n << " of page " << i << " has two states";
                     states += std::exchange(before, body.front()) != body.front();
                 }
             }
             stop.store(true);
         }});
}

TEST(BufferPoolCopy, KnowsWhichPagesMayBeNewer) {
    PagesRig rig(kPages, {.cleaner = false});
    rig.run([&] {
        BufferPool& pool = rig.pool();
        const PageId id = rig.pages.front(), other = rig.pages.back();
        rig.forget_pages();
        const Lsn before = rig.engine.log->tail();
        EXPECT_FALSE(pool.may_be_newer(id, before));  // absent, and written before
        {
            const auto read = pool.fix_shared(id);
            ASSERT_TRUE(read);
        }
        EXPECT_FALSE(pool.may_be_newer(id, before));
        {
            auto page = pool.fix_exclusive(id);
            ASSERT_TRUE(page);
            EXPECT_TRUE(pool.may_be_newer(id, before));  // its holder may have changed it
            ASSERT_TRUE(CounterPage::set(rig.engine, *page, 1));
        }
        EXPECT_TRUE(pool.may_be_newer(id, before));
        EXPECT_FALSE(pool.may_be_newer(id, rig.engine.log->tail()));
        rig.forget_pages();
        EXPECT_TRUE(pool.may_be_newer(id, before));  // absent, and written since
        EXPECT_FALSE(pool.may_be_newer(id, rig.engine.log->tail()));
        EXPECT_FALSE(pool.may_be_newer(other, before));
        // Its bytes stay in the file until that is cut.
        ASSERT_TRUE(pool.give_up_from(other, other.value + 1));
        EXPECT_TRUE(pool.may_be_newer(other, rig.engine.log->tail()));
        EXPECT_FALSE(pool.may_be_newer(id, rig.engine.log->tail()));
    });
}

// Pages in memory and pages of the file take turns.
TEST(BufferPoolCopy, APageOutOfMemoryComesFromTheFile) {
    PagesRig rig(kPages, {.cleaner = false});
    threads::OffloadPool copier{1};
    rig.run([&] {
        for (uint32_t i = 0; i < kPages; ++i) {
            auto page = rig.pool().fix_exclusive(rig.pages[i]);
            ASSERT_TRUE(page);
            ASSERT_TRUE(CounterPage::set(rig.engine, *page, 100 + i));
        }
        ASSERT_TRUE(rig.pool().write_dirty(0));
        for (uint32_t i = 0; i < kPages; i += 3) {
            ExclusivePage page;
            ASSERT_TRUE(rig.pool().try_fix_exclusive(rig.pages[i], page));
            rig.pool().drop(std::move(page));
        }
        auto memory = threads::make_aligned_buffer(kPages * kPageBytes, threads::PageSize::huge);
        ASSERT_TRUE(memory);
        Page* const out = reinterpret_cast<Page*>(memory->get());
        uint32_t count = kPages;
        const auto done = rig.pool().copy_pages(rig.pages.front(), count, out, copier);
        ASSERT_TRUE(done) << done.error().text();
        ASSERT_EQ(count, kPages);
        for (uint32_t i = 0; i < kPages; ++i) {
            EXPECT_EQ(CounterPage::get(out[i]), 100 + i);
            EXPECT_EQ(out[i].header.checksum, page_checksum(out[i], rig.pages[i]));
            EXPECT_EQ(rig.pool().resident(rig.pages[i]) == nullptr, i % 3 == 0);
        }
    });
}

}  // namespace lockstep::sm::buffer_pool_copy_test
