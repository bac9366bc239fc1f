// labels: unit
// heap_test.cc - heap files: round trips, moving records, undo, reuse of slots and room.
#include <set>

#include "sm/heap/heap_page.h"
#include "tests/sm/heap/heap_test_util.h"

namespace lockstep::sm::heap_test {

TEST_F(HeapTest, InsertFetchUpdateErase) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        const RecordId a = insert(t, "alpha"), b = insert(t, ""),
                       c = insert(t, std::string(8000, 'c'));
        EXPECT_EQ(get(t, a), "alpha");
        EXPECT_EQ(get(t, b), "");
        EXPECT_EQ(get(t, c), std::string(8000, 'c'));
        EXPECT_TRUE(update(t, a, "a longer value than before"));
        EXPECT_TRUE(update(t, b, "b"));
        EXPECT_TRUE(erase(t, c));
        EXPECT_EQ(get(t, c), "-");
        EXPECT_FALSE(erase(t, c));
        EXPECT_FALSE(update(t, c, "x"));
        store_.commit(t);
        auto& u = store_.begin();
        EXPECT_EQ(all(u),
                  (std::map<RecordId, std::string>{{a, "a longer value than before"}, {b, "b"}}));
        store_.commit(u);
        EXPECT_EQ(verify().records, 2u);
    });
}

TEST_F(HeapTest, TooLongAndUnknownIds) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        auto long_one = heap_->insert(t, std::string(kHeapRecordBytesMax + 1, 'x'));
        ASSERT_FALSE(long_one);
        EXPECT_EQ(long_one.error().code, ErrorCode::value_too_long);
        const RecordId a = insert(t, "a");
        for (const RecordId id :
             {RecordId{}, RecordId{PageId{0}, SlotNo{0}}, RecordId{PageId{2}, SlotNo{1}},
              RecordId{a.page, SlotNo{9}}, RecordId{a.page, SlotNo{65535}},
              RecordId{heap_->first_page(), SlotNo{0}}, RecordId{PageId{1u << 30}, SlotNo{0}}}) {
            EXPECT_EQ(get(t, id), "-");
            EXPECT_FALSE(update(t, id, "x"));
            EXPECT_FALSE(erase(t, id));
        }
        store_.commit(t);
    });
}

TEST_F(HeapTest, FixedBufferGetsWhatFits) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        const RecordId a = insert(t, "abcdef");
        std::byte buffer[4] = {};
        ValueOut out{.fixed = buffer, .capacity = 4};
        auto found = heap_->fetch(t, a, Access::read, out);
        ASSERT_TRUE(found.has_value() && *found);
        EXPECT_EQ(out.bytes, 6u);
        EXPECT_EQ(std::memcmp(buffer, "abcd", 4), 0);
        store_.commit(t);
    });
}

TEST_F(HeapTest, GrowingRecordMovesAndKeepsItsId) {  // HF-1, HF-2
    store_.on_thread([&] {
        auto& t = store_.begin();
        std::vector<RecordId> ids;
        for (int i = 0; i < 60; ++i)
            ids.push_back(insert(t, std::string(120, static_cast<char>('A' + i % 26))));
        store_.commit(t);
        std::map<RecordId, std::string> expected;
        for (const size_t size : {3000u, 5000u, 7900u, 10u, 8000u}) {
            auto& u = store_.begin();
            for (int i = 0; i < 60; i += 3)
                EXPECT_TRUE(
                    update(u, ids[i],
                           expected[ids[i]] = std::string(size, static_cast<char>('a' + i % 26))));
            for (int i = 0; i < 60; ++i)
                if (i % 3) expected[ids[i]] = std::string(120, static_cast<char>('A' + i % 26));
            EXPECT_EQ(all(u), expected);
            store_.commit(u);
            verify();
        }
        auto& u = store_.begin();
        for (const RecordId id : ids) EXPECT_TRUE(erase(u, id));
        EXPECT_TRUE(all(u).empty());
        store_.abort(u);
        auto& v = store_.begin();
        EXPECT_EQ(all(v), expected);
        store_.commit(v);
        verify();
    });
}

