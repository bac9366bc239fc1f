// block_builder.h - decodes records into the columns of a block.
//
// Concepts   Records come in batches, as a leaf has them. A batch is decoded column by column, so
//            that the loops are short and know the width and the place of what they copy. Keys come
//            without the bytes that all of the batch share, and a number may lie in both parts.
//            The parts of a key behind a text begin at another byte in each record: for these the
//            keys are put together, and walked along.
// Blocking   Never. Allocates.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/columns.h>
#include "sm/scan/block_data.h"

namespace lockstep::sm::scan {

// A record to decode; of its key, what is not RecordBatch::shared. The bytes belong to the caller.
struct RecordBytes {
    Slice key, value;
    uint64_t id = 0;  // of a heap's record: page * 65536 + slot
};

// Records that are decoded together.
struct RecordBatch {
    std::span<const RecordBytes> records;
    Slice shared = {};  // with which all keys begin
    // Bytes that each one's own key and each value have at least. What lies in them is not looked
    // for record by record.
    size_t key_least = 0, value_least = 0;
    void assert_state() const {
        for ([[maybe_unused]] const RecordBytes& record : records)
            DCHECK(record.key.size() >= key_least && record.value.size() >= value_least);
    }
};

class BlockBuilder {
public:
    // `wanted`: ascending places in `columns`, which must outlive the builder. `batches`: how many
    // a block will probably have; its memory is sized by the first of them.
    BlockBuilder(const Columns& columns, std::span<const uint16_t> wanted, size_t batches = 1);
    // Decodes the records, at most kBlockRowsMax in all. Errors: bad_argument (a record does not
    // fit its columns; names column and reason), out_of_memory. After an error only reset() counts.
    Result<void> add(const RecordBatch& batch);
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
    Result<void> begin(size_t rows);
    RecordBatch join(const RecordBatch& batch);
    Result<void> add_column(const Part& part, ColumnData& out, const RecordBatch& batch);
    Result<void> add_numbers(const Part& part, ColumnData& out, const RecordBatch& batch);
    template <class Missing>
    bool add_of_values(const Column& column, ColumnData& out, const RecordBatch& batch,
                       Missing missing);
    template <class Missing>
    bool add_of_keys(const Part& part, ColumnData& out, const RecordBatch& batch, Missing missing);
    Result<void> add_texts(const Part& part, ColumnData& out, const RecordBatch& batch);
    Result<Slice> text_of(const Part& part, const RecordBytes& record, bool& null);
    bool set_nulls(ColumnData& out, size_t row, uint64_t nulls);
    template <class T>
    bool set_nulls_where(ColumnData& out, size_t first, size_t rows, T null_value);

    std::vector<uint16_t> wanted_;
    std::vector<Part> parts_;
    const size_t batches_;
    bool whole_keys_ = false;          // a part needs them
    std::vector<RecordBytes> joined_;  // a batch with whole keys,
    std::string keys_;                 // which are here
    std::shared_ptr<BlockData> block_;
    size_t rows_expected_ = 0;
    size_t text_bytes_ = 0;
    std::string unescaped_;
};

// Is it sound UTF-8?
bool is_utf8(Slice text);

}  // namespace lockstep::sm::scan
