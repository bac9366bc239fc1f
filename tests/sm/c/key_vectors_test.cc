// labels: unit
// key_vectors_test.cc - keys of C++, C and Python have the same bytes: the lines of
// tests/python/keys.txt.
#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

#include <lockstep/key.h>
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
        ++lines;
    }
    EXPECT_GT(lines, 20);
}

}  // namespace lockstep::key_vectors_test
