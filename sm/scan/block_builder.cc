// block_builder.cc - the loops that copy numbers and texts out of records.
#include "sm/scan/block_builder.h"

#include <algorithm>
#include <bit>

#include "sm/buffer/bytes.h"
#include "sm/scan/column_types.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::sm::scan {

namespace {

constexpr size_t kNowhere = SIZE_MAX;

[[gnu::cold]] Unexpected misfit(const Column& column, const char* why) {
    return fail_with(ErrorCode::bad_argument, "record that its columns do not describe",
                     "column \"" + column.name + "\": " + why);
}
[[gnu::cold]] Unexpected no_memory() { return fail(ErrorCode::out_of_memory, "block of columns"); }

// Where the part of a key behind `begin` ends; kNowhere: the key ends before.
size_t end_of_part(const Column& part, Slice key, size_t begin) {
    DCHECK(part.place == ColumnPlace::key);
    if (begin > key.size()) return kNowhere;
    if (const uint32_t n = part.stored_bytes(); n != 0)
        return key.size() - begin >= n ? begin + n : kNowhere;
    if (part.type == ColumnType::bytes) return key.size();
    size_t at = key.find('\0', begin);
    if (part.type == ColumnType::text0) return at == Slice::npos ? kNowhere : at + 1;
    DCHECK(part.type == ColumnType::text);
    // 0 FF is a zero byte, 0 0 the end.
    for (; at != Slice::npos && at + 1 < key.size(); at = key.find('\0', at + 2))
        if (key[at + 1] == '\0') return at + 2;
    return kNowhere;
}

template <class T>
T load(const char* at) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
template <unsigned kBytes>
uint64_t load_big_endian(const char* at) {
    if constexpr (kBytes == 1) return static_cast<uint8_t>(*at);
    else if constexpr (kBytes == 2) return __builtin_bswap16(load<uint16_t>(at));
    else if constexpr (kBytes == 4) return __builtin_bswap32(load<uint32_t>(at));
    else if constexpr (kBytes == 8) return __builtin_bswap64(load<uint64_t>(at));
    else {
        constexpr unsigned kFront = std::bit_floor(kBytes), kBack = kBytes - kFront;
        return load_big_endian<kFront>(at) << 8 * kBack | load_big_endian<kBack>(at + kFront);
    }
}

template <class T>
struct Little {
    using Number = T;
    T operator()(const char* at) const { return load<T>(at); }
};
// The last bytes of a number of a key.
template <class T, unsigned kBytes>
struct Big {
    static_assert(sizeof(T) >= kBytes);
    using Number = T;
    uint64_t start;  // its other bits, and the sign bit, which Key turns over
    T operator()(const char* at) const {
        return static_cast<T>(start ^ load_big_endian<kBytes>(at));
    }
};

// Calls with an unsigned number of so many bytes.
template <class Call>
bool with_unsigned(size_t bytes, Call call) {
    switch (bytes) {
        case 1: return call(uint8_t{});
        case 2: return call(uint16_t{});
        case 4: return call(uint32_t{});
        default: DCHECK(bytes == 8); return call(uint64_t{});
    }
}
// Calls with what loads so many bytes.
template <class T, unsigned kBytes = sizeof(T), class Call>
bool with_big(uint64_t start, size_t bytes, Call call) {
    if constexpr (kBytes > 1)
        if (bytes < kBytes) return with_big<T, kBytes - 1>(start, bytes, call);
    DCHECK(bytes == kBytes);
    return call(Big<T, kBytes>{start});
}

// Copies numbers from `find(record)`, which is null where the record has none. The rows of those
// come to `missing`.
template <class Get, class Find, class Missing>
bool copy_found(typename Get::Number* out, std::span<const RecordBytes> records, Get get, Find find,
                Missing missing) {
    for (size_t i = 0; i < records.size(); ++i) {
        const char* const at = find(records[i]);
        if (at != nullptr) out[i] = get(at);
        else if (out[i] = 0; !missing(i)) return false;
    }
    return true;
}
// The same where each record has the number, at the same place.
template <class Get>
void copy_all(typename Get::Number* out, std::span<const RecordBytes> records, Get get,
              Slice RecordBytes::*bytes, size_t at) {
    for (size_t i = 0; i < records.size(); ++i) out[i] = get((records[i].*bytes).data() + at);
}

size_t begin_in_key(std::span<const Column* const> before, size_t begin, Slice key) {
    for (const Column* const part : before) {
        begin = end_of_part(*part, key, begin);
        if (begin == kNowhere) break;
    }
    return begin;
}

}  // namespace

