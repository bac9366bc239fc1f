// history.h - what transactions did and were told, and a judge that replays it in commit order.
//
// Concepts   Under strict two-phase locking, any moment at which a transaction holds all its locks
//            is its place in a serial order. Each transaction takes a number from one counter right
//            before commit or abort. The judge sorts by this number and replays on an ordered map.
//            Every answer must be what the map gives: values, misses, each row of a range and no
//            other. The check is complete and linear, and it sees phantoms. Aborted transactions
//            are judged too, because locks protected what they saw. Then their changes are undone.
// Levels     repeatable_read: as serializable, but a scan may miss rows.
//            read_committed: each value read was committed by some transaction.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <lockstep/store.h>

namespace lockstep::isolation {

struct Answer {
    enum Kind : uint8_t {
        get,
        insert,
        update,
        put,
        erase,
        patch,
        forward,
        backward,
        savepoint,
        rollback
    };
    Kind kind;
    // get, update, erase, patch: the key existed. insert: the row went in.
    bool found = false;
    // Range: [key, key_end). With `cut` the scan stopped after the last row in `rows`.
    uint32_t key = 0, key_end = 0;
    bool cut = false;
    uint64_t value = 0;  // read or written: each written value is unique
    std::vector<std::pair<uint32_t, uint64_t>> rows = {};
};

struct History {
    uint64_t place = 0;  // number in the serial order
    Isolation isolation = Isolation::serializable;
    bool committed = false;
    std::vector<Answer> answers;
};

// The judge. It keeps the state between batches of histories.
class Replay {
public:
    using State = std::map<uint32_t, uint64_t>;
    const State& state() const { return state_; }
    void start_with(State state) { state_ = std::move(state); }

    // Sorts and judges a batch. Returns false at the first answer that the commit order does not
    // explain; fault() describes it.
    bool judge(std::vector<History>& batch) {
        std::ranges::sort(batch, {}, &History::place);
        collect_committed(batch);
        for (const History& history : batch)
            if (!judge(history)) return false;
        return true;
    }
    const std::string& fault() const { return fault_; }
    uint64_t answers() const { return answers_; }

private:
    // Collects the values that read_committed may see besides those before the batch: what each
    // committed transaction leaves at a key.
    void collect_committed(const std::vector<History>& batch) {
        committed_.clear();
        before_.clear();
        for (const History& history : batch) {
            if (!history.committed) continue;
            State left, at_point;
            for (const Answer& a : history.answers) {
                if (a.kind == Answer::savepoint) at_point = left;
                else if (a.kind == Answer::rollback) left = at_point;
                else if (writes(a)) left[a.key] = a.value;
                else if (a.kind == Answer::erase) left.erase(a.key);
            }
            committed_.insert(left.begin(), left.end());
        }
    }
    static bool writes(const Answer& a) {
        return (a.kind == Answer::put || ((a.kind == Answer::insert || a.kind == Answer::update ||
                                           a.kind == Answer::patch) &&
                                          a.found));
    }
    static bool reads(const Answer& a) {
        return a.kind == Answer::get || a.kind == Answer::forward || a.kind == Answer::backward;
    }

    bool judge(const History& history) {
        undo_.clear();
        size_t point = 0;
        own_.clear();
        for (size_t n = 0; n < history.answers.size(); ++n) {
            const Answer& a = history.answers[n];
            ++answers_;
            if (a.kind == Answer::savepoint) point = undo_.size();
            else if (a.kind == Answer::rollback) take_back(point);
            else if (!(history.isolation == Isolation::read_committed && reads(a)
                           ? plausible(a)
                           : right(a, history.isolation))) {
                describe(history, n);
                return false;
            }
            change(a);
        }
        if (!history.committed) take_back(0);
        return true;
    }

