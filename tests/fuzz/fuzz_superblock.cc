// fuzz_superblock.cc - superblock, log mark and catalog with any values under proper checksums:
// opening succeeds or names what is wrong.
//
// Input      changes to the fields of both superblock copies, to both slots of the log mark and to
//            the bytes of the catalog's records.
#include <memory>

#include <xxhash.h>

#include "sm/btree/btree_node.h"
#include "sm/buffer/superblock.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/sim_image.h"

namespace lockstep::fuzz {
namespace {

using namespace sm;
using threads::SimDisk;

void change_page(SimDisk& disk, uint32_t number, auto change) {
    const auto file = disk.open("/store/data", 0);
    auto page = std::make_unique<Page>();
    CHECK(file && disk.read_now(*file, uint64_t{number} * kPageBytes, page.get(), kPageBytes));
    change(*page);
    page->header.checksum = page_checksum(*page, PageId{number});
    CHECK(disk.write_now(*file, uint64_t{number} * kPageBytes, page.get(), kPageBytes));
    disk.close(*file);
}

void change_superblock(SimDisk& disk, Input& in) {
    const uint8_t copies = in.byte();
    const unsigned at = in.byte() % sizeof(Superblock), bytes = 1 + in.byte() % 8;
    const std::string fresh = in.bytes(bytes);
    for (uint32_t copy = 0; copy < 2; ++copy)
        if (copies >> copy & 1)
            change_page(disk, copy, [&](Page& page) {
                std::memcpy(page.body + at, fresh.data(),
                            std::min<size_t>(fresh.size(), sizeof(Superblock) - at));
            });
}

void change_mark(SimDisk& disk, Input& in) {
    const auto file = disk.open("/store/log.mark", 0);
    alignas(8) char slot[48];
    const uint64_t at = (in.byte() & 1) * 4096;
    CHECK(file && disk.read_now(*file, at, slot, sizeof slot));
    const unsigned place = in.byte() % 40;
    const std::string fresh = in.bytes(1 + in.byte() % 8);
    std::memcpy(slot + place, fresh.data(), std::min<size_t>(fresh.size(), 40 - place));
    const uint64_t checksum = XXH3_64bits(slot, 40);
    std::memcpy(slot + 40, &checksum, sizeof checksum);
    CHECK(disk.write_now(*file, at, slot, sizeof slot));
    disk.close(*file);
}

// Values of the catalog's records: {number, kind, root}. The page stays a sound node.
void change_catalog(SimDisk& disk, uint32_t root, Input& in) {
    change_page(disk, root, [&](Page& page) {
        const unsigned count = node::count(page);
        if (page.kind() != PageKind::btree || !node::is_leaf(page) || count == 0) return;
        const Slice value = node::value(page, in.byte() % count);
        const std::string fresh = in.bytes(1 + in.byte() % 4);
        const size_t at = in.byte() % (value.size() + 1);
        std::memcpy(const_cast<char*>(value.data()) + at, fresh.data(),
                    std::min(fresh.size(), value.size() - at));
    });
}

}  // namespace

int fuzz_superblock(const uint8_t* data, size_t size) {
    Input in(data, size);
    const auto disk = base_image(in.byte() & 1);
    const auto file = disk->open("/store/data", 0);
    const auto block = read_superblock(*disk, *file);
    disk->close(*file);
    CHECK(block);
    for (int n = 0; n < 8 && !in.empty(); ++n) switch (in.byte() % 3) {
            case 0: change_superblock(*disk, in); break;
            case 1: change_mark(*disk, in); break;
            default: change_catalog(*disk, block->catalog_root, in);
        }
    open_and_use(*disk);
    return 0;
}

}  // namespace lockstep::fuzz
