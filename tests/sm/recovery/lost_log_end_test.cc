// labels: sim
// lost_log_end_test.cc - damage behind the recorded durable end that other files can tell: the
// checkpoint that the superblock names (RC-6), and the LSNs of pages (LE-1).
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sm/buffer/superblock.h"
#include "sm/buffer/written_lsns.h"
#include "sm/engine/engine.h"
#include "tests/code_of.h"
#include "tests/sim_store.h"
#include "tests/sm/index_content.h"
#include "tests/sm/test_util.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log.h"
#include "txn/log/log_files.h"

namespace lockstep::lost_log_end_test {

using threads::FileId;
using threads::SimCrash;
using threads::SimDisk;
using txn::DurableEnd;

class LostLogEnd : public ::testing::Test {
protected:
    static constexpr uint64_t kSegment = 1 << 20;
    static constexpr uint64_t kSlot = DurableEnd::kSlotBytes;

    static void put(Store& store, Txn& txn, int from, int to, const std::string& value) {
        const auto index = store.index("i");
        ASSERT_OK(index);
        for (int n = from; n < to; ++n)
            ASSERT_OK(index->put(txn, "key" + std::to_string(1000 + n), value));
    }
    static void make(Store& store) {
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(store.create_index(txn, "i"));
            return {};
        }));
    }
    static void commit(Store& store, int from, int to, const std::string& value) {
        auto txn = store.begin();
        ASSERT_OK(txn);
        put(store, *txn, from, to, value);
        ASSERT_OK(txn->commit());
    }
    static FileId file(SimDisk& disk, const char* name) {
        const auto found = disk.open(std::string("/store/") + name, 0);
        EXPECT_TRUE(found) << name;
        return *found;
    }
    static sm::Superblock superblock(SimDisk& disk) {
        const FileId data = file(disk, "data");
        const auto block = sm::read_superblock(disk, data);
        disk.close(data);
        EXPECT_TRUE(block);
        return *block;
    }
    // Calls fn with each record from the checkpoint on.
    static void each_record(SimDisk& disk,
                            const std::function<void(const txn::LogRecordView&)>& fn) {
        txn::LogReader reader(disk, {.directory = "/store", .segment_bytes = kSegment});
        reader.seek(Lsn{superblock(disk).checkpoint_lsn});
        for (txn::LogRecordView record; *reader.next(record);) fn(record);
    }
    // What the checkpoint and all later records have from the list on is zeros.
    static Lsn list_of_checkpoint(SimDisk& disk) {
        Lsn list{};
        each_record(disk, [&](const txn::LogRecordView& record) {
            if (record.header->kind == static_cast<uint16_t>(txn::TxnLogKind::checkpoint_end))
                list = record.lsn;
        });
        EXPECT_NE(list, kLsnNone);
        return list;
    }
    static void damage_log(SimDisk& disk, Lsn at) {
        const txn::LogFiles files(disk, "/store", kSegment);
        const auto segment = files.open(files.number_of(at.value), 0);
        ASSERT_OK(segment);
        const uint64_t zero = 0;
        ASSERT_OK(disk.write_now(*segment, at.value % kSegment, &zero, sizeof zero));
        disk.close(*segment);
    }
    // Both copies are whole and know no more than `end`; or the newer one of them is lost.
    static void put_mark_back(SimDisk& disk, Lsn end, bool newer_lost) {
        auto mark = DurableEnd::load(disk, "/store/log.mark");
        ASSERT_TRUE(mark && *mark);
        const FileId at = file(disk, "log.mark");
        (**mark).durable_end = end.value;
        (**mark).sequence += 2 * DurableEnd::kFirstSequenceMax;  // of a log that has run for long
        for (int copy = 0; copy < 2; ++copy, ++(**mark).sequence)
            ASSERT_OK((**mark).store(disk, at));
        const std::string nothing(kSlot, '\0');
        const uint64_t newer = ((**mark).sequence - 1) % 2 * kSlot;
        if (newer_lost) ASSERT_OK(disk.write_now(at, newer, nothing.data(), kSlot));
        disk.close(at);
    }
    // The open is refused, as often as it is tried, and no file of the store changes.
    static void expect_refused(SimDisk& disk, bool read_only = false) {
        for (int tries = 0; tries < 2; ++tries) {
            SimStore store(disk);
            store.options().read_only = read_only;
            const auto opened = store.open();
            EXPECT_EQ(code_of(opened), ErrorCode::corrupt_log);
        }
    }
    static Result<std::map<std::string, std::string>> content(SimDisk& disk) {
        SimStore store(disk);
        TRY(store.open());
        std::map<std::string, std::string> found;
        store.on_thread([&] { found = index_content(*store, "i"); });
        TRY(store.close());
        return found;
    }

    SimDisk disk_;
    SimStore store_{disk_};
};

