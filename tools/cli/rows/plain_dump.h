// plain_dump.h - the described columns of an index or heap as a table for other programs.
//
// Concepts   Records are decoded in batches, as reports decode them. Each row is made into a record
//            again and compared: so it is known how many records the table does not hold whole.
#pragma once

#include <string>
#include <vector>

#include "sm/scan/block_builder.h"
#include "tools/cli/output.h"
#include "tools/cli/rows/plain_record.h"

namespace lockstep::cli {

class PlainDump {
public:
    // Writes the line that names the columns, if the format has one.
    PlainDump(const Columns& columns, bool is_index, PlainFormat format, Output& out);
    // False: the output has failed, or wrong() says why the record is no row.
    bool add(Slice key, Slice value, RecordId id);
    // The same for what is collected.
    bool finish() { return batch_.empty() || write_batch(); }
    const std::string& wrong() const { return wrong_; }
    // What a load of the table would not give back, as a line for the user; empty: nothing.
    std::string loss() const;

private:
    struct Kept {
        size_t at, key_bytes, value_bytes;  // in bytes_
        uint64_t id;
    };
    bool write_batch();
    void find_wrong(std::span<const sm::scan::RecordBytes> records);
    void write_row(const sm::scan::BlockData& block, size_t row);
    void compare(const sm::scan::RecordBytes& record);

    const Columns columns_;
    const RecordMaker maker_;
    const PlainFormat format_;
    Output& out_;
    std::vector<uint16_t> all_;
    sm::scan::BlockBuilder builder_;
    std::string bytes_;
    std::vector<Kept> batch_;
    std::vector<std::string> texts_;  // of the row, by column
    std::vector<PlainField> fields_;
    std::string wrong_, made_;
    uint64_t lossy_ = 0;       // records that differ from what is made of their rows,
    std::string first_lossy_;  // and the first of them
};

}  // namespace lockstep::cli
