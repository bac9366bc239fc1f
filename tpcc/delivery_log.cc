// delivery_log.cc - the result file of the deferred deliveries.
#include "tpcc/delivery_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>

#include "threads/base/try.h"

namespace lockstep::tpcc {

std::string time_of_day(Time nanos) {
    constexpr Time kMicro = 1000, kPerSecond = 1'000'000'000;
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(nanos / kPerSecond),
                       nanos % kPerSecond / kMicro);
}

Result<DeliveryLog> DeliveryLog::create(const std::string& file, Time clock_offset) {
    std::FILE* out = std::fopen(file.c_str(), "we");
    if (!out) return fail_os(ErrorCode::bad_path, errno, "--delivery-log");
    DeliveryLog log(out, clock_offset);
    TRY(log.write_text(
        "queued,finished,warehouse,carrier,order_of_district_1,2,3,4,5,6,7,8,9,10\n"));
    return log;
}

Result<void> DeliveryLog::write(std::span<const DeliveryResult> results) {
    std::string text;
    for (const DeliveryResult& result : results)
        text += fmt::format("{},{},{},{},{}\n",
                            time_of_day(static_cast<Time>(result.request.queued) + clock_offset_),
                            time_of_day(static_cast<Time>(result.finished) + clock_offset_),
                            result.request.input.w, result.request.input.carrier_id,
                            fmt::join(result.output.o_id, ","));
    lines_ += results.size();
    return write_text(text);
}

// Not by fmt::print(), which throws: this runs on a user thread.
Result<void> DeliveryLog::write_text(const std::string& text) {
    const bool whole = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
    if (whole && std::fflush(file_.get()) == 0) return {};
    return fail_os(errno == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error, errno,
                   "--delivery-log");
}

}  // namespace lockstep::tpcc
