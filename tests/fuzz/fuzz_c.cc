// fuzz_c.cc - any sequence of calls of the C interface, right and wrong: each gives a code, and the
// store stays sound.
//
// Concepts   Handles of all kinds lie in slots, and stay there when they have ended. A call takes a
//            handle of its kind from a slot, or now and then NULL, a handle of another kind or a
//            stray number. Sessions have a lock timeout of 1 ms, so none waits for another.
// Input      one call after the other.
#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>  // keep: the whole C interface
#include "tests/fuzz/fuzz_input.h"
#include "tests/own_directory.h"

namespace lockstep::fuzz {
namespace {

constexpr size_t kSlots = 4;

class CCaller {
public:
    CCaller(const std::string& path, Input& in) : path_(path), in_(in) {}
    void calls() {
        reopen();
        for (int n = 0; n < 200 && !in_.empty(); ++n) call();
        close_all();
    }
    // A store that was closed opens again and is sound. What is in doubt is in doubt still.
    void verify() {
        lockstep_store* store = nullptr;
        const auto options = small();
        CHECK(lockstep_open(path_.c_str(), &options, &store, &error_) == LOCKSTEP_OK);
        std::vector<std::string> gids;
        CHECK(lockstep_list_prepared(store, take_gid, &gids, &error_) == LOCKSTEP_OK);
        std::ranges::sort(gids);
        CHECK(gids == in_doubt_);
        for (const std::string& gid : gids) {
            bool ended = false;
            CHECK(lockstep_rollback_prepared(store, {gid.data(), gid.size()}, &ended, &error_) ==
                      LOCKSTEP_OK &&
                  ended);
        }
        size_t faults = 1;
        CHECK(lockstep_verify(store, 1, nullptr, nullptr, &faults, &error_) == LOCKSTEP_OK);
        CHECK(faults == 0);
        CHECK(lockstep_close(store, &error_) == LOCKSTEP_OK);
    }

private:
    static lockstep_options small() {
        lockstep_options o;
        lockstep_options_init(&o, sizeof o);
        o.pool_bytes = 4 << 20;
        o.log_bytes = 16 << 20;
        o.log_segment_bytes = 4 << 20;
        o.log_ring_bytes = 1 << 20;
        o.lock_table_bytes_log2 = 16;
        o.transactions_max = 64;
        o.lock_timeout = 1'000'000;
        o.sync = false;
        return o;
    }
    void reopen() {
        const auto options = small();
        lockstep_store* store = nullptr;
        if (lockstep_open(path_.c_str(), &options, &store, error()) == LOCKSTEP_OK) store_ = store;
    }
    static bool take_gid(void* arg, const lockstep_prepared_info* info) {
        static_cast<std::vector<std::string>*>(arg)->emplace_back(
            static_cast<const char*>(info->gid.data), info->gid.size);
        return true;
    }
    void close_all() {
        std::vector<std::string> gids;
        if (lockstep_list_prepared(store_, take_gid, &gids, error()) == LOCKSTEP_OK)
            std::ranges::sort(gids), in_doubt_ = gids;
        const int code = lockstep_close(store_, error());
        CHECK(code == LOCKSTEP_OK || code == LOCKSTEP_STORE_CLOSED);
    }

    // A handle of the slots, or now and then what is none.
    template <class Handle>
    Handle* pick(const std::array<Handle*, kSlots>& slots) {
        const uint8_t choice = in_.byte();
        Handle* const sound = slots[choice % kSlots];
        switch (choice / kSlots) {
            case 0: return nullptr;
            case 1: return reinterpret_cast<Handle*>(store_);
            case 2: return reinterpret_cast<Handle*>(txns_[0]);
            case 3: return reinterpret_cast<Handle*>(in_.get<uint64_t>());
            case 4:
                return reinterpret_cast<Handle*>(reinterpret_cast<uint64_t>(sound) ^
                                                 1ull << in_.below(64));
            default: return sound;
        }
    }
    template <class Handle>
    Handle** slot(std::array<Handle*, kSlots>& slots) {
        return in_.byte() % 32 == 0 ? nullptr : &slots[in_.byte() % kSlots];
    }
    lockstep_slice slice() {
        const uint8_t shape = in_.byte();
        if (shape == 0) return {nullptr, in_.byte()};
        text_.push_back(shape % 16 == 1 ? std::string(in_.get<uint16_t>(), 'v')
                                        : "k" + std::to_string(shape % 40));
        return {text_.back().data(), text_.back().size()};
    }
    const char* name() {
        static const char* const kNames[] = {"a", "b", "c", nullptr, ""};
        return kNames[in_.byte() % std::size(kNames)];
    }
    lockstep_error* error() { return in_.byte() % 4 == 0 ? nullptr : &error_; }
    lockstep_slice gid() {
        static const std::string kGids[] = {"g", "h", "", std::string(LOCKSTEP_GID_BYTES_MAX, 'g'),
                                            std::string(LOCKSTEP_GID_BYTES_MAX + 1, 'g')};
        const uint8_t which = in_.byte();
        if (which == 0) return {nullptr, 5};
        const std::string& of = kGids[which % std::size(kGids)];
        return {of.data(), of.size()};
    }
    int access() { return in_.byte() % 5 - 1; }
    void* memory(size_t& room) {
        room = in_.byte();
        return room % 16 == 1 ? nullptr : room_.data();
    }

