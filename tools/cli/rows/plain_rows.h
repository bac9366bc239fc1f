// plain_rows.h - the rows of a table of another program, as records of one index or heap.
//
// Concepts   The first line of csv and tsv names the columns, or an option does. Their order is
//            free. A column of the object that the table lacks has no value in any row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/cli/rows/plain_record.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {

struct PlainOptions {
    std::optional<PlainFormat> format = {};           // else the file's ending or first line tells
    std::optional<std::vector<std::string>> columns;  // instead of the first line; "": left out
    std::vector<std::string> ignore = {};             // columns of the table that are left out
};

class PlainSyntax : public RowSyntax {
public:
    // Takes what stands before the first row off the reader. Throws Failed.
    PlainSyntax(RowReader& reader, const PlainOptions& options, const Columns& columns,
                bool is_index);
    // Each row is a record of the object with the number 0. Lines that are none are refused.
    size_t whole(Slice text) const override;
    void parse(RowBlock& block) const override;
    // The line that names the columns, with its line end; empty if there is none.
    const std::string& header() const { return header_; }

private:
    static constexpr size_t kIgnored = SIZE_MAX;
    size_t place_of(const std::string& name, const std::string& where) const;
    void take_header(RowReader& reader, const PlainOptions& options);
    void require_columns(const std::string& path) const;
    std::string fields_of(std::span<char> record, std::vector<PlainField>& fields,
                          std::vector<PlainMember>& members) const;

    const Columns columns_;
    const RecordMaker maker_;
    const std::vector<std::string> ignore_;
    PlainFormat format_;
    std::string header_;
    std::vector<size_t> places_;  // of csv and tsv: the column of each field, or kIgnored
};

}  // namespace lockstep::cli
