// block_data.h - the memory of a block: for each column a validity bitmap, offsets and data.
//
// Layout     As the Arrow columnar format: bitmaps with the lowest bit first, int32 offsets,
//            buffers that begin at 64 bytes. The columns stand in the order of BlockData::columns,
//            which are places in the object's Columns.
// Invariants BD-1 A finished block has, for each column, rows + 1 ascending offsets or rows
//                 numbers. [checked: assert_state()]
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <lockstep/block.h>
#include "threads/base/check.h"

namespace lockstep::sm::scan {

// Rows of a block at most, and bytes of texts at which no further records are put into one.
inline constexpr size_t kBlockRowsMax = 8192;
inline constexpr size_t kBlockTextBytes = 4 << 20;

// Aligned memory that grows. An allocation that fails leaves it as it was.
class Buffer {
public:
    Buffer() = default;
    Buffer(Buffer&& o) noexcept
        : bytes_(std::exchange(o.bytes_, nullptr)), room_(std::exchange(o.room_, 0)) {}
    Buffer& operator=(Buffer&& o) noexcept {
        std::swap(bytes_, o.bytes_);
        std::swap(room_, o.room_);
        return *this;
    }
    ~Buffer() { ::operator delete(bytes_, std::align_val_t(kCacheLineBytes)); }
    // Room for so many bytes; the first `used` ones are kept, new ones are undefined.
    [[nodiscard]] bool reserve(size_t bytes, size_t used) {
        DCHECK(used <= room_);
        if (bytes <= room_) return true;
        const size_t room =
            (std::max(bytes, 2 * room_) + kCacheLineBytes - 1) & ~(kCacheLineBytes - 1);
        void* const fresh = ::operator new(room, std::align_val_t(kCacheLineBytes), std::nothrow);
        if (fresh == nullptr) return false;
        if (used != 0) std::memcpy(fresh, bytes_, used);
        ::operator delete(bytes_, std::align_val_t(kCacheLineBytes));
        bytes_ = fresh;
        room_ = room;
        DCHECK(reinterpret_cast<uintptr_t>(bytes_) % kCacheLineBytes == 0 && room_ >= bytes);
        return true;
    }
    template <class T = char>
    T* as() const {
        return static_cast<T*>(bytes_);
    }
    size_t room() const { return room_; }

private:
    void* bytes_ = nullptr;
    size_t room_ = 0;
};

struct ColumnData {
    Buffer validity;  // room only if `nulls` is not 0
    Buffer offsets;
    Buffer data;
    size_t nulls = 0;
    uint32_t width = 0;  // bytes of a number; 0: texts
    bool is_null(size_t row) const {
        return nulls != 0 && (validity.as<uint8_t>()[row / 8] >> (row % 8) & 1) == 0;
    }
    Slice text(size_t row) const {
        DCHECK(offsets.room() >= (row + 2) * sizeof(int32_t));
        const int32_t* const at = offsets.as<int32_t>() + row;
        DCHECK(at[0] <= at[1]);
        return {data.as<char>() + at[0], static_cast<size_t>(at[1] - at[0])};
    }
};

struct BlockData {
    std::vector<uint16_t> columns;  // ascending places in the object's Columns
    std::vector<ColumnData> data;   // of the same
    size_t rows = 0;

    // Where the column of that place is; it must be there.
    const ColumnData& of(uint16_t column) const {
        const auto at = std::ranges::lower_bound(columns, column);
        DCHECK(at != columns.end() && *at == column);
        return data[static_cast<size_t>(at - columns.begin())];
    }
    bool has(std::span<const uint16_t> wanted) const {
        return std::ranges::all_of(
            wanted, [&](uint16_t c) { return std::ranges::binary_search(columns, c); });
    }
    // Memory that it takes.
    size_t bytes() const {
        size_t sum = sizeof *this;
        for (const ColumnData& c : data)
            sum += sizeof c + c.validity.room() + c.offsets.room() + c.data.room();
        return sum;
    }
    void assert_state() const {
        DCHECK(columns.size() == data.size() && std::ranges::is_sorted(columns));
        DCHECK(rows <= kBlockRowsMax);
        for ([[maybe_unused]] const ColumnData& c : data) {
            DCHECK(c.nulls <= rows && (c.nulls == 0 || c.validity.room() * 8 >= rows));
            DCHECK(c.offsets.room() == 0 || c.offsets.room() >= (rows + 1) * sizeof(int32_t));
            DCHECK(c.offsets.room() == 0 || c.offsets.as<int32_t>()[0] == 0);
        }
    }
};

// The columns that one scan asked for, in its order; shared by all its blocks.
struct Selected {
    std::vector<Column> columns;
    std::vector<uint16_t> places;  // of the same in the object's Columns

    static Block block(std::shared_ptr<const BlockData> data,
                       std::shared_ptr<const Selected> selected) {
        DCHECK(data != nullptr && selected != nullptr);
        DCHECK(selected->columns.size() == selected->places.size());
        Block out;
        out.data_ = std::move(data);
        out.selected_ = std::move(selected);
        return out;
    }
};

}  // namespace lockstep::sm::scan
