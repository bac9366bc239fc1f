// fuzz_columns.cc - a text of columns of any bytes, and records of any bytes under it: what is read
// is what is written, and no record is read beyond its end.
//
// Input      the text, a zero byte, then records: lengths of key and value, and their bytes.
#include <memory>
#include <numeric>
#include <vector>

#include "sm/scan/block_builder.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

using namespace sm::scan;

// Each byte of a finished block can be read.
void read_block(const BlockData& block, const Columns& columns) {
    block.assert_state();
    for (size_t i = 0; i < block.columns.size(); ++i) {
        const Column& column = columns.all()[block.columns[i]];
        const ColumnData& data = block.data[i];
        size_t nulls = 0;
        for (size_t row = 0; row < block.rows; ++row) {
            nulls += data.is_null(row);
            if (column.block_bytes() != 0) {
                use(std::string(data.data.as<char>() + row * column.block_bytes(),
                                column.block_bytes()));
                continue;
            }
            const std::string text(data.text(row));
            CHECK(column.arrow_format() == "z" || is_utf8(text));
        }
        CHECK(nulls == data.nulls && (nulls == 0 || column.nullable()));
    }
}

void decode(const Columns& columns, Input& in) {
    std::vector<uint16_t> wanted(columns.all().size());
    std::iota(wanted.begin(), wanted.end(), uint16_t{0});
    BlockBuilder builder(columns, wanted);
    for (size_t batch = 0; !in.empty() && batch < 8; ++batch) {
        // Blocks of their own, so that a read beyond the end is seen.
        std::vector<std::unique_ptr<char[]>> bytes;
        std::vector<RecordBytes> records;
        const auto take = [&](size_t n) {
            const std::string from = in.bytes(n);
            char* const to = bytes.emplace_back(new char[from.size()]).get();
            std::copy(from.begin(), from.end(), to);
            return Slice(to, from.size());
        };
        for (unsigned n = in.byte() % 8; n > 0; --n) {
            const Slice key = take(in.byte()), value = take(in.byte());
            records.push_back({key, value, in.byte()});
        }
        // A leaf says what its keys share, and how long its records are at least, or less.
        RecordBatch of{.records = records, .shared = take(in.byte() % 4)};
        if (!records.empty() && in.byte() % 2 == 0) {
            of.key_least = of.value_least = SIZE_MAX;
            for (const RecordBytes& record : records) {
                of.key_least = std::min(of.key_least, record.key.size());
                of.value_least = std::min(of.value_least, record.value.size());
            }
        }
        if (!builder.add(of)) builder.reset();
    }
    if (const auto block = builder.finish()) read_block(*block, columns);
}

}  // namespace

int fuzz_columns(const uint8_t* data, size_t size) {
    const Slice all(reinterpret_cast<const char*>(data), size);
    const size_t end = std::min(all.find('\0'), size);
    const auto columns = Columns::parse(all.substr(0, end));
    if (!columns) {
        CHECK(columns.error().code == ErrorCode::bad_argument && columns.error().a >= 1 &&
              columns.error().b >= 1);
        return 0;
    }
    const auto again = Columns::parse(columns->text());
    CHECK(again && *again == *columns && again->text() == columns->text());
    const size_t rest = std::min(end + 1, size);
    Input in(data + rest, size - rest);
    decode(*columns, in);
    return 0;
}

}  // namespace lockstep::fuzz
