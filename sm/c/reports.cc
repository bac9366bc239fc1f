// reports.cc - the C interface of columns, reports, and their scans as Arrow streams.
//
// Concepts   A report is kept by its store, under its handle. A call on it pins the store. A stream
//            keeps the scan alone, so it goes on when report and store have gone.
#include <lockstep/c/report.h>

#include <cerrno>
#include <string>
#include <vector>

#include <lockstep/report.h>
#include "sm/c/arrow.h"
#include "sm/c/objects.h"
#include "threads/sync/foreign_wait.h"

namespace lockstep::c {

// A scan, for its stream and for who cancels it.
struct StreamObject {
    Scan scan;
    Decimals decimals = Decimals::wide;
    std::string last;  // text of the last error; by who calls the stream
};
using StreamUse = std::shared_ptr<StreamObject>;

namespace {

struct ReportObject {
    Report report;
    Mutex lock;
    std::vector<std::weak_ptr<StreamObject>> streams;  // under lock
};

constexpr Keeps kReport = {Kind::report, "report", "report is NULL", "no report",
                           "report, which was closed or whose store was closed"};

Result<Constant> constant_of(const lockstep_constant& given) {
    switch (given.kind) {
        case LOCKSTEP_INTEGER: return Constant(given.integer);
        case LOCKSTEP_UNSIGNED: return Constant(given.number);
        case LOCKSTEP_REAL: return Constant(given.real);
        case LOCKSTEP_BYTES:
            LOCKSTEP_SOUND(given.bytes);
            return Constant(std::string(slice_of(given.bytes)));
        default:
            return fail(ErrorCode::bad_argument, "kind of a constant",
                        static_cast<uint64_t>(given.kind));
    }
}

Result<Where> where_of(const lockstep_where& given) {
    LOCKSTEP_NOT_NULL(given.column);
    if (given.count != 0) LOCKSTEP_NOT_NULL(given.values);
    Where out{.column = given.column,
              .compare = TRY(enum_of<Compare>(given.compare, 7, ErrorCode::bad_argument,
                                              "comparison of a condition")),
              .values = {}};
    for (size_t i = 0; i < given.count; ++i)
        out.values.push_back(TRY(constant_of(given.values[i])));
    return out;
}

constexpr lockstep_scan_options kScanDefaults = {.size = sizeof(lockstep_scan_options),
                                                 .columns = nullptr,
                                                 .columns_count = 0,
                                                 .where = nullptr,
                                                 .where_count = 0,
                                                 .ordered = false,
                                                 .decimals = LOCKSTEP_DECIMALS_WIDE,
                                                 .policy = LOCKSTEP_SCAN_AUTOMATIC};
constexpr lockstep_report_options kReportDefaults = {.size = sizeof(lockstep_report_options),
                                                     .max_age = 0};

Result<ScanOptions> scan_options_of(const lockstep_scan_options& given) {
    if (given.columns_count != 0) LOCKSTEP_NOT_NULL(given.columns);
    if (given.where_count != 0) LOCKSTEP_NOT_NULL(given.where);
    static_assert(int{LOCKSTEP_SCAN_FULL} == static_cast<int>(ScanPolicy::full));
    ScanOptions out{
        .columns = {},
        .where = {},
        .ordered = given.ordered,
        .policy = TRY(enum_of<ScanPolicy>(given.policy, LOCKSTEP_SCAN_FULL + 1,
                                          ErrorCode::bad_option, "lockstep_scan_options::policy"))};
    for (size_t i = 0; i < given.columns_count; ++i) {
        LOCKSTEP_NOT_NULL(given.columns[i]);
        out.columns.emplace_back(given.columns[i]);
    }
    for (size_t i = 0; i < given.where_count; ++i)
        out.where.push_back(TRY(where_of(given.where[i])));
    return out;
}

lockstep_report_stats c_struct(const ReportStats& s) {
    lockstep_report_stats out = {};
    out.size = sizeof out;
#define LOCKSTEP_COPY(field) out.field = s.field;
    LOCKSTEP_REPORT_COUNTERS(LOCKSTEP_COPY)
#undef LOCKSTEP_COPY
    return out;
}

lockstep_report_progress c_struct(const ReportProgress& p) {
    return {.size = sizeof(lockstep_report_progress),
            .number = p.number,
            .sees = p.sees.value,
            .age_nanos = p.age,
            .scans = p.scans,
            .ran = p.ran,
            .progress = p.progress,
            .behind = p.behind};
}

// The calls of a stream.

StreamObject& of_stream(ArrowArrayStream* stream) {
    DCHECK(stream != nullptr && stream->release != nullptr && stream->private_data != nullptr);
    return **static_cast<StreamUse*>(stream->private_data);
}

int failed(StreamObject& stream, const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    stream.last = error.text();
    DCHECK(!stream.last.empty());
    switch (error.code) {
        case ErrorCode::out_of_memory: return ENOMEM;
        case ErrorCode::cancelled: return ECANCELED;
        case ErrorCode::bad_argument: return EINVAL;
        default: return error.os != 0 ? error.os : EIO;
    }
}

int get_schema(ArrowArrayStream* self, ArrowSchema* out) {
    DCHECK(out != nullptr);
    const StreamObject& stream = of_stream(self);
    export_schema(stream.scan.columns(), stream.decimals, out);
    DCHECK(out->release != nullptr);
    return 0;
}

int get_next(ArrowArrayStream* self, ArrowArray* out) {
    DCHECK(out != nullptr);
    StreamObject& stream = of_stream(self);
    *out = {};  // the end
    const auto next = [&]() -> Result<void> {
        TRY(sm::require_outside_key_function());
        const auto cancel = [&] { stream.scan.cancel(); };
        const threads::GiveUp give_up(cancel);
        Block block;
        if (TRY(stream.scan.next(block))) TRY(export_block(block, stream.decimals, out));
        return {};
    };
    const Result<void> done = next();
    return done ? 0 : failed(stream, done.error());
}

const char* get_last_error(ArrowArrayStream* self) {
    const StreamObject& stream = of_stream(self);
    return stream.last.empty() ? nullptr : stream.last.c_str();
}

void release_stream(ArrowArrayStream* self) {
    DCHECK(self->release == release_stream);
    self->release = nullptr;
    delete static_cast<StreamUse*>(self->private_data);
}

Result<void> scan(ReportObject& report, const char* index, const lockstep_scan_options* given,
                  ArrowArrayStream* out) {
    DCHECK(out->release == nullptr);
    LOCKSTEP_NOT_NULL(index);
    const auto options = TRY(sized(given, kScanDefaults, "size of lockstep_scan_options"));
    auto use = std::make_shared<StreamObject>();
    use->decimals = TRY(enum_of<Decimals>(options.decimals, 3, ErrorCode::bad_option,
                                          "lockstep_scan_options::decimals"));
    use->scan = TRY(report.report.scan(index, TRY(scan_options_of(options))));
    {
        const std::lock_guard guard(report.lock);
        std::erase_if(report.streams, [](const auto& stream) { return stream.expired(); });
        report.streams.push_back(use);
    }
    *out = {.get_schema = get_schema,
            .get_next = get_next,
            .get_last_error = get_last_error,
            .release = release_stream,
            .private_data = new StreamUse(std::move(use))};
    return {};
}

Result<lockstep_report*> begin(StoreObject& store, const lockstep_report_options* given) {
    const auto options = TRY(sized(given, kReportDefaults, "size of lockstep_report_options"));
    auto made = std::make_shared<ReportObject>();
    made->report = TRY(store.store.report({.max_age = options.max_age}));
    const uint64_t sees = made->report.sees().value;
    return handle_of<lockstep_report>(TRY(keep(store, Kind::report, std::move(made), sees)));
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;

int lockstep_describe(lockstep_store* store, const char* name, lockstep_slice columns,
                      lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(name);
        LOCKSTEP_SOUND(columns);
        return s.store.describe(name, c::slice_of(columns));
    });
}

int lockstep_describe_in(lockstep_txn* txn, const char* name, lockstep_slice columns,
                         lockstep_error* error) {
    return c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(name);
        LOCKSTEP_SOUND(columns);
        return t.store->store.describe(*t.txn, name, c::slice_of(columns));
    });
}

