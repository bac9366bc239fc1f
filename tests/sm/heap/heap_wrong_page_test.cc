// labels: unit
// heap_wrong_page_test.cc - a page of the volume with a sound checksum that is not the data page
// its heap's map names. Who needs it gets corrupt_page, never "no such record"; inserts go
// elsewhere.
#include <fstream>
#include <set>

#include <lockstep/store.h>
#include "sm/heap/heap_page.h"
#include "tests/sm/engine_test_util.h"

namespace lockstep::sm::heap_wrong_page_test {

constexpr int kRecords = 300;

// What takes the place of the page.
enum class Wrong { zeros, other_heap, other_kind };

class HeapWrongPage : public ::testing::TestWithParam<Wrong> {
protected:
    // Each page has room for further records.
    HeapWrongPage() {
        store_.on_thread([&] {
            auto& txn = store_.begin();
            const auto heap = store_->catalog->create_heap(txn, "h");
            const auto other = store_->catalog->create_heap(txn, "other");
            ASSERT_OK(heap);
            ASSERT_OK(other);
            id_ = (*heap)->id();
            other_ = (*other)->id();
            for (int i = 0; i < kRecords; ++i) {
                records_.push_back(*(*heap)->insert(txn, std::string(500, 'r')));
                ASSERT_OK((*other)->insert(txn, std::string(500, 'o')));
            }
            store_.commit(txn);
            auto& eraser = store_.begin();
            for (int i = 0; i < kRecords; i += 3) {
                ASSERT_TRUE(*(*heap)->erase(eraser, records_[static_cast<size_t>(i)]));
            }
            store_.commit(eraser);
        });
        store_.close();
        damage();
        store_.open();
        heap_ = *store_->catalog->heap("h");
    }
    std::string data_path() const { return store_.directory() + "/data"; }
    Page read(PageId id) {
        Page page;
        std::ifstream file(data_path(), std::ios::binary);
        file.seekg(static_cast<std::streamoff>(uint64_t{id.value} * kPageBytes));
        file.read(reinterpret_cast<char*>(&page), kPageBytes);
        EXPECT_TRUE(file.good());
        return page;
    }
    // Puts the wrong page in the place of a page in the middle.
    void damage() {
        victim_ = records_[kRecords / 2 + 1].page;
        Page wrong = read(victim_);
        ASSERT_EQ(wrong.header.object, id_.value);
        switch (GetParam()) {
            case Wrong::zeros: std::memset(static_cast<void*>(&wrong), 0, kPageBytes); break;
            case Wrong::other_heap: wrong.header.object = other_.value; break;
            case Wrong::other_kind:
                std::memset(static_cast<void*>(wrong.body), 0xff, sizeof wrong.body);
                wrong.header.kind = static_cast<uint8_t>(PageKind::overflow);
                break;
        }
        if (GetParam() != Wrong::zeros) wrong.header.checksum = page_checksum(wrong, victim_);
        std::fstream file(data_path(), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(uint64_t{victim_.value} * kPageBytes));
        file.write(reinterpret_cast<const char*>(&wrong), kPageBytes);
        ASSERT_TRUE(file.good());
        std::filesystem::remove(store_.directory() + "/data.lsn");
    }
    template <class T>
    void expect_named(const Result<T>& done, const char* what) {
        ASSERT_FALSE(done.has_value()) << what;
        EXPECT_EQ(done.error().code, ErrorCode::corrupt_page) << what << done.error().text();
        EXPECT_EQ(done.error().a, victim_.value) << what << done.error().text();
    }

    TestEngine store_;
    HeapFile* heap_ = nullptr;
    ObjectId id_{}, other_{};
    PageId victim_{};
    std::vector<RecordId> records_;
};

TEST_P(HeapWrongPage, ScansNameIt) {
    store_.on_thread([&] {
        for (const auto isolation : {txn::Isolation::serializable, txn::Isolation::repeatable_read,
                                     txn::Isolation::read_committed}) {
            auto& txn = store_.begin(isolation);
            int seen = 0;
            expect_named(heap_->scan(txn, [&](RecordId, Slice) { return ++seen > 0; }), "scan ");
            EXPECT_GT(seen, 0);
            store_.abort(txn);
        }
    });
}

TEST_P(HeapWrongPage, ItsRecordsAreNotCalledErased) {
    const RecordId record = records_[kRecords / 2 + 1];
    store_.on_thread([&] {
        auto& txn = store_.begin();
        std::string text;
        ValueOut out{.text = &text};
        expect_named(heap_->fetch(txn, record, Access::read, out), "fetch ");
        expect_named(heap_->update(txn, record, "new"), "update ");
        expect_named(heap_->erase(txn, record), "erase ");
        // A page that is not the heap's has none of its records.
        EXPECT_FALSE(*heap_->fetch(txn, {heap_->first_page(), SlotNo{0}}, Access::read, out));
        store_.abort(txn);
    });
}

TEST_P(HeapWrongPage, SnapshotsNameIt) {
    store_.close();
    {
        auto store = Store::open(store_.directory(), small_options());
        ASSERT_OK(store);
        const auto heap = store->heap("h");
        ASSERT_OK(heap);
        std::string text;
        const TxnOptions snapshot{.isolation = Isolation::snapshot};
        expect_named(store->run(
                         [&](Txn& txn) -> Result<void> {
                             TRY(heap->get(txn, records_[kRecords / 2 + 1], text));
                             return {};
                         },
                         snapshot),
                     "get ");
        expect_named(
            store->run(
                [&](Txn& txn) { return heap->scan(txn, [](RecordId, Slice) { return true; }); },
                snapshot),
            "scan ");
    }
    store_.open();
}

TEST_P(HeapWrongPage, InsertsGoElsewhere) {
    store_.on_thread([&] {
        auto& txn = store_.begin();
        std::set<PageId> pages;
        for (int i = 0; i < kRecords; ++i) {
            const auto made = heap_->insert(txn, std::string(i % 2 == 0 ? 500 : 1500, 'n'));
            ASSERT_TRUE(made) << "insert " << i << ": " << made.error().text();
            EXPECT_NE(made->page, victim_);
            pages.insert(made->page);
        }
        store_.commit(txn);
        // All other pages have room, too.
        for (const RecordId record : records_)
            EXPECT_EQ(pages.contains(record.page), record.page != victim_) << "the test is blind";
    });
}

INSTANTIATE_TEST_SUITE_P(All, HeapWrongPage,
                         ::testing::Values(Wrong::zeros, Wrong::other_heap, Wrong::other_kind));

}  // namespace lockstep::sm::heap_wrong_page_test