    // True if the map gives this answer. At repeatable_read a scan may miss rows, but not invent or
    // change them.
    bool right(const Answer& a, Isolation isolation) const {
        const auto row = state_.find(a.key);
        const bool there = row != state_.end();
        switch (a.kind) {
            case Answer::get: return a.found == there && (!there || a.value == row->second);
            case Answer::insert: return a.found == !there;
            case Answer::update:
            case Answer::erase:
            case Answer::patch: return a.found == there;
            case Answer::forward:
            case Answer::backward:
                return isolation == Isolation::serializable ? a.rows == range(a) : contained(a);
            default: return true;
        }
    }
    std::vector<std::pair<uint32_t, uint64_t>> range(const Answer& a) const {
        std::vector<std::pair<uint32_t, uint64_t>> rows;
        const auto low = state_.lower_bound(a.key), high = state_.lower_bound(a.key_end);
        const size_t limit = a.cut ? a.rows.size() : SIZE_MAX;
        if (a.kind == Answer::forward)
            for (auto it = low; it != high && rows.size() < limit; ++it) rows.emplace_back(*it);
        else
            for (auto it = high; it != low && rows.size() < limit;) rows.emplace_back(*--it);
        return rows;
    }
    bool contained(const Answer& a) const {
        return std::ranges::all_of(a.rows, [&](const auto& row) {
            const auto it = state_.find(row.first);
            return it != state_.end() && it->second == row.second;
        });
    }
    // True if every value read was committed by a transaction or written by this one.
    bool plausible(const Answer& a) const {
        const auto known = [&](uint32_t key, uint64_t value) {
            if (own_.contains({key, value}) || committed_.contains({key, value})) return true;
            const auto changed = before_.find(key);
            if (changed != before_.end()) return changed->second == value;
            const auto row = state_.find(key);
            return row != state_.end() && row->second == value;
        };
        if (a.kind == Answer::get) return !a.found || known(a.key, a.value);
        return std::ranges::all_of(a.rows,
                                   [&](const auto& row) { return known(row.first, row.second); });
    }

    void change(const Answer& a) {
        const bool gone = a.kind == Answer::erase && a.found;
        if (!gone && !writes(a)) return;
        const auto row = state_.find(a.key);
        undo_.emplace_back(a.key, row == state_.end() ? std::nullopt : std::optional(row->second));
        before_.insert(undo_.back());
        if (gone) {
            state_.erase(a.key);
        } else {
            state_[a.key] = a.value;
            own_.insert({a.key, a.value});
        }
    }
    void take_back(size_t point) {
        for (; undo_.size() > point; undo_.pop_back()) {
            const auto& [key, value] = undo_.back();
            if (value) state_[key] = *value;
            else state_.erase(key);
        }
    }
    void describe(const History& history, size_t n) {
        const Answer& a = history.answers[n];
        fault_ = "place " + std::to_string(history.place) + ", level " +
                 std::to_string(static_cast<int>(history.isolation)) + ", answer " +
                 std::to_string(n) + " of kind " + std::to_string(a.kind) + " for key " +
                 std::to_string(a.key) + ": found " + std::to_string(a.found) + ", value " +
                 std::to_string(a.value) + ", rows";
        for (const auto& [key, value] : a.rows)
            fault_ += " " + std::to_string(key) + "=" + std::to_string(value);
        fault_ += "; expected";
        if (a.kind == Answer::forward || a.kind == Answer::backward) {
            for (const auto& [key, value] : range(a))
                fault_ += " " + std::to_string(key) + "=" + std::to_string(value);
        } else {
            const auto row = state_.find(a.key);
            fault_ += row == state_.end() ? " nothing" : " " + std::to_string(row->second);
        }
    }

    State state_;
    std::set<std::pair<uint32_t, uint64_t>> committed_, own_;
    // Keys changed in this batch: their values when it began.
    std::map<uint32_t, std::optional<uint64_t>> before_;
    std::vector<std::pair<uint32_t, std::optional<uint64_t>>> undo_;
    std::string fault_;
    uint64_t answers_ = 0;
};

}  // namespace lockstep::isolation