    void call() {
        text_.clear();
        const uint8_t what = in_.byte() % 44;
        if (what < 6) begin_and_end(what);
        else if (what < 12) objects(what);
        else if (what < 24) records(what);
        else if (what < 30) cursors(what);
        else if (what < 34) heaps(what);
        else if (what < 40) whole_store(what);
        else two_phases(what);
    }
    void begin_and_end(uint8_t what) {
        lockstep_txn_options options;
        lockstep_txn_options_init(&options, sizeof options);
        options.isolation = in_.byte() % 5;
        options.durability = LOCKSTEP_LAZY;
        switch (what) {
            case 0:
            case 1:
            case 2: {
                lockstep_txn** const out = slot(txns_);
                // A live one is not forgotten: it would hold its locks to the end.
                if (out != nullptr) (void)lockstep_abort(*out, nullptr);
                use(lockstep_begin(store_, &options, out, error()));
                break;
            }
            case 3: use(lockstep_commit(pick(txns_), nullptr, error())); break;
            case 4: use(lockstep_set_savepoint(pick(txns_), &savepoint_, error())); break;
            default: use(lockstep_rollback_to(pick(txns_), &savepoint_, error())); break;
        }
    }
    void objects(uint8_t what) {
        lockstep_txn* const txn = pick(txns_);
        switch (what) {
            case 6:
            case 7:
                use(lockstep_open_or_create_index(txn, name(), nullptr, slot(indexes_), error()));
                break;
            case 8: use(lockstep_open_or_create_heap(txn, name(), slot(heaps_), error())); break;
            case 9: use(lockstep_find_index_in(txn, name(), slot(indexes_), error())); break;
            case 10: use(lockstep_drop(txn, name(), error())); break;
            default: use(lockstep_find_heap(store_, name(), slot(heaps_), error())); break;
        }
    }
    void records(uint8_t what) {
        lockstep_txn* const txn = pick(txns_);
        lockstep_index* const index = pick(indexes_);
        size_t room = 0, bytes = 0;
        bool found = false;
        const lockstep_slice key = slice(), value = slice();
        void* const buffer = memory(room);
        switch (what) {
            case 12:
            case 13:
                use(lockstep_get(txn, index, key, access(), buffer, room, &bytes, &found, error()));
                break;
            case 14: use(lockstep_insert(txn, index, key, value, error())); break;
            case 15: use(lockstep_update(txn, index, key, value, nullptr, error())); break;
            case 16: use(lockstep_erase(txn, index, key, &found, error())); break;
            case 17:
                use(lockstep_patch(txn, index, key, in_.byte(), value, &hint_, &found, error()));
                break;
            case 18: {
                const lockstep_record rows[2] = {{key, value}, {value, key}};
                use(lockstep_insert_many(txn, index, rows, in_.byte() % 3, error()));
                break;
            }
            case 19: {
                lockstep_lookup row = {key, buffer, room, 0, false, {}};
                use(lockstep_get_many(txn, index, &row, in_.byte() % 2, access(), &bytes, error()));
                hint_ = row.hint;
                break;
            }
            case 20: request(txn, index, key, value); break;
            default: use(lockstep_put(txn, index, key, value, error())); break;
        }
    }
    // A body; the argument is an index.
    static int put_one(lockstep_txn* txn, void* index) {
        return lockstep_put(txn, static_cast<lockstep_index*>(index), lockstep_text("k"),
                            {nullptr, 0}, nullptr);
    }
    void request(lockstep_txn* txn, lockstep_index* index, lockstep_slice key,
                 lockstep_slice value) {
        lockstep_operation ops[3] = {};
        lockstep_function function = {in_.byte() % 8 == 0 ? nullptr : put_one, index};
        for (lockstep_operation& o : ops) {
            o.kind = in_.byte() % 15;  // 0 and 14 are no kinds
            o.access = access();
            o.index = index;
            o.heap = pick(heaps_);
            o.key = key;
            o.value = value;
            o.buffer = memory(o.room);
            if (o.kind == LOCKSTEP_OP_CALL) o.buffer = in_.byte() % 4 == 0 ? nullptr : &function;
            o.id = {in_.byte(), in_.byte()};
        }
        lockstep_request r;
        lockstep_request_init(&r, sizeof r);
        r.txn = txn;
        r.store = store_;
        r.operations = in_.byte() % 16 == 0 ? nullptr : ops;
        r.count = in_.byte() % 4;
        r.end = in_.byte() % 8 - 1;
        r.error = error();
        if (r.end >= LOCKSTEP_END_PREPARE) r.gid = gid();
        if (in_.byte() % 2) use(lockstep_batch(&r));
        else if (lockstep_submit(&r) == LOCKSTEP_OK)
            while (!lockstep_request_done(&r)) lockstep_yield();
        if (r.txn != nullptr && r.txn != txn) (void)lockstep_abort(r.txn, nullptr);
    }
    // Those in doubt keep their locks: other calls time out on them.
    void two_phases(uint8_t what) {
        int vote = 0;
        bool ended = false;
        switch (what) {
            case 40: use(lockstep_prepare(pick(txns_), gid(), &vote, error())); break;
            case 41: use(lockstep_commit_prepared(store_, gid(), &ended, error())); break;
            case 42: use(lockstep_rollback_prepared(store_, gid(), &ended, error())); break;
            default: {
                std::vector<std::string> gids;
                use(lockstep_list_prepared(store_, take_gid, &gids, error()));
            }
        }
    }
    void cursors(uint8_t what) {
        lockstep_cursor* const cursor = pick(cursors_);
        lockstep_slice key = slice(), value = {}, by = {};
        bool found = false;
        size_t count = 0, room = 0;
        void* const buffer = memory(room);
        lockstep_record rows[4];
        switch (what) {
            case 24:
                use(lockstep_scan(pick(txns_), pick(indexes_), key, {}, access(), slot(cursors_),
                                  error()));
                break;
            case 25:
                use(lockstep_scan_by(pick(txns_), pick(indexes_), key, {}, in_.byte() % 2 != 0,
                                     access(), slot(cursors_), error()));
                break;
            case 26:
                use(lockstep_cursor_read(cursor, in_.byte() % 2 != 0, rows, in_.byte() % 5, buffer,
                                         room, &count, nullptr, error()));
                break;
            case 27: use(lockstep_cursor_seek(cursor, key, slice(), error())); break;
            case 28: use(lockstep_cursor_close(cursor, error())); break;
            default:
                if (lockstep_cursor_next(cursor, &key, &value, &by, &found, error()) == 0 && found)
                    use(lockstep_cursor_patch(cursor, 0, slice(), &found, error()));
                use(lockstep_cursor_prev(cursor, &key, &value, &by, &found, error()));
        }
    }
    void heaps(uint8_t what) {
        lockstep_txn* const txn = pick(txns_);
        lockstep_heap* const heap = pick(heaps_);
        size_t room = 0, bytes = 0;
        void* const buffer = memory(room);
        const auto each = [](void*, lockstep_record_id, lockstep_slice s) { return s.size != 3; };
        switch (what) {
            case 30: use(lockstep_heap_insert(txn, heap, slice(), &id_, error())); break;
            case 31:
                use(lockstep_heap_get(txn, heap, id_, access(), buffer, room, &bytes, nullptr,
                                      error()));
                break;
            case 32: use(lockstep_heap_scan(txn, heap, each, nullptr, error())); break;
            default: use(lockstep_heap_update(txn, heap, id_, slice(), nullptr, error())); break;
        }
    }
    void whole_store(uint8_t what) {
        lockstep_stats stats = {};
        stats.size = in_.byte() * 4u;
        size_t bytes = 0;
        switch (what) {
            case 34: use(lockstep_run(store_, put_one, pick(indexes_), nullptr, error())); break;
            case 35:
                use(lockstep_metrics(store_, room_.data(), room_.size(), &bytes, error()));
                break;
            case 36: use(lockstep_txn_id(pick(txns_)) + lockstep_index_id(pick(indexes_))); break;
            case 37: {
                std::vector<char> at(std::max<size_t>(stats.size, sizeof stats));
                std::memcpy(at.data(), &stats, sizeof stats);
                use(lockstep_get_stats(store_, reinterpret_cast<lockstep_stats*>(at.data()),
                                       error()));
                break;
            }
            case 38: use(lockstep_checkpoint(store_, error())); break;
            default:
                if (in_.byte() % 4) break;
                close_all();
                if (in_.byte() % 2) reopen();
        }
    }

    const std::string path_;
    Input& in_;
    lockstep_error error_ = {};
    lockstep_store* store_ = nullptr;
    std::vector<std::string> in_doubt_;  // when the store was closed
    std::array<lockstep_txn*, kSlots> txns_ = {};
    std::array<lockstep_index*, kSlots> indexes_ = {};
    std::array<lockstep_heap*, kSlots> heaps_ = {};
    std::array<lockstep_cursor*, kSlots> cursors_ = {};
    lockstep_savepoint savepoint_ = {};
    lockstep_hint hint_ = {};
    lockstep_record_id id_ = {};
    std::deque<std::string> text_;  // whose addresses stay
    std::array<char, 256> room_ = {};
};

}  // namespace

int fuzz_c(const uint8_t* data, size_t size) {
    Input in(data, size);
    const std::string directory = make_own_directory("fuzz-c");
    {
        CCaller caller(directory + "/db", in);
        caller.calls();
        caller.verify();
    }
    std::filesystem::remove_all(directory);
    return 0;
}

}  // namespace lockstep::fuzz
