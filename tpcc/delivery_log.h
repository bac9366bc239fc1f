// delivery_log.h - the result file of the deferred deliveries, written while they come.
//
// Concepts   A line for each Delivery: when it was queued and finished, as times of day, the
//            warehouse, the carrier, and the delivered order of each district (0: none).
// Source     TPC-C revision 5.11, clause 2.7.2.2.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "tpcc/delivery_queue.h"

namespace lockstep::tpcc {

// "2026-11-24T02:03:04.123456Z" of a time in nanoseconds since 1970.
std::string time_of_day(Time nanos);

class DeliveryLog {
public:
    // Replaces the file. `clock_offset`: added to the store's clock for times since 1970. Error:
    // bad_path with the errno.
    static Result<DeliveryLog> create(const std::string& file, Time clock_offset);
    // The lines are in the kernel when this returns. Blocks. Errors: no_space, io_error.
    Result<void> write(std::span<const DeliveryResult> results);
    uint64_t lines() const { return lines_; }

private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    DeliveryLog(std::FILE* file, Time clock_offset) : file_(file), clock_offset_(clock_offset) {}
    Result<void> write_text(const std::string& text);
    std::unique_ptr<std::FILE, Close> file_;
    Time clock_offset_;
    uint64_t lines_ = 0;
};

}  // namespace lockstep::tpcc