bool is_utf8(Slice text) {
    const auto* at = reinterpret_cast<const uint8_t*>(text.data());
    const uint8_t* const end = at + text.size();
    while (at != end) {
        if (end - at >= 8 &&
            (load<uint64_t>(reinterpret_cast<const char*>(at)) & 0x8080808080808080ull) == 0) {
            at += 8;
            continue;
        }
        const uint8_t head = *at++;
        if (head < 0x80) continue;
        const int tail = head >= 0xf0 ? 3 : head >= 0xe0 ? 2 : 1;
        if (head < 0xc2 || head > 0xf4 || end - at < tail) return false;
        // The shortest form, no surrogates, at most U+10FFFF.
        const uint8_t low = head == 0xe0 ? 0xa0 : head == 0xf0 ? 0x90 : 0x80;
        const uint8_t high = head == 0xed ? 0x9f : head == 0xf4 ? 0x8f : 0xbf;
        if (at[0] < low || at[0] > high) return false;
        for (int i = 1; i < tail; ++i)
            if ((at[i] & 0xc0) != 0x80) return false;
        at += tail;
    }
    return true;
}

BlockBuilder::BlockBuilder(const Columns& columns, std::span<const uint16_t> wanted, size_t batches)
    : wanted_(wanted.begin(), wanted.end()), batches_(batches) {
    const std::span<const Column> all = columns.all();
    for (const uint16_t place : wanted) {
        DCHECK(place < all.size() && (parts_.empty() || parts_.back().column < &all[place]));
        Part part{.column = &all[place], .before = {}};
        if (all[place].place == ColumnPlace::key) {
            for (size_t i = 0; i < place; ++i) {
                if (all[i].place != ColumnPlace::key) continue;
                if (part.before.empty() && all[i].stored_bytes() != 0)
                    part.begin += all[i].stored_bytes();
                else part.before.push_back(&all[i]);
            }
            whole_keys_ |= !part.before.empty() || !type_row(part.column->type).number();
        }
        parts_.push_back(std::move(part));
    }
}

Result<void> BlockBuilder::begin(size_t rows) {
    DCHECK(!block_ && wanted_.size() == parts_.size() && text_bytes_ == 0);
    block_.reset(new (std::nothrow) BlockData);
    if (!block_) return no_memory();
    block_->columns = wanted_;
    block_->data.resize(wanted_.size());
    rows_expected_ = std::min(rows * batches_, kBlockRowsMax);
    for (size_t i = 0; i < parts_.size(); ++i)
        block_->data[i].width = parts_[i].column->block_bytes();
    return {};
}

Result<void> BlockBuilder::add(const RecordBatch& given) {
    const size_t count = given.records.size();
    DCHECK(rows() + count <= kBlockRowsMax);
    if (count == 0) return {};
    if (!block_) TRY(begin(count));
    const bool joins = whole_keys_ && !given.shared.empty();
    const RecordBatch batch = joins ? join(given) : given;
    batch.assert_state();
    for (size_t i = 0; i < parts_.size(); ++i) TRY(add_column(parts_[i], block_->data[i], batch));
    block_->rows += count;
    block_->assert_state();
    return {};
}

// The same records with whole keys, side by side.
RecordBatch BlockBuilder::join(const RecordBatch& batch) {
    joined_.assign(batch.records.begin(), batch.records.end());
    size_t bytes = batch.shared.size() * batch.records.size();
    for (const RecordBytes& record : batch.records) bytes += record.key.size();
    if (keys_.size() < bytes) keys_.resize(bytes);
    char* at = keys_.data();
    for (RecordBytes& record : joined_) {
        char* const begin = at;
        at = bytes::copy_bytes(bytes::copy_bytes(at, batch.shared), record.key);
        record.key = {begin, static_cast<size_t>(at - begin)};
    }
    DCHECK(at == keys_.data() + bytes);
    return {.records = joined_,
            .key_least = batch.shared.size() + batch.key_least,
            .value_least = batch.value_least};
}

