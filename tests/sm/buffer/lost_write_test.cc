// labels: unit steps
// lost_write_test.cc - pages whose last write was acknowledged and never
// arrived: healed from the log or named, also after a restart (LW-1..4).
#include <algorithm>
#include <fstream>

#include "sm/catalog/catalog.h"
#include "tests/sm/buffer/pool_test_util.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::lost_write_test {

using sm::CounterPage;
using sm::PoolRig;

class LostInTheSameRun : public ::testing::Test {
protected:
    void SetUp() override {
        rig_.run([&] { sm::make_pages(rig_.engine, 4, pages_); });
        rig_.run([&] { rig_.forget(pages_[0].value, pages_[3].value + 1); });
    }
    // Changes the page, has it written, and puts back what lay there before.
    void lose_write_of(PageId id) {
        const std::string before = rig_.read_raw(id);
        rig_.run([&] {
            auto page = rig_.engine.pool->fix_exclusive(id);
            ASSERT_TRUE(page);
            ASSERT_TRUE(CounterPage::set(rig_.engine, *page, 77));
            lsn_ = (*page)->lsn();
        });
        rig_.run([&] { rig_.forget(pages_[0].value, pages_[3].value + 1); });
        rig_.write_raw(id, before);
    }
    PoolRig rig_;
    std::vector<PageId> pages_;
    Lsn lsn_{};
};

TEST_F(LostInTheSameRun, OldPageIsNamedWithBothLsns) {
    const std::string old = rig_.read_raw(pages_[1]);
    lose_write_of(pages_[1]);
    rig_.run([&] {
        const auto page = rig_.engine.pool->fix_shared(pages_[1]);
        ASSERT_FALSE(page);
        EXPECT_EQ(page.error().code, ErrorCode::lost_write) << page.error().text();
        EXPECT_EQ(page.error().a, pages_[1].value);
        EXPECT_EQ(page.error().b, lsn_.value);
        sm::Page was;
        std::memcpy(static_cast<void*>(&was), old.data(), kPageBytes);
        EXPECT_EQ(page.error().c, was.header.lsn);
        EXPECT_TRUE(rig_.engine.pool->fix_shared(pages_[2]));
        EXPECT_EQ(rig_.engine.pool->stats().lost_writes, 1u);
    });
}

TEST_F(LostInTheSameRun, PageThatNeverArrivedAtAllIsNamed) {
    rig_.write_raw(pages_[2], std::string(kPageBytes, 0));
    rig_.run([&] {
        const auto page = rig_.engine.pool->fix_optimistic(pages_[2]);
        ASSERT_FALSE(page);
        EXPECT_EQ(page.error().code, ErrorCode::lost_write);
        EXPECT_EQ(page.error().c, 0u);
    });
}

// BP-3: the log has lost the record that the page has, and has grown beyond its place since.
TEST_F(LostInTheSameRun, APageFromALogThatWasLostIsNoData) {
    sm::Page page;
    std::memcpy(static_cast<void*>(&page), rig_.read_raw(pages_[0]).data(), kPageBytes);
    page.header.lsn += 8;
    page.header.checksum = page_checksum(page, pages_[0]);
    rig_.write_raw(pages_[0], {reinterpret_cast<const char*>(page.bytes()), kPageBytes});
    rig_.run([&] {
        EXPECT_LT(page.header.lsn, rig_.engine.log->tail().value);
        const auto fixed = rig_.engine.pool->fix_shared(pages_[0]);
        ASSERT_FALSE(fixed);
        EXPECT_EQ(fixed.error().code, ErrorCode::corrupt_page) << fixed.error().text();
        EXPECT_EQ(fixed.error().a, pages_[0].value);
        EXPECT_EQ(fixed.error().b, 4u);
    });
}

