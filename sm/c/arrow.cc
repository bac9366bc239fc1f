// arrow.cc - blocks of a scan as the structs of the Arrow C data interface.
#include "sm/c/arrow.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "sm/scan/block_data.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::c {

namespace {

constexpr uint32_t kDigits = 18, kDigitsOf32 = 9;
constexpr int64_t kDecimalEnd = 1'000'000'000'000'000'000, kDecimalEndOf32 = 1'000'000'000;

// How a decimal leaves.
struct Digits {
    uint32_t precision;
    int64_t end;  // numbers lie between -end and end
    bool widens;  // to 128 bits
};
Digits digits_of(const Column& column, Decimals decimals) {
    const bool narrow = column.type == ColumnType::decimal32 && decimals == Decimals::narrow &&
                        column.scale <= kDigitsOf32;
    DCHECK(column.scale <= kDigits && decimals != Decimals::integer);
    return {
        .precision = narrow ? kDigitsOf32 : kDigits,
        .end = narrow ? kDecimalEndOf32 : kDecimalEnd,
        .widens = decimals == Decimals::wide || (column.type == ColumnType::decimal32 && !narrow)};
}

bool is_decimal(const Column& column) {
    return column.type == ColumnType::decimal || column.type == ColumnType::decimal32;
}

std::string format_of(const Column& column, Decimals decimals) {
    if (!is_decimal(column) || decimals == Decimals::integer) return column.arrow_format();
    const Digits digits = digits_of(column, decimals);
    std::string format =
        "d:" + std::to_string(digits.precision) + "," + std::to_string(column.scale);
    if (!digits.widens) format += "," + std::to_string(8 * column.block_bytes());
    return format;
}

// One pair, as the interface lays metadata out: its number, then each text behind its length.
std::string metadata_of(const Column& column, Decimals decimals) {
    if (!is_decimal(column) || decimals != Decimals::integer) return {};
    std::string out;
    const auto number = [&](size_t value) {
        const auto word = static_cast<int32_t>(value);
        out.append(reinterpret_cast<const char*>(&word), sizeof word);
    };
    number(1);
    for (const std::string& text : {std::string("lockstep.scale"), std::to_string(column.scale)}) {
        number(text.size());
        out += text;
    }
    return out;
}

// The memory of a struct and its children.
template <class Arrow>
struct Exported {
    explicit Exported(size_t count) : children(count), places(count), refs(count + 1) {}
    virtual ~Exported() = default;
    // Binds the parent to the children, whose content is set.
    void bind(Arrow* parent) {
        for (size_t i = 0; i < children.size(); ++i) {
            places[i] = &children[i];
            children[i].release = release;
            children[i].private_data = this;
        }
        parent->n_children = static_cast<int64_t>(children.size());
        parent->children = places.data();
        parent->release = release;
        parent->private_data = this;
    }
    void drop() {
        const size_t before = refs.fetch_sub(1, std::memory_order_acq_rel);
        DCHECK(before > 0 && before <= children.size() + 1);  // AW-1
        if (before == 1) delete this;
    }
    static void release(Arrow* one) {
        DCHECK(one->release == release);
        for (int64_t i = 0; i < one->n_children; ++i)
            if (Arrow* const child = one->children[i]; child->release != nullptr)
                child->release(child);
        one->release = nullptr;
        static_cast<Exported*>(one->private_data)->drop();
    }