Result<void> BlockBuilder::add_column(const Part& part, ColumnData& out, const RecordBatch& batch) {
    const size_t width = part.column->block_bytes();
    DCHECK(out.width == width);
    if (width == 0) return add_texts(part, out, batch);
    const size_t rows = std::max(block_->rows + batch.records.size(), rows_expected_);
    if (!out.data.reserve(rows * width, block_->rows * width)) return no_memory();
    return add_numbers(part, out, batch);
}

// Bit i of `nulls` stands for row + i. The bitmap is made with the first null, for all rows that
// the block may get: all others have a value.
bool BlockBuilder::set_nulls(ColumnData& out, size_t row, uint64_t nulls) {
    DCHECK(nulls != 0 && row + std::bit_width(nulls) <= kBlockRowsMax);
    if (out.nulls == 0) {
        if (!out.validity.reserve(kBlockRowsMax / 8, 0)) return false;
        std::memset(out.validity.as<char>(), 0xff, kBlockRowsMax / 8);
    }
    const auto clear = [&](size_t word, uint64_t bits) {
        if (bits == 0) return;
        uint64_t& valid = out.validity.as<uint64_t>()[word];
        out.nulls += static_cast<size_t>(std::popcount(valid & bits));
        valid &= ~bits;
    };
    const size_t bit = row % 64;
    clear(row / 64, nulls << bit);
    if (bit != 0) clear(row / 64 + 1, nulls >> (64 - bit));
    return true;
}

// The rows from `first` on whose number stands for null.
template <class T>
bool BlockBuilder::set_nulls_where(ColumnData& out, size_t first, size_t rows, T null_value) {
    const T* const numbers = out.data.as<T>() + first;
    for (size_t begin = 0; begin < rows; begin += 64) {
        uint64_t nulls = 0;
        for (size_t i = std::min<size_t>(rows - begin, 64); i-- > 0;)
            nulls = nulls << 1 | (numbers[begin + i] == null_value);
        if (nulls != 0 && !set_nulls(out, first + begin, nulls)) return false;
    }
    return true;
}

template <class Missing>
bool BlockBuilder::add_of_values(const Column& column, ColumnData& out, const RecordBatch& batch,
                                 Missing missing) {
    const size_t end = column.offset + column.stored_bytes();
    return with_unsigned(out.width, [&]<class T>(T) {
        T* const to = out.data.as<T>() + block_->rows;
        if (batch.value_least >= end)
            copy_all(to, batch.records, Little<T>(), &RecordBytes::value, column.offset);
        else if (!copy_found(
                     to, batch.records, Little<T>(),
                     [&](const RecordBytes& r) {
                         return r.value.size() >= end ? r.value.data() + column.offset : nullptr;
                     },
                     missing))
            return false;
        return !column.null_value || set_nulls_where(out, block_->rows, batch.records.size(),
                                                     static_cast<T>(*column.null_value));
    });
}

// A number may begin in the bytes that the keys share, and end in each one's own.
template <class Missing>
bool BlockBuilder::add_of_keys(const Part& part, ColumnData& out, const RecordBatch& batch,
                               Missing missing) {
    const TypeRow& row = type_row(part.column->type);
    DCHECK(batch.shared.empty() || part.before.empty());
    const Slice known = batch.shared.substr(std::min<size_t>(part.begin, batch.shared.size()))
                            .substr(0, row.stored);
    const size_t own = row.stored - known.size(),
                 begin = own == 0 ? 0 : part.begin + known.size() - batch.shared.size();
    uint64_t start = 0;
    for (unsigned i = 0; i < row.stored; ++i)
        start = start << 8 | (i < known.size() ? static_cast<uint8_t>(known[i]) : 0);
    if (row.is_signed) start ^= 1ull << (8 * row.stored - 1);
    const auto find = [&](const RecordBytes& r) -> const char* {
        const size_t at = begin_in_key(part.before, begin, r.key);
        return at <= r.key.size() && r.key.size() - at >= own ? r.key.data() + at : nullptr;
    };
    return with_unsigned(out.width, [&]<class T>(T) {
        T* const to = out.data.as<T>() + block_->rows;
        if (own == 0) std::fill_n(to, batch.records.size(), static_cast<T>(start));
        return own == 0 || with_big<T>(start, own, [&](auto get) {
                   if (!part.before.empty() || batch.key_least < begin + own)
                       return copy_found(to, batch.records, get, find, missing);
                   copy_all(to, batch.records, get, &RecordBytes::key, begin);
                   return true;
               });
    });
}

