// labels: unit
// chunk_reader_test.cc - the chunks of an index and of a heap: together they are all records, each
// once, and the reader rests after each page with nothing held (RB-6, RB-7).
#include "sm/scan/chunk_reader.h"

#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::scan::chunk_reader_test {

constexpr uint32_t kRecords = 20'000;

std::string number_bytes(uint32_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }

class ChunkReader : public ::testing::Test {
protected:
    // Sees what has committed.
    ChunkReader() { all_.sees = all_.quiet = Lsn{kLsnMax.value - 1}; }
    struct Chunks {
        std::vector<uint32_t> numbers;  // in the order of reading
        size_t chunks = 0, rests = 0;
        Lsn newest{};
    };
    // Of the column `number`, chunk by chunk.
    Chunks read_all(const Object& object, const char* text) {
        const Columns columns = *Columns::parse(text);
        const std::vector<std::string> cuts = *cut_object(object);
        Chunks out;
        for (size_t i = 0; i <= cuts.size(); ++i, ++out.chunks) {
            const ChunkRange range{i == 0 ? Slice() : Slice(cuts[i - 1]),
                                   i == cuts.size() ? Slice() : Slice(cuts[i])};
            const uint16_t wanted[] = {0};
            pool_of(object).read_ahead(missing_pages(object, range));
            auto made = read_chunk(object, all_, range, columns, wanted, [&] {
                EXPECT_EQ(threads::current()->latch_depth, 0u);  // RB-6
                ++out.rests;
            });
            EXPECT_TRUE(made) << made.error().text();
            if (!made) return out;
            out.newest = std::max(out.newest, made->newest);
            for (const auto& block : made->blocks)
                for (size_t row = 0; row < block->rows; ++row)
                    out.numbers.push_back(block->of(0).data.as<uint32_t>()[row]);
        }
        return out;
    }
    static void expect_all(std::vector<uint32_t> numbers) {
        std::ranges::sort(numbers);
        ASSERT_EQ(numbers.size(), kRecords);
        for (uint32_t n = 0; n < kRecords; ++n) ASSERT_EQ(numbers[n], n);
    }
    TestEngine store_;
    Snapshot all_;
};

TEST_F(ChunkReader, LeavesOfAnIndex) {
    TestTree tree(store_);
    store_.on_thread([&] {
        auto& txn = store_.begin();
        for (uint32_t n = 0; n < kRecords; ++n)
            ASSERT_OK(tree->insert(txn, number_key(n), number_bytes(n) + std::string(90, 'v')));
        store_.commit(txn);
        const Chunks chunks = read_all(&*tree, "number u32 value 0");
        expect_all(chunks.numbers);
        EXPECT_TRUE(std::ranges::is_sorted(chunks.numbers));
        const auto leaves = tree.sound().pages_leaf;
        EXPECT_EQ(chunks.rests, leaves);  // RB-7
        EXPECT_GE(chunks.chunks, leaves / 32);
        EXPECT_GT(chunks.newest, kLsnNone);
    });
}

// Also of one with a second map page, and with records that have moved.
TEST_F(ChunkReader, PagesOfAHeap) {
    store_.on_thread([&] {
        auto& txn = store_.begin();
        HeapFile& heap = **store_->catalog->create_heap(txn, "heap");
        store_.commit(txn);
        std::vector<RecordId> ids;
        for (uint32_t n = 0; n < kRecords;) {
            store_.wait_for_log();
            auto& some = store_.begin();
            for (const uint32_t end = n + 500; n < end; ++n)
                ids.push_back(*heap.insert(some, number_bytes(n) + std::string(700, 'v')));
            store_.commit(some);
        }
        const Object object = &heap;
        const Chunks before = read_all(object, "number u32 value 0");
        expect_all(before.numbers);
        const auto pages = heap.verify()->pages_leaf;
        ASSERT_GT(pages, 1600u);  // of one map page
        EXPECT_EQ(before.rests, pages);
        EXPECT_EQ(before.chunks, 50 + (pages - 1600 + 31) / 32);
        auto& mover = store_.begin();
        for (uint32_t n = 0; n < kRecords; n += 997)
            ASSERT_TRUE(*heap.update(mover, ids[n], number_bytes(n) + std::string(5000, 'm')));
        store_.commit(mover);
        const Chunks after = read_all(object, "number u32 value 0");
        expect_all(after.numbers);
        EXPECT_GT(after.newest, before.newest);
        // The ids are those of the insert, wherever the records are.
        const Columns columns = *Columns::parse("number u32 value 0, rid u64 id");
        const uint16_t wanted[] = {0, 1};
        const auto made = read_chunk(object, all_, {}, columns, wanted, [] {});
        ASSERT_OK(made);
        for (const auto& block : made->blocks)
            for (size_t row = 0; row < block->rows; ++row) {
                const RecordId id = ids[block->of(0).data.as<uint32_t>()[row]];
                ASSERT_EQ(block->of(1).data.as<uint64_t>()[row],
                          uint64_t{id.page.value} << 16 | id.slot.value);
            }
    });
}

}  // namespace lockstep::sm::scan::chunk_reader_test
