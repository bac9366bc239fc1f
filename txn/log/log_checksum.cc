// log_checksum.cc - the checksum that long log records had before format version 4.
#include "txn/log/log_checksum.h"

#include <xxhash.h>

namespace lockstep::txn {

uint32_t log_checksum_before_4(const LogRecordHeader* header, Lsn lsn) {
    DCHECK(header->bytes > kCrcBytesMax && log_size_plausible(header->bytes));
    return static_cast<uint32_t>(
        XXH3_64bits_withSeed(reinterpret_cast<const std::byte*>(header) + 8, header->bytes - 8,
                             log_checksum_seed(header->bytes, lsn)));
}

}  // namespace lockstep::txn
