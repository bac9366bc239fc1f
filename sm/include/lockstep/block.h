// block.h - rows as columns: what reports read. The buffers have the layout of Apache Arrow.
//
// Concepts   A block is made once from the records of a part of an index or heap, and never
//            changes. All reports that need it share it. A Block is a reference to it with the
//            columns that one scan asked for, so copies are cheap. The memory goes with the last of
//            them, which may outlive the report and the store.
#pragma once

#include <memory>
#include <span>

#include <lockstep/columns.h>

namespace lockstep {

namespace sm::scan {
struct BlockData;
struct Selected;
}  // namespace sm::scan

// Reading is safe from any kernel thread, also by several at once. Never blocks, except that the
// last copy frees memory.
class Block {
public:
    // No rows and no columns.
    Block();
    ~Block();
    // Refer to the same rows.
    Block(const Block&);
    Block(Block&&) noexcept;
    Block& operator=(const Block&);
    Block& operator=(Block&&) noexcept;

    // Rows, 1..8192 in a block of a scan.
    size_t rows() const;
    // The columns in the order in which the scan named them. Valid as long as this block.
    std::span<const Column> columns() const;
    // The buffers of a column as the Arrow columnar format has them, 64-byte aligned. Bit i of
    // `validity` (the lowest of its byte first) is 0 where row i is null; null: no row is.
    // `offsets`: only of texts and bytes, rows() + 1 of them; `data` are numbers, or those bytes.
    // Valid as long as this block or a copy of it.
    struct Buffers {
        const uint8_t* validity = nullptr;
        const int32_t* offsets = nullptr;
        const void* data = nullptr;
        size_t nulls = 0;  // rows without a value
    };
    // Of the column in this place of columns().
    Buffers buffers(size_t column) const;
    // The numbers of such a column; T has its Column::block_bytes(). Null rows have any number.
    template <class T>
    std::span<const T> numbers(size_t column) const {
        return {static_cast<const T*>(number_data(column, sizeof(T))), rows()};
    }
    // A text or bytes, and whether a row has no value.
    Slice text(size_t column, size_t row) const;
    bool is_null(size_t column, size_t row) const;

private:
    friend struct sm::scan::Selected;
    // Stops the program if the column's numbers have another size.
    const void* number_data(size_t column, size_t bytes) const;

    std::shared_ptr<const sm::scan::BlockData> data_;
    std::shared_ptr<const sm::scan::Selected> selected_;
};

}  // namespace lockstep
