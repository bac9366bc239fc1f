// labels: sim
// packed_image_test.cc - a store whose log has packed page images: how much log they save, what a
// restart makes of them, and which format versions are opened.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>

#include "sm/buffer/superblock.h"
#include "sm/change/log_kinds.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"
#include "txn/log/log_checksum.h"

namespace lockstep::packed_image_test {

using threads::SimCrash;
using threads::SimDisk;

constexpr int kRows = 4000, kEach = 50;

std::string key(int n) {
    std::string digits = std::to_string(n);
    return std::string(8 - digits.size(), '0') + digits;
}
std::string row(int n, const char* state) {
    return "{\"id\": " + std::to_string(n) + ", \"name\": \"Customer number " + std::to_string(n) +
           "\", \"street\": \"Storgatan\", \"city\": \"Uppsala\", \"country\": \"Sweden\", "
           "\"state\": \"" +
           state + "\", \"balance\": " + std::to_string(n * 17 % 1000) + "}";
}

void fill(Store& store) {
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.create_index(txn, "rows"));
        return {};
    }));
    for (int n = 0; n < kRows; n += 100)
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            for (int i = n; i < n + 100; ++i)
                TRY(TRY(store.index("rows")).insert(txn, key(i), row(i, "new")));
            return {};
        }));
    ASSERT_OK(store.checkpoint());
}

// Each row lies in another page.
void change(Store& store, const char* state) {
    for (int n = 0; n < kRows; n += kEach)
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            return TRY(store.index("rows")).put(txn, key(n), row(n, state));
        }));
}

void expect_rows(Store& store, const char* state) {
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        for (int n = 0; n < kRows; ++n) {
            std::string value;
            EXPECT_TRUE(TRY(TRY(store.index("rows")).get(txn, key(n), value)));
            EXPECT_EQ(value, row(n, n % kEach == 0 ? state : "new"));
        }
        return {};
    }));
}

struct Images {
    uint64_t packed = 0, plain = 0;
};
Images images_in_log(sm::Engine& engine, Lsn from) {
    Images found;
    std::string buffer;
    for (Lsn at = from; at < engine.log->tail();) {
        const auto record = engine.log->read(at, buffer);
        EXPECT_TRUE(record);
        if (!record) break;
        at = record->end();
        if (record->header->kind < txn::kSmLogKindFirst) continue;
        uint32_t cursor = 0;
        for (sm::PartView part;;) {
            const auto next = sm::next_part(*record, cursor, part);
            EXPECT_TRUE(next.has_value());
            if (!next.has_value() || !*next) break;
            if (part.flags & sm::kPartPacked) ++found.packed;
            else if (part.flags & sm::kPartImage) ++found.plain;
        }
    }
    return found;
}

// The bound of a small scale: a page of 30 rows logs less than 2 KB with its first change. It was
// 6 to 8 KB.
TEST(PackedImages, TheFirstChangesAfterACheckpointAreSmall) {
    SimDisk disk({.seed = 1});
    SimStore store(disk);
    ASSERT_OK(store.open());
    store.on_thread([&] { fill(*store); });
    const uint64_t before = store->stats().log_bytes;
    const Lsn from = store.engine().log->tail();
    store.on_thread([&] { change(*store, "moved"); });
    const uint64_t bytes = store->stats().log_bytes - before;
    Images images;
    store.on_thread([&] { images = images_in_log(store.engine(), from); });
    std::printf("%d first changes: %llu bytes of log, %llu packed images, %llu plain ones\n",
                kRows / kEach, static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(images.packed),
                static_cast<unsigned long long>(images.plain));
    EXPECT_GE(images.packed, static_cast<uint64_t>(kRows / kEach));
    EXPECT_LE(images.plain, 3u);
    EXPECT_LT(bytes, static_cast<uint64_t>(kRows / kEach) * 2500);
    ASSERT_OK(store.close());
}

// Redo brings the pages from packed images: the volume may hold any mixture of old and new.
TEST(PackedImages, ARestartBringsThePagesBack) {
    for (const SimCrash crash : threads::kSimCrashes) {
        SimDisk disk({.seed = 2});
        SimStore store(disk);
        ASSERT_OK(store.open());
        store.on_thread([&] {
            fill(*store);
            change(*store, "moved");
        });
        const auto left = disk.image(3, crash);
        store.abandon();
        SimStore again(*left);
        ASSERT_OK(again.open());
        again.on_thread([&] { expect_rows(*again, "moved"); });
        ASSERT_OK(again.close());
    }
}

// Both copies get the version.
void set_version(SimDisk& disk, sm::Superblock block, uint32_t version) {
    const auto file = disk.open("/store/data", 0);
    ASSERT_OK(file);
    block.version = version;
    for (int copy = 0; copy < 2; ++copy) ASSERT_OK(sm::write_superblock(disk, *file, block));
    disk.close(*file);
}
sm::Superblock superblock_of(SimDisk& disk) {
    const auto file = disk.open("/store/data", 0);
    const auto block = sm::read_superblock(disk, *file);
    disk.close(*file);
    return block.value_or(sm::Superblock{});
}
uint32_t version_of(SimDisk& disk) { return superblock_of(disk).version; }

