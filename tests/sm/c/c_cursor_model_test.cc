// labels: model
// c_cursor_model_test.cc - random calls of C cursors against a map: steps, reads of several records
// into too little memory, patches and new ranges, between changes of the same transaction; steps
// onto records that another transaction has locked.
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/sm/c/c_util.h"

namespace lockstep::c_cursor_model_test {

using Records = std::map<std::string, std::string>;

struct Seen {
    int code = LOCKSTEP_OK;
    std::vector<std::pair<std::string, std::string>> records;
    size_t needed = 0;
    bool operator==(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    out << "code " << seen.code << ", needed " << seen.needed << ":";
    for (const auto& [key, value] : seen.records) out << " " << key << "=" << value.substr(0, 8);
    return out;
}

// What a cursor over [low, high) does.
class Model {
public:
    Model(const Records& records, const std::set<std::string>& locked, int access, std::string low,
          std::string high)
        : low_(std::move(low)),
          high_(std::move(high)),
          records_(records),
          locked_(locked),
          access_(access) {}

    Seen step(bool forward) {
        Seen seen;
        if (waits_ && forward != *waits_forward_) seen.code = LOCKSTEP_BAD_ARGUMENT;
        else if (const auto one = take(forward, seen.code)) seen.records.push_back(*one);
        return seen;
    }
    Seen read(bool forward, size_t rows, size_t room) {
        Seen seen;
        while (seen.records.size() < rows) {
            if (waits_ && forward != *waits_forward_) {
                seen.code = LOCKSTEP_BAD_ARGUMENT;
                break;
            }
            const auto one = take(forward, seen.code);
            if (!one) break;
            const size_t bytes = one->first.size() + one->second.size();
            if (bytes > room) {
                seen.needed = bytes;
                waits_ = one;
                waits_forward_ = forward;
                break;
            }
            room -= bytes;
            seen.records.push_back(*one);
        }
        return seen;
    }
    const std::optional<std::string>& at() const { return at_; }
    bool waits() const { return waits_.has_value(); }

private:
    using One = std::optional<std::pair<std::string, std::string>>;
    // The next record, which becomes the current one. An end and a refusal leave the place.
    One take(bool forward, int& code) {
        if (waits_) return std::exchange(waits_, {});
        std::string from = at_.value_or(forward ? low_ : high_);
        bool beyond = at_.has_value();
        for (;;) {
            auto it = forward ? (beyond ? records_.upper_bound(from) : records_.lower_bound(from))
                      : !beyond && from.empty() ? records_.end()
                                                : records_.lower_bound(from);
            if (!forward) {
                if (it == records_.begin()) return {};
                --it;
            }
            if (it == records_.end() || it->first < low_ || (!high_.empty() && it->first >= high_))
                return {};
            if (!locked_.contains(it->first)) {
                at_ = it->first;
                return *it;
            }
            if (access_ & LOCKSTEP_ACCESS_NO_WAIT) {
                code = LOCKSTEP_LOCK_REFUSED;
                return {};
            }
            from = it->first;
            beyond = true;
        }
    }

    std::string low_, high_;
    const Records& records_;
    const std::set<std::string>& locked_;
    int access_;
    std::optional<std::string> at_;
    One waits_;  // as it was when it did not fit
    std::optional<bool> waits_forward_;
};

class CCursorModel : public CStore {
protected:
    std::string draw_key() {
        // Several lengths of shared prefixes, and keys that are prefixes of others.
        static const char* const prefixes[] = {"", "a", "aa", "aaaaaaaaaaaaaaaaaaaa", "b"};
        return prefixes[rng.below(5)] + std::string(1 + rng.below(2), "klmnop"[rng.below(6)]);
    }
    std::string draw_value() {
        const size_t sizes[] = {0, 1, 7, 40, 200, 4000};
        return std::string(sizes[rng.below(6)], "vwxyz"[rng.below(5)]);
    }
    static lockstep_slice slice(const std::string& text) { return {text.data(), text.size()}; }