Result<void> BlockBuilder::add_numbers(const Part& part, ColumnData& out,
                                       const RecordBatch& batch) {
    const Column& column = *part.column;
    DCHECK(out.width == column.block_bytes() && out.width != 0);
    bool misfits = false, done = true;
    const auto missing = [&](size_t i) {
        misfits = !column.short_is_null;
        return !misfits && set_nulls(out, block_->rows + i, 1);
    };
    switch (column.place) {
        case ColumnPlace::key: done = add_of_keys(part, out, batch, missing); break;
        case ColumnPlace::value: done = add_of_values(column, out, batch, missing); break;
        case ColumnPlace::id:
            for (size_t i = 0; i < batch.records.size(); ++i)
                out.data.as<uint64_t>()[block_->rows + i] = batch.records[i].id;
    }
    if (misfits) return misfit(column, "the record ends before it");
    return done ? Result<void>() : no_memory();
}

// The bytes of one record's text. `null`: it has none.
Result<Slice> BlockBuilder::text_of(const Part& part, const RecordBytes& record, bool& null) {
    const Column& column = *part.column;
    Slice from = record.value;
    size_t begin = column.offset, end = from.size();
    if (column.place == ColumnPlace::key) {
        from = record.key;
        begin = begin_in_key(part.before, part.begin, from);
        end = begin == kNowhere ? kNowhere : end_of_part(column, from, begin);
    } else if (column.type == ColumnType::text8 || column.type == ColumnType::text16) {
        const size_t head = column.type == ColumnType::text8 ? 1 : 2;
        end = begin + head;
        if (end <= from.size())
            end += head == 1 ? load<uint8_t>(from.data() + begin)
                             : load<uint16_t>(from.data() + begin);
        begin += head;
    } else if (column.length != 0) {
        end = begin + column.length;
    }
    if (end > from.size() || begin > end) {
        null = column.short_is_null;
        return null ? Result<Slice>(Slice()) : misfit(column, "the record ends before its end");
    }
    Slice text = from.substr(begin, end - begin);
    if (column.type == ColumnType::chars)
        while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
    if (column.place != ColumnPlace::key || column.length != 0) return text;
    if (column.type == ColumnType::text0) text.remove_suffix(1);
    if (column.type == ColumnType::text) {
        text.remove_suffix(2);
        unescaped_.clear();
        for (size_t i = 0; i < text.size(); i += text[i] == '\0' ? 2 : 1)
            unescaped_.push_back(text[i]);
        text = unescaped_;
    }
    return text;
}

Result<void> BlockBuilder::add_texts(const Part& part, ColumnData& out, const RecordBatch& batch) {
    const std::span<const RecordBytes> records = batch.records;
    const size_t first = block_->rows;
    DCHECK(out.width == 0 && part.column->block_bytes() == 0);
    const size_t rows = std::max(first + records.size(), rows_expected_);
    if (!out.offsets.reserve((rows + 1) * sizeof(int32_t),
                             first == 0 ? 0 : (first + 1) * sizeof(int32_t)))
        return no_memory();
    if (!out.data.reserve(kCacheLineBytes, 0)) return no_memory();  // never a null pointer
    int32_t* const offsets = out.offsets.as<int32_t>();
    if (first == 0) offsets[0] = 0;
    auto at = static_cast<size_t>(offsets[first]);
    const bool utf8 = type_row(part.column->type).is_text;
    for (size_t i = 0; i < records.size(); ++i) {
        bool null = false;
        const Slice text = TRY(text_of(part, records[i], null));
        if (null && !set_nulls(out, first + i, 1)) return no_memory();
        if (utf8 && !is_utf8(text))
            return misfit(*part.column, "the text is not UTF-8; describe the column as bytes");
        if (at + text.size() > INT32_MAX) return misfit(*part.column, "texts above 2 GB");
        if (!out.data.reserve(at + text.size(), at)) return no_memory();
        std::copy(text.begin(), text.end(), out.data.as<char>() + at);
        at += text.size();
        offsets[first + i + 1] = static_cast<int32_t>(at);
        text_bytes_ += text.size();
    }
    return {};
}

std::shared_ptr<const BlockData> BlockBuilder::finish() {
    text_bytes_ = 0;
    if (rows() == 0) return nullptr;
    block_->assert_state();
    DCHECK(block_->columns == wanted_ && block_->data.size() == parts_.size());
    return std::exchange(block_, nullptr);
}

}  // namespace lockstep::sm::scan
