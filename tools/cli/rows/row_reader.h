// row_reader.h - reads a dump or a table in blocks of whole rows; blocks are parsed on all cores.
//
// Concepts   One thread reads, any number parse, and blocks arrive in the order of the input
//            (tbb::parallel_pipeline). A block owns the bytes that its rows point to. A syntax says
//            what a row is: that of dumps is here, that of tables in plain_rows.h.
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

// Lines of the input that are no row.
struct Refusal {
    uint64_t line = 0;  // the first of them, counted from 0 within the block
    std::string why;
    std::string text = {};  // they themselves, with the line end
};

struct RowBlock {
    std::vector<char> bytes;  // whole lines; parsed: what the rows point to
    std::vector<Row> rows;
    InputPlace begin, end;
    std::vector<uint32_t> line_of;  // by row, within the block
    std::vector<Refusal> refused;   // in the order of the lines
};

// How an input is divided into rows. Any thread.
class RowSyntax {
public:
    virtual ~RowSyntax() = default;
    // Bytes at the front of the text that are whole rows.
    virtual size_t whole(Slice text) const = 0;
    virtual void parse(RowBlock& block) const = 0;
};

class RowReader {
public:
    // "-" reads standard input. Throws Failed.
    explicit RowReader(std::string path);
    ~RowReader();
    RowReader(const RowReader&) = delete;

    const std::string& path() const { return path_; }
    // Of a file that has one, else 0.
    uint64_t size() const { return size_; }
    // Tells inputs apart: a hash of the first line and the bytes behind it, at most 64 KB.
    uint64_t fingerprint() const { return fingerprint_; }
    // The first bytes that no block has had, at least 64 KB or up to the end.
    Slice head() const { return {rest_.data(), rest_.size()}; }
    // Where that is.
    const InputPlace& place() const { return place_; }
    // Is it that file?
    bool is_file(const std::string& path) const;
    // Goes on from a later place, as one that an earlier run reached. Throws Failed.
    void skip_to(const InputPlace& place);

    // Gives each block in order to `take`, one at a time, until the input ends or `take` throws.
    // At most `in_flight` blocks exist besides those that `take` keeps.
    void for_each(const RowSyntax& syntax, size_t in_flight,
                  const std::function<void(RowBlock&&)>& take);

private:
    bool fill(std::vector<char>& bytes, size_t want);
    bool next_block(const RowSyntax& syntax, RowBlock& block);

    std::string path_;
    int fd_ = -1;
    uint64_t size_ = 0, fingerprint_ = 0;
    std::vector<char> rest_;  // read, and not yet in a block
    InputPlace place_;        // of rest_
    bool ended_ = false;
};

// The rows of a dump. Without a format the first line tells it. A block ends with the first line
// that is wrong. Throws Failed.
std::unique_ptr<RowSyntax> dump_syntax(const RowReader& reader, std::optional<Format> format);

}  // namespace lockstep::cli
