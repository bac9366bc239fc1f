// script.h - the steps of a transaction as data, and the same steps on an ordered map.
//
// Concepts   A Script is data, so tests play one description against the store in every
//            interleaving and replay it on a map: the serial truth. Each action yields rows (key,
//            value). These rows are all that a transaction learns from the store.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::isolation {

using Rows = std::vector<std::pair<int, int>>;

struct Action {
    enum Kind {
        read,    // the row of key, or nothing
        write,   // key := value if the key exists; yields the row, or nothing
        put,     // key := value
        insert,  // the same if the key is new; otherwise yields {key, -1}
        erase,   // yields {key, 0} if the key existed
        // Rows with keys in [key, key_end) and values divisible by `value`, ascending.
        select,
        select_back,  // the same, descending
        erase_range,  // erases the rows of [key, key_end) in one call; yields {key, how many}
        erase_where,  // erases rows of [key, key_end) with that value; yields them
        savepoint,
        rollback,  // to the savepoint
        abort,     // ends the transaction
    };
    Kind kind;
    int key = 0;
    int value = 1;
    int key_end = 1'000'000;
};
inline bool only_reads(const Action& action) {
    return action.kind == Action::read || action.kind == Action::select ||
           action.kind == Action::select_back;
}
using Script = std::vector<Action>;

// Actions as a test writes them.
inline Action read(int key) { return {Action::read, key}; }
inline Action write(int key, int value) { return {Action::write, key, value}; }
inline Action put(int key, int value) { return {Action::put, key, value}; }
inline Action insert(int key, int value) { return {Action::insert, key, value}; }
inline Action erase(int key) { return {Action::erase, key}; }
inline Action select(int divisor, int low = 0, int high = 1'000'000) {
    return {Action::select, low, divisor, high};
}
inline Action select_back(int divisor, int low = 0, int high = 1'000'000) {
    return {Action::select_back, low, divisor, high};
}
inline Action erase_range(int low, int high) { return {Action::erase_range, low, 1, high}; }
inline Action erase_where(int value) { return {Action::erase_where, 0, value}; }
inline Action savepoint() { return {Action::savepoint}; }
inline Action rollback() { return {Action::rollback}; }
inline Action abort() { return {Action::abort}; }

using Table = std::map<int, int>;

// Plays a script alone on the map: what the transaction must have seen.
class SerialRun {
public:
    explicit SerialRun(Table& table) : table_(table), begin_(table) {}

    Rows act(const Action& action) {
        const auto row = table_.find(action.key);
        const bool there = row != table_.end();
        Rows rows;
        switch (action.kind) {
            case Action::read:
                if (there) rows.emplace_back(*row);
                break;
            case Action::write:
                if (there) rows.emplace_back(action.key, row->second = action.value);
                break;
            case Action::put:
                rows.emplace_back(action.key, table_[action.key] = action.value);
                break;
            case Action::insert:
                if (!there) table_[action.key] = action.value;
                rows.emplace_back(action.key, there ? -1 : action.value);
                break;
            case Action::erase:
                if (table_.erase(action.key)) rows.emplace_back(action.key, 0);
                break;
            case Action::select:
            case Action::select_back:
                for (auto it = table_.lower_bound(action.key);
                     it != table_.end() && it->first < action.key_end; ++it)
                    if (it->second % action.value == 0) rows.emplace_back(*it);
                if (action.kind == Action::select_back) std::reverse(rows.begin(), rows.end());
                break;
            case Action::erase_range: {
                const auto first = table_.lower_bound(action.key),
                           end = table_.lower_bound(action.key_end);
                rows.emplace_back(action.key, static_cast<int>(std::distance(first, end)));
                table_.erase(first, end);
                break;
            }
            case Action::erase_where:
                for (const auto& [key, value] : table_)
                    if (value == action.value) rows.emplace_back(key, value);
                for (const auto& [key, value] : rows) table_.erase(key);
                break;
            case Action::savepoint: point_ = table_; break;
            case Action::rollback: table_ = *point_; break;
            case Action::abort: table_ = begin_; break;
        }
        return rows;
    }

private:
    Table& table_;
    const Table begin_;
    std::optional<Table> point_;
};

// How a transaction ended, and the rows of each action.
struct Outcome {
    bool committed = false;
    std::vector<Rows> seen;

    // The value that action n gave; -1 if it gave no row or did not run.
    int value(size_t n) const {
        return n < seen.size() && !seen[n].empty() ? seen[n][0].second : -1;
    }
    size_t count(size_t n) const { return n < seen.size() ? seen[n].size() : 0; }
};

// True if some serial order of the committed scripts gives these outcomes and this table.
inline bool serializable(const Table& initial, std::span<const Script> scripts,
                         std::span<const Outcome> outcomes, const Table& final) {
    std::vector<size_t> order;
    for (size_t i = 0; i < outcomes.size(); ++i)
        if (outcomes[i].committed) order.push_back(i);
    do {
        Table table = initial;
        bool fits = true;
        for (const size_t who : order) {
            SerialRun run(table);
            for (size_t n = 0; n < scripts[who].size() && fits; ++n)
                fits = run.act(scripts[who][n]) == outcomes[who].seen[n];
        }
        if (fits && table == final) return true;
    } while (std::next_permutation(order.begin(), order.end()));
    return false;
}

// Calls each(order) for all interleavings of scripts with `counts` steps; each script's own steps
// stay in order.
template <class Each>
void each_interleaving(std::span<const size_t> counts, Each each) {
    std::vector<int> order;
    for (size_t who = 0; who < counts.size(); ++who)
        order.insert(order.end(), counts[who], static_cast<int>(who));
    do each(order);
    while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace lockstep::isolation
