// labels: unit
// key_vectors_test.cc - keys of C++, C and Python have the same bytes: the lines of
// tests/python/keys.txt.
#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

#include <lockstep/key.h>
#include <lockstep/key_reader.h>
#include <lockstep/lockstep.h>  // keep: the whole C interface

namespace lockstep::key_vectors_test {

std::string bytes_of(std::string_view hex) {
    std::string bytes;
    for (size_t n = 0; n + 1 < hex.size(); n += 2)
        bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(n, 2)), nullptr, 16)));
    return bytes;
}

// Both keys get the part of a line, "type:value".
void append(const std::string& part, Key& cpp, lockstep_key& c) {
    const size_t colon = part.find(':');
    ASSERT_NE(colon, std::string::npos) << part;
    const std::string type = part.substr(0, colon), value = part.substr(colon + 1);
    if (type == "text") {
        const std::string text = bytes_of(value);
        cpp.text(text);
        lockstep_key_text(&c, lockstep_bytes(text.data(), text.size()));
        return;
    }
    uint64_t number = 0;
    int64_t with_sign = 0;
    const char* const end = value.data() + value.size();
    if (type[0] == 'u') std::from_chars(value.data(), end, number);
    else std::from_chars(value.data(), end, with_sign);
    if (type == "u8") cpp.u8(static_cast<uint8_t>(number)), lockstep_key_u8(&c, number & 0xff);
    if (type == "u16")
        cpp.u16(static_cast<uint16_t>(number)), lockstep_key_u16(&c, number & 0xffff);
    if (type == "u32")
        cpp.u32(static_cast<uint32_t>(number)), lockstep_key_u32(&c, static_cast<uint32_t>(number));
    if (type == "u64") cpp.u64(number), lockstep_key_u64(&c, number);
    if (type == "i32")
        cpp.i32(static_cast<int32_t>(with_sign)),
            lockstep_key_i32(&c, static_cast<int32_t>(with_sign));
    if (type == "i64") cpp.i64(with_sign), lockstep_key_i64(&c, with_sign);
}

// A part of the line, read back by both.
void read_back(const std::string& part, KeyReader& cpp, lockstep_key_reader& c) {
    const size_t colon = part.find(':');
    const std::string type = part.substr(0, colon), value = part.substr(colon + 1);
    if (type == "text") {
        const std::string text = bytes_of(value);
        lockstep_key_reader measured = c;
        const size_t bytes = lockstep_key_reader_text(&measured, nullptr, 0);
        ASSERT_EQ(bytes, text.size()) << part;
        std::string of_c(bytes + 1, 'x');
        EXPECT_EQ(lockstep_key_reader_text(&c, of_c.data(), bytes), bytes);
        EXPECT_EQ(of_c, text + "x");
        EXPECT_EQ(cpp.text(), text);
        return;
    }
    const auto expect = [&](auto number_of_cpp, auto number_of_c) {
        EXPECT_EQ(std::to_string(number_of_cpp), value) << part;
        EXPECT_EQ(std::to_string(number_of_c), value) << part;
    };
    if (type == "u8") expect(cpp.u8(), lockstep_key_reader_u8(&c));
    if (type == "u16") expect(cpp.u16(), lockstep_key_reader_u16(&c));
    if (type == "u32") expect(cpp.u32(), lockstep_key_reader_u32(&c));
    if (type == "u64") expect(cpp.u64(), lockstep_key_reader_u64(&c));
    if (type == "i32") expect(cpp.i32(), lockstep_key_reader_i32(&c));
    if (type == "i64") expect(cpp.i64(), lockstep_key_reader_i64(&c));
}

// What is no part reads as nothing, and nothing is read after it.
TEST(KeyVectors, APartThatIsNotThereIsSaid) {
    const Slice marked("a\0b", 3), open("a", 1), integer("\1\2\3", 3);
    for (const Slice bytes : {marked, open, Slice()}) {
        lockstep_key_reader c;
        lockstep_key_reader_init(&c, lockstep_bytes(bytes.data(), bytes.size()));
        EXPECT_EQ(lockstep_key_reader_text(&c, nullptr, 0), 0u);
        EXPECT_TRUE(c.lost && !lockstep_key_reader_at_end(&c));
        KeyReader cpp(bytes);
        EXPECT_EQ(cpp.text(), "");
        EXPECT_FALSE(cpp.ok());
    }
    lockstep_key_reader c;
    lockstep_key_reader_init(&c, lockstep_bytes(integer.data(), integer.size()));
    EXPECT_EQ(lockstep_key_reader_i32(&c), 0);
    EXPECT_EQ(lockstep_key_reader_u8(&c), 0u);
    EXPECT_TRUE(c.lost);
    lockstep_key_reader_init(&c, {nullptr, 3});
    EXPECT_TRUE(c.lost);
}

TEST(KeyVectors, BytesAreTheSameInAllLanguages) {
    std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/python/keys.txt");
    int lines = 0;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        const size_t equals = line.find('=');
        ASSERT_NE(equals, std::string::npos) << line;
        Key cpp;
        lockstep_key c;
        lockstep_key_init(&c);
        std::istringstream parts(line.substr(0, equals));
        for (std::string part; parts >> part;) append(part, cpp, c);
        const std::string wanted = bytes_of(line.substr(equals + 2));
        EXPECT_EQ(std::string(Slice(cpp)), wanted) << line;
        const lockstep_slice of_c = lockstep_key_slice(&c);
        EXPECT_EQ(std::string(static_cast<const char*>(of_c.data), of_c.size), wanted) << line;
        KeyReader parts_of_cpp(wanted);
        lockstep_key_reader parts_of_c;
        lockstep_key_reader_init(&parts_of_c, lockstep_bytes(wanted.data(), wanted.size()));
        std::istringstream again(line.substr(0, equals));
        for (std::string part; again >> part;) read_back(part, parts_of_cpp, parts_of_c);
        EXPECT_TRUE(parts_of_cpp.at_end() && lockstep_key_reader_at_end(&parts_of_c)) << line;
        ++lines;
    }
    EXPECT_GT(lines, 20);
}

}  // namespace lockstep::key_vectors_test
