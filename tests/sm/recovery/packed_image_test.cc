// labels: sim
// packed_image_test.cc - a store whose log has packed page images: how much log they save, what a
// restart makes of them, and which format versions are opened.
#include <gtest/gtest.h>

#include <string>

#include "sm/buffer/superblock.h"
#include "sm/change/log_kinds.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep {
namespace {

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
            EXPECT_TRUE(next);
            if (!next || !*next) break;
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
uint32_t version_of(SimDisk& disk) {
    const auto file = disk.open("/store/data", 0);
    const auto block = sm::read_superblock(disk, *file);
    disk.close(*file);
    return block ? block->version : 0;
}

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
    {
        const auto file = disk.open("/store/data", 0);
        ASSERT_OK(file);
        const auto read = sm::read_superblock(disk, *file);
        ASSERT_OK(read);
        block = *read;
        disk.close(*file);
    }
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

}  // namespace
}  // namespace lockstep
