// labels: unit
// heap_space_test.cc - pages whose free space an open transaction holds are found again later.
#include <malloc.h>

#include <deque>
#include <vector>

#include "tests/sm/heap/heap_test_util.h"
#include "threads/base/sanitized.h"

#ifdef LOCKSTEP_SANITIZED
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // of the sanitizer's runtime
#endif

namespace lockstep::sm::heap_space_test {

class HeapSpaceTest : public HeapTest {
protected:
    // A queue in a heap: each round takes `batch` records out and puts as many in. With `overlap`
    // the insert comes before the eraser ends. Returns the heap's pages.
    size_t pages_of_queue(size_t bytes, int batch, int rounds, bool overlap) {
        const std::string record(bytes, 'r');
        std::deque<RecordId> queue;
        const auto put = [&] {
            auto& txn = store_.begin();
            for (int i = 0; i < batch; ++i) queue.push_back(insert(txn, record));
            store_.commit(txn);
        };
        for (int i = 0; i < 10; ++i) put();
        for (int round = 0; round < rounds; ++round) {
            store_.wait_for_log();
            auto& eraser = store_.begin();
            for (int i = 0; i < batch; ++i) {
                EXPECT_TRUE(erase(eraser, queue.front()));
                queue.pop_front();
            }
            if (overlap) put();
            store_.commit(eraser);
            if (!overlap) put();
        }
        const StructureReport report = verify();
        EXPECT_EQ(report.records, queue.size());
        return report.pages.size();
    }
};

TEST_F(HeapSpaceTest, AQueueWhoseErasersOverlapItsInsertersDoesNotGrow) {
    store_.on_thread([&] {
        for (const auto& [bytes, batch] :
             {std::pair<size_t, int>{7000, 1}, {7000, 12}, {3000, 5}, {500, 40}}) {
            const ObjectId id{600 + static_cast<uint32_t>(bytes) + static_cast<uint32_t>(batch)};
            size_t pages[2];
            for (const bool overlap : {false, true}) {
                const auto first = HeapFile::create(*store_, ObjectId{id.value + overlap});
                ASSERT_OK(first);
                heap_ = std::make_unique<HeapFile>(*store_, ObjectId{id.value + overlap}, *first);
                pages[overlap] = pages_of_queue(bytes, batch, 400, overlap);
            }
            // The pages that two erasers hold, and those of the records in between.
            EXPECT_LE(pages[1], 2 * pages[0] + 4) << bytes << " bytes, " << batch << " records";
        }
    });
}

size_t bytes_allocated() {
#ifdef LOCKSTEP_SANITIZED
    return __sanitizer_get_current_allocated_bytes();
#else
    return mallinfo2().uordblks;
#endif
}

// Each erase that gives a page much room adds the page to a list of such pages, once more. The heap
// stays small, so its lists do.
TEST_F(HeapSpaceTest, TheListsOfPagesWithRoomAreBounded) {
    store_.on_thread([&] {
        const std::string record(3000, 'r');
        const auto fill_and_empty = [&](int rounds) {
            for (int round = 0; round < rounds; ++round) {
                store_.wait_for_log();
                std::vector<RecordId> records;
                auto& inserter = store_.begin();
                for (int i = 0; i < 10; ++i) records.push_back(insert(inserter, record));
                store_.commit(inserter);
                auto& eraser = store_.begin();
                for (const RecordId id : records) EXPECT_TRUE(erase(eraser, id));
                store_.commit(eraser);
            }
            return bytes_allocated();
        };
        const size_t before = fill_and_empty(200);
        EXPECT_LE(fill_and_empty(3000), before + (32 << 10));
    });
}

}  // namespace lockstep::sm::heap_space_test
