// row_reader.cc - the reading end of a load.
#include "tools/cli/rows/row_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <tbb/parallel_pipeline.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::cli {
namespace {

constexpr size_t kBlockBytes = 1u << 20, kHeadBytes = 64u << 10;
// A value has at most 16 MB, and JSON takes at most six bytes for one.
constexpr size_t kLineBytesMax = 128u << 20;

}  // namespace

RowReader::RowReader(std::string path, std::optional<Format> format) : path_(std::move(path)) {
    fd_ = path_ == "-" ? dup(STDIN_FILENO) : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) throw Failed(path_ + ": " + std::strerror(errno));
    if (path_ == "-") path_ = "standard input";
    struct stat about {};
    if (fstat(fd_, &about) == 0 && S_ISREG(about.st_mode))
        size_ = static_cast<uint64_t>(about.st_size);
    fill(rest_, kHeadBytes);
    const Slice head(rest_.data(), std::min(rest_.size(), kHeadBytes));
    fingerprint_ = XXH3_64bits(head.data(), head.size());
    const auto found = format ? format : detect_format(head.substr(0, head.find('\n')));
    if (!found)
        throw Failed(path_ +
                     ": line 1 is not the first line of a dump (--format names its format)");
    format_ = *found;
}

RowReader::~RowReader() {
    if (fd_ >= 0) ::close(fd_);
}

// Appends what is there, until `bytes` has `want` bytes. False: the input has ended before.
bool RowReader::fill(std::vector<char>& bytes, size_t want) {
    size_t have = bytes.size();
    if (have >= want) return true;
    bytes.resize(want);
    while (have < want) {
        const ssize_t n = ::read(fd_, bytes.data() + have, want - have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw Failed(path_ + ": " + std::strerror(errno));
        if (n == 0) break;
        have += static_cast<size_t>(n);
    }
    bytes.resize(have);
    return have == want;
}

void RowReader::skip_to(const InputPlace& place) {
    uint64_t left = place.bytes - place_.bytes;
    while (left > 0) {
        if (rest_.empty()) fill(rest_, static_cast<size_t>(std::min<uint64_t>(left, kBlockBytes)));
        if (rest_.empty()) throw Failed(path_ + ": is shorter than the input of the first run");
        const auto n = static_cast<ptrdiff_t>(std::min<uint64_t>(left, rest_.size()));
        rest_.erase(rest_.begin(), rest_.begin() + n);
        left -= static_cast<uint64_t>(n);
    }
    place_ = place;
}

// Whole lines, about kBlockBytes. False at the end.
bool RowReader::next_block(RowBlock& block) {
    if (ended_) return false;
    block.begin = place_;
    block.bytes = std::move(rest_);
    rest_ = {};
    size_t whole = 0;
    for (size_t want = kBlockBytes; whole == 0; want *= 2) {
        ended_ = !fill(block.bytes, want);
        const Slice text(block.bytes.data(), block.bytes.size());
        const size_t end = text.rfind('\n');
        whole = ended_ ? text.size() : end == Slice::npos ? 0 : end + 1;
        if (whole == 0 && ended_) return false;
        if (whole == 0 && want >= kLineBytesMax)
            throw Failed(fmt::format("{}: line {} is longer than {} MB", path_, place_.lines + 1,
                                     kLineBytesMax >> 20));
    }
    rest_.assign(block.bytes.begin() + static_cast<ptrdiff_t>(whole), block.bytes.end());
    block.bytes.resize(whole);
    block.lines =
        static_cast<uint64_t>(std::ranges::count(block.bytes, '\n')) + (block.bytes.back() != '\n');
    place_.bytes += whole;
    place_.lines += block.lines;
    return true;
}

void RowReader::parse(Format format, RowBlock& block) {
    char *at = block.bytes.data(), *const end = at + block.bytes.size();
    for (uint64_t line = 0; at < end; ++line) {
        char* const stop = std::find(at, end, '\n');
        size_t bytes = static_cast<size_t>(stop - at);
        if (bytes > 0 && at[bytes - 1] == '\r') --bytes;
        Row row;
        if (bytes > 0) {
            block.wrong = parse_row(format, {at, bytes}, row);
            block.wrong_line = line;
            if (!block.wrong.empty()) return;
            block.rows.push_back(row);
            block.line_of.push_back(static_cast<uint32_t>(line));
        }
        at = stop < end ? stop + 1 : end;
    }
}

void RowReader::for_each(size_t in_flight, const std::function<void(RowBlock&&)>& take) {
    using Block = std::shared_ptr<RowBlock>;
    tbb::parallel_pipeline(
        in_flight,
        tbb::make_filter<void, Block>(tbb::filter_mode::serial_in_order,
                                      [&](tbb::flow_control& control) {
                                          auto block = std::make_shared<RowBlock>();
                                          if (!next_block(*block)) control.stop();
                                          return block;
                                      }) &
            tbb::make_filter<Block, Block>(tbb::filter_mode::parallel,
                                           [format = format_](Block block) {
                                               parse(format, *block);
                                               return block;
                                           }) &
            tbb::make_filter<Block, void>(tbb::filter_mode::serial_in_order,
                                          [&](Block block) { take(std::move(*block)); }));
}

}  // namespace lockstep::cli
