// superblock.cc - reading and writing the two copies of the superblock.
#include "sm/buffer/superblock.h"

#include <memory>
#include <optional>
#include <string>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace {

constexpr char kSuperblockMagic[8] = {'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'};

// The copy in page `number`, if it is whole.
std::optional<Superblock> copy_in(const Page& page, uint32_t number) {
    if (page.header.checksum != page_checksum(page, PageId{number}) ||
        page.header.page_id != number)
        return {};
    if (page.kind() != PageKind::superblock) return {};
    Superblock block;
    std::memcpy(&block, page.body, sizeof block);
    if (std::memcmp(block.magic, kSuperblockMagic, sizeof kSuperblockMagic) != 0) return {};
    return block;
}

[[gnu::cold]] std::unexpected<Error> unknown_version(uint32_t version) {
    Error error{.code = ErrorCode::bad_version,
                .what = "format version",
                .a = version,
                .b = kFormatVersion};
    const std::string known =
        std::to_string(kFormatVersionOldest) + " to " + std::to_string(kFormatVersion);
    set_error_detail(error, "the store has format version " + std::to_string(version) +
                                ", this program reads " + known +
                                (version > kFormatVersion
                                     ? ": use a newer program"
                                     : ": read its records with the program that made it (its "
                                       "`lockstep dump` prints them), and put them into a new "
                                       "store"));
    return std::unexpected(error);
}

}  // namespace

uint32_t make_superblock_page(Superblock& block, Page& page) {
    CHECK(std::memcmp(block.magic, kSuperblockMagic, sizeof kSuperblockMagic) == 0);
    // SB-1.
    const uint32_t number = static_cast<uint32_t>(++block.sequence & 1);
    format_page(page, PageId{number}, ObjectId{0}, PageKind::superblock);
    std::memcpy(page.body, &block, sizeof block);
    page.header.hole_begin = sizeof(PageHeader) + sizeof block;
    page.assert_state();
    DCHECK(page.header.page_id == number && (block.sequence & 1) == number);  // SB-1
    page.header.checksum = page_checksum(page, PageId{number});
    return number;
}

Result<Superblock> choose_superblock(const Page& first, const Page& second) {
    const std::optional<Superblock> even = copy_in(first, 0), odd = copy_in(second, 1);
    const Superblock* const copies[2] = {even ? &*even : nullptr, odd ? &*odd : nullptr};
    if (!copies[0] && !copies[1])
        return fail_with(ErrorCode::corrupt_superblock, "both copies of the superblock",
                         "pages 0 and 1 of the file data; restore the store from a backup");
    const uint32_t newer =
        !copies[0] || (copies[1] && copies[1]->sequence > copies[0]->sequence) ? 1 : 0;
    DCHECK(copies[newer] &&
           (!copies[1 - newer] || copies[newer]->sequence >= copies[1 - newer]->sequence));
    const Superblock& block = *copies[newer];
    if (!block.version_known()) return unknown_version(block.version);
    if (block.page_bytes != kPageBytes)
        return fail(ErrorCode::bad_version, "page size", block.page_bytes, kPageBytes);
    if ((block.sequence & 1) != newer)
        return fail(ErrorCode::corrupt_superblock, "sequence of the superblock", block.sequence);
    if (!block.plausible())
        return fail(ErrorCode::corrupt_superblock, "fields of the superblock", block.sequence);
    return block;
}

Result<Superblock> read_superblock(threads::Disk& disk, threads::FileId data) {
    auto pages = std::make_unique<Page[]>(2);
    for (uint32_t i = 0; i < 2; ++i) {
        std::memset(static_cast<void*>(&pages[i]), 0, kPageBytes);
        // A copy that cannot be read counts as damaged: the other one may do.
        auto got = disk.read_now(data, i * kPageBytes, &pages[i], kPageBytes);
        if (!got || *got != kPageBytes) std::memset(static_cast<void*>(&pages[i]), 0, kPageBytes);
    }
    return choose_superblock(pages[0], pages[1]);
}

Result<void> write_superblock(threads::Disk& disk, threads::FileId data, Superblock& block) {
    auto page = std::make_unique<Page>();
    const uint32_t number = make_superblock_page(block, *page);
    TRY(disk.write_now(data, number * kPageBytes, page.get(), kPageBytes));
    return disk.sync_now(data);
}

Result<void> store_superblock(threads::FileId data, Superblock& block) {
    auto page = std::make_unique<Page>();
    const uint32_t number = make_superblock_page(block, *page);
    return threads::io_write(data, number * kPageBytes, page.get(), kPageBytes,
                             threads::IoClass::write_back, "superblock");
}

}  // namespace lockstep::sm