    std::vector<Arrow> children;
    std::vector<Arrow*> places;
    std::atomic<size_t> refs;
};

struct SchemaMemory final : Exported<ArrowSchema> {
    using Exported::Exported;
    std::vector<std::string> texts;
};

struct ArrayMemory final : Exported<ArrowArray> {
    using Exported::Exported;
    static constexpr size_t kBuffers = 3;
    Block block;
    std::vector<const void*> buffers;
    std::vector<sm::scan::Buffer> wide;  // decimals that were made wider
    const void* no_validity = nullptr;   // of the parent, whose rows are never null
};

template <class T>
Result<void> check_digits(const Block& block, size_t column, int64_t end) {
    const std::span<const T> numbers = block.numbers<T>(column);
    // Null rows have any number, so they are looked at one by one if there is a reason.
    bool fit = true;
    for (const T number : numbers) fit &= number < end && number > -end;
    for (size_t row = 0; !fit && row < numbers.size(); ++row)
        if (!block.is_null(column, row) && (numbers[row] >= end || numbers[row] <= -end))
            return fail_with(ErrorCode::bad_argument, "scan",
                             "column \"" + block.columns()[column].name + "\": the decimal " +
                                 std::to_string(numbers[row]) +
                                 " has too many digits; ask for integers");
    return {};
}

template <class T>
Result<const void*> widened(const Block& block, size_t column, sm::scan::Buffer& to) {
    const std::span<const T> numbers = block.numbers<T>(column);
    if (!to.reserve(numbers.size() * sizeof(__int128), 0))
        return fail(ErrorCode::out_of_memory, "decimals of a block");
    __int128* const out = to.as<__int128>();
    for (size_t row = 0; row < numbers.size(); ++row) out[row] = numbers[row];
    return static_cast<const void*>(out);
}

// Numbers as they are, or made wider.
Result<const void*> decimals_of(const Block& block, size_t column, Decimals decimals,
                                sm::scan::Buffer& to) {
    const Column& of = block.columns()[column];
    const Digits digits = digits_of(of, decimals);
    const bool is_short = of.type == ColumnType::decimal32;
    DCHECK(of.block_bytes() == (is_short ? 4 : 8));
    TRY(is_short ? check_digits<int32_t>(block, column, digits.end)
                 : check_digits<int64_t>(block, column, digits.end));
    if (!digits.widens) return block.buffers(column).data;
    return is_short ? widened<int32_t>(block, column, to) : widened<int64_t>(block, column, to);
}

Result<void> export_column(ArrayMemory& memory, size_t i, Decimals decimals) {
    // For texts that are all empty: some consumers refuse a null address.
    alignas(kCacheLineBytes) static constexpr char kNoBytes[kCacheLineBytes] = {};
    const Block& block = memory.block;
    const Block::Buffers from = block.buffers(i);
    const void** const to = &memory.buffers[i * ArrayMemory::kBuffers];
    const bool is_text = from.offsets != nullptr;
    const void* data = from.data;
    if (decimals != Decimals::integer && is_decimal(block.columns()[i]))
        data = TRY(decimals_of(block, i, decimals, memory.wide[i]));
    size_t count = 0;
    to[count++] = from.validity;
    if (is_text) to[count++] = from.offsets;
    to[count++] = data != nullptr ? data : kNoBytes;
    DCHECK(count <= ArrayMemory::kBuffers && (is_text || from.data != nullptr));
    memory.children[i] = {.length = static_cast<int64_t>(block.rows()),
                          .null_count = static_cast<int64_t>(from.nulls),
                          .offset = 0,
                          .n_buffers = static_cast<int64_t>(count),
                          .n_children = 0,
                          .buffers = to,
                          .children = nullptr,
                          .dictionary = nullptr,
                          .release = nullptr,
                          .private_data = nullptr};
    return {};
}

}  // namespace

void export_schema(std::span<const Column> columns, Decimals decimals, ArrowSchema* out) {
    auto* const memory = new SchemaMemory(columns.size());
    memory->texts.reserve(3 * columns.size());  // their addresses are given away
    for (size_t i = 0; i < columns.size(); ++i) {
        const Column& column = columns[i];
        const std::string& format = memory->texts.emplace_back(format_of(column, decimals));
        const std::string& name = memory->texts.emplace_back(column.name);
        const std::string& metadata = memory->texts.emplace_back(metadata_of(column, decimals));
        memory->children[i] = {.format = format.c_str(),
                               .name = name.c_str(),
                               .metadata = metadata.empty() ? nullptr : metadata.data(),
                               .flags = column.nullable() ? ARROW_FLAG_NULLABLE : 0,
                               .n_children = 0,
                               .children = nullptr,
                               .dictionary = nullptr,
                               .release = nullptr,
                               .private_data = nullptr};
    }
    *out = {};
    out->format = "+s";
    out->name = "";
    memory->bind(out);
}

Result<void> export_block(const Block& block, Decimals decimals, ArrowArray* out) {
    const size_t count = block.columns().size();
    auto memory = std::make_unique<ArrayMemory>(count);
    memory->block = block;
    memory->buffers.resize(count * ArrayMemory::kBuffers);
    memory->wide.resize(count);
    for (size_t i = 0; i < count; ++i) TRY(export_column(*memory, i, decimals));
    *out = {};
    out->length = static_cast<int64_t>(block.rows());
    out->n_buffers = 1;
    out->buffers = &memory->no_validity;
    memory.release()->bind(out);
    return {};
}

}  // namespace lockstep::c