int lockstep_columns(lockstep_store* store, const char* name, char* buffer, size_t room,
                     size_t* bytes, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(name);
        return c::copy_text(TRY(s.store.columns(name)).text(), buffer, room, bytes);
    });
}

int lockstep_columns_in(lockstep_txn* txn, const char* name, char* buffer, size_t room,
                        size_t* bytes, lockstep_error* error) {
    return c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(name);
        return c::copy_text(TRY(t.store->store.columns(*t.txn, name)).text(), buffer, room, bytes);
    });
}

void lockstep_report_options_init(lockstep_report_options* options, size_t size) {
    c::initialise(options, size, c::kReportDefaults);
}
void lockstep_scan_options_init(lockstep_scan_options* options, size_t size) {
    c::initialise(options, size, c::kScanDefaults);
}

int lockstep_report_begin(lockstep_store* store, const lockstep_report_options* options,
                          lockstep_report** report, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(report);
        *report = nullptr;
        *report = TRY(c::begin(s, options));
        return {};
    });
}

uint64_t lockstep_report_sees(lockstep_report* report) {
    c::HandleEntry* const entry = c::entry_of(report, c::Kind::report);
    if (entry == nullptr) return 0;
    const uint64_t sees = entry->link.load(std::memory_order_acquire);
    return entry->is(c::number_of(report)) ? sees : 0;
}

int lockstep_report_scan(lockstep_report* report, const char* index,
                         const lockstep_scan_options* options, ArrowArrayStream* stream,
                         lockstep_error* error) {
    return c::on_kept<c::ReportObject>(report, c::kReport, error,
                                       [&](c::StoreObject&, c::ReportObject& of) -> Result<void> {
                                           LOCKSTEP_NOT_NULL(stream);
                                           *stream = {};
                                           return c::scan(of, index, options, stream);
                                       });
}

int lockstep_report_cancel(lockstep_report* report, lockstep_error* error) {
    return c::on_kept<c::ReportObject>(report, c::kReport, error,
                                       [&](c::StoreObject&, c::ReportObject& of) -> Result<void> {
                                           const std::lock_guard guard(of.lock);
                                           for (const auto& stream : of.streams)
                                               if (const auto use = stream.lock())
                                                   use->scan.cancel();
                                           return {};
                                       });
}

int lockstep_report_close(lockstep_report* report, lockstep_error* error) {
    return c::on_kept<c::ReportObject>(report, c::kReport, error,
                                       [&](c::StoreObject& s, c::ReportObject&) -> Result<void> {
                                           c::end_kept(s, c::number_of(report));
                                           return {};
                                       });
}

int lockstep_get_report_stats(lockstep_store* store, lockstep_report_stats* stats,
                              lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(stats);
        return c::fill(stats, c::c_struct(s.store.report_stats()), "size of lockstep_report_stats");
    });
}

int lockstep_reports(lockstep_store* store,
                     bool (*each)(void* arg, const lockstep_report_progress* report), void* arg,
                     lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(each);
        for (const auto& report : s.store.report_stats().open) {
            const lockstep_report_progress told = c::c_struct(report);
            if (!each(arg, &told)) break;
        }
        return {};
    });
}