// The list is in the last flush, and nothing that is newer stamps it. Without the list the
// transaction would not be rolled back: all its records are below the checkpoint.
TEST_F(LostLogEnd, TheCheckpointThatTheSuperblockNamesIsThereAsAWhole) {
    ASSERT_OK(store_.open());
    std::unique_ptr<SimDisk> image;
    store_.on_thread([&] {
        make(*store_);
        commit(*store_, 0, 10, "committed");
        auto loser = store_->begin();
        ASSERT_OK(loser);
        put(*store_, *loser, 5, 20, "not committed");
        ASSERT_OK(store_->checkpoint());
        image = disk_.image(1, SimCrash::keep_all);
        ASSERT_OK(loser->abort());
    });
    ASSERT_OK(store_.close());
    auto sound = image->image(1, SimCrash::keep_all);
    const auto state = content(*sound);
    ASSERT_OK(state);
    EXPECT_EQ(state->size(), 10u);
    put_mark_back(*image, Lsn{superblock(*image).checkpoint_lsn}, false);
    damage_log(*image, list_of_checkpoint(*image));
    expect_refused(*image);
}

// The same of a closed store with a transaction in doubt, which must not be read as it is.
TEST_F(LostLogEnd, AClosedStoreHasItsLastCheckpoint) {
    ASSERT_OK(store_.open());
    store_.on_thread([&] {
        make(*store_);
        auto txn = store_->begin();
        ASSERT_OK(txn);
        put(*store_, *txn, 0, 10, "in doubt");
        ASSERT_OK(txn->prepare("gid"));
    });
    ASSERT_OK(store_.close());
    put_mark_back(disk_, Lsn{superblock(disk_).checkpoint_lsn}, false);
    damage_log(disk_, list_of_checkpoint(disk_));
    expect_refused(disk_, true);
    expect_refused(disk_);
}

// A crash between the save of the pages' LSNs and the superblock. One copy of log.mark is lost, and
// the log is damaged behind the other one: only data.lsn knows how far the log was durable.
TEST_F(LostLogEnd, PagesTellHowFarTheLogWasDurable) {
    ASSERT_OK(store_.open());
    std::unique_ptr<SimDisk> image;
    Lsn first{};
    store_.on_thread([&] {
        make(*store_);
        commit(*store_, 0, 10, "committed");
        ASSERT_OK(store_->checkpoint());
        commit(*store_, 10, 20, "later");
        first = store_.engine().log->tail();
        auto loser = store_->begin();
        ASSERT_OK(loser);
        put(*store_, *loser, 20, 30, "not committed");
        disk_.observe([&](const threads::SimEvent& event) {
            const bool saved = event.kind == threads::SimEvent::completed &&
                               event.path == "/store/data.lsn" && event.io == threads::IoKind::sync;
            if (saved && !image) image = disk_.image(1, SimCrash::keep_all);
        });
        ASSERT_OK(store_->checkpoint());
        disk_.observe(nullptr);
        ASSERT_OK(loser->abort());
    });
    ASSERT_OK(store_.close());
    ASSERT_TRUE(image);
    put_mark_back(*image, Lsn{superblock(*image).checkpoint_lsn}, true);
    auto sound = image->image(1, SimCrash::keep_all);
    const auto state = content(*sound);
    ASSERT_OK(state);
    EXPECT_EQ(state->size(), 20u);
    damage_log(*image, first);
    expect_refused(*image);
    SimStore refused(*image);
    const auto opened = refused.open();
    ASSERT_FALSE(opened);
    const std::string text = opened.error().text();
    EXPECT_NE(text.find("data.lsn"), std::string::npos) << text;
    // Without it the open can only warn. Here nothing is lost: the transaction was not committed.
    ASSERT_OK(image->unlink("/store/data.lsn"));
    const auto left = content(*image);
    ASSERT_OK(left);
    EXPECT_EQ(*left, *state);
}

}  // namespace lockstep::lost_log_end_test