    void put(lockstep_txn* txn, const std::string& key, const std::string& value) {
        EXPECT_C(lockstep_put(txn, index, slice(key), slice(value), &error));
        records[key] = value;
    }
    void open_cursor(lockstep_txn* txn, int access) {
        std::string low = rng.chance(0.5) ? "" : draw_key(),
                    high = rng.chance(0.5) ? "" : draw_key();
        if (cursor != nullptr && rng.chance(0.5)) {
            EXPECT_C(lockstep_cursor_seek(cursor, slice(low), slice(high), &error));
        } else {
            if (cursor != nullptr) EXPECT_C(lockstep_cursor_close(cursor, &error));
            EXPECT_C(lockstep_scan(txn, index, slice(low), slice(high), access, &cursor, &error));
        }
        model.emplace(records, locked, access, low, high);
    }
    Seen step(bool forward) {
        Seen seen;
        lockstep_slice key = {}, value = {}, secondary = {"x", 1};
        bool found = false;
        seen.code = (forward ? lockstep_cursor_next : lockstep_cursor_prev)(
            cursor, &key, &value, &secondary, &found, &error);
        if (seen.code != LOCKSTEP_OK) {
            EXPECT_FALSE(found);
        } else if (found) {
            seen.records.emplace_back(text_of(key), text_of(value));
            EXPECT_EQ(secondary.size, 0u);
        }
        return seen;
    }
    Seen read(bool forward, size_t rows, size_t room) {
        Seen seen;
        std::vector<lockstep_record> out(rows);
        std::vector<char> memory(room);
        size_t count = 99;
        seen.needed = 99;
        seen.code = lockstep_cursor_read(cursor, forward, out.data(), rows, memory.data(), room,
                                         &count, &seen.needed, &error);
        for (size_t i = 0; i < count; ++i)
            seen.records.emplace_back(text_of(out[i].key), text_of(out[i].value));
        return seen;
    }
    void compare(const Seen& seen, const Seen& expected) {
        EXPECT_EQ(seen, expected);
        steps += static_cast<int>(seen.records.size());
        ends += seen.code == LOCKSTEP_OK && seen.records.empty();
        refusals += seen.code == LOCKSTEP_LOCK_REFUSED;
        waiting += seen.needed != 0;
    }
    void move() {
        const bool forward = rng.chance(0.6);
        if (rng.chance(0.5)) {
            compare(step(forward), model->step(forward));
            return;
        }
        const size_t rows = rng.below(5), room = rng.chance(0.5) ? rng.below(90) : 10'000;
        compare(read(forward, rows, room), model->read(forward, rows, room));
    }
    void patch(lockstep_txn* txn) {
        const auto at = model->at();
        const auto record = at ? records.find(*at) : records.end();
        const size_t bytes = record == records.end() ? 0 : record->second.size();
        const size_t offset = rng.below(bytes + 2);
        const std::string part(rng.below(4), "PQR"[rng.below(3)]);
        bool found = rng.chance(0.5);
        const int code = lockstep_cursor_patch(cursor, offset, slice(part), &found, &error);
        if (model->waits()) {
            EXPECT_EQ(code, LOCKSTEP_BAD_ARGUMENT);
            return;
        }
        if (record == records.end()) {
            EXPECT_TRUE(code == LOCKSTEP_OK && !found);
            return;
        }
        if (offset + part.size() > bytes) {
            EXPECT_NE(code, LOCKSTEP_OK);
            return;
        }
        EXPECT_TRUE(code == LOCKSTEP_OK && found) << error.text;
        ++patches;
        record->second.replace(offset, part.size(), part);
        char value[4096];
        size_t all = 0;
        EXPECT_C(lockstep_get(txn, index, slice(*at), LOCKSTEP_ACCESS_READ, value, sizeof value,
                              &all, &found, &error));
        EXPECT_EQ(std::string(value, all), record->second);
    }
    void change(lockstep_txn* txn) {
        // Often beside the cursor.
        const std::string key = model->at() && rng.chance(0.4) ? *model->at() : draw_key();
        if (rng.chance(0.6)) return put(txn, key, draw_value());
        bool found = false;
        EXPECT_C(lockstep_erase(txn, index, slice(key), &found, &error));
        EXPECT_EQ(found, records.erase(key) == 1);
    }
    void run_alone(lockstep_txn* txn, int access) {
        for (int n = 0; n < 20; ++n) put(txn, draw_key(), draw_value());
        lockstep_savepoint savepoint = {};
        EXPECT_C(lockstep_set_savepoint(txn, &savepoint, &error));
        const Records saved = records;
        open_cursor(txn, access);
        for (int n = 0; n < 500 && !HasFailure(); ++n) {
            SCOPED_TRACE(n);
            const uint64_t what = rng.below(100);
            if (what < 55) move();
            else if (what < 70) patch(txn);
            else if (what < 92) change(txn);
            else if (what < 98) open_cursor(txn, access);
            else {
                EXPECT_C(lockstep_rollback_to(txn, &savepoint, &error));
                records = saved;
            }
        }
        EXPECT_C(lockstep_cursor_close(cursor, &error));
        EXPECT_EQ(step(true).code, LOCKSTEP_TXN_ENDED);
        cursor = nullptr;
    }

