// labels: unit
// small_store_test.cc - what a store takes on the disk: an empty one at most a megabyte, whether it
// was closed or killed; then it grows with its content.
#include <sys/stat.h>

#include "tests/sm/store_crash_util.h"

namespace lockstep::small_store_test {

class SmallStore : public StoreCrash {
protected:
    static constexpr uint64_t kMegabyte = 1 << 20;

    // As `du -B1` counts: blocks of the directory and its files.
    static uint64_t bytes_on_disk(const std::string& directory) {
        struct stat status {};
        EXPECT_EQ(::stat(directory.c_str(), &status), 0);
        uint64_t blocks = static_cast<uint64_t>(status.st_blocks);
        for (const auto& entry : std::filesystem::directory_iterator(directory)) {
            EXPECT_EQ(::stat(entry.path().c_str(), &status), 0);
            blocks += static_cast<uint64_t>(status.st_blocks);
        }
        return blocks * 512;
    }
    // What applications get: sizes of log and segments are the defaults.
    static Options defaults(uint32_t workers) {
        Options o = small_options(workers);
        o.log_bytes = Options().log_bytes;
        o.log_segment_bytes = Options().log_segment_bytes;
        o.log_ring_bytes = Options().log_ring_bytes;
        return o;
    }
};

TEST_F(SmallStore, AnEmptyStoreTakesAtMostAMegabyte) {
    for (const uint32_t workers : {1u, 4u}) {
        SCOPED_TRACE(std::to_string(workers) + " workers");
        const std::string name = "s" + std::to_string(workers), killed = name + "-killed";
        {
            Store store = open(name, defaults(workers));
            EXPECT_LE(bytes_on_disk(path(name)), kMegabyte);
            on_thread(store, [&] { copy(name, killed); });
            ASSERT_OK(store.close());
        }
        std::printf("%u workers, empty: %llu bytes\n", workers,
                    static_cast<unsigned long long>(bytes_on_disk(path(name))));
        for (const std::string& which : {name, killed}) {
            for (int turn = 0; turn < 3; ++turn) {
                Store store = open(which, defaults(workers));
                expect_sound(store);
                EXPECT_LE(bytes_on_disk(path(which)), kMegabyte);
                ASSERT_OK(store.close());
                EXPECT_LE(bytes_on_disk(path(which)), kMegabyte);
            }
        }
    }
}

// A first table with a few rows still fits.
TEST_F(SmallStore, AFewRowsTakeLittleMore) {
    {
        Store store = open("s", defaults(1));
        make(store, "i", "h");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            for (int i = 0; i < 100; ++i)
                TRY(TRY(store.index("i")).insert(txn, std::to_string(i), "value"));
            return {};
        }));
        ASSERT_OK(store.close());
    }
    EXPECT_LE(bytes_on_disk(path("s")), 2 * kMegabyte);
}

TEST_F(SmallStore, TenMegabytesOfInsertsGrowIt) {
    constexpr uint32_t kRows = 10'000;
    {
        Store store = open("s", defaults(1));
        make(store, "i", "h");
        for (uint32_t from = 0; from < kRows; from += 100)
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store.index("i"));
                for (uint32_t i = from; i < from + 100; ++i)
                    TRY(index.insert(txn, std::to_string(1'000'000 + i), std::string(1024, 'v')));
                return {};
            }));
        EXPECT_GT(bytes_on_disk(path("s")), 20 * kMegabyte);  // data and log
        on_thread(store, [&] { copy("s", "killed"); });
        ASSERT_OK(store.close());
    }
    EXPECT_LT(bytes_on_disk(path("s")), 150 * kMegabyte);
    for (const char* which : {"s", "killed"}) {
        Store store = open(which, defaults(1));
        EXPECT_EQ(index_content(store, "i").size(), kRows);
        expect_sound(store);
        ASSERT_OK(store.close());
    }
}

}  // namespace lockstep::small_store_test
