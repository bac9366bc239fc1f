// fault_plan.h - which operation of the file system fails, and how.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::faultfs {

// What requests are counted as. size: fallocate and truncate. name: create, mkdir, rename, unlink.
enum class Operation : uint8_t { write, read, sync, size, name };
constexpr size_t kOperations = 5;
constexpr std::array<const char*, kOperations> kOperationNames = {"write", "read", "sync", "size",
                                                                  "name"};

// short_transfer: half of the bytes. lost_write: the write seems to succeed, but its bytes are
// dropped, and the next sync of the file returns EIO; so a failed write-back looks on Linux.
enum class Fault : uint8_t { none, io_error, no_space, short_transfer, lost_write };
constexpr std::array<const char*, 5> kFaultNames = {"none", "EIO", "ENOSPC", "short", "lost"};

struct FaultPlan {
    Fault fault = Fault::none;
    Operation operation = Operation::write;
    uint64_t nth = 0;    // of the operations counted since the plan was set, from 1
    bool lasts = false;  // all operations after it fail as well
};

}  // namespace lockstep::faultfs
