// block_builder.h - decodes records into the columns of a block.
//
// Concepts   Records come in batches, as a leaf has them. A batch is decoded column by column, so
//            that the loops are short and know the width of what they copy. Parts of a key behind a
//            text begin at another byte in each record: these are found by a walk along the key.
// Blocking   Never. Allocates.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/columns.h>
#include "sm/scan/block_data.h"

namespace lockstep::sm::scan {

// A record to decode. The bytes belong to the caller.
struct RecordBytes {
    Slice key, value;
    uint64_t id = 0;  // of a heap's record: page * 65536 + slot
};

class BlockBuilder {
public:
    // `wanted`: ascending places in `columns`, which must outlive the builder.
    BlockBuilder(const Columns& columns, std::span<const uint16_t> wanted);
    // Decodes the records, at most kBlockRowsMax in all. Errors: bad_argument (a record does not
    // fit its columns; names column and reason), out_of_memory. After an error only reset() counts.
    Result<void> add(std::span<const RecordBytes> records);
    size_t rows() const { return block_ ? block_->rows : 0; }
    // So many records more would not fit, or its texts are long already.
    bool full_for(size_t records) const {
        return rows() + records > kBlockRowsMax || text_bytes_ >= kBlockTextBytes;
    }
    // The block, or null if there are no rows. The builder is empty again.
    std::shared_ptr<const BlockData> finish();
    void reset() {
        block_.reset();
        text_bytes_ = 0;
    }

private:
    struct Part {
        const Column* column;
        std::vector<const Column*> before;  // parts of the key that vary, and those between
        uint32_t begin = 0;                 // in the key, if none varies
    };
    Result<void> begin();
    Result<void> add_column(const Part& part, ColumnData& out,
                            std::span<const RecordBytes> records);
    Result<void> add_numbers(const Part& part, ColumnData& out,
                             std::span<const RecordBytes> records);
    Result<void> add_texts(const Part& part, ColumnData& out, std::span<const RecordBytes> records);
    Result<Slice> text_of(const Part& part, const RecordBytes& record, bool& null);
    bool set_null(ColumnData& out, size_t row);

    std::vector<uint16_t> wanted_;
    std::vector<Part> parts_;
    std::shared_ptr<BlockData> block_;
    size_t text_bytes_ = 0;
    std::string unescaped_;
};

// Is it sound UTF-8?
bool is_utf8(Slice text);

}  // namespace lockstep::sm::scan
