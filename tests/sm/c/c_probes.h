// c_probes.h - every call of the C interface on a transaction or a cursor, and what it gives in a
// transaction that stands as World says.
#pragma once

#include <lockstep/lockstep.h>  // keep: the whole C interface

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {

// A transaction that has put "mine" into `j`. Its cursor over [b, i) of `i` stands on d, after two
// steps. `i` has the keys b, d, f, h, the counter n and the fence z, `by` finds its records by
// their values, and the heap has one record. All keys begin with the number of the world, so that
// ghosts of others lie beyond their fences.
struct World {
    lockstep_store* store;
    std::string number;  // of five digits
    bool here;           // `txn` is one of a user thread
    lockstep_index *i, *j, *by;
    lockstep_heap* heap;
    lockstep_record_id record;
    lockstep_txn *txn = nullptr, *other = nullptr;
    lockstep_cursor* cursor = nullptr;
    lockstep_savepoint savepoint = {};
    std::thread helper = {};  // waits for a lock of `txn`
    lockstep_error error = {};
    std::map<std::string, std::string> texts = {};

    // Bytes that live as long as the world.
    lockstep_slice key(const std::string& name) { return kept(number + name); }
    lockstep_slice value(const std::string& name) { return kept("of " + number + name); }
    lockstep_slice kept(const std::string& t) {
        const std::string& at = texts.try_emplace(t, t).first->second;
        return {at.data(), at.size()};
    }
    // The same in each world.
    std::string plain(lockstep_slice s) const {
        std::string t(static_cast<const char*>(s.data), s.size);
        if (const size_t at = t.find(number); at != std::string::npos) t.erase(at, number.size());
        return t;
    }
};

inline std::string word(int code) { return code == 0 ? "ok" : lockstep_error_name(code); }
// By reference: the call that gives the code sets `found`.
inline std::string word(int code, const bool& found) {
    return code != 0 ? word(code) : found ? "ok found" : "ok none";
}
inline lockstep_slice text(const char* t) { return lockstep_text(t); }

inline std::string step(World& w, bool forward, lockstep_cursor* cursor) {
    lockstep_slice key = {}, value = {};
    bool found = false;
    const int code = (forward ? lockstep_cursor_next : lockstep_cursor_prev)(
        cursor, &key, &value, nullptr, &found, &w.error);
    return code != 0 ? word(code) : found ? w.plain(key) + "=" + w.plain(value) : "end";
}
inline std::string step(World& w, bool forward) { return step(w, forward, w.cursor); }
inline std::string read(World& w, bool forward, size_t room) {
    lockstep_record rows[8];
    char memory[256];
    size_t count = 0, needed = 0;
    std::string all = word(
        lockstep_cursor_read(w.cursor, forward, rows, 8, memory, room, &count, &needed, &w.error));
    for (size_t n = 0; n < count; ++n) all += " " + w.plain(rows[n].key);
    return needed != 0 ? all + " waits" : all;
}
inline std::string get(World& w, const char* key, int access) {
    char buffer[64];
    size_t bytes = 0;
    bool found = false;
    const int code = lockstep_get(w.txn, w.i, w.key(key), access, buffer, sizeof buffer, &bytes,
                                  &found, &w.error);
    return code == 0 && found ? "ok " + w.plain(lockstep_bytes(buffer, bytes)) : word(code, found);
}
// A submitted request is waited for. That of a user thread is not taken.
inline int submit_and_wait(lockstep_request* r) {
    const int taken = lockstep_submit(r);
    if (taken != LOCKSTEP_OK) return taken;
    while (!lockstep_request_done(r)) std::this_thread::yield();
    return r->code;
}
inline std::string request(World& w, int (*call)(lockstep_request*), int end,
                           std::vector<lockstep_operation> operations) {
    lockstep_request r;
    lockstep_request_init(&r, sizeof r);
    r.txn = w.txn;
    r.operations = operations.data();
    r.count = operations.size();
    r.end = end;
    r.gid = w.kept("gid");
    r.error = &w.error;
    const std::string done = word(call(&r));
    return done + (r.performed == 0 ? "" : " " + std::to_string(r.performed)) +
           (r.txn == nullptr ? " ended" : "");
}
inline lockstep_operation operation(World& w, int kind, const char* key, const char* value) {
    lockstep_operation o = {};
    o.kind = kind;
    o.index = w.i;
    o.key = w.key(key);
    o.value = text(value);
    return o;
}
inline std::string put(World& w, const char* key, const char* value) {
    return word(lockstep_put(w.txn, w.i, w.key(key), text(value), &w.error));
}
inline std::string insert(World& w, const char* key) {
    return word(lockstep_insert(w.txn, w.i, w.key(key), text("new"), &w.error));
}

// What a call does in a transaction that must be rolled back.
enum class Aborting : uint8_t {
    refuses,
    refuses_and_ends,  // the handle
    later,             // "ok", and refuses with the step behind it
    works,
};
struct Probe {
    const char* call;
    const char* result;  // if the transaction may go on
    std::function<std::string(World&)> make;
    Aborting aborting = Aborting::refuses;
    bool ends = false;  // the transaction, if it may go on
};

// The calls of cursors. The cursor stands on d.
inline std::vector<Probe> cursor_probes() {
    return {
        {"lockstep_cursor_next", "f=of f", [](World& w) { return step(w, true); }},
        {"lockstep_cursor_prev", "b=of b", [](World& w) { return step(w, false); }},
        {"lockstep_cursor_read", "ok f h", [](World& w) { return read(w, true, 256); }},
        {"lockstep_cursor_read", "ok b", [](World& w) { return read(w, false, 256); }},
        {"lockstep_cursor_read", "ok f waits", [](World& w) { return read(w, true, 20); }},
        {"lockstep_cursor_patch", "ok found",
         [](World& w) {
             bool found = false;
             return word(lockstep_cursor_patch(w.cursor, 0, text("OF"), &found, &w.error), found);
         }},
        {"lockstep_cursor_seek", "ok h=of h",
         [](World& w) {
             const std::string sought =
                 word(lockstep_cursor_seek(w.cursor, w.key("g"), {}, &w.error));
             return sought == "ok" ? sought + " " + step(w, true) : sought;
         },
         Aborting::later},
        {"lockstep_cursor_close", "ok",
         [](World& w) { return word(lockstep_cursor_close(w.cursor, &w.error)); }, Aborting::works},
        {"lockstep_scan", "ok d=of d",
         [](World& w) {
             lockstep_cursor* made = nullptr;
             const std::string done = word(lockstep_scan(w.txn, w.i, w.key("c"), {},
                                                         LOCKSTEP_ACCESS_UPDATE, &made, &w.error));
             return done == "ok" ? done + " " + step(w, true, made) : done;
         },
         Aborting::later},
        {"lockstep_scan_by", "ok d=of d",
         [](World& w) {
             lockstep_cursor* made = nullptr;
             const std::string done = word(lockstep_scan_by(w.txn, w.by, w.value("d"), {}, true,
                                                            LOCKSTEP_ACCESS_READ, &made, &w.error));
             return done == "ok" ? done + " " + step(w, true, made) : done;
         },
         Aborting::later},
    };
}

// Those on records.
inline std::vector<Probe> record_probes() {
    return {
        {"lockstep_get", "ok of d", [](World& w) { return get(w, "d", LOCKSTEP_ACCESS_READ); }},
        {"lockstep_get", "ok of f", [](World& w) { return get(w, "f", LOCKSTEP_ACCESS_WRITE); }},
        {"lockstep_get", "ok none", [](World& w) { return get(w, "e", LOCKSTEP_ACCESS_READ); }},
        {"lockstep_get_many", "ok 2",
         [](World& w) {
             lockstep_lookup rows[3] = {};
             for (int n = 0; n < 3; ++n) rows[n].key = w.key(n == 0 ? "b" : n == 1 ? "e" : "h");
             size_t count = 0;
             const int code =
                 lockstep_get_many(w.txn, w.i, rows, 3, LOCKSTEP_ACCESS_UPDATE, &count, &w.error);
             return code != 0 ? word(code) : "ok " + std::to_string(count);
         }},
        {"lockstep_insert", "ok", [](World& w) { return insert(w, "e"); }},
        {"lockstep_insert", "duplicate_key", [](World& w) { return insert(w, "f"); }},
        {"lockstep_insert_many", "duplicate_key",
         [](World& w) {
             const lockstep_record rows[] = {{w.key("c"), text("1")}, {w.key("f"), text("2")}};
             return word(lockstep_insert_many(w.txn, w.i, rows, 2, &w.error));
         }},
        {"lockstep_put", "ok", [](World& w) { return put(w, "d", "another"); }},
        {"lockstep_put", "ok", [](World& w) { return put(w, "y", "another"); }},
        {"lockstep_update", "ok found",
         [](World& w) {
             bool found = false;
             return word(lockstep_update(w.txn, w.i, w.key("f"), text("longer"), &found, &w.error),
                         found);
         }},
        {"lockstep_patch", "ok found",
         [](World& w) {
             bool found = false;
             return word(
                 lockstep_patch(w.txn, w.i, w.key("f"), 1, text("F"), nullptr, &found, &w.error),
                 found);
         }},
        {"lockstep_add", "ok found",
         [](World& w) {
             bool found = false;
             return word(lockstep_add(w.txn, w.i, w.key("n"), 0, 5, nullptr, &found, &w.error),
                         found);
         }},
        {"lockstep_erase", "ok found",
         [](World& w) {
             bool found = false;
             return word(lockstep_erase(w.txn, w.i, w.key("d"), &found, &w.error), found);
         }},
        {"lockstep_erase_range", "ok 2",
         [](World& w) {
             size_t count = 0;
             const int code =
                 lockstep_erase_range(w.txn, w.i, w.key("d"), w.key("g"), &count, &w.error);
             return code != 0 ? word(code) : "ok " + std::to_string(count);
         }},
        {"lockstep_bulk_load", "bad_argument",
         [](World& w) {
             const auto none = [](void*, lockstep_record*) { return false; };
             return word(lockstep_bulk_load(w.txn, w.i, none, nullptr, 90, &w.error));
         }},
        {"lockstep_heap_insert", "ok",
         [](World& w) {
             lockstep_record_id id;
             return word(lockstep_heap_insert(w.txn, w.heap, text("new"), &id, &w.error));
         }},
        {"lockstep_heap_get", "ok found",
         [](World& w) {
             bool found = false;
             return word(lockstep_heap_get(w.txn, w.heap, w.record, LOCKSTEP_ACCESS_WRITE, nullptr,
                                           0, nullptr, &found, &w.error),
                         found);
         }},
        {"lockstep_heap_update", "ok found",
         [](World& w) {
             bool found = false;
             return word(
                 lockstep_heap_update(w.txn, w.heap, w.record, text("another"), &found, &w.error),
                 found);
         }},
        {"lockstep_heap_erase", "ok found",
         [](World& w) {
             bool found = false;
             return word(lockstep_heap_erase(w.txn, w.heap, w.record, &found, &w.error), found);
         }},
        {"lockstep_heap_scan", "ok found",
         [](World& w) {
             std::pair<lockstep_record_id, bool> sought(w.record, false);
             const auto each = [](void* arg, lockstep_record_id id, lockstep_slice) {
                 auto& [wanted, found] = *static_cast<decltype(sought)*>(arg);
                 found |= id.page == wanted.page && id.slot == wanted.slot;
                 return true;
             };
             const int code = lockstep_heap_scan(w.txn, w.heap, each, &sought, &w.error);
             return word(code, sought.second);
         }},
    };
}

// Those on objects.
inline std::vector<Probe> object_probes() {
    static lockstep_index* index;
    static lockstep_heap* heap;
    return {
        {"lockstep_create_index", "ok",
         [](World& w) {
             return word(lockstep_create_index(w.txn, w.number.c_str(), nullptr, &index, &w.error));
         }},
        {"lockstep_open_or_create_index", "ok",
         [](World& w) {
             return word(
                 lockstep_open_or_create_index(w.txn, w.number.c_str(), nullptr, &index, &w.error));
         }},
        {"lockstep_create_heap", "ok",
         [](World& w) {
             return word(lockstep_create_heap(w.txn, w.number.c_str(), &heap, &w.error));
         }},
        {"lockstep_open_or_create_heap", "ok",
         [](World& w) {
             return word(lockstep_open_or_create_heap(w.txn, w.number.c_str(), &heap, &w.error));
         }},
        {"lockstep_find_index_in", "ok",
         [](World& w) { return word(lockstep_find_index_in(w.txn, "j", &index, &w.error)); }},
        {"lockstep_find_heap_in", "wrong_kind",
         [](World& w) { return word(lockstep_find_heap_in(w.txn, "j", &heap, &w.error)); }},
        {"lockstep_drop", "no_such_object",
         [](World& w) { return word(lockstep_drop(w.txn, "none", &w.error)); }},
        {"lockstep_describe_in", "no_such_object",
         [](World& w) {
             return word(lockstep_describe_in(w.txn, "none", text("key n u32"), &w.error));
         }},
        {"lockstep_columns_in", "no_such_record",
         [](World& w) {
             return word(lockstep_columns_in(w.txn, "j", nullptr, 0, nullptr, &w.error));
         }},
    };
}

// Those on the transaction.
inline std::vector<Probe> txn_probes() {
    return {
        {"lockstep_txn_retry", "ok",
         [](World& w) {
             lockstep_retry retry;
             return word(lockstep_txn_retry(w.txn, &retry, &w.error));
         },
         Aborting::works},
        {"lockstep_txn_id", "ok",
         [](World& w) {
             return lockstep_txn_id(w.txn) == w.savepoint.txn ? "ok" : word(LOCKSTEP_TXN_ENDED);
         },
         Aborting::works},
        {"lockstep_user_error", "user_error",
         [](World& w) { return word(lockstep_user_error(w.txn, 7, "no")); }, Aborting::works},
        {"lockstep_set_savepoint", "ok",
         [](World& w) {
             lockstep_savepoint point;
             return word(lockstep_set_savepoint(w.txn, &point, &w.error));
         }},
        {"lockstep_rollback_to", "ok",
         [](World& w) { return word(lockstep_rollback_to(w.txn, &w.savepoint, &w.error)); }},
        {"lockstep_will_need", "ok",
         [](World& w) {
             const lockstep_need need = {w.i, w.key("f"), LOCKSTEP_ACCESS_READ, 0};
             return word(lockstep_will_need(w.txn, &need, 1, nullptr, &w.error));
         },
         Aborting::works},
        {"lockstep_changes_point", "bad_argument",
         [](World& w) {
             return word(lockstep_changes_point(w.txn, nullptr, 0, nullptr, nullptr, &w.error));
         }},
        {"lockstep_run_in", "ok",
         [](World& w) {
             const auto body = [](lockstep_txn* txn, void* arg) {
                 World& world = *static_cast<World*>(arg);
                 return lockstep_put(txn, world.i, world.key("e"), text("new"), &world.error);
             };
             return word(lockstep_run_in(w.txn, body, &w, &w.error));
         }},
        {"lockstep_batch", "ok 2",
         [](World& w) {
             return request(w, lockstep_batch, LOCKSTEP_END_KEEP,
                            {operation(w, LOCKSTEP_OP_PUT, "d", "another"),
                             operation(w, LOCKSTEP_OP_ERASE, "f", "")});
         }},
        {"lockstep_batch", "duplicate_key 1",
         [](World& w) {
             return request(w, lockstep_batch, LOCKSTEP_END_COMMIT,
                            {operation(w, LOCKSTEP_OP_PATCH, "d", "O"),
                             operation(w, LOCKSTEP_OP_INSERT, "b", "")});
         }},
        {"lockstep_batch", "ok 1 ended",
         [](World& w) {
             return request(w, lockstep_batch, LOCKSTEP_END_COMMIT,
                            {operation(w, LOCKSTEP_OP_UPDATE, "d", "another")});
         },
         Aborting::refuses, true},
        {"lockstep_batch", "ok ended",
         [](World& w) { return request(w, lockstep_batch, LOCKSTEP_END_ABORT, {}); },
         Aborting::works, true},
        {"lockstep_submit", "ok 1 ended",
         [](World& w) {
             return request(w, submit_and_wait, LOCKSTEP_END_COMMIT,
                            {operation(w, LOCKSTEP_OP_PUT, "g", "new")});
         },
         Aborting::refuses, true},
        {"lockstep_prepare", "ok",
         [](World& w) { return word(lockstep_prepare(w.txn, w.kept("gid"), nullptr, &w.error)); },
         Aborting::refuses, true},
        {"lockstep_commit", "ok",
         [](World& w) { return word(lockstep_commit(w.txn, nullptr, &w.error)); },
         Aborting::refuses_and_ends, true},
        {"lockstep_abort", "ok", [](World& w) { return word(lockstep_abort(w.txn, &w.error)); },
         Aborting::works, true},
    };
}

// All of them. `here`: for a transaction of a user thread, whose requests are not submitted.
inline std::vector<Probe> all_probes(bool here) {
    std::vector<Probe> all;
    for (const auto& part : {cursor_probes(), record_probes(), object_probes(), txn_probes()})
        all.insert(all.end(), part.begin(), part.end());
    for (Probe& probe : all)
        if (here && std::string(probe.call) == "lockstep_submit")
            probe = {probe.call, "wrong_thread", probe.make, Aborting::works};
    return all;
}

}  // namespace lockstep