// HF-2.
TEST_F(HeapTest, AnotherRecordsMovedCopyIsRefused) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        RecordId ids[2];
        for (RecordId& id : ids) id = insert(t, "short");
        while (insert(t, std::string(500, 'f')).page == ids[0].page) {}
        for (const RecordId id : ids) ASSERT_TRUE(update(t, id, std::string(3000, 'm')));
        ASSERT_EQ(ids[0].page, ids[1].page);
        {
            const Result<ExclusivePage> page = store_->pool->fix_exclusive(ids[0].page);
            ASSERT_OK(page);
            Slice links[2];
            for (int i = 0; i < 2; ++i) {
                const heap::Slot& slot = heap::slot(**page, ids[i].slot.value);
                ASSERT_TRUE(slot.state & heap::kStub);
                links[i] = heap::content(**page, slot);
            }
            ASSERT_NE(links[0], links[1]);
            std::memcpy(const_cast<char*>(links[0].data()), links[1].data(), links[0].size());
        }
        std::string text;
        ValueOut out{.text = &text};
        const auto found = heap_->fetch(t, ids[0], Access::read, out);
        ASSERT_FALSE(found.has_value());
        EXPECT_EQ(found.error().code, ErrorCode::corrupt_page);
        EXPECT_EQ(get(t, ids[1]), std::string(3000, 'm'));
        store_.commit(t);
    });
}

TEST_F(HeapTest, MovedRecordComesHomeWhenThereIsRoom) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        const RecordId a = insert(t, std::string(100, 'a')),
                       big = insert(t, std::string(7800, 'b'));
        ASSERT_EQ(a.page, big.page);
        EXPECT_TRUE(update(t, a, std::string(4000, 'A')));  // away
        store_.commit(t);
        auto& u = store_.begin();
        EXPECT_TRUE(erase(u, big));
        store_.commit(u);
        auto& v = store_.begin();
        // Beside the moved copy or at home: either way room gets short.
        const RecordId filler = insert(v, std::string(3500, 'f'));
        EXPECT_TRUE(update(v, a, std::string(7900, 'H')));
        EXPECT_EQ(get(v, a), std::string(7900, 'H'));
        store_.abort(v);
        auto& w = store_.begin();
        EXPECT_EQ(get(w, a), std::string(4000, 'A'));
        EXPECT_EQ(get(w, filler), "-");
        EXPECT_TRUE(update(w, a, std::string(7900, 'H')));
        store_.commit(w);
        auto& x = store_.begin();
        EXPECT_EQ(get(x, a), std::string(7900, 'H'));
        store_.commit(x);
        verify();
    });
}

TEST_F(HeapTest, AbortRestoresEverything) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        std::map<RecordId, std::string> before;
        for (int i = 0; i < 40; ++i) {
            const std::string text =
                "record " + std::to_string(i) + std::string(static_cast<size_t>(i * 7), '.');
            before[insert(t, text)] = text;
        }
        store_.commit(t);
        auto& u = store_.begin();
        int i = 0;
        for (const auto& [id, text] : before) switch (i++ % 4) {
                case 0: EXPECT_TRUE(erase(u, id)); break;
                case 1: EXPECT_TRUE(update(u, id, "short")); break;
                case 2: EXPECT_TRUE(update(u, id, std::string(4000, 'L'))); break;
                default: insert(u, "new");
            }
        store_.abort(u);
        auto& v = store_.begin();
        EXPECT_EQ(all(v), before);
        store_.commit(v);
        verify();
    });
}