    Rng rng{seed_of_run()};
    lockstep_index* index = nullptr;
    Records records;
    std::set<std::string> locked;  // by another transaction
    lockstep_cursor* cursor = nullptr;
    std::optional<Model> model;
    // What the random calls have met.
    int steps = 0, ends = 0, refusals = 0, waiting = 0, patches = 0;
};

TEST_F(CCursorModel, BetweenChangesOfItsTransaction) {
    index = make_index("i");
    for (const int access : {LOCKSTEP_ACCESS_READ, LOCKSTEP_ACCESS_UPDATE, LOCKSTEP_ACCESS_WRITE}) {
        records.clear();
        lockstep_txn* txn = nullptr;
        ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
        run_alone(txn, access);
        EXPECT_C(lockstep_abort(txn, &error));
    }
    EXPECT_TRUE(steps > 200 && ends > 20 && waiting > 20 && patches > 20)
        << steps << " " << ends << " " << waiting << " " << patches;
}

TEST_F(CCursorModel, AmongLocksOfAnother) {
    index = make_index("i");
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    for (int n = 0; n < 40; ++n) put(txn, draw_key(), draw_value());
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
    for (const int refusal : {LOCKSTEP_ACCESS_NO_WAIT, LOCKSTEP_ACCESS_SKIP_LOCKED}) {
        for (const int access : {LOCKSTEP_ACCESS_READ, LOCKSTEP_ACCESS_WRITE}) {
            lockstep_txn* other = nullptr;
            ASSERT_C(lockstep_begin(store, nullptr, &other, &error));
            locked.clear();
            for (const auto& [key, value] : records) {
                if (!rng.chance(0.3)) continue;
                locked.insert(key);
                EXPECT_C(lockstep_update(other, index, slice(key), slice(value), nullptr, &error));
            }
            ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
            cursor = nullptr;
            open_cursor(txn, access | refusal);
            for (int n = 0; n < 400 && !HasFailure(); ++n) {
                SCOPED_TRACE(n);
                if (rng.chance(0.05)) open_cursor(txn, access | refusal);
                else move();
            }
            // A refusal leaves the transaction usable.
            EXPECT_C(lockstep_commit(txn, nullptr, &error));
            EXPECT_C(lockstep_abort(other, &error));
        }
    }
    EXPECT_TRUE(steps > 200 && ends > 20 && refusals > 20 && waiting > 20)
        << steps << " " << ends << " " << refusals << " " << waiting;
}

}  // namespace lockstep::c_cursor_model_test
