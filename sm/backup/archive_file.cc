// archive_file.cc - see archive_file.h.
#include "sm/backup/archive_file.h"

#include <xxhash.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

namespace {

constexpr char kArchiveMagic[8] = {'L', 'S', 'A', 'R', 'C', 'H', 'I', 'V'};
constexpr size_t kHexDigits = 16, kDigits = 20;
constexpr std::string_view kEnd = ".log";

uint64_t checksum_of(const ArchiveBlock& block) {
    static_assert(sizeof block.bytes == txn::kLogBlock);
    return XXH3_64bits(block.bytes + sizeof(uint64_t), sizeof block.bytes - sizeof(uint64_t));
}

bool parse_number(std::string_view text, int base, uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::unexpected<Error> bad_archive(const char* what, const std::string& text) {
    Error error{.code = ErrorCode::bad_archive, .what = what};
    DCHECK(!text.empty());
    set_error_detail(error, text);
    return std::unexpected(error);
}

ArchiveHeader archive_header(const Superblock& block, ArchiveKind kind) {
    // Only what a checkpoint does not change: another thread may run one.
    DCHECK((block.uuid[0] | block.uuid[1]) != 0 && block.log_segment_bytes > 0);
    ArchiveHeader header{};
    header.kind = static_cast<uint32_t>(kind);
    header.uuid[0] = block.uuid[0];
    header.uuid[1] = block.uuid[1];
    header.history = block.history;
    header.history_parent = block.history_parent;
    header.history_begin = block.history_begin;
    header.segment_bytes = block.log_segment_bytes;
    return header;
}

void encode_archive(ArchiveHeader header, std::string_view path, ArchiveBlock& block) {
    CHECK(path.size() <= kArchivePathMax);
    std::memcpy(header.magic, kArchiveMagic, sizeof kArchiveMagic);
    header.version = kArchiveVersion;
    header.path_bytes = path.size();
    header.assert_state();
    std::memset(block.bytes, 0, sizeof block.bytes);
    std::memcpy(block.bytes, &header, sizeof header);
    if (!path.empty()) std::memcpy(block.bytes + sizeof header, path.data(), path.size());
    header.checksum = checksum_of(block);
    std::memcpy(block.bytes, &header.checksum, sizeof header.checksum);
}

Result<ArchiveFile> read_archive_file(threads::Disk& disk, const threads::Directory& directory,
                                      const std::string& name) {
    DCHECK(!name.empty() && name.find('/') == std::string::npos);
    const threads::FileId file = TRY(disk.open(directory / name, threads::Disk::kReadOnly));
    const auto block = std::make_unique<ArchiveBlock>();
    std::memset(block->bytes, 0, sizeof block->bytes);
    const Result<size_t> got = disk.read_now(file, 0, block->bytes, sizeof block->bytes);
    const Result<uint64_t> bytes = disk.size(file);
    disk.close(file);
    if (!got) return std::unexpected(got.error());
    if (!bytes) return std::unexpected(bytes.error());
    ArchiveFile found{.header = {}, .path = {}, .bytes = *bytes};
    std::memcpy(&found.header, block->bytes, sizeof found.header);
    const ArchiveHeader& header = found.header;
    if (*got < sizeof block->bytes ||
        std::memcmp(header.magic, kArchiveMagic, sizeof kArchiveMagic) != 0 ||
        header.checksum != checksum_of(*block))
        return bad_archive("file of the archive",
                           name + " is damaged or truncated: bring it from a copy of the archive");
    if (header.version != kArchiveVersion) {
        Error error{.code = ErrorCode::bad_version,
                    .what = "log archive",
                    .a = header.version,
                    .b = kArchiveVersion};
        set_error_detail(error, directory.path(name) + " has version " + std::to_string(error.a) +
                                    ", this program reads " + std::to_string(error.b));
        return std::unexpected(error);
    }
    if (header.begin > header.end || header.path_bytes > kArchivePathMax ||
        header.segment_bytes == 0 || header.segment_bytes % txn::kLogBlock != 0)
        return bad_archive("file of the archive", name + " contradicts itself");
    DCHECK(found.bytes >= sizeof block->bytes);
    found.path.assign(reinterpret_cast<const char*>(block->bytes) + sizeof header,
                      header.path_bytes);
    return found;
}

std::string PieceName::text() const {
    DCHECK(begin < end && begin % 8 == 0);
    char name[80];
    std::snprintf(name, sizeof name, "%016llx-%020llu-%020llu.log",
                  static_cast<unsigned long long>(history), static_cast<unsigned long long>(begin),
                  static_cast<unsigned long long>(end));
    return name;
}

std::optional<PieceName> PieceName::parse(std::string_view name) {
    PieceName piece{};
    constexpr size_t kBegin = kHexDigits + 1, kStop = kBegin + kDigits + 1;
    if (name.size() != kStop + kDigits + kEnd.size() || !name.ends_with(kEnd)) return {};
    if (name[kHexDigits] != '-' || name[kStop - 1] != '-') return {};
    if (!parse_number(name.substr(0, kHexDigits), 16, piece.history) ||
        !parse_number(name.substr(kBegin, kDigits), 10, piece.begin) ||
        !parse_number(name.substr(kStop, kDigits), 10, piece.end) || piece.begin >= piece.end)
        return {};
    return piece;
}

}  // namespace lockstep::sm