TEST_F(HeapTest, SavepointUndoesOnlyWhatFollowed) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        const RecordId a = insert(t, "a"), b = insert(t, "b");
        const Lsn first = t.last_lsn;
        EXPECT_TRUE(update(t, a, "A"));
        const Lsn second = t.last_lsn;
        EXPECT_TRUE(erase(t, b));
        const RecordId c = insert(t, "c");
        ASSERT_OK(rollback(*store_, t, second));
        EXPECT_EQ(get(t, a), "A");
        EXPECT_EQ(get(t, b), "b");
        EXPECT_EQ(get(t, c), "-");
        EXPECT_TRUE(update(t, b, "B"));
        ASSERT_OK(rollback(*store_, t, first));
        EXPECT_EQ(get(t, a), "a");
        EXPECT_EQ(get(t, b), "b");
        EXPECT_TRUE(update(t, a, "after"));
        store_.commit(t);
        auto& u = store_.begin();
        EXPECT_EQ(all(u), (std::map<RecordId, std::string>{{a, "after"}, {b, "b"}}));
        store_.commit(u);
    });
}

// HF-3, and the room: others fill the page while a deleter and a shortener are live; both must find
// their bytes again.
TEST_F(HeapTest, RoomOfLiveTransactionsIsNotGivenAway) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        std::vector<RecordId> ids;
        for (int i = 0; i < 8; ++i)
            ids.push_back(insert(t, std::string(990, static_cast<char>('a' + i))));
        store_.commit(t);
        auto& deleter = store_.begin();
        for (int i = 0; i < 4; ++i) EXPECT_TRUE(erase(deleter, ids[i]));
        for (int i = 4; i < 8; ++i) EXPECT_TRUE(update(deleter, ids[i], "x"));
        auto& other = store_.begin(txn::Isolation::serializable, 100 * kMillisecond);
        for (int i = 0; i < 30; ++i) {
            const RecordId id = insert(other, std::string(700, 'o'));
            for (const RecordId taken : ids) EXPECT_NE(id, taken);
        }
        store_.commit(other);
        store_.abort(deleter);
        auto& u = store_.begin();
        for (int i = 0; i < 8; ++i)
            EXPECT_EQ(get(u, ids[i]), std::string(990, static_cast<char>('a' + i)));
        store_.commit(u);
        EXPECT_EQ(verify().records, 38u);
    });
}

// The holder of the whole heap has no locks on records: its own ghosts' room is not free either, it
// may still roll back.
TEST_F(HeapTest, RoomOfTheWholeHeapsHolderIsNotGivenAway) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        std::vector<RecordId> ids;
        for (int i = 0; i < 8; ++i)
            ids.push_back(insert(t, std::string(990, static_cast<char>('a' + i))));
        store_.commit(t);
        auto& holder = store_.begin();
        ASSERT_OK(store_->locks->lock_object(holder.locks, heap_->lock(), txn::LockMode::X));
        for (int i = 0; i < 7; ++i) EXPECT_TRUE(erase(holder, ids[i]));
        EXPECT_TRUE(update(holder, ids[7], std::string(5000, 'o')));
        store_.abort(holder);
        auto& u = store_.begin();
        for (int i = 0; i < 8; ++i)
            EXPECT_EQ(get(u, ids[i]), std::string(990, static_cast<char>('a' + i)));
        store_.commit(u);
        EXPECT_EQ(verify().records, 8u);
    });
}

// Slots emptied by a rollback to a savepoint stay locked: inserters pass them by instead of
// waiting.
TEST_F(HeapTest, LockedEmptySlotsArePassedBy) {
    store_.on_thread([&] {
        auto& holder = store_.begin();
        insert(holder, "keeps the transaction writing");
        const Lsn point = holder.last_lsn;
        std::set<RecordId> emptied;
        for (int i = 0; i < 40; ++i) emptied.insert(insert(holder, "gone"));
        ASSERT_OK(rollback(*store_, holder, point));
        auto& other = store_.begin(txn::Isolation::serializable, 5 * kMillisecond);
        for (int i = 0; i < 40; ++i) EXPECT_FALSE(emptied.contains(insert(other, "new")));
        store_.commit(other);
        store_.commit(holder);
        auto& last = store_.begin();
        EXPECT_TRUE(emptied.contains(insert(last, "takes an empty slot")));
        store_.commit(last);
        EXPECT_EQ(verify().records, 42u);
    });
}

