// fuzz_log.cc - a log of any bytes: the reader stops where no record is, the walk over parts ends
// in corrupt_log, nothing else happens.
//
// Input      pieces: raw bytes, or a record with a proper checksum around any header and any parts;
//            then bytes of log.mark.
#include <memory>

#include "sm/change/page_image.h"
#include "tests/fuzz/fuzz_input.h"
#include "threads/io/sim_disk.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_files.h"

namespace lockstep::fuzz {
namespace {

using namespace txn;
constexpr uint64_t kSegmentBytes = 64 * 1024;

// A packed image of a page that repeats a piece of the input, with changed bytes.
std::string packed_image(Input& in) {
    auto page = std::make_unique<sm::Page>();
    sm::format_page(*page, PageId{9}, ObjectId{16}, sm::PageKind::btree);
    const std::string piece = in.bytes(1 + in.byte() % 60);
    for (size_t at = sizeof(sm::PageHeader); !piece.empty() && at + piece.size() <= kPageBytes;
         at += piece.size())
        std::memcpy(page->bytes() + at, piece.data(), piece.size());
    page->header.hole_begin = static_cast<uint16_t>(sizeof(sm::PageHeader) + in.byte());
    page->header.hole_end =
        static_cast<uint16_t>(page->header.hole_begin + in.get<uint16_t>() % 5000);
    uint32_t bytes = 0;
    const std::unique_ptr<std::byte[]> packed(sm::pack_image(*page, bytes));
    std::string image(reinterpret_cast<const char*>(packed.get()), packed ? bytes : 0);
    for (unsigned n = in.byte() % 4; n > 0 && !image.empty(); --n)
        image[in.below(static_cast<uint32_t>(image.size()))] = static_cast<char>(in.byte());
    if (in.byte() % 8 == 0 && !image.empty())
        image.resize(in.below(static_cast<uint32_t>(image.size())));
    return image;
}

// One part as page_change writes it, but with the input's idea of sizes and flags now and then.
std::string part(Input& in) {
    sm::PartHeader header{.page = in.byte(),
                          .action = in.byte(),
                          .flags = in.byte(),
                          .image_bytes = 0,
                          .payload_bytes = 0,
                          .reserved = 0};
    std::string image;
    if ((header.flags & sm::kPartPacked) && in.byte() % 4 != 0) {
        image = packed_image(in);
        header.flags = image.empty() ? header.flags : sm::kPartImage | sm::kPartPacked;
        header.image_bytes = static_cast<uint16_t>(image.size());
        image.resize(log_align(static_cast<uint32_t>(image.size())));
    }
    const std::string payload = in.bytes(in.byte());
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    if (in.byte() % 4 == 0) header.payload_bytes = in.get<uint32_t>();
    if (in.byte() % 4 == 0) header.image_bytes = in.get<uint16_t>();
    std::string text(reinterpret_cast<const char*>(&header), sizeof header);
    text += image;
    text += payload;
    text.resize(log_align(static_cast<uint32_t>(text.size())));
    return text;
}

std::string record(Input& in, uint64_t lsn) {
    LogRecordHeader header{.bytes = 0,
                           .checksum = 0,
                           .prev = in.byte() * 8u,
                           .txn = in.byte(),
                           .kind = in.byte(),
                           .flags = in.byte(),
                           .parts = in.byte(),
                           .object = in.byte()};
    std::string body;
    for (unsigned n = in.byte() % 4; n > 0; --n) body += part(in);
    header.bytes = static_cast<uint32_t>(sizeof header + body.size());
    std::string text(reinterpret_cast<const char*>(&header), sizeof header);
    text += body;
    auto* placed = reinterpret_cast<LogRecordHeader*>(text.data());
    placed->checksum = log_checksum(placed, header.bytes, Lsn{lsn});
    return text;
}

void write_file(threads::SimDisk& disk, const std::string& path, const std::string& text) {
    const auto file = disk.open(path, threads::Disk::kCreate);
    CHECK(file && disk.write_now(*file, 0, text.data(), text.size()));
    disk.close(*file);
}

void walk(threads::SimDisk& disk, const LogOptions& options, uint64_t from, uint64_t end) {
    LogReader reader(disk, options);
    reader.seek(Lsn{from});
    LogRecordView view;
    uint64_t records = 0;
    for (;;) {
        const auto more = reader.next(view);
        CHECK(more.has_value());
        if (!*more) break;
        CHECK(view.end() == reader.position() && view.end().value <= end &&
              ++records <= end / sizeof(LogRecordHeader));
        use(sm::describe_record(view));
        uint32_t cursor = 0;
        sm::PartView p;
        for (auto part = sm::next_part(view, cursor, p); part.has_value() && *part;
             part = sm::next_part(view, cursor, p)) {
            CHECK(cursor <= view.payload_bytes());
            use(std::string(p.image) + std::string(p.payload));
            if (!p.image.empty()) {
                auto page = std::make_unique<sm::Page>();
                use(sm::bring_image(*page, p));
            }
        }
    }
}

}  // namespace

int fuzz_log(const uint8_t* data, size_t size) {
    Input in(data, size);
    std::string mark = in.bytes(in.byte());
    mark.resize(2 * DurableEnd::kSlotBytes);
    // A whole mark that promises something.
    if (in.byte() & 1)
        DurableEnd{.sequence = in.byte(),
                   .durable_end = in.get<uint32_t>(),
                   .segment_bytes = kSegmentBytes}
            .encode(reinterpret_cast<std::byte*>(mark.data()));
    std::string log(kLogFirst, 0);
    while (!in.empty() && log.size() < 2 * kSegmentBytes)
        log += in.byte() % 8 == 0 ? in.bytes(1 + in.byte()) : record(in, log.size());
    const uint64_t end = log.size();
    log.resize(2 * kSegmentBytes);

    threads::SimDisk disk;
    CHECK(disk.make_directory("/log"));
    const LogOptions options{.directory = "/log", .segment_bytes = kSegmentBytes};
    write_file(disk, "/log/log.00000000", log.substr(0, kSegmentBytes));
    if (end > kSegmentBytes)
        write_file(disk, "/log/log.00000001", log.substr(kSegmentBytes, kSegmentBytes));
    write_file(disk, "/log/log.mark", mark);
    walk(disk, options, kLogFirst, 2 * kSegmentBytes);
    walk(disk, options, block_floor(end / 2) + 8, 2 * kSegmentBytes);
    use(recorded_durable_end(disk, "/log"));
    return 0;
}

}  // namespace lockstep::fuzz
