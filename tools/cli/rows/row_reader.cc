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

class DumpSyntax final : public RowSyntax {
public:
    explicit DumpSyntax(Format format) : format_(format) {}
    size_t whole(Slice text) const override { return text.rfind('\n') + 1; }
    void parse(RowBlock& block) const override {
        char *at = block.bytes.data(), *const end = at + block.bytes.size();
        for (uint32_t line = 0; at < end; ++line) {
            char* const stop = std::find(at, end, '\n');
            size_t bytes = static_cast<size_t>(stop - at);
            if (bytes > 0 && at[bytes - 1] == '\r') --bytes;
            Row row;
            if (bytes > 0) {
                std::string wrong = parse_row(format_, {at, bytes}, row);
                if (!wrong.empty()) {
                    block.refused.push_back({line, std::move(wrong)});
                    return;
                }
                block.rows.push_back(row);
                block.line_of.push_back(line);
            }
            at = stop < end ? stop + 1 : end;
        }
    }

private:
    const Format format_;
};

}  // namespace

RowReader::RowReader(std::string path) : path_(std::move(path)) {
    fd_ = path_ == "-" ? dup(STDIN_FILENO) : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) throw Failed(path_ + ": " + std::strerror(errno));
    if (path_ == "-") path_ = "standard input";
    struct stat about {};
    if (fstat(fd_, &about) == 0 && S_ISREG(about.st_mode))
        size_ = static_cast<uint64_t>(about.st_size);
    fill(rest_, kHeadBytes);
    const Slice first = head().substr(0, kHeadBytes);
    fingerprint_ = XXH3_64bits(first.data(), first.size());
}

RowReader::~RowReader() {
    if (fd_ >= 0) ::close(fd_);
}

bool RowReader::is_file(const std::string& path) const {
    struct stat own {};
    struct stat other {};
    return fstat(fd_, &own) == 0 && ::stat(path.c_str(), &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
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

// Whole rows, about kBlockBytes. False at the end.
bool RowReader::next_block(const RowSyntax& syntax, RowBlock& block) {
    if (ended_) return false;
    block.begin = place_;
    block.bytes = std::move(rest_);
    rest_ = {};
    size_t whole = 0;
    for (size_t want = kBlockBytes; whole == 0; want *= 2) {
        ended_ = !fill(block.bytes, want);
        const Slice text(block.bytes.data(), block.bytes.size());
        whole = ended_ ? text.size() : syntax.whole(text);
        if (whole == 0 && ended_) return false;
        if (whole == 0 && want >= kLineBytesMax)
            throw Failed(fmt::format("{}: line {} begins a row of more than {} MB", path_,
                                     place_.lines + 1, kLineBytesMax >> 20));
    }
    rest_.assign(block.bytes.begin() + static_cast<ptrdiff_t>(whole), block.bytes.end());
    block.bytes.resize(whole);
    place_.bytes += whole;
    place_.lines +=
        static_cast<uint64_t>(std::ranges::count(block.bytes, '\n')) + (block.bytes.back() != '\n');
    block.end = place_;
    return true;
}

void RowReader::for_each(const RowSyntax& syntax, size_t in_flight,
                         const std::function<void(RowBlock&&)>& take) {
    using Block = std::shared_ptr<RowBlock>;
    tbb::parallel_pipeline(
        in_flight,
        tbb::make_filter<void, Block>(tbb::filter_mode::serial_in_order,
                                      [&](tbb::flow_control& control) {
                                          auto block = std::make_shared<RowBlock>();
                                          if (!next_block(syntax, *block)) control.stop();
                                          return block;
                                      }) &
            tbb::make_filter<Block, Block>(tbb::filter_mode::parallel,
                                           [&](Block block) {
                                               syntax.parse(*block);
                                               return block;
                                           }) &
            tbb::make_filter<Block, void>(tbb::filter_mode::serial_in_order,
                                          [&](Block block) { take(std::move(*block)); }));
}

std::unique_ptr<RowSyntax> dump_syntax(const RowReader& reader, std::optional<Format> format) {
    const auto found =
        format ? format : detect_format(reader.head().substr(0, reader.head().find('\n')));
    if (!found)
        throw Failed(reader.path() +
                     ": line 1 is not the first line of a dump (--format names its format; --plain "
                     "loads a table of another program)");
    return std::make_unique<DumpSyntax>(*found);
}

}  // namespace lockstep::cli