// The same for copies of records that outgrow their page, which take a slot without a lock on it.
TEST_F(HeapTest, MovedRecordsPassLockedSlotsBy) {
    store_.on_thread([&] {
        auto& load = store_.begin();
        std::vector<RecordId> growing;
        for (int i = 0; i < 16; ++i) growing.push_back(insert(load, std::string(480, 'g')));
        store_.commit(load);
        auto& holder = store_.begin();
        insert(holder, std::string(1000, 'h'));  // in the next page
        const Lsn point = holder.last_lsn;
        std::vector<RecordId> emptied;
        for (int i = 0; i < 10; ++i) emptied.push_back(insert(holder, std::string(400, 'e')));
        ASSERT_OK(rollback(*store_, holder, point));
        auto& other = store_.begin();
        for (const RecordId id : growing) ASSERT_TRUE(update(other, id, std::string(900, 'G')));
        uint32_t beside = 0;  // slots in pages of the emptied ones that are in use
        for (const RecordId id : emptied) {
            auto page = store_->pool->fix_shared(id.page);
            ASSERT_OK(page);
            if (id.slot.value < heap::data(**page).slot_count) {
                EXPECT_EQ(heap::slot(**page, id.slot.value).state, heap::kEmpty)
                    << "a copy lies in a slot that another transaction has locked";
            }
            for (uint32_t i = 0; i < heap::data(**page).slot_count; ++i)
                beside += (heap::slot(**page, i).state & heap::kMoved) != 0;
        }
        EXPECT_GT(beside, 0u) << "the test is blind";
        store_.commit(other);
        store_.commit(holder);
        EXPECT_EQ(verify().records, 17u);
    });
}

TEST_F(HeapTest, RoomOfEndedTransactionsIsUsedAgain) {
    store_.on_thread([&] {
        uint64_t pages = 0;
        for (int round = 0; round < 20; ++round) {
            auto& t = store_.begin();
            std::vector<RecordId> ids;
            for (int i = 0; i < 100; ++i) ids.push_back(insert(t, std::string(700, 'r')));
            store_.commit(t);
            auto& u = store_.begin();
            for (const RecordId id : ids) EXPECT_TRUE(erase(u, id));
            store_.commit(u);
            const BTree::Report report = verify();
            EXPECT_EQ(report.records, 0u);
            if (round == 1) pages = report.pages_leaf;
            if (round > 1) {
                EXPECT_LE(report.pages_leaf, pages + 1);
            }
        }
    });
}

TEST_F(HeapTest, ManyPagesNeedSeveralMapPages) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        const std::string record(7000, 'p');
        for (uint32_t i = 0; i < heap::kMapEntries + 50; ++i) {
            insert(t, record);
            if (i % 200 == 199) {
                store_.commit(t);
                ASSERT_EQ(&store_.begin(), &t);  // the same object is taken again
            }
        }
        store_.commit(t);
        const BTree::Report report = verify();
        EXPECT_EQ(report.pages_inner, 2u);
        EXPECT_EQ(report.records, heap::kMapEntries + 50);
        const uint64_t used = store_->space->pages_used();
        ASSERT_OK(heap_->destroy());
        EXPECT_EQ(store_->space->pages_used(), used - report.pages.size());
    });
}

TEST_F(HeapTest, AMapPageWithTooManyEntriesIsRefused) {
    store_.on_thread([&] {
        const PageId map = heap_->first_page();
        auto& t = store_.begin();
        insert(t, "record");
        uint16_t before = 0;
        const auto set_entries = [&](uint16_t entries) {
            const Result<ExclusivePage> page = store_->pool->fix_exclusive(map);
            ASSERT_OK(page);
            auto& body = const_cast<heap::MapBody&>(heap::map(**page));
            before = std::exchange(body.entries, entries);
        };
        set_entries(heap::kMapEntries + 1);
        const auto scanned = heap_->scan(t, [](RecordId, Slice) { return true; });
        ASSERT_FALSE(scanned);
        EXPECT_EQ(scanned.error().code, ErrorCode::corrupt_page);
        EXPECT_EQ(scanned.error().a, map.value);
        set_entries(before);
        EXPECT_EQ(all(t).size(), 1u);
        store_.commit(t);
    });
}

}  // namespace lockstep::sm::heap_test
