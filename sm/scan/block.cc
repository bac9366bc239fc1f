// block.cc - what a public block says of its memory.
#include <lockstep/block.h>

#include "sm/scan/block_data.h"

namespace lockstep {

Block::Block() = default;
Block::~Block() = default;
Block::Block(const Block&) = default;
Block::Block(Block&&) noexcept = default;
Block& Block::operator=(const Block&) = default;
Block& Block::operator=(Block&&) noexcept = default;

size_t Block::rows() const {
    DCHECK((data_ == nullptr) == (selected_ == nullptr));
    return data_ ? data_->rows : 0;
}

std::span<const Column> Block::columns() const {
    return selected_ ? std::span<const Column>(selected_->columns) : std::span<const Column>();
}

Block::Buffers Block::buffers(size_t column) const {
    CHECK(column < columns().size());
    const sm::scan::ColumnData& data = data_->of(selected_->places[column]);
    DCHECK(data.width == columns()[column].block_bytes());
    DCHECK((data.width == 0) == (data.offsets.room() != 0));
    return {.validity = data.nulls != 0 ? data.validity.as<uint8_t>() : nullptr,
            .offsets = data.offsets.as<int32_t>(),
            .data = data.data.as<char>(),
            .nulls = data.nulls};
}

const void* Block::number_data(size_t column, size_t bytes) const {
    CHECK(column < columns().size() && columns()[column].block_bytes() == bytes);
    return data_->of(selected_->places[column]).data.as<char>();
}

Slice Block::text(size_t column, size_t row) const {
    CHECK(column < columns().size() && columns()[column].block_bytes() == 0 && row < rows());
    return data_->of(selected_->places[column]).text(row);
}

bool Block::is_null(size_t column, size_t row) const {
    CHECK(column < columns().size() && row < rows());
    return data_->of(selected_->places[column]).is_null(row);
}

}  // namespace lockstep