// PI-3, SB-2. An older store is opened; its version rises with the first open for writing.
TEST(PackedImages, FormatVersions) {
    SimDisk disk({.seed = 4});
    sm::Superblock block;
    {
        SimStore store(disk);
        ASSERT_OK(store.open());
        store.on_thread([&] {
            fill(*store);
            change(*store, "moved");
        });
        ASSERT_OK(store.close());
    }
    block = superblock_of(disk);
    EXPECT_EQ(block.version, sm::kFormatVersion);
    for (const uint32_t unknown : {sm::kFormatVersionOldest - 1, sm::kFormatVersion + 1}) {
        set_version(disk, block, unknown);
        SimStore store(disk);
        const auto opened = store.open();
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, ErrorCode::bad_version);
        EXPECT_EQ(opened.error().a, unknown);
    }
    set_version(disk, block, sm::kFormatVersionOldest);
    {
        SimStore store(disk);
        store.options().read_only = true;
        ASSERT_OK(store.open());
        store.on_thread([&] { expect_rows(*store, "moved"); });
        ASSERT_OK(store.close());
    }
    EXPECT_EQ(version_of(disk), sm::kFormatVersionOldest);  // a reader changes nothing
    SimStore store(disk);
    ASSERT_OK(store.open());
    EXPECT_EQ(version_of(disk), sm::kFormatVersion);  // before the first record
    store.on_thread([&] {
        change(*store, "again");
        expect_rows(*store, "again");
    });
    ASSERT_OK(store.close());
    EXPECT_EQ(version_of(disk), sm::kFormatVersion);
}

// The disk's log as an older program has written it: long records, above 1 KB, have an XXH3.
class OldChecksums {
public:
    OldChecksums(SimDisk& disk, const sm::Superblock& block) : disk_(disk), block_(block) {}

    // From the log's begin to its end. Returns the number of long records.
    int write() {
        int n = 0;
        std::string record;
        for (uint64_t at = block_.log_start; valid_record(at, record); at += record.size()) {
            if (record.size() <= txn::kCrcBytesMax) continue;
            ++n;
            auto* header = reinterpret_cast<txn::LogRecordHeader*>(record.data());
            const uint64_t seed = at + header->bytes * 0x9e3779b97f4a7c15ull;
            header->checksum = static_cast<uint32_t>(
                XXH3_64bits_withSeed(record.data() + 8, record.size() - 8, seed));
            transfer(at, record.data(), record.size(), true);
        }
        return n;
    }

private:
    bool valid_record(uint64_t lsn, std::string& record) {
        txn::LogRecordHeader header{};
        if (!transfer(lsn, reinterpret_cast<char*>(&header), sizeof header, false) ||
            !txn::log_size_plausible(header.bytes))
            return false;
        record.resize(header.bytes);
        return transfer(lsn, record.data(), record.size(), false) &&
               txn::log_record_valid(reinterpret_cast<txn::LogRecordHeader*>(record.data()),
                                     record.size(), Lsn{lsn});
    }
    bool transfer(uint64_t lsn, char* bytes, size_t count, bool write) {
        while (count > 0) {
            const uint64_t offset = lsn % block_.log_segment_bytes;
            const size_t n = std::min<size_t>(count, block_.log_segment_bytes - offset);
            const auto name = fmt::format("/store/log.{:08}", lsn / block_.log_segment_bytes);
            if (!disk_.exists(name)) return false;
            const auto file = disk_.open(name, 0);
            if (!file) return false;
            const bool done = write ? disk_.write_now(*file, offset, bytes, n).has_value()
                                    : disk_.read_now(*file, offset, bytes, n).value_or(0) == n;
            disk_.close(*file);
            if (!done) return false;
            lsn += n, bytes += n, count -= n;
        }
        return true;
    }

    SimDisk& disk_;
    const sm::Superblock block_;
};

// A store of each older version that was not closed is recovered from its own log.
TEST(PackedImages, TheLogOfAnOlderVersionIsRead) {
    for (uint32_t version = sm::kFormatVersionOldest; version < sm::kFormatVersion; ++version) {
        SCOPED_TRACE(version);
        SimDisk disk({.seed = 5});
        SimStore store(disk);
        ASSERT_OK(store.open());
        store.on_thread([&] {
            fill(*store);
            change(*store, "moved");
        });
        const auto left = disk.image(3, SimCrash::drop_unsynced);
        store.abandon();
        const sm::Superblock block = superblock_of(*left);
        // Nearly each first change has a record of more than 1 KB.
        EXPECT_GT(OldChecksums(*left, block).write(), kRows / kEach * 9 / 10);
        set_version(*left, block, version);
        SimStore again(*left);
        ASSERT_OK(again.open());
        EXPECT_EQ(version_of(*left), sm::kFormatVersion);
        again.on_thread([&] { expect_rows(*again, "moved"); });
        ASSERT_OK(again.close());
    }
}

}  // namespace lockstep::packed_image_test
