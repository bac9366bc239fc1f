// labels: unit
// c_calls_test.cc - every function of the C interface with NULL, with handles that never were, with
// handles that have ended and with handles of another kind: an error and never a fault.
//
// Concepts   The table has a line for each function that the headers declare; a test compares. What
//            the functions do when they succeed is in c_forms_test.cc and c_store_test.cc.
#include <functional>
#include <regex>
#include <set>
#include <vector>

#include "tests/sm/c/c_util.h"

#include <fstream>

namespace lockstep::c_calls_test {

struct Handles {
    lockstep_store* store = nullptr;
    lockstep_txn* txn = nullptr;
    lockstep_index* index = nullptr;
    lockstep_heap* heap = nullptr;
    lockstep_cursor* cursor = nullptr;
    lockstep_report* report = nullptr;
    lockstep_changes* feed = nullptr;
    const char* text = nullptr;  // names and paths
};

// What the handles are of which a call takes one.
enum class Takes : uint8_t { nothing, store, txn, cursor, report, feed };
struct Call {
    const char* name;
    Takes takes;
    std::function<int(const Handles&)> make;
};

// Results of calls that succeed, in memory that they may write to.
lockstep_slice key() { return lockstep_text("k"); }
bool found;
size_t bytes;
uint64_t number;
char room[8];
lockstep_index* an_index;
lockstep_heap* a_heap;
lockstep_txn* a_txn;
lockstep_cursor* a_cursor;
lockstep_report* a_report;
lockstep_changes* a_feed;
ArrowArrayStream a_stream;

int commit_at_once(lockstep_txn*, void*) { return 0; }
int no_call(void*, lockstep_txn*, lockstep_call*) { return 0; }
bool no_record(void*, lockstep_record*) { return false; }
bool each_heap(void*, lockstep_record_id, lockstep_slice) { return true; }
bool each_object(void*, const lockstep_object*) { return true; }
bool each_txn(void*, const lockstep_transaction_info*) { return true; }
bool each_change(void*, const lockstep_change*) { return true; }
bool each_report(void*, const lockstep_report_progress*) { return true; }
bool each_prepared(void*, const lockstep_prepared_info*) { return true; }
int sink(void*, const char*, uint64_t, lockstep_slice) { return 0; }
void change_nothing(void*, void*, size_t, size_t*, size_t*) {}
bool each_record(void*, lockstep_slice, lockstep_slice) { return true; }
void keys_of(void*, lockstep_slice, lockstep_slice, lockstep_keys*) {}
int seven(void*) { return 7; }

int request_with(const Handles& h, int (*call)(lockstep_request*)) {
    lockstep_request r;
    lockstep_request_init(&r, sizeof r);
    r.txn = h.txn;
    r.end = LOCKSTEP_END_ABORT;
    return call(&r);
}

lockstep_call a_call;
lockstep_call* call_or_null(const Handles& h) { return h.text != nullptr ? &a_call : nullptr; }

std::vector<Call> once_calls() {
    const auto s = Takes::store;
    return {
        {"lockstep_get_once", s,
         [](auto& h) {
             return lockstep_get_once(h.store, h.index, key(), room, sizeof room, &bytes, &found,
                                      nullptr, nullptr);
         }},
        {"lockstep_get_many_once", s,
         [](auto& h) {
             return lockstep_get_many_once(h.store, h.index, nullptr, 0, &bytes, nullptr, nullptr);
         }},
        {"lockstep_modify_once", s,
         [](auto& h) {
             return lockstep_modify_once(h.store, h.index, key(), room, sizeof room, change_nothing,
                                         nullptr, &found, nullptr, nullptr);
         }},
        {"lockstep_scan_once", s,
         [](auto& h) {
             return lockstep_scan_once(h.store, h.index, key(), {}, each_record, nullptr, &bytes,
                                       nullptr, nullptr);
         }},
        {"lockstep_insert_once", s,
         [](auto& h) {
             return lockstep_insert_once(h.store, h.index, key(), key(), nullptr, nullptr);
         }},
        {"lockstep_put_once", s,
         [](auto& h) {
             return lockstep_put_once(h.store, h.index, key(), key(), nullptr, nullptr);
         }},
        {"lockstep_erase_once", s,
         [](auto& h) {
             return lockstep_erase_once(h.store, h.index, key(), &found, nullptr, nullptr);
         }},
        {"lockstep_add_once", s,
         [](auto& h) {
             return lockstep_add_once(h.store, h.index, key(), 0, 1, nullptr, &found, nullptr,
                                      nullptr);
         }},
        {"lockstep_erase_range_once", s,
         [](auto& h) {
             return lockstep_erase_range_once(h.store, h.index, key(), {}, &bytes, nullptr,
                                              nullptr);
         }},
        {"lockstep_approximate_size", s,
         [](auto& h) {
             return lockstep_approximate_size(h.store, h.index, key(), {}, &number, &number,
                                              nullptr);
         }},
        {"lockstep_count_once", s,
         [](auto& h) { return lockstep_count_once(h.store, h.index, key(), {}, &bytes, nullptr); }},
    };
}

std::vector<Call> store_calls() {
    const auto s = Takes::store;
    return {
        {"lockstep_close", s, [](auto& h) { return lockstep_close(h.store, nullptr); }},
        {"lockstep_run", s,
         [](auto& h) { return lockstep_run(h.store, commit_at_once, nullptr, nullptr, nullptr); }},
        {"lockstep_run_calls", s,
         [](auto& h) {
             return lockstep_run_calls(h.store, nullptr, 0, no_call, nullptr, nullptr, nullptr);
         }},
        {"lockstep_begin", s,
         [](auto& h) { return lockstep_begin(h.store, nullptr, &a_txn, nullptr); }},
        {"lockstep_find_index", s,
         [](auto& h) { return lockstep_find_index(h.store, h.text, &an_index, nullptr); }},
        {"lockstep_find_heap", s,
         [](auto& h) { return lockstep_find_heap(h.store, h.text, &a_heap, nullptr); }},
        {"lockstep_list", s,
         [](auto& h) { return lockstep_list(h.store, each_object, nullptr, nullptr); }},
        {"lockstep_wait_durable", s,
         [](auto& h) { return lockstep_wait_durable(h.store, 1, nullptr); }},
        {"lockstep_checkpoint", s, [](auto& h) { return lockstep_checkpoint(h.store, nullptr); }},
        {"lockstep_give_back_space", s,
         [](auto& h) { return lockstep_give_back_space(h.store, &number, nullptr); }},
        {"lockstep_verify", s,
         [](auto& h) { return lockstep_verify(h.store, 1, nullptr, nullptr, &bytes, nullptr); }},
        {"lockstep_set_steps", s,
         [](auto& h) { return lockstep_set_steps(h.store, nullptr, nullptr); }},
        {"lockstep_get_options", s,
         [](auto& h) {
             lockstep_options o;
             lockstep_options_init(&o, sizeof o);
             return lockstep_get_options(h.store, &o, nullptr, nullptr);
         }},
        {"lockstep_attach_key", s,
         [](auto& h) { return lockstep_attach_key(h.store, h.text, keys_of, nullptr, nullptr); }},
        {"lockstep_backup", s,
         [](auto& h) { return lockstep_backup(h.store, h.text, nullptr, nullptr, nullptr); }},
        {"lockstep_backup_to", s,
         [](auto& h) {
             return lockstep_backup_to(h.store, sink, nullptr, nullptr, nullptr, nullptr);
         }},
        {"lockstep_get_stats", s,
         [](auto& h) {
             lockstep_stats stats;
             stats.size = sizeof stats;
             return lockstep_get_stats(h.store, &stats, nullptr);
         }},
        {"lockstep_get_report_stats", s,
         [](auto& h) {
             lockstep_report_stats stats;
             stats.size = sizeof stats;
             return lockstep_get_report_stats(h.store, &stats, nullptr);
         }},
        {"lockstep_reports", s,
         [](auto& h) { return lockstep_reports(h.store, each_report, nullptr, nullptr); }},
        {"lockstep_metrics", s,
         [](auto& h) { return lockstep_metrics(h.store, room, sizeof room, &bytes, nullptr); }},
        {"lockstep_failure", s,
         [](auto& h) { return lockstep_failure(h.store, room, sizeof room, &bytes, nullptr); }},
        {"lockstep_transactions", s,
         [](auto& h) { return lockstep_transactions(h.store, each_txn, nullptr, nullptr); }},
        {"lockstep_end_transaction", s,
         [](auto& h) { return lockstep_end_transaction(h.store, 1, nullptr); }},
        {"lockstep_cancel_transaction", s,
         [](auto& h) { return lockstep_cancel_transaction(h.store, 1, nullptr); }},
        {"lockstep_list_prepared", s,
         [](auto& h) { return lockstep_list_prepared(h.store, each_prepared, nullptr, nullptr); }},
        {"lockstep_commit_prepared", s,
         [](auto& h) { return lockstep_commit_prepared(h.store, key(), &found, nullptr); }},
        {"lockstep_describe", s,
         [](auto& h) { return lockstep_describe(h.store, h.text, key(), nullptr); }},
        {"lockstep_columns", s,
         [](auto& h) {
             return lockstep_columns(h.store, h.text, room, sizeof room, &bytes, nullptr);
         }},
        {"lockstep_report_begin", s,
         [](auto& h) { return lockstep_report_begin(h.store, nullptr, &a_report, nullptr); }},
        {"lockstep_changes_begin", s,
         [](auto& h) { return lockstep_changes_begin(h.store, {}, &a_feed, nullptr); }},
        {"lockstep_rollback_prepared", s,
         [](auto& h) { return lockstep_rollback_prepared(h.store, key(), &found, nullptr); }},
    };
}

std::vector<Call> txn_calls() {
    const auto t = Takes::txn;
    return {
        {"lockstep_commit", t, [](auto& h) { return lockstep_commit(h.txn, &number, nullptr); }},
        {"lockstep_abort", t, [](auto& h) { return lockstep_abort(h.txn, nullptr); }},
        {"lockstep_changes_point", t,
         [](auto& h) {
             return lockstep_changes_point(h.txn, room, sizeof room, &bytes, &number, nullptr);
         }},
        {"lockstep_prepare", t,
         [](auto& h) { return lockstep_prepare(h.txn, key(), nullptr, nullptr); }},
        {"lockstep_txn_retry", t,
         [](auto& h) {
             lockstep_retry retry;
             return lockstep_txn_retry(h.txn, &retry, nullptr);
         }},
        {"lockstep_set_savepoint", t,
         [](auto& h) {
             lockstep_savepoint point;
             return lockstep_set_savepoint(h.txn, &point, nullptr);
         }},
        {"lockstep_rollback_to", t,
         [](auto& h) {
             const lockstep_savepoint point = {1, 1};
             return lockstep_rollback_to(h.txn, &point, nullptr);
         }},
        {"lockstep_will_need", t,
         [](auto& h) {
             const lockstep_need need = {h.index, key(), 0, 0};
             return lockstep_will_need(h.txn, &need, 1, &found, nullptr);
         }},
        {"lockstep_create_index", t,
         [](auto& h) { return lockstep_create_index(h.txn, h.text, nullptr, &an_index, nullptr); }},
        {"lockstep_open_or_create_index", t,
         [](auto& h) {
             return lockstep_open_or_create_index(h.txn, h.text, nullptr, &an_index, nullptr);
         }},
        {"lockstep_create_heap", t,
         [](auto& h) { return lockstep_create_heap(h.txn, h.text, &a_heap, nullptr); }},
        {"lockstep_open_or_create_heap", t,
         [](auto& h) { return lockstep_open_or_create_heap(h.txn, h.text, &a_heap, nullptr); }},
        {"lockstep_find_index_in", t,
         [](auto& h) { return lockstep_find_index_in(h.txn, h.text, &an_index, nullptr); }},
        {"lockstep_find_heap_in", t,
         [](auto& h) { return lockstep_find_heap_in(h.txn, h.text, &a_heap, nullptr); }},
        {"lockstep_drop", t, [](auto& h) { return lockstep_drop(h.txn, h.text, nullptr); }},
        {"lockstep_describe_in", t,
         [](auto& h) { return lockstep_describe_in(h.txn, h.text, key(), nullptr); }},
        {"lockstep_columns_in", t,
         [](auto& h) {
             return lockstep_columns_in(h.txn, h.text, room, sizeof room, &bytes, nullptr);
         }},
        {"lockstep_get", t,
         [](auto& h) {
             return lockstep_get(h.txn, h.index, key(), 0, room, 8, &bytes, &found, nullptr);
         }},
        {"lockstep_get_many", t,
         [](auto& h) {
             lockstep_lookup row = {key(), room, 8, 0, false, {}};
             return lockstep_get_many(h.txn, h.index, &row, 1, 0, &bytes, nullptr);
         }},
        {"lockstep_insert", t,
         [](auto& h) { return lockstep_insert(h.txn, h.index, key(), key(), nullptr); }},
        {"lockstep_insert_many", t,
         [](auto& h) {
             const lockstep_record record = {key(), key()};
             return lockstep_insert_many(h.txn, h.index, &record, 1, nullptr);
         }},
        {"lockstep_put", t,
         [](auto& h) { return lockstep_put(h.txn, h.index, key(), key(), nullptr); }},
        {"lockstep_update", t,
         [](auto& h) { return lockstep_update(h.txn, h.index, key(), key(), &found, nullptr); }},
        {"lockstep_patch", t,
         [](auto& h) {
             return lockstep_patch(h.txn, h.index, key(), 0, key(), nullptr, &found, nullptr);
         }},
        {"lockstep_erase", t,
         [](auto& h) { return lockstep_erase(h.txn, h.index, key(), &found, nullptr); }},
        {"lockstep_erase_range", t,
         [](auto& h) { return lockstep_erase_range(h.txn, h.index, key(), {}, &bytes, nullptr); }},
        {"lockstep_user_error", t, [](auto& h) { return lockstep_user_error(h.txn, 7, h.text); }},
        {"lockstep_add", t,
         [](auto& h) {
             return lockstep_add(h.txn, h.index, key(), 0, 1, nullptr, &found, nullptr);
         }},
        {"lockstep_scan", t,
         [](auto& h) { return lockstep_scan(h.txn, h.index, key(), {}, 0, &a_cursor, nullptr); }},
        {"lockstep_scan_by", t,
         [](auto& h) {
             return lockstep_scan_by(h.txn, h.index, key(), {}, true, 0, &a_cursor, nullptr);
         }},
        {"lockstep_bulk_load", t,
         [](auto& h) {
             return lockstep_bulk_load(h.txn, h.index, no_record, nullptr, 90, nullptr);
         }},
        {"lockstep_heap_insert", t,
         [](auto& h) {
             lockstep_record_id id;
             return lockstep_heap_insert(h.txn, h.heap, key(), &id, nullptr);
         }},
        {"lockstep_heap_get", t,
         [](auto& h) {
             return lockstep_heap_get(h.txn, h.heap, {}, 0, room, 8, &bytes, &found, nullptr);
         }},
        {"lockstep_heap_update", t,
         [](auto& h) { return lockstep_heap_update(h.txn, h.heap, {}, key(), &found, nullptr); }},
        {"lockstep_heap_erase", t,
         [](auto& h) { return lockstep_heap_erase(h.txn, h.heap, {}, &found, nullptr); }},
        {"lockstep_heap_scan", t,
         [](auto& h) { return lockstep_heap_scan(h.txn, h.heap, each_heap, nullptr, nullptr); }},
        {"lockstep_run_in", t,
         [](auto& h) { return lockstep_run_in(h.txn, commit_at_once, nullptr, nullptr); }},
        {"lockstep_batch", t, [](auto& h) { return request_with(h, lockstep_batch); }},
        {"lockstep_submit", t, [](auto& h) { return request_with(h, lockstep_submit); }},
    };
}

std::vector<Call> other_calls() {
    const auto c = Takes::cursor;
    const auto r = Takes::report, f = Takes::feed;
    const auto none = Takes::nothing;
    std::vector<Call> calls = {
        {"lockstep_cursor_seek", c,
         [](auto& h) { return lockstep_cursor_seek(h.cursor, key(), {}, nullptr); }},
        {"lockstep_cursor_next", c,
         [](auto& h) {
             return lockstep_cursor_next(h.cursor, nullptr, nullptr, nullptr, &found, nullptr);
         }},
        {"lockstep_cursor_prev", c,
         [](auto& h) {
             return lockstep_cursor_prev(h.cursor, nullptr, nullptr, nullptr, &found, nullptr);
         }},
        {"lockstep_cursor_read", c,
         [](auto& h) {
             lockstep_record row;
             return lockstep_cursor_read(h.cursor, true, &row, 1, room, 8, &bytes, nullptr,
                                         nullptr);
         }},
        {"lockstep_cursor_patch", c,
         [](auto& h) { return lockstep_cursor_patch(h.cursor, 0, key(), &found, nullptr); }},
        {"lockstep_cursor_close", c,
         [](auto& h) { return lockstep_cursor_close(h.cursor, nullptr); }},
        {"lockstep_report_scan", r,
         [](auto& h) {
             return lockstep_report_scan(h.report, h.text, nullptr, &a_stream, nullptr);
         }},
        {"lockstep_report_cancel", r,
         [](auto& h) { return lockstep_report_cancel(h.report, nullptr); }},
        {"lockstep_report_close", r,
         [](auto& h) { return lockstep_report_close(h.report, nullptr); }},
        {"lockstep_changes_read", f,
         [](auto& h) {
             return lockstep_changes_read(h.feed, 0, each_change, nullptr, nullptr, nullptr);
         }},
        {"lockstep_changes_position", f,
         [](auto& h) {
             return lockstep_changes_position(h.feed, room, sizeof room, &bytes, nullptr);
         }},
        {"lockstep_changes_close", f,
         [](auto& h) { return lockstep_changes_close(h.feed, nullptr); }},
        {"lockstep_open", none,
         [](auto& h) {
             lockstep_store* store = nullptr;
             return lockstep_open(h.text, nullptr, &store, nullptr);
         }},
        {"lockstep_read_backup", none,
         [](auto& h) {
             lockstep_backup_info info = {};
             info.size = sizeof info;
             return lockstep_read_backup(h.text, &info, nullptr);
         }},
        {"lockstep_verify_restore", none,
         [](auto& h) {
             return lockstep_verify_restore(&h.text, 1, nullptr, nullptr, nullptr, &bytes, nullptr);
         }},
        {"lockstep_verify_backup", none,
         [](auto& h) { return lockstep_verify_backup(h.text, nullptr, nullptr, &bytes, nullptr); }},
        {"lockstep_restore_backup", none,
         [](auto& h) {
             return lockstep_restore_backup(&h.text, 1, h.text, nullptr, nullptr, nullptr);
         }},
        {"lockstep_update_backup", none,
         [](auto& h) { return lockstep_update_backup(h.text, h.text, nullptr, nullptr); }},
        {"lockstep_call_reply", none,
         [](auto& h) {
             return lockstep_call_reply(call_or_null(h), {nullptr, 1});
         }},
        {"lockstep_call_refuse", none,
         [](auto& h) { return lockstep_call_refuse(call_or_null(h), 0, h.text); }},
        {"lockstep_ctx_points", none,
         [](auto& h) { return lockstep_ctx_points(h.text, nullptr, nullptr); }},
        {"lockstep_offload", none,
         [](auto& h) {
             return lockstep_offload(h.text != nullptr ? seven : nullptr, nullptr, nullptr) == 7
                        ? LOCKSTEP_BAD_PATH
                        : LOCKSTEP_BAD_ARGUMENT;
         }},
    };
    return calls;
}

// Calls that return no code: they do nothing with NULL, and make no use of a wrong handle.
const char* const kWithoutCode[] = {"lockstep_strerror",
                                    "lockstep_error_name",
                                    "lockstep_key_init",
                                    "lockstep_key_u8",
                                    "lockstep_key_u16",
                                    "lockstep_key_u32",
                                    "lockstep_key_u64",
                                    "lockstep_key_i32",
                                    "lockstep_key_i64",
                                    "lockstep_key_text",
                                    "lockstep_key_slice",
                                    "lockstep_key_overflowed",
                                    "lockstep_key_reader_init",
                                    "lockstep_key_reader_u8",
                                    "lockstep_key_reader_u16",
                                    "lockstep_key_reader_u32",
                                    "lockstep_key_reader_u64",
                                    "lockstep_key_reader_i32",
                                    "lockstep_key_reader_i64",
                                    "lockstep_key_reader_text",
                                    "lockstep_key_reader_at_end",
                                    "lockstep_options_init",
                                    "lockstep_steps_options_init",
                                    "lockstep_txn_options_init",
                                    "lockstep_backup_options_init",
                                    "lockstep_restore_options_init",
                                    "lockstep_scan_options_init",
                                    "lockstep_secondary_options_init",
                                    "lockstep_call_init",
                                    "lockstep_call_clear",
                                    "lockstep_change_kind_name",
                                    "lockstep_report_options_init",
                                    "lockstep_report_sees",
                                    "lockstep_request_init",
                                    "lockstep_request_done",
                                    "lockstep_txn_id",
                                    "lockstep_index_id",
                                    "lockstep_heap_id",
                                    "lockstep_keys_add",
                                    "lockstep_yield",
                                    "lockstep_sleep_for",
                                    "lockstep_now",
                                    "lockstep_watch_waits"};

std::vector<Call> all_calls() {
    std::vector<Call> all = store_calls();
    for (auto& call : once_calls()) all.push_back(std::move(call));
    for (auto& call : txn_calls()) all.push_back(std::move(call));
    for (auto& call : other_calls()) all.push_back(std::move(call));
    return all;
}

class CCalls : public CStore {};

TEST_F(CCalls, TheTableHasEachFunctionOfTheHeaders) {
    std::set<std::string> declared, listed(std::begin(kWithoutCode), std::end(kWithoutCode));
    for (const Call& call : all_calls()) listed.insert(call.name);
    const std::regex function(
        R"(^(?:int|void|bool|u?int\d+_t|size_t|const char\*|lockstep_slice) (lockstep_\w+)\()");
    for (const auto& header :
         std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/sm/include/lockstep/c")) {
        std::ifstream in(header.path());
        for (std::string line; std::getline(in, line);)
            if (std::smatch match; std::regex_search(line, match, function))
                declared.insert(match[1]);
    }
    EXPECT_EQ(declared, listed);
}

TEST_F(CCalls, WithNull) {
    for (const Call& call : all_calls())
        EXPECT_EQ(call.make(Handles{}), LOCKSTEP_BAD_ARGUMENT) << call.name;
    EXPECT_EQ(lockstep_batch(nullptr), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_submit(nullptr), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_index_id(nullptr) + lockstep_heap_id(nullptr) + lockstep_txn_id(nullptr),
              0u);
    EXPECT_EQ(lockstep_report_sees(nullptr), 0u);
    EXPECT_FALSE(lockstep_request_done(nullptr));
    lockstep_report_options_init(nullptr, 8);
    lockstep_scan_options_init(nullptr, 8);
    lockstep_options_init(nullptr, 8);
    lockstep_steps_options_init(nullptr, 8);
    lockstep_txn_options_init(nullptr, 8);
    lockstep_backup_options_init(nullptr, 8);
    lockstep_restore_options_init(nullptr, 8);
    lockstep_secondary_options_init(nullptr, 8);
    lockstep_request_init(nullptr, 8);
    lockstep_call_init(nullptr, 8);
    lockstep_call_clear(nullptr);
    lockstep_keys_add(nullptr, key());
    lockstep_key_init(nullptr);
    lockstep_key_u64(nullptr, 1);
    EXPECT_EQ(lockstep_key_slice(nullptr).size, 0u);
    lockstep_key_reader_init(nullptr, key());
    EXPECT_EQ(lockstep_key_reader_u64(nullptr), 0u);
    EXPECT_EQ(lockstep_key_reader_text(nullptr, nullptr, 0), 0u);
    EXPECT_FALSE(lockstep_key_reader_at_end(nullptr));
}

// Numbers that are no handles: small ones, addresses, and live handles of another kind.
TEST_F(CCalls, WithStrayNumbers) {
    int local = 0;
    const auto live = reinterpret_cast<uint64_t>(store);
    const uint64_t strays[] = {
        uint64_t{1},          uint64_t{0xdeadbeef}, reinterpret_cast<uint64_t>(&local),
        ~uint64_t{0},         uint64_t{1} << 63,    (live & ~0xffffffull) | 0xfffffe,
        uint64_t{9} << 59 | 1};
    for (const uint64_t stray : strays) {
        Handles h;
        h.store = reinterpret_cast<lockstep_store*>(stray);
        h.txn = reinterpret_cast<lockstep_txn*>(stray);
        h.index = reinterpret_cast<lockstep_index*>(stray);
        h.heap = reinterpret_cast<lockstep_heap*>(stray);
        h.cursor = reinterpret_cast<lockstep_cursor*>(stray);
        h.report = reinterpret_cast<lockstep_report*>(stray);
        h.feed = reinterpret_cast<lockstep_changes*>(stray);
        h.text = "/proc/none/none";
        for (const Call& call : all_calls())
            if (call.takes != Takes::nothing) {
                EXPECT_EQ(call.make(h), LOCKSTEP_BAD_ARGUMENT) << call.name << ' ' << stray;
            }
    }
    Handles h;
    h.txn = reinterpret_cast<lockstep_txn*>(store);
    h.cursor = reinterpret_cast<lockstep_cursor*>(store);
    h.report = reinterpret_cast<lockstep_report*>(store);
    h.feed = reinterpret_cast<lockstep_changes*>(store);
    for (const Call& call : all_calls())
        if (call.takes != Takes::nothing && call.takes != Takes::store) {
            EXPECT_EQ(call.make(h), LOCKSTEP_BAD_ARGUMENT) << call.name;
        }
}

// A live transaction with objects that are none, or another store's.
TEST_F(CCalls, WithObjectsOfAnotherStore) {
    lockstep_store* const first = store;
    lockstep_index* const theirs = make_index("i");
    lockstep_heap* const their_heap = make_heap("h");
    open("other");
    Handles h;
    ASSERT_C(lockstep_begin(store, nullptr, &h.txn, &error));
    for (const bool another : {false, true}) {
        h.index = another ? theirs : nullptr;
        h.heap = another ? their_heap : nullptr;
        for (const Call& call : txn_calls()) {
            const std::string name = call.name;
            if (name == "lockstep_commit" || name == "lockstep_abort" ||
                name == "lockstep_prepare" || name == "lockstep_batch" ||
                name == "lockstep_submit" || name == "lockstep_run_in" ||
                name == "lockstep_txn_retry" || name == "lockstep_set_savepoint")
                continue;
            EXPECT_EQ(call.make(h), LOCKSTEP_BAD_ARGUMENT) << name;
        }
    }
    ASSERT_C(lockstep_abort(h.txn, &error));
    ASSERT_C(lockstep_close(first, &error));
}

TEST_F(CCalls, WithHandlesThatHaveEnded) {
    Handles h;
    h.store = store;
    h.index = make_index("i");
    h.heap = make_heap("h");
    h.text = "/proc/none/none";
    ASSERT_C(lockstep_begin(store, nullptr, &h.txn, &error));
    ASSERT_C(lockstep_scan(h.txn, h.index, {}, {}, 0, &h.cursor, &error));
    ASSERT_C(lockstep_commit(h.txn, nullptr, &error));
    ASSERT_C(lockstep_report_begin(store, nullptr, &h.report, &error));
    EXPECT_GT(lockstep_report_sees(h.report), 0u);
    ASSERT_C(lockstep_report_close(h.report, &error));
    EXPECT_EQ(lockstep_report_sees(h.report), 0u);
    ASSERT_C(lockstep_changes_begin(store, {}, &h.feed, &error));
    ASSERT_C(lockstep_changes_close(h.feed, &error));
    for (const Call& call : all_calls())
        if (call.takes != Takes::nothing && call.takes != Takes::store) {
            EXPECT_EQ(call.make(h), LOCKSTEP_TXN_ENDED) << call.name;
        }
    EXPECT_EQ(lockstep_txn_id(h.txn), 0u);
    ASSERT_C(lockstep_report_begin(store, nullptr, &h.report, &error));
    ASSERT_C(lockstep_changes_begin(store, {}, &h.feed, &error));
    ASSERT_C(lockstep_close(store, &error));
    store = nullptr;
    for (const Call& call : all_calls()) {
        if (call.takes != Takes::store && call.takes != Takes::report && call.takes != Takes::feed)
            continue;
        const int ended = call.takes == Takes::store ? LOCKSTEP_STORE_CLOSED : LOCKSTEP_TXN_ENDED;
        EXPECT_EQ(call.make(h), ended) << call.name;
    }
    EXPECT_EQ(lockstep_index_id(h.index) + lockstep_heap_id(h.heap), 0u);
    EXPECT_EQ(lockstep_report_sees(h.report), 0u);
}

TEST_F(CCalls, Texts) {
    constexpr int kCodes = LOCKSTEP_CHANGES_LOST + 1;
    for (int code = 0; code < kCodes; ++code) {
        EXPECT_STRNE(lockstep_error_name(code), "unknown") << code;
        EXPECT_GT(strlen(lockstep_strerror(code)), 3u);
    }
    for (const int code : {-1, kCodes, 1 << 30}) {
        EXPECT_STREQ(lockstep_error_name(code), "unknown");
        EXPECT_NE(lockstep_strerror(code), nullptr);
    }
    EXPECT_STREQ(lockstep_error_name(LOCKSTEP_SNAPSHOT_TOO_OLD), "snapshot_too_old");
    lockstep_yield();
    const uint64_t before = lockstep_now();
    lockstep_sleep_for(1000);
    EXPECT_GE(lockstep_now(), before + 1000);
}

}  // namespace lockstep::c_calls_test