TEST_F(LostInTheSameRun, RepairThatIsItselfTooOldIsNotBelieved) {
    const std::string old = rig_.read_raw(pages_[1]);
    lose_write_of(pages_[1]);
    rig_.engine.pool->set_repair([&](PageId, sm::Page& page) -> Result<bool> {
        std::memcpy(static_cast<void*>(&page), old.data(), kPageBytes);
        return true;
    });
    rig_.run([&] { EXPECT_FALSE(rig_.engine.pool->fix_shared(pages_[1])); });
    rig_.engine.pool->set_repair(
        [&](PageId id, sm::Page& page) { return sm::repair_page(rig_.engine, id, page); });
    rig_.run([&] {
        ASSERT_OK(rig_.engine.log->wait_durable(rig_.engine.log->tail()));
        auto page = rig_.engine.pool->fix_shared(pages_[1]);
        ASSERT_OK(page);
        EXPECT_EQ(CounterPage::get(**page), 77u);
    });
}

// Over restarts: real files, of which one page is put back to what it was.
class LostBeforeARestart : public StoreCrash {
protected:
    static Options options(std::string* warnings = nullptr) {
        Options o = small_options();
        o.log_bytes = 8 << 20;
        o.log_segment_bytes = 1 << 20;
        o.log_ring_bytes = 1 << 20;
        if (warnings)
            o.logger = [warnings](int level, std::string_view text) {
                if (level <= 1) *warnings += std::string(text) + "\n";
            };
        return o;
    }
    static void fill(Store& store, const char* heap, uint64_t seed, size_t bytes) {
        Rng rng(seed);
        for (size_t done = 0; done < bytes; done += 20 * 1000)
            ASSERT_OK(store.run(
                [&](Txn& txn) -> Result<void> {
                    for (int i = 0; i < 20; ++i)
                        TRY(TRY(store.heap(heap)).insert(txn, random_text(rng, 1000)));
                    return {};
                },
                {.durability = txn::Durability::lazy}));
    }
    std::string read_file(const std::string& name) {
        std::ifstream in(path("a") + "/" + name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write_file(const std::string& name, size_t at, const std::string& bytes) {
        std::fstream out(path("a") + "/" + name, std::ios::binary | std::ios::in | std::ios::out);
        out.seekp(static_cast<std::streamoff>(at));
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    // A heap "h" on pages of its own, its first pages' bytes as of then, then a change of every
    // record, written at the close.
    void prepare(size_t log_afterwards) {
        Store store = open("a", options());
        make(store, "i", "h");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(store.create_heap(txn, "other"));
            return {};
        }));
        fill(store, "h", 1, 200'000);
        ASSERT_OK(store.checkpoint());
        before_ = read_file("data");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            std::vector<RecordId> ids;
            const Heap heap = TRY(store.heap("h"));
            TRY(heap.scan(txn, [&](RecordId id, Slice) { return ids.push_back(id), true; }));
            victim_ = ids.front().page;
            for (const RecordId id : ids) TRY(heap.update(txn, id, "new"));
            return {};
        }));
        ASSERT_OK(store.checkpoint());
        fill(store, "other", 2, log_afterwards);
        ASSERT_OK(store.close());
    }
    void lose_victim() {
        write_file("data", uint64_t{victim_.value} * kPageBytes,
                   before_.substr(uint64_t{victim_.value} * kPageBytes, kPageBytes));
    }
    Result<uint64_t> count_new(Store& store) {
        uint64_t n = 0;
        auto done = store.run([&](Txn& txn) -> Result<void> {
            return TRY(store.heap("h")).scan(txn, [&](RecordId, Slice value) {
                return n += value == "new", true;
            });
        });
        if (!done) return std::unexpected(done.error());
        return n;
    }

    std::string before_;
    PageId victim_{};
};

TEST_F(LostBeforeARestart, HealedWhileTheLogHasIt) {
    prepare(0);
    lose_victim();
    Store store = open("a", options());
    auto found = count_new(store);
    ASSERT_OK(found);
    EXPECT_EQ(*found, 200u);
    EXPECT_EQ(store.stats().lost_writes, 1u);
    EXPECT_EQ(store.stats().page_repairs, 1u);
    expect_sound(store);
    ASSERT_OK(store.close());
}

