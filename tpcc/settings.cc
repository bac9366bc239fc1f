// settings.cc - store options that fit the data; sizes and addresses as text.
#include "tpcc/settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>

namespace lockstep::tpcc {

namespace {

constexpr uint64_t kMegabyte = 1ull << 20, kGigabyte = 1ull << 30;
// After the load, with space for a short run.
constexpr uint64_t kWarehouseBytes = 130 * kMegabyte;
// What a store takes: the range of --log-size.
constexpr uint64_t kLogBytesMax = 1023 * kGigabyte;
// What runs add to the data. Not by their length: runs of other lengths measure the same pool.
constexpr uint64_t kGrowthBytes = kGigabyte;

uint64_t default_pool_bytes(uint64_t data_bytes) {
    const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return std::max(64 * kMegabyte, std::min(memory * 6 / 10, data_bytes + kGrowthBytes));
}

// "out.json" becomes "out-2.json". Devices are no files of results.
std::string numbered(const std::string& file, uint32_t number) {
    if (file.empty() || file.starts_with("/dev/")) return file;
    const std::filesystem::path path(file);
    return path.parent_path() /
           fmt::format("{}-{}{}", path.stem().string(), number, path.extension().string());
}

constexpr uint64_t kSegmentBytesMax = 64 * kMegabyte;  // of the log

uint64_t rounded_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Options Settings::store_options(uint32_t warehouses_now, uint64_t existing_bytes) const {
    Options options;
    options.create = action == Action::run;
    options.workers = workers;
    const uint64_t data_bytes = std::max(warehouses_now * kWarehouseBytes, existing_bytes);
    options.pool_bytes = pool_bytes ? pool_bytes : default_pool_bytes(data_bytes);
    // The load writes whole pages to the log within one transaction per table.
    const uint64_t log_wanted =
        log_bytes ? log_bytes : std::clamp(2 * data_bytes, 2 * kGigabyte, kLogBytesMax);
    options.log_bytes = rounded_up(log_wanted, kSegmentBytesMax);
    options.log_segment_bytes = std::min(kSegmentBytesMax, std::bit_floor(options.log_bytes / 8));
    // A check reads for long while the terminals change records. At least the default.
    if (audit_every != 0) options.version_bytes = std::max(kGigabyte, options.pool_bytes / 4);
    options.transactions_max = std::max<uint32_t>(options.transactions_max, 1024);
    options.io = io;
    // Threads of terminals, and those that serve deliveries.
    if (run.terminals_as_threads)
        options.executors = std::min(warehouses_now * (run.terminals + 1) + 16, 1u << 20);
    options.lock_stage = {.policy = lock_policy, .bypass_max = lock_bypass_max};
    options.steps = steps;
    options.control = control;
    if (!archive.empty()) options.archive = archive;
    return options;
}

Settings Settings::of_repetition(uint32_t number) const {
    Settings one = *this;
    if (repeat == 1) return one;
    for (std::string* file : {&one.json_file, &one.html_file, &one.csv_directory, &one.picture_file,
                              &one.delivery_file})
        *file = numbered(*file, number);
    return one;
}

std::optional<MetricsAddress> parse_metrics_address(const std::string& text) {
    MetricsAddress address;
    const size_t colon = text.rfind(':');
    if (colon != std::string::npos) address.host = text.substr(0, colon);
    const std::string port = text.substr(colon == std::string::npos ? 0 : colon + 1);
    const char* end = port.data() + port.size();
    const auto [rest, error] = std::from_chars(port.data(), end, address.port);
    in_addr parsed{};
    if (port.empty() || error != std::errc{} || rest != end ||
        inet_pton(AF_INET, address.host.c_str(), &parsed) != 1)
        return std::nullopt;
    return address;
}

std::string format_size(uint64_t bytes) {
    if (bytes >= 10 * kGigabyte)
        return fmt::format("{:.1f} GB",
                           static_cast<double>(bytes) / static_cast<double>(kGigabyte));
    return fmt::format("{:.0f} MB", static_cast<double>(bytes) / static_cast<double>(kMegabyte));
}

}  // namespace lockstep::tpcc
