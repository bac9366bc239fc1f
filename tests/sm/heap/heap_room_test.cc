// labels: model
// heap_room_test.cc - behind random changes of several transactions no room of a heap is forgotten:
// inserts fill all of its pages before it grows for good.
#include <set>
#include <vector>

#include "sm/heap/heap_page.h"
#include "tests/seed_of_run.h"
#include "tests/sm/heap/heap_test_util.h"
#include "threads/base/rng.h"
#include "threads/thread/thread.h"

namespace lockstep::sm::heap_room_test {

class HeapRoom : public HeapTest {
protected:
    HeapRoom() {
        store_.on_thread([&] { begin_heap("h"); });
    }
    ~HeapRoom() override { (void)heap_.release(); }
    // A heap of the catalog: undo finds it there.
    void begin_heap(const std::string& name) {
        auto& txn = store_.begin();
        const auto made = store_->catalog->create_heap(txn, name);
        ASSERT_OK(made);
        (void)heap_.release();
        heap_.reset(*made);
        store_.commit(txn);
        records_.clear();
    }

    struct Open {
        txn::Transaction* txn;
        std::set<RecordId> touched;
        std::map<RecordId, size_t> changed;  // bytes; 0: erased
    };
    size_t draw_size() {
        const size_t most[] = {60, 1100, 3000, kHeapRecordBytesMax};
        return 1 + rng_.below(most[rng_.below(4)]);
    }
    // A record that no open transaction has touched.
    std::optional<RecordId> draw_record() {
        if (records_.empty()) return {};
        auto at = std::next(records_.begin(), static_cast<long>(rng_.below(records_.size())));
        for (const Open& open : open_)
            if (open.touched.contains(at->first)) return {};
        return at->first;
    }
    void change(Open& open) {
        const uint64_t what = rng_.below(100);
        if (what < 45) {
            const size_t bytes = draw_size();
            const RecordId id = insert(*open.txn, std::string(bytes, 'i'));
            open.touched.insert(id);
            open.changed[id] = bytes;
            return;
        }
        const auto id = draw_record();
        if (!id) return;
        open.touched.insert(*id);
        if (what < 75) {
            EXPECT_TRUE(erase(*open.txn, *id));
            open.changed[*id] = 0;
        } else {
            const size_t bytes = draw_size();
            EXPECT_TRUE(update(*open.txn, *id, std::string(bytes, 'u')));
            open.changed[*id] = bytes;
        }
    }
    void end(size_t n) {
        Open open = open_[n];
        open_.erase(open_.begin() + static_cast<long>(n));
        if (rng_.chance(0.3)) return store_.abort(*open.txn);
        store_.commit(*open.txn);
        for (const auto& [id, bytes] : open.changed) {
            if (bytes == 0) records_.erase(id);
            else records_[id] = bytes;
        }
    }
    // Those of the pages whose class promises a record of that length.
    std::vector<PageId> with_room(const std::vector<PageId>& pages, size_t bytes) {
        constexpr uint32_t kClass = heap::kClassBytes;
        const uint32_t needed =
            heap::capacity_for(bytes) + static_cast<uint32_t>(sizeof(heap::Slot));
        std::vector<PageId> found;
        for (const PageId id : pages) {
            const auto page = store_->pool->fix_shared(id);
            if ((*page)->kind() == PageKind::heap &&
                heap::class_of(**page) >= (needed + kClass - 1) / kClass)
                found.push_back(id);
        }
        threads::yield();
        return found;
    }
    // An insert looks at a few pages only, so the heap may grow while the lists of candidates have
    // places of pages that have filled up meanwhile.
    void fill(size_t bytes) {
        std::vector<PageId> left = with_room(verify().pages, bytes);
        const size_t before = left.size();
        std::vector<RecordId> filled;
        while (!left.empty() && filled.size() * bytes < 3 * (before + 100) * kPageBytes) {
            store_.wait_for_log();
            auto& txn = store_.begin();
            for (int n = 0; n < 20; ++n) filled.push_back(insert(txn, std::string(bytes, 'f')));
            store_.commit(txn);
            left = with_room(left, bytes);
        }
        EXPECT_TRUE(left.empty()) << left.size() << " of " << before << " pages with room for "
                                  << bytes << " bytes are forgotten";
        for (size_t n = 0; n < filled.size();) {
            store_.wait_for_log();
            auto& txn = store_.begin();
            for (const size_t end = std::min(filled.size(), n + 200); n < end; ++n)
                EXPECT_TRUE(erase(txn, filled[n]));
            store_.commit(txn);
        }
    }
    void run(int changes) {
        for (int n = 0; n < changes; ++n) {
            if (open_.size() < 3 && rng_.chance(0.2)) {
                store_.wait_for_log();
                open_.push_back({&store_.begin(), {}, {}});
            }
            if (open_.empty()) continue;
            const size_t one = rng_.below(open_.size());
            change(open_[one]);
            if (rng_.chance(0.1)) end(one);
        }
        while (!open_.empty()) end(0);
    }

    Rng rng_{seed_of_run()};
    std::map<RecordId, size_t> records_;  // committed
    std::vector<Open> open_;
};

TEST_F(HeapRoom, IsFoundBehindRandomChanges) {
    store_.on_thread([&] {
        for (int heap = 0; heap < 10; ++heap) {
            begin_heap(std::to_string(heap));
            for (int round = 0; round < 4 && !HasFailure(); ++round) {
                SCOPED_TRACE(std::to_string(heap) + ", round " + std::to_string(round));
                run(200);
                fill(rng_.chance(0.5) ? 6000 : 2500);
                run(100);
                fill(rng_.chance(0.5) ? 900 : 300);
            }
        }
    });
}

// What comes and goes again leaves the heap as large as one round makes it.
TEST_F(HeapRoom, IsUsedAgain) {
    store_.on_thread([&] {
        const auto pages_behind = [&](int rounds, auto round) {
            for (int n = 0; n < rounds; ++n) {
                store_.wait_for_log();
                round();
            }
            return verify().pages.size();
        };
        const auto rolled_back = [&] {
            auto& txn = store_.begin();
            for (int n = 0; n < 10; ++n) insert(txn, std::string(3000, 'r'));
            store_.abort(txn);
        };
        const size_t after_one = pages_behind(1, rolled_back);
        EXPECT_LE(pages_behind(100, rolled_back), after_one + 1);
        // Records grow and move away, come home, or shrink where they are.
        std::vector<RecordId> ids;
        const auto updated = [&] {
            auto& txn = store_.begin();
            while (ids.size() < 40) ids.push_back(insert(txn, "short"));
            for (const size_t bytes : {3000, 10, 1500})
                for (const RecordId id : ids) EXPECT_TRUE(update(txn, id, std::string(bytes, 'u')));
            store_.commit(txn);
        };
        const size_t after_few = pages_behind(3, updated);
        EXPECT_LE(pages_behind(100, updated), after_few + 10);
    });
}

}  // namespace lockstep::sm::heap_room_test
