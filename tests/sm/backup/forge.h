// forge.h - changes a field of a file `backup`, or of a file of an archive, behind its checksum.
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "tests/sm/test_util.h"
#include "threads/io/io.h"

namespace lockstep {

// Both have a first block of 4096 bytes, which begins with the checksum of the rest.
template <class T>
void forge(threads::Disk& disk, const std::string& path, size_t offset, T value) {
    constexpr size_t kBytes = 4096;
    alignas(kBytes) std::byte block[kBytes];
    const auto file = disk.open(path, 0);
    ASSERT_OK(file);
    ASSERT_OK(disk.read_now(*file, 0, block, kBytes));
    ASSERT_LE(offset + sizeof value, kBytes);
    std::memcpy(block + offset, &value, sizeof value);
    const uint64_t checksum = XXH3_64bits(block + 8, kBytes - 8);
    std::memcpy(block, &checksum, sizeof checksum);
    ASSERT_OK(disk.write_now(*file, 0, block, kBytes));
    disk.close(*file);
}

}  // namespace lockstep
