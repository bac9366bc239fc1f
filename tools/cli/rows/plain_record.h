// plain_record.h - makes the bytes of a record of the texts of its columns.
//
// Concepts   Of a value, bytes that no column describes are zeros, and it ends where its last
//            column does.
// Invariants RK-1 A record that was made has exactly these values when a report reads it.
//            [test: tests/tools/plain_test.py]
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/columns.h>
#include "tools/cli/rows/plain_table.h"

namespace lockstep::cli {

class RecordMaker {
public:
    // `is_index`: else the object is a heap.
    RecordMaker(const Columns& columns, bool is_index);
    // Why no record can be made of these columns; empty: one can.
    const std::string& refusal() const { return refusal_; }
    // Appends key and value. `fields` stand in the order of the columns; the value of an id does
    // not count. The result says what is wrong with which column; it is empty if nothing is.
    std::string make(std::span<const PlainField> fields, std::string& out, size_t& key_bytes) const;

private:
    struct Part {
        const Column* column;
        size_t place;  // among all columns
        size_t room;   // value: bytes up to the next column
    };
    std::string add_key(const Part& part, const PlainField& field, std::string& out) const;
    std::string add_value(const Part& part, const PlainField& field, std::string& out,
                          size_t begin) const;
    std::string check_absent(std::span<const PlainField> fields, size_t value_bytes) const;

    const bool is_index_;
    Columns columns_;
    std::vector<Part> key_, value_;  // value: ascending by place
    std::string refusal_;
};

}  // namespace lockstep::cli
