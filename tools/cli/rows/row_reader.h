// row_reader.h - reads a dump in blocks of whole lines; blocks are parsed on all cores.
//
// Concepts   One thread reads, any number parse, and blocks arrive in the order of the input
//            (tbb::parallel_pipeline). A block owns the bytes that its rows point to.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {

// Ends a sub-command with this message. It never passes through the engine, which has no
// exceptions: callbacks of a store return errors instead.
struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A place in the input: before the first byte of a line.
struct InputPlace {
    uint64_t bytes = 0;
    uint64_t lines = 0;  // lines before it
};

struct RowBlock {
    std::vector<char> bytes;  // whole lines
    std::vector<Row> rows;
    InputPlace begin;
    uint64_t lines = 0;
    // The first line that is wrong, counted from 0 within the block; the rows before it are sound.
    uint64_t wrong_line = 0;
    std::string wrong;
    std::vector<uint32_t> line_of;  // by row, within the block
};

class RowReader {
public:
    // "-" reads standard input. Throws Failed.
    RowReader(std::string path, std::optional<Format> format);
    ~RowReader();
    RowReader(const RowReader&) = delete;

    const std::string& path() const { return path_; }
    Format format() const { return format_; }
    // Of a file that has one, else 0.
    uint64_t size() const { return size_; }
    // Tells inputs apart: a hash of the first line and the bytes behind it, at most 64 KB.
    uint64_t fingerprint() const { return fingerprint_; }
    // Goes on from a place that an earlier run reached. Throws Failed.
    void skip_to(const InputPlace& place);

    // Gives each block in order to `take`, one at a time, until the input ends or `take` throws.
    // At most `in_flight` blocks exist besides those that `take` keeps.
    void for_each(size_t in_flight, const std::function<void(RowBlock&&)>& take);

private:
    bool fill(std::vector<char>& bytes, size_t want);
    bool next_block(RowBlock& block);
    static void parse(Format format, RowBlock& block);

    std::string path_;
    int fd_ = -1;
    Format format_ = Format::json;
    uint64_t size_ = 0, fingerprint_ = 0;
    std::vector<char> rest_;  // read, and not yet in a block
    InputPlace place_;        // of rest_
    bool ended_ = false;
};

}  // namespace lockstep::cli
