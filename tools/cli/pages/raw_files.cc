// raw_files.cc - the sub-commands that only read files: dump-log and dump-page. They work on a
// store that cannot be opened.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include <cstring>

#include "sm/buffer/superblock.h"
#include "sm/change/log_kinds.h"
#include "threads/base/try.h"
#include "threads/io/io.h"
#include "tools/cli/commands.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/row_format.h"
#include "txn/log/log.h"

namespace lockstep::cli {
namespace {

struct Files {
    std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    threads::FileId data{-1};
    ~Files() {
        if (data.value >= 0) disk->close(data);
    }
    Result<void> open(const std::string& path) {
        TRY(require_store(path));
        data = TRY(disk->open(path + "/data", threads::Disk::kReadOnly));
        return {};
    }
};

const char* kind_name(uint8_t kind) {
    static constexpr const char* kNames[] = {"free",     "superblock", "space map", "b-tree",
                                             "overflow", "heap",       "heap map"};
    return kind < std::size(kNames) ? kNames[kind] : "unknown";
}

void print_bytes(const sm::Page& page) {
    for (size_t row = 0; row < kPageBytes; row += 16) {
        std::string hex, text;
        for (size_t i = row; i < row + 16; ++i) {
            const auto u = static_cast<unsigned char>(page.bytes()[i]);
            hex += fmt::format("{:02x} ", u);
            text += u >= 0x20 && u < 0x7f ? static_cast<char>(u) : '.';
        }
        fmt::print("{:04x}  {} {}\n", row, hex, text);
    }
}

// Behind the last record.
Result<Lsn> end_of_log(threads::Disk& disk, const txn::LogOptions& options,
                       const sm::Superblock& block) {
    txn::LogReader reader(disk, options);
    reader.seek(Lsn{block.checkpoint_lsn});
    for (txn::LogRecordView record; TRY(reader.next(record));) {}
    return reader.position();
}

}  // namespace

int dump_log(const std::string& path, std::optional<uint64_t> from, uint64_t count, bool json) {
    Files files;
    if (auto opened = files.open(path); !opened) return complain(path, opened.error(), json);
    const auto block = sm::read_superblock(*files.disk, files.data);
    if (!block) return complain(path, block.error(), json);
    txn::LogOptions options;
    options.directory = path;
    options.segment_bytes = block->log_segment_bytes;
    txn::LogReader reader(*files.disk, options);
    reader.seek(Lsn{from.value_or(block->checkpoint_lsn)});
    txn::LogRecordView record;
    uint64_t n = 0;
    for (; n < count; ++n) {
        const auto more = reader.next(record);
        if (!more.has_value()) return complain(path, more.error(), json);
        if (!*more) break;
        if (json)
            fmt::print("{}\n", nlohmann::ordered_json{{"lsn", record.lsn.value},
                                                      {"txn", record.header->txn},
                                                      {"object", record.header->object},
                                                      {"text", sm::describe_record(record)}}
                                   .dump());
        else fmt::print("{}\n", sm::describe_record(record));
    }
    if (from && n == 0 && count != 0) {
        const auto end = end_of_log(*files.disk, options, *block);
        if (!end) return complain(path, end.error(), json);
        if (Lsn{*from} != *end)
            return complain(path,
                            fmt::format("no sound record begins at LSN {}; the log has those "
                                        "from LSN {} on, and ends at LSN {}",
                                        *from, block->log_start, end->value),
                            json);
    }
    const auto durable = txn::recorded_durable_end(*files.disk, path);
    if (!durable) return complain(path, durable.error(), json);
    if (json)
        fmt::print("{{\"end\":{},\"recorded_durable_end\":{}}}\n", reader.position().value,
                   durable->value);
    else
        fmt::print("read up to LSN {}; recorded durable end LSN {}\n", reader.position().value,
                   durable->value);
    if (n < count && reader.position() < *durable)
        return complain(path,
                        fmt::format("log is damaged at LSN {}, before its durable end at LSN {}",
                                    reader.position().value, durable->value),
                        json);
    return 0;
}

int dump_page(const std::string& path, uint32_t number, bool bytes, bool json) {
    Files files;
    if (auto opened = files.open(path); !opened) return complain(path, opened.error(), json);
    auto page = std::make_unique<sm::Page>();
    const auto got =
        files.disk->read_now(files.data, uint64_t{number} * kPageBytes, page.get(), kPageBytes);
    if (!got) return complain(path, got.error(), json);
    if (*got < kPageBytes)
        return complain(path, fmt::format("page {} lies beyond the end of the data file", number),
                        json);
    const auto& h = page->header;
    const bool sound = h.checksum == sm::page_checksum(*page, PageId{number});
    if (json) {
        nlohmann::ordered_json j = {{"page", h.page_id}, {"kind", kind_name(h.kind)},
                                    {"level", h.level},  {"object", h.object},
                                    {"lsn", h.lsn},      {"hole", {h.hole_begin, h.hole_end}},
                                    {"flags", h.flags},  {"checksum_right", sound}};
        if (bytes) j["bytes"] = to_hex({reinterpret_cast<const char*>(page->bytes()), kPageBytes});
        fmt::print("{}\n", j.dump());
        return sound ? 0 : 2;
    }
    fmt::print("page {}: {}, level {}, object {}, lsn {}, free bytes {}..{}, flags {:#x}\n",
               h.page_id, kind_name(h.kind), h.level, h.object, h.lsn, h.hole_begin, h.hole_end,
               h.flags);
    fmt::print("checksum {:016x}: {}\n", h.checksum, sound ? "right" : "WRONG");
    if (bytes) print_bytes(*page);
    return sound ? 0 : 2;
}

}  // namespace lockstep::cli