TEST_F(LostBeforeARestart, NamedOnceTheLogIsGone) {
    prepare(6 << 20);
    lose_victim();
    for (int round = 0; round < 2; ++round) {  // nothing forgets it meanwhile
        Store store = open("a", options());
        auto faults = store.verify();
        ASSERT_OK(faults);
        EXPECT_TRUE(std::any_of(faults->begin(), faults->end(), [&](const std::string& f) {
            return f.starts_with("lost_write") &&
                   f.find("(" + std::to_string(victim_.value) + ",") != std::string::npos;
        })) << (faults->empty() ? "no fault" : faults->front());
        auto found = count_new(store);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code, ErrorCode::lost_write);
        EXPECT_EQ(found.error().a, victim_.value);
        EXPECT_EQ(heap_content(store, "other").size(), 6 * (1 << 20) / 20000 * 20 + 20u);
        ASSERT_OK(store.close());
    }
}

TEST_F(LostBeforeARestart, WithoutTheSideFileThePageIsNotKnownAndSomebodyIsTold) {
    prepare(0);
    std::string warnings;
    std::filesystem::remove(path("a") + "/data.lsn");
    {
        Store store = open("a", options(&warnings));
        EXPECT_NE(warnings.find("data.lsn is missing"), std::string::npos) << warnings;
        EXPECT_EQ(*count_new(store), 200u);
        ASSERT_OK(store.close());
    }
    warnings.clear();
    Store store = open("a", options(&warnings));
    EXPECT_EQ(warnings, "");
    expect_sound(store);
    ASSERT_OK(store.close());
}

// A crash cuts off the first save of a block, which goes to its second slot. Nothing was known
// before, so nothing is lost.
TEST_F(LostBeforeARestart, AFirstSaveThatIsCutOffIsNoDamage) {
    prepare(0);
    const size_t slot = sm::WrittenLsns::kSlotBytes;
    ASSERT_GE(read_file("data.lsn").size(), 2 * slot);
    const auto warnings_with = [&](const std::string& first, const std::string& second) {
        write_file("data.lsn", 0, first);
        write_file("data.lsn", slot, second);
        std::string warnings;
        Store store = open("a", options(&warnings));
        EXPECT_TRUE(store.close());
        return warnings;
    };
    const std::string none(slot, '\0'),
        torn = std::string(512, '\0') + std::string(slot - 512, '#');
    EXPECT_EQ(warnings_with(none, std::string(slot, '#')), "");
    EXPECT_EQ(warnings_with(none, torn), "");
    EXPECT_NE(warnings_with(std::string(slot, '#'), none), "");
    EXPECT_NE(warnings_with(torn, std::string(slot, '#')), "");
}

// One slot of the side file is torn: the other one counts. Both: not known, and a warning.
TEST_F(LostBeforeARestart, TornSideFile) {
    prepare(6 << 20);
    lose_victim();
    const std::string lsns = read_file("data.lsn");
    ASSERT_GE(lsns.size(), 2 * sm::WrittenLsns::kSlotBytes);
    const uint64_t block = victim_.value / sm::WrittenLsns::kPagesPerBlock;
    const auto save_of = [&](uint64_t slot) {
        uint64_t save;
        std::memcpy(&save, lsns.data() + (2 * block + slot) * sm::WrittenLsns::kSlotBytes + 24,
                    sizeof save);
        return save;
    };
    const uint64_t newer = save_of(1) > save_of(0);
    write_file("data.lsn", (2 * block + newer) * sm::WrittenLsns::kSlotBytes + 512,
               std::string(512, '#'));
    {
        std::string warnings;
        Store store = open("a", options(&warnings));
        EXPECT_EQ(warnings, "");
        // The slot before this one asks for the same.
        auto found = count_new(store);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code, ErrorCode::lost_write);
        ASSERT_OK(store.close());
    }
    write_file("data.lsn", 0, std::string(lsns.size(), '#'));
    std::string warnings;
    Store store = open("a", options(&warnings));
    EXPECT_NE(warnings.find("blocks of data.lsn are damaged"), std::string::npos) << warnings;
    // Unprotected, as ever before: an old page passes for a good one.
    EXPECT_TRUE(count_new(store));
    ASSERT_OK(store.close());
}

}  // namespace lockstep::lost_write_test
