// labels: unit
// c_reports_test.cc - columns and reports of the C interface: what a consumer of Arrow streams
// gets, in which order things may be released, and how scans end.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "tests/sm/c/c_util.h"

namespace lockstep::c_reports_test {

constexpr const char* kText =
    "id u32 key\n"
    "part u16 value 0 null 3\n"
    "price decimal(2) value 2\n"
    "fee decimal32(1) value 10\n"
    "name text8 value 14";
constexpr uint32_t kRows = 20'000;  // several chunks

std::string record_of(uint32_t id) {
    const auto part = static_cast<uint16_t>(id % 5);
    const int64_t price = int64_t{id} * 7 - 5000;
    const auto fee = static_cast<int32_t>(id) - 70;
    std::string out;
    out.append(reinterpret_cast<const char*>(&part), sizeof part);
    out.append(reinterpret_cast<const char*>(&price), sizeof price);
    out.append(reinterpret_cast<const char*>(&fee), sizeof fee);
    return out + static_cast<char>(id % 40) + std::string(id % 40, 'n');
}

// What a consumer sees of a column of an array.
template <class T>
T number(const ArrowArray& array, size_t column, size_t row) {
    return static_cast<const T*>(array.children[column]->buffers[1])[row];
}
bool is_null(const ArrowArray& array, size_t column, size_t row) {
    const auto* const bits = static_cast<const uint8_t*>(array.children[column]->buffers[0]);
    return bits != nullptr && (bits[row / 8] >> (row % 8) & 1) == 0;
}
std::string text(const ArrowArray& array, size_t column, size_t row) {
    const auto* const offsets = static_cast<const int32_t*>(array.children[column]->buffers[1]);
    const auto* const bytes = static_cast<const char*>(array.children[column]->buffers[2]);
    return {bytes + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

class CReports : public CStore {
protected:
    void load(uint32_t rows) {
        lockstep_index* const index = make_index("lines");
        lockstep_txn* txn = nullptr;
        Loader loader{0, rows, {}, {}};
        ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
        ASSERT_C(lockstep_bulk_load(txn, index, next_record, &loader, 90, &error));
        ASSERT_C(lockstep_describe_in(txn, "lines", lockstep_text(kText), &error));
        ASSERT_C(lockstep_commit(txn, nullptr, &error));
    }
    lockstep_report* report() {
        lockstep_report* made = nullptr;
        EXPECT_C(lockstep_report_begin(store, nullptr, &made, &error));
        return made;
    }
    ArrowArrayStream scan(lockstep_report* of, const lockstep_scan_options* options = nullptr) {
        ArrowArrayStream stream{};
        EXPECT_C(lockstep_report_scan(of, "lines", options, &stream, &error));
        return stream;
    }
    // Rows of all arrays that are left; their check.
    static size_t drain(ArrowArrayStream& stream) {
        size_t rows = 0;
        for (;;) {
            ArrowArray array;
            EXPECT_EQ(stream.get_next(&stream, &array), 0) << stream.get_last_error(&stream);
            if (array.release == nullptr) return rows;
            EXPECT_GT(array.length, 0);
            EXPECT_LE(array.length, 8192);
            rows += static_cast<size_t>(array.length);
            for (size_t row = 0; row < static_cast<size_t>(array.length); ++row)
                check_row(array, row);
            array.release(&array);
            EXPECT_EQ(array.release, nullptr);
        }
    }
    // Of all columns, with wide decimals.
    static void check_row(const ArrowArray& array, size_t row) {
        const auto id = number<uint32_t>(array, 0, row);
        EXPECT_EQ(is_null(array, 1, row), id % 5 == 3);
        if (id % 5 != 3) {
            EXPECT_EQ(number<uint16_t>(array, 1, row), id % 5);
        }
        EXPECT_EQ(number<__int128>(array, 2, row), int64_t{id} * 7 - 5000);
        EXPECT_EQ(number<__int128>(array, 3, row), static_cast<int64_t>(id) - 70);
        EXPECT_EQ(text(array, 4, row), std::string(id % 40, 'n'));
    }
    void release(ArrowArrayStream& stream) {
        stream.release(&stream);
        EXPECT_EQ(stream.release, nullptr);
    }
    int describe(const char* text) {
        return lockstep_describe(store, "lines", lockstep_text(text), &error);
    }

private:
    struct Loader {
        uint32_t next, rows;
        std::string key, value;
    };
    static bool next_record(void* arg, lockstep_record* record) {
        auto& loader = *static_cast<Loader*>(arg);
        if (loader.next == loader.rows) return false;
        lockstep_key key;
        lockstep_key_init(&key);
        lockstep_key_u32(&key, loader.next);
        loader.key = text_of(lockstep_key_slice(&key));
        loader.value = record_of(loader.next++);
        *record = {lockstep_bytes(loader.key.data(), loader.key.size()),
                   lockstep_bytes(loader.value.data(), loader.value.size())};
        return true;
    }
};

TEST_F(CReports, ColumnsAreDescribed) {
    char buffer[256];
    size_t bytes = 0;
    make_index("lines");
    EXPECT_EQ(lockstep_columns(store, "lines", nullptr, 0, &bytes, &error),
              LOCKSTEP_NO_SUCH_RECORD);
    EXPECT_EQ(describe("id u32 key\nwrong u33 value 0"), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(error.a, 2u) << error.text;
    ASSERT_C(describe("id   u32 key, part u16 value 0"));
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    ASSERT_C(lockstep_columns_in(txn, "lines", buffer, sizeof buffer, &bytes, &error));
    const std::string canonical(buffer, bytes);
    EXPECT_NE(canonical.find("part u16 value 0"), std::string::npos) << canonical;
    ASSERT_C(lockstep_describe_in(txn, "lines", {}, &error));
    ASSERT_C(lockstep_abort(txn, &error));
    ASSERT_C(lockstep_columns(store, "lines", buffer, 3, &bytes, &error));
    EXPECT_EQ(bytes, canonical.size());
    EXPECT_EQ(lockstep_describe(store, "none", lockstep_text("id u8 key"), &error),
              LOCKSTEP_NO_SUCH_OBJECT);
}

TEST_F(CReports, AStreamHasTheTypesAndTheRows) {
    load(kRows);
    lockstep_report* const r = report();
    ArrowArrayStream stream = scan(r);
    ArrowSchema schema;
    ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
    EXPECT_STREQ(schema.format, "+s");
    ASSERT_EQ(schema.n_children, 5);
    const char* const formats[] = {"I", "S", "d:18,2", "d:18,1", "u"};
    const char* const names[] = {"id", "part", "price", "fee", "name"};
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_STREQ(schema.children[i]->format, formats[i]);
        EXPECT_STREQ(schema.children[i]->name, names[i]);
        EXPECT_EQ(schema.children[i]->flags, i == 1 ? ARROW_FLAG_NULLABLE : 0) << i;
        EXPECT_EQ(schema.children[i]->metadata, nullptr);
    }
    schema.release(&schema);
    EXPECT_EQ(schema.release, nullptr);
    EXPECT_EQ(drain(stream), kRows);
    EXPECT_EQ(stream.get_last_error(&stream), nullptr);
    release(stream);
    ASSERT_C(lockstep_report_close(r, &error));
}

// An array lives longer than its stream, a stream longer than its report, both longer than the
// store; and a child longer than its parent.
TEST_F(CReports, AnyOrderOfReleases) {
    load(kRows);
    lockstep_report* const r = report();
    ArrowArrayStream first = scan(r), second = scan(r);
    ArrowSchema schema;
    ArrowArray array, late;
    ASSERT_EQ(first.get_schema(&first, &schema), 0);
    ASSERT_EQ(first.get_next(&first, &array), 0);
    release(first);
    ASSERT_C(lockstep_report_close(r, &error));
    ASSERT_EQ(second.get_next(&second, &late), 0);
    check_row(array, 0);
    ASSERT_C(lockstep_close(store, &error));
    store = nullptr;
    check_row(late, 0);
    ArrowArray after;
    EXPECT_EQ(second.get_next(&second, &after), EIO);
    EXPECT_EQ(after.release, nullptr);
    EXPECT_EQ(std::string(second.get_last_error(&second)).find("store_closed"), 0u);
    release(second);
    late.release(&late);
    // A consumer takes a child out, as the interface allows.
    ArrowArray name = *array.children[4];
    array.children[4]->release = nullptr;
    ArrowSchema type = *schema.children[2];
    schema.children[2]->release = nullptr;
    array.release(&array);
    schema.release(&schema);
    std::thread([&] {
        const auto* const offsets = static_cast<const int32_t*>(name.buffers[1]);
        EXPECT_EQ(offsets[2] - offsets[1], 1);
        EXPECT_STREQ(type.format, "d:18,2");
        name.release(&name);
        type.release(&type);
    }).join();
}

TEST_F(CReports, ColumnsAndConditions) {
    load(kRows);
    const char* const columns[] = {"price", "id"};
    lockstep_constant low{}, parts[2] = {};
    low.kind = LOCKSTEP_UNSIGNED;
    low.number = 19'000;
    parts[0].integer = 1;
    parts[1].integer = 4;
    const lockstep_where where[] = {{"id", LOCKSTEP_AT_LEAST, &low, 1},
                                    {"part", LOCKSTEP_IN, parts, 2}};
    lockstep_scan_options options;
    lockstep_scan_options_init(&options, sizeof options);
    options.columns = columns;
    options.columns_count = 2;
    options.where = where;
    options.where_count = 2;
    options.ordered = true;
    options.decimals = LOCKSTEP_DECIMALS_NARROW;
    lockstep_report* const r = report();
    ArrowArrayStream stream = scan(r, &options);
    std::vector<uint32_t> ids, expected;
    for (uint32_t id = 19'000; id < kRows; ++id)
        if (id % 5 == 1 || id % 5 == 4) expected.push_back(id);
    for (;;) {
        ArrowArray array;
        ASSERT_EQ(stream.get_next(&stream, &array), 0);
        if (array.release == nullptr) break;
        ASSERT_EQ(array.n_children, 2);
        for (size_t row = 0; row < static_cast<size_t>(array.length); ++row) {
            ids.push_back(number<uint32_t>(array, 1, row));
            EXPECT_EQ(number<int64_t>(array, 0, row), int64_t{ids.back()} * 7 - 5000);
        }
        array.release(&array);
    }
    EXPECT_EQ(ids, expected);
    release(stream);
    low = {};
    low.kind = LOCKSTEP_BYTES;
    low.bytes = lockstep_text("x");
    EXPECT_EQ(lockstep_report_scan(r, "lines", &options, &stream, &error), LOCKSTEP_BAD_ARGUMENT);
    low.kind = 9;
    EXPECT_EQ(lockstep_report_scan(r, "lines", &options, &stream, &error), LOCKSTEP_BAD_ARGUMENT);
    options.where_count = 0;
    options.decimals = 3;
    EXPECT_EQ(lockstep_report_scan(r, "lines", &options, &stream, &error), LOCKSTEP_BAD_OPTION);
    options.decimals = 0;
    const char* const none[] = {"none"};
    options.columns = none;
    options.columns_count = 1;
    EXPECT_EQ(lockstep_report_scan(r, "lines", &options, &stream, &error), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_NE(std::string(error.text).find("\"none\""), std::string::npos) << error.text;
    EXPECT_EQ(stream.release, nullptr);
}

TEST_F(CReports, FormsOfDecimals) {
    load(100);
    lockstep_report* const r = report();
    const std::map<int, std::pair<std::string, std::string>> forms = {
        {LOCKSTEP_DECIMALS_WIDE, {"d:18,2", "d:18,1"}},
        {LOCKSTEP_DECIMALS_NARROW, {"d:18,2,64", "d:9,1,32"}},
        {LOCKSTEP_DECIMALS_INTEGER, {"l", "i"}}};
    for (const auto& [decimals, formats] : forms) {
        lockstep_scan_options options;
        lockstep_scan_options_init(&options, sizeof options);
        options.decimals = decimals;
        ArrowArrayStream stream = scan(r, &options);
        ArrowSchema schema;
        ArrowArray array;
        ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
        EXPECT_EQ(schema.children[2]->format, formats.first);
        EXPECT_EQ(schema.children[3]->format, formats.second);
        if (decimals == LOCKSTEP_DECIMALS_INTEGER) {
            EXPECT_EQ(std::string(schema.children[2]->metadata, 27),
                      std::string("\1\0\0\0\16\0\0\0lockstep.scale\1\0\0\0002", 27));
        }
        ASSERT_EQ(stream.get_next(&stream, &array), 0);
        if (decimals == LOCKSTEP_DECIMALS_WIDE) {
            EXPECT_EQ(number<__int128>(array, 3, 5), -65);
        } else {
            EXPECT_EQ(number<int64_t>(array, 2, 5), -4965);
            EXPECT_EQ(number<int32_t>(array, 3, 5), -65);
        }
        array.release(&array);
        schema.release(&schema);
        release(stream);
    }
}

TEST_F(CReports, ErrorsOfAPass) {
    load(kRows);
    lockstep_key key;
    lockstep_key_init(&key);
    lockstep_key_u32(&key, 10);
    const std::string nines = record_of(10).replace(2, 8, 8, '\x7f');
    lockstep_index* const index = make_index("lines");
    const auto put = [&](const std::string& value) {
        ASSERT_C(lockstep_put_once(store, index, lockstep_key_slice(&key),
                                   lockstep_bytes(value.data(), value.size()), nullptr, &error));
    };
    // Returns the errno that ends a scan of all columns.
    std::string why;
    const auto ending = [&] {
        lockstep_report* const r = report();
        ArrowArrayStream stream = scan(r);
        int code = 0;
        for (ArrowArray array; code == 0;) {
            code = stream.get_next(&stream, &array);
            if (code == 0 && array.release == nullptr) break;
            if (code == 0) array.release(&array);
        }
        why = code == 0 ? "" : stream.get_last_error(&stream);
        release(stream);
        EXPECT_C(lockstep_report_close(r, &error));
        return code;
    };
    EXPECT_EQ(ending(), 0);
    put(nines);
    EXPECT_EQ(ending(), EINVAL);
    EXPECT_NE(why.find("\"price\": the decimal 9187201950435737471"), std::string::npos) << why;
    put("short");
    EXPECT_EQ(ending(), EINVAL);
    EXPECT_EQ(why.find("bad_argument"), 0u) << why;
}

// From another thread, and by the watch of the thread that waits.
TEST_F(CReports, ACancelEndsAScan) {
    load(kRows);
    lockstep_report* const r = report();
    ArrowArrayStream stream = scan(r), other = scan(r);
    release(other);
    std::thread([&] { EXPECT_C(lockstep_report_cancel(r, &error)); }).join();
    ArrowArray array;
    EXPECT_EQ(stream.get_next(&stream, &array), ECANCELED);
    EXPECT_EQ(std::string(stream.get_last_error(&stream)).find("cancelled"), 0u);
    release(stream);
    // A report that was cancelled begins new scans.
    stream = scan(r);
    EXPECT_EQ(drain(stream), kRows);
    release(stream);
}

// What a scan has not given yet when it is cancelled is missing, so it does not end as if it were
// whole.
TEST_F(CReports, ACancelOfAScanWhoseLastBlockIsMade) {
    load(100);
    lockstep_report* const r = report();
    ArrowArrayStream stream = scan(r);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_C(lockstep_report_cancel(r, &error));
    ArrowArray array;
    EXPECT_EQ(stream.get_next(&stream, &array), ECANCELED);
    release(stream);
    // One that has given all ends as whole.
    stream = scan(r);
    EXPECT_EQ(drain(stream), 100u);
    ASSERT_C(lockstep_report_cancel(r, &error));
    EXPECT_EQ(stream.get_next(&stream, &array), 0);
    EXPECT_EQ(array.release, nullptr);
    release(stream);
}

// What passes have done, who is slow, and how a pass chooses.
TEST_F(CReports, StatsAndPolicies) {
    load(kRows);
    lockstep_report* const r = report();
    lockstep_scan_options options;
    lockstep_scan_options_init(&options, sizeof options);
    EXPECT_EQ(options.policy, LOCKSTEP_SCAN_AUTOMATIC);
    for (int policy = LOCKSTEP_SCAN_AUTOMATIC; policy <= LOCKSTEP_SCAN_FULL; ++policy) {
        options.policy = policy;
        ArrowArrayStream stream = scan(r, &options);
        EXPECT_EQ(drain(stream), kRows) << policy;
        release(stream);
    }
    ArrowArrayStream stream{}, slow = scan(r), quick = scan(r);
    options.policy = LOCKSTEP_SCAN_FULL + 1;
    EXPECT_EQ(lockstep_report_scan(r, "lines", &options, &stream, &error), LOCKSTEP_BAD_OPTION);
    EXPECT_NE(std::string(error.text).find("policy"), std::string::npos) << error.text;
    EXPECT_EQ(drain(quick), kRows);
    lockstep_report_stats stats = {};
    EXPECT_EQ(lockstep_get_report_stats(store, &stats, &error), LOCKSTEP_BAD_OPTION);
    stats.size = sizeof stats;
    ASSERT_C(lockstep_get_report_stats(store, &stats, &error));
    EXPECT_EQ(stats.reports, 1u);
    EXPECT_EQ(stats.scans, 8u);
    EXPECT_EQ(stats.scans_open, 1u);
    EXPECT_GE(stats.rows, 7 * kRows);
    EXPECT_GT(stats.busy_nanos, 0u);
    EXPECT_GT(stats.behind_max, 0u);
    std::vector<lockstep_report_progress> open;
    const auto each = [](void* arg, const lockstep_report_progress* one) {
        static_cast<std::vector<lockstep_report_progress>*>(arg)->push_back(*one);
        return false;
    };
    lockstep_report* const second = report();
    ASSERT_C(lockstep_reports(store, each, &open, &error));
    ASSERT_EQ(open.size(), 1u);  // until it says no
    EXPECT_EQ(open[0].size, sizeof open[0]);
    EXPECT_EQ(open[0].number, 1u);
    EXPECT_EQ(open[0].sees, lockstep_report_sees(r));
    EXPECT_EQ(open[0].scans, 8u);
    EXPECT_EQ(open[0].ran, 7u);
    EXPECT_GT(open[0].progress, 0.8);
    EXPECT_LT(open[0].progress, 1.0);
    EXPECT_EQ(open[0].behind, stats.behind_max);
    ASSERT_C(lockstep_report_close(second, &error));
    EXPECT_EQ(drain(slow), kRows);
    release(slow);
    release(quick);
}

// The only worker stands still, so no block is made: the watch ends the wait.
TEST_F(CReports, AWatchEndsAWait) {
    ASSERT_C(lockstep_close(store, &error));
    lockstep_steps_options steps;
    lockstep_options options = small_options(steps);
    options.workers = 1;
    ASSERT_C(lockstep_open((root + "/one").c_str(), &options, &store, &error));
    load(kRows);
    lockstep_report* const r = report();
    ArrowArrayStream stream = scan(r);
    std::atomic<int> state{0};
    const auto body = [](lockstep_txn*, void* arg) {
        auto& of = *static_cast<std::atomic<int>*>(arg);
        of = 1;
        while (of == 1) std::this_thread::yield();
        return 0;
    };
    std::thread holder(
        [&] { EXPECT_EQ(lockstep_run(store, body, &state, nullptr, nullptr), LOCKSTEP_OK); });
    while (state == 0) std::this_thread::yield();
    int looks = 0, code = 0;
    const auto look = [](void* arg) { return ++*static_cast<int*>(arg) >= 2 ? 1 : 0; };
    lockstep_watch_waits(look, &looks);
    for (ArrowArray array; code == 0;) {  // what was made before
        code = stream.get_next(&stream, &array);
        if (code != 0 || array.release == nullptr) break;
        array.release(&array);
    }
    lockstep_watch_waits(nullptr, nullptr);
    state = 2;
    holder.join();
    EXPECT_EQ(code, ECANCELED);
    EXPECT_EQ(looks, 2);
    release(stream);
}

// Reports within `max_age` share a state.
TEST_F(CReports, TheAgeOfAState) {
    load(100);
    lockstep_report_options options;
    lockstep_report_options_init(&options, sizeof options);
    options.max_age = 3600ull * 1'000'000'000;
    lockstep_report *first = report(), *same = nullptr;
    lockstep_key key;
    lockstep_key_init(&key);
    lockstep_key_u32(&key, 100);
    const std::string value = record_of(100);
    ASSERT_C(lockstep_put_once(store, make_index("lines"), lockstep_key_slice(&key),
                               lockstep_bytes(value.data(), value.size()), nullptr, &error));
    ASSERT_C(lockstep_report_begin(store, &options, &same, &error));
    EXPECT_EQ(lockstep_report_sees(same), lockstep_report_sees(first));
    lockstep_report* const later = report();
    EXPECT_GT(lockstep_report_sees(later), lockstep_report_sees(first));
    for (const auto& [of, rows] : {std::pair(same, 100u), std::pair(later, 101u)}) {
        ArrowArrayStream stream = scan(of);
        EXPECT_EQ(drain(stream), rows);
        release(stream);
    }
    options.size = 3;
    EXPECT_EQ(lockstep_report_begin(store, &options, &same, &error), LOCKSTEP_BAD_OPTION);
}

}  // namespace lockstep::c_reports_test
