// block_builder.cc - the loops that copy numbers and texts out of records.
#include "sm/scan/block_builder.h"

#include <algorithm>

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
    static_assert(kBytes >= 1 && kBytes <= 8);
    uint64_t value = 0;
    for (unsigned i = 0; i < kBytes; ++i) value = value << 8 | static_cast<uint8_t>(at[i]);
    return value;
}

// Copies numbers from `find(record)`, which is null where the record has none. The rows of those
// come to `missing`.
template <class T, class Find, class Load, class Missing>
bool copy_numbers(T* out, std::span<const RecordBytes> records, Find find, Load get,
                  Missing missing) {
    for (size_t i = 0; i < records.size(); ++i) {
        const char* const at = find(records[i]);
        if (at == nullptr) [[unlikely]] {
            out[i] = T{};
            if (!missing(i)) return false;
            continue;
        }
        out[i] = get(at);
    }
    return true;
}

template <class T>
struct Little {
    T operator()(const char* at) const { return load<T>(at); }
};
// Key writes signed numbers with the sign bit turned over.
template <class T, unsigned kBytes, bool kFlip = false>
struct Big {
    static_assert(sizeof(T) >= kBytes && (!kFlip || sizeof(T) == kBytes));
    T operator()(const char* at) const {
        const uint64_t value = load_big_endian<kBytes>(at);
        return static_cast<T>(kFlip ? value ^ 1ull << (8 * kBytes - 1) : value);
    }
};

// Calls with what loads a number of the type.
template <class Call>
bool with_value_type(const TypeRow& row, Call call) {
    switch (row.made) {
        case 1: return call(Little<uint8_t>());
        case 2: return call(Little<uint16_t>());
        case 4: return call(Little<uint32_t>());
        default: DCHECK(row.made == 8); return call(Little<uint64_t>());
    }
}
template <class Call>
bool with_key_type(const TypeRow& row, Call call) {
    switch (row.stored) {
        case 1: return call(Big<uint8_t, 1>());
        case 2: return call(Big<uint16_t, 2>());
        case 3: return call(Big<uint32_t, 3>());
        case 4: return row.is_signed ? call(Big<uint32_t, 4, true>()) : call(Big<uint32_t, 4>());
        default:
            DCHECK(row.stored == 8);
            return row.is_signed ? call(Big<uint64_t, 8, true>()) : call(Big<uint64_t, 8>());
    }
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

BlockBuilder::BlockBuilder(const Columns& columns, std::span<const uint16_t> wanted)
    : wanted_(wanted.begin(), wanted.end()) {
    const std::span<const Column> all = columns.all();
    for (const uint16_t place : wanted) {
        DCHECK(place < all.size() && (parts_.empty() || parts_.back().column < &all[place]));
        Part part{.column = &all[place], .before = {}};
        if (all[place].place == ColumnPlace::key)
            for (size_t i = 0; i < place; ++i) {
                if (all[i].place != ColumnPlace::key) continue;
                if (part.before.empty() && all[i].stored_bytes() != 0)
                    part.begin += all[i].stored_bytes();
                else part.before.push_back(&all[i]);
            }
        parts_.push_back(std::move(part));
    }
}

Result<void> BlockBuilder::begin() {
    DCHECK(!block_ && wanted_.size() == parts_.size() && text_bytes_ == 0);
    block_.reset(new (std::nothrow) BlockData);
    if (!block_) return no_memory();
    block_->columns = wanted_;
    block_->data.resize(wanted_.size());
    for (size_t i = 0; i < parts_.size(); ++i)
        block_->data[i].width = parts_[i].column->block_bytes();
    return {};
}

Result<void> BlockBuilder::add(std::span<const RecordBytes> records) {
    DCHECK(rows() + records.size() <= kBlockRowsMax);
    if (records.empty()) return {};
    if (!block_) TRY(begin());
    for (size_t i = 0; i < parts_.size(); ++i) TRY(add_column(parts_[i], block_->data[i], records));
    block_->rows += records.size();
    block_->assert_state();
    return {};
}

Result<void> BlockBuilder::add_column(const Part& part, ColumnData& out,
                                      std::span<const RecordBytes> records) {
    if (part.column->block_bytes() == 0) return add_texts(part, out, records);
    const size_t width = part.column->block_bytes();
    const size_t used = block_->rows * width;
    if (!out.data.reserve(used + records.size() * width, used)) return no_memory();
    return add_numbers(part, out, records);
}

// The bitmap is made with the first null, for all rows that the block may get: all others have a
// value.
bool BlockBuilder::set_null(ColumnData& out, size_t row) {
    DCHECK(row < kBlockRowsMax);
    if (out.nulls == 0) {
        if (!out.validity.reserve(kBlockRowsMax / 8, 0)) return false;
        std::memset(out.validity.as<char>(), 0xff, kBlockRowsMax / 8);
    }
    DCHECK(!out.is_null(row) && out.nulls < kBlockRowsMax);
    out.validity.as<uint8_t>()[row / 8] &= static_cast<uint8_t>(~(1u << (row % 8)));
    ++out.nulls;
    return true;
}

Result<void> BlockBuilder::add_numbers(const Part& part, ColumnData& out,
                                       std::span<const RecordBytes> records) {
    const Column& column = *part.column;
    const size_t first = block_->rows;
    DCHECK(out.width == column.block_bytes() && out.width != 0);
    bool misfits = false;
    const auto missing = [&](size_t i) {
        misfits = !column.short_is_null;
        return !misfits && set_null(out, first + i);
    };
    const size_t width = column.stored_bytes();
    bool done = true;
    if (column.place == ColumnPlace::value) {
        const size_t end = column.offset + width;
        done = with_value_type(type_row(column.type), [&](auto get) {
            using T = decltype(get(nullptr));
            T* const to = out.data.as<T>() + first;
            const auto find = [&](const RecordBytes& r) {
                return r.value.size() >= end ? r.value.data() + column.offset : nullptr;
            };
            if (!copy_numbers(to, records, find, get, missing)) return false;
            if (!column.null_value) return true;
            for (size_t i = 0; i < records.size(); ++i)
                if (to[i] == static_cast<T>(*column.null_value) && !out.is_null(first + i) &&
                    records[i].value.size() >= end && !set_null(out, first + i))
                    return false;
            return true;
        });
    } else if (column.place == ColumnPlace::id) {
        for (size_t i = 0; i < records.size(); ++i)
            out.data.as<uint64_t>()[first + i] = records[i].id;
    } else {
        done = with_key_type(type_row(column.type), [&](auto get) {
            using T = decltype(get(nullptr));
            const auto find = [&](const RecordBytes& r) -> const char* {
                const size_t begin = begin_in_key(part.before, part.begin, r.key);
                return begin <= r.key.size() && r.key.size() - begin >= width ? r.key.data() + begin
                                                                              : nullptr;
            };
            return copy_numbers(out.data.as<T>() + first, records, find, get, missing);
        });
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

Result<void> BlockBuilder::add_texts(const Part& part, ColumnData& out,
                                     std::span<const RecordBytes> records) {
    const size_t first = block_->rows;
    DCHECK(out.width == 0 && part.column->block_bytes() == 0);
    if (!out.offsets.reserve((first + records.size() + 1) * sizeof(int32_t),
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
        if (null && !set_null(out, first + i)) return no_memory();
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
