// labels: unit
// heap_space_test.cc - pages whose free space an open transaction holds are found again later.
#include <deque>

#include "tests/sm/heap/heap_test_util.h"

namespace lockstep::sm {
namespace {

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

}  // namespace
}  // namespace lockstep::sm
