// labels: unit
// log_checksum_test.cc - the checksum of log records: one function on every processor,
// and bound to the record's place.
#include "txn/log/log_checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <vector>

namespace lockstep::txn::log_checksum_test {

// Reference values of RFC 3720, B.4.
TEST(Crc32c, IsTheStandardOne) {
    const uint64_t zeros[4] = {};
    EXPECT_EQ(~crc32c(~0u, zeros, sizeof zeros), 0x8a9136aau);
    unsigned char ascending[32];
    for (unsigned i = 0; i < 32; ++i) ascending[i] = static_cast<unsigned char>(i);
    EXPECT_EQ(~crc32c(~0u, ascending, sizeof ascending), 0x46dd794eu);
}

TEST(Crc32c, InstructionAndTableAgree) {
    uint64_t word = 0x0123456789abcdefull;
    uint32_t crc = 1;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(crc32c_word(crc, word), crc32c_portable::word(crc, word));
        crc = crc32c_word(crc, word);
        word = word * 0x9e3779b97f4a7c15ull + crc;
    }
}

// Three streams: the length decides where they begin, and what is left over follows them.
TEST(Crc32c, LongDataInThreeStreams) {
    std::vector<uint64_t> words(40);
    for (size_t i = 0; i < words.size(); ++i) words[i] = 0x9e3779b97f4a7c15ull * (i + 1);
    for (size_t n = 0; n <= words.size(); ++n) {
        const size_t third = n / 3;
        uint32_t thirds[3];
        for (size_t i = 0; i < 3; ++i) thirds[i] = crc32c(7, &words[i * third], third * 8);
        uint32_t expected = crc32c_word(crc32c_word(thirds[0], thirds[1]), thirds[2]);
        expected = crc32c(expected, words.data() + 3 * third, (n - 3 * third) * 8);
        ASSERT_EQ(crc32c_long(7, words.data(), n * 8), expected) << n;
    }
}

// Short and long records: every byte, the length and the place take part.
TEST(LogChecksum, ChangesWithBytesLengthAndPlace) {
    for (const uint32_t bytes : {40u, 104u, kCrcBytesMax, kCrcBytesMax + 8, 9000u}) {
        std::vector<uint64_t> memory(bytes / 8 + 1, 0x5555555555555555ull);
        auto* header = reinterpret_cast<LogRecordHeader*>(memory.data());
        header->bytes = bytes;
        header->kind = 7;
        header->checksum = log_checksum(header, bytes, Lsn{4096});
        EXPECT_TRUE(log_record_valid(header, bytes, Lsn{4096}));
        EXPECT_FALSE(log_record_valid(header, bytes - 1, Lsn{4096}));
        for (int shift = 3; shift < 40; ++shift)
            EXPECT_FALSE(log_record_valid(header, bytes, Lsn{4096 + (uint64_t{1} << shift)}))
                << shift;
        EXPECT_NE(log_checksum(header, bytes + 8, Lsn{4096}), header->checksum);
        auto* raw = reinterpret_cast<unsigned char*>(header);
        for (uint32_t at = 8; at < bytes; ++at) {
            raw[at] ^= 0x10;
            ASSERT_NE(log_checksum(header, bytes, Lsn{4096}), header->checksum) << at;
            raw[at] ^= 0x10;
        }
    }
}

// Format versions 2 and 3 gave long records an XXH3. A reader takes both, and no other.
TEST(LogChecksum, LongRecordsOfOlderVersionsAreTaken) {
    for (const uint32_t bytes : {kCrcBytesMax, kCrcBytesMax + 8, 9000u}) {
        std::vector<uint64_t> memory(bytes / 8, 0x5555555555555555ull);
        auto* header = reinterpret_cast<LogRecordHeader*>(memory.data());
        header->bytes = bytes;
        header->kind = 7;
        header->checksum = static_cast<uint32_t>(XXH3_64bits_withSeed(
            memory.data() + 1, bytes - 8, 4096 + bytes * 0x9e3779b97f4a7c15ull));
        EXPECT_EQ(log_record_valid(header, bytes, Lsn{4096}), bytes > kCrcBytesMax);
        EXPECT_FALSE(log_record_valid(header, bytes, Lsn{8192}));
        memory.back() ^= 1;
        EXPECT_FALSE(log_record_valid(header, bytes, Lsn{4096}));
    }
}

}  // namespace lockstep::txn::log_checksum_test
