// cursor_scan.h - one scan of an index, of which each step is judged by what was committed.
//
// Concepts   Each isolation level has a promise. A snapshot shows the state of the begin. At
//            read_committed the record was committed at a moment of the step, and the step passed
//            over nothing that was there all the time. At repeatable_read what was returned stays
//            so until the end. At serializable the part of the range that was walked holds, at the
//            end, exactly what the steps returned. At every level a step keeps to the bounds and
//            the order, sees the transaction's own changes, and waits only with a reason.
#pragma once

#include <set>

#include "tests/isolation/stage.h"

namespace lockstep::isolation {

struct Range {
    std::string low, high;  // an empty high: to the end
    bool contains(const std::string& key) const {
        return key >= low && (high.empty() || key < high);
    }
};

class Scan {
public:
    // `let_go` is called while a step waits. It ends what the step may wait for; false: there is
    // nothing.
    Scan(Stage& stage, Isolation isolation, Range range, Access access,
         std::function<bool()> let_go)
        : stage_(stage),
          isolation_(isolation),
          range_(std::move(range)),
          let_go_(std::move(let_go)),
          actor_(&stage.someone()),
          access_(access) {}
    // Once, before all else: `let_go` may be called.
    void begin() {
        begun_ = stage_.visible();
        run([&](Actor& self) -> Result<void> {
            TRY(self.begin(isolation_));
            cursor_.emplace(stage_.index().scan(self.txn(), range_.low, range_.high, access_));
            return {};
        });
    }

    bool ended() const { return ended_; }
    bool waited() const { return waited_; }
    Actor& actor() { return *actor_; }
    const Range& range() const { return range_; }
    // The record that the cursor stands on; none before the first one.
    const std::optional<std::string>& at() const { return at_; }
    // Keys that the next steps in this direction would give now, also beyond the range: at most n.
    std::vector<std::string> ahead(bool backward, size_t n) const {
        std::set<std::string> keys;
        for (const auto& [key, _] : stage_.newest()) keys.insert(key);
        for (const auto& [key, value] : actor_->changes()) {
            if (value) keys.insert(key);
            else keys.erase(key);
        }
        std::vector<std::string> found;
        if (backward) {
            auto it = at_                   ? keys.lower_bound(*at_)
                      : range_.high.empty() ? keys.end()
                                            : keys.lower_bound(range_.high);
            while (it != keys.begin() && found.size() < n) found.push_back(*--it);
        } else {
            auto it = at_ ? keys.upper_bound(*at_) : keys.lower_bound(range_.low);
            for (; it != keys.end() && found.size() < n; ++it) found.push_back(*it);
        }
        return found;
    }

    // One step. False: the range has ended there, or the scan has failed.
    bool step(bool backward) {
        const size_t first = stage_.visible();
        size_t last = first;
        bool more = false;
        std::string key, value;
        const bool done = run([&](Actor&) -> Result<void> {
            more = TRY(backward ? cursor_->prev() : cursor_->next());
            last = stage_.last();
            key = cursor_->key();
            value = cursor_->value();
            return {};
        });
        if (!done) return false;
        const bool snapshot = isolation_ == Isolation::snapshot;
        judge(backward, snapshot ? begun_ : first, snapshot ? begun_ : last,
              more ? std::optional(key) : std::nullopt, value);
        if (more) {
            if (!at_) from_behind_ = backward;
            at_ = key;
            returned_[key] = value;
        } else {
            (backward ? reached_low_ : reached_high_) = true;
            EXPECT_TRUE(!at_ || key == *at_) << "the cursor left its last record";
        }
        return more;
    }
    // Runs a command of the scan's transaction. False: it has failed, and the scan with it.
    bool run(const Stage::Command& command) {
        const bool others_wait = stage_.others_wait(*actor_);
        stage_.tell(*actor_, command);
        while (actor_->busy()) {
            waited_ = true;
            EXPECT_NE(isolation_, Isolation::snapshot) << "a snapshot waits";
            if (let_go_()) continue;
            ADD_FAILURE() << "a wait without a reason, or without an end";
            std::abort();  // its thread uses this frame
        }
        if (!actor_->error()) return true;
        ended_ = true;
        const ErrorCode code = actor_->error()->code;
        if (stage_.dropped && code == ErrorCode::no_such_object) return false;
        EXPECT_EQ(code, ErrorCode::deadlock) << actor_->error()->text();
        EXPECT_TRUE(waited_ || others_wait) << "a deadlock without a wait";
        return false;
    }

    // Overwrites the begin of the current record's value through the cursor.
    void patch(const std::string& part) {
        run([&](Actor& self) -> Result<void> {
            if (cursor_->value().size() < part.size()) return {};
            const Result<bool> patched = cursor_->patch(0, part);
            if (!patched.has_value() && patched.error().code == ErrorCode::bad_argument) {
                // Its own transaction, or at read_committed another, has made the value shorter.
                std::string now;
                EXPECT_TRUE(TRY(stage_.index().get(self.txn(), *at_, now)));
                EXPECT_LT(now.size(), part.size());
                return {};
            }
            if (!TRY(patched)) return {};
            // Locked since then, so what it was patched from is the newest.
            const bool put_already = self.changes().contains(*at_);
            std::string value = *seen(stage_.last(), *at_);
            self.note(*at_, value.replace(0, part.size(), part));
            // What was put besides the cursor is none of its value.
            if (isolation_ != Isolation::read_committed && !put_already) {
                EXPECT_EQ(std::string(cursor_->value()), value) << "of " << *at_;
            }
            return {};
        });
    }
    // Judges the whole, and ends the transaction.
    void finish(bool commits) {
        if (!ended_) {
            if (isolation_ == Isolation::repeatable_read || isolation_ == Isolation::serializable)
                judge_whole();
        }
        run([&](Actor& self) -> Result<void> {
            cursor_.reset();
            if (self.in_transaction()) TRY(commits ? self.commit() : self.abort());
            return {};
        });
        ended_ = true;
    }

private:
    // The keys strictly between the position and `key` (none: the range's end) in that direction.
    bool passed(bool backward, const std::string& key, const std::optional<std::string>& to) const {
        if (!range_.contains(key)) return false;
        if (backward) return (!at_ || key < *at_) && (!to || key > *to);
        return (!at_ || key > *at_) && (!to || key < *to);
    }
    // The value of `key` in that state, for this transaction; null: there is none.
    const std::string* seen(size_t number, const std::string& key) const {
        if (const auto own = actor_->changes().find(key); own != actor_->changes().end())
            return own->second ? &*own->second : nullptr;
        const auto it = stage_.state(number).find(key);
        return it == stage_.state(number).end() ? nullptr : &it->second;
    }
    void judge(bool backward, size_t first, size_t last, const std::optional<std::string>& key,
               const std::string& value) {
        bool was_there = false;
        std::set<std::string> always;  // what was passed over, and was there all the time
        for (const auto& [other, _] : stage_.state(first))
            if (passed(backward, other, key)) always.insert(other);
        for (const auto& [other, _] : actor_->changes())
            if (passed(backward, other, key)) always.insert(other);
        for (size_t number = first; number <= last; ++number) {
            const std::string* const then = key ? seen(number, *key) : nullptr;
            was_there |= then && *then == value;
            std::erase_if(always, [&](const std::string& k) { return !seen(number, k); });
        }
        if (key) {
            EXPECT_TRUE(range_.contains(*key)) << *key << " is beyond the bounds";
            EXPECT_TRUE(!at_ || (backward ? *key < *at_ : *key > *at_))
                << *key << " does not come behind " << *at_;
            EXPECT_TRUE(was_there) << *key << " = " << value.substr(0, 20)
                                   << " was committed at no moment of the step";
        }
        EXPECT_TRUE(always.empty())
            << *always.begin() << " was passed over on the way to " << key.value_or("the end");
    }
    bool walked(const std::string& key) const {
        if (!range_.contains(key)) return false;
        if (returned_.empty()) return reached_low_ || reached_high_;
        const bool above = key > returned_.rbegin()->first, below = key < returned_.begin()->first;
        if (from_behind_) return !below || reached_low_;
        return !above || reached_high_;
    }
    void judge_whole() {
        for (const auto& [key, value] : returned_) {
            if (actor_->changes().contains(key)) continue;
            const auto it = stage_.newest().find(key);
            ASSERT_TRUE(it != stage_.newest().end()) << key << " was erased under its lock";
            EXPECT_EQ(it->second, value) << key << " changed under its lock";
        }
        for (const auto& [key, value] : stage_.newest())
            EXPECT_TRUE(isolation_ != Isolation::serializable || !walked(key) ||
                        actor_->changes().contains(key) || returned_.contains(key))
                << key << " is a phantom";
        run([&](Actor& self) -> Result<void> {
            for (const auto& [key, value] : returned_) {
                if (self.changes().contains(key)) continue;
                std::string again;
                EXPECT_TRUE(TRY(stage_.index().get(self.txn(), key, again))) << key;
                EXPECT_EQ(again, value);
            }
            return {};
        });
    }

    Stage& stage_;
    const Isolation isolation_;
    const Range range_;
    const std::function<bool()> let_go_;
    Actor* const actor_;
    const Access access_;
    std::optional<Cursor> cursor_;
    std::optional<std::string> at_;
    State returned_;
    size_t begun_ = 0;
    bool ended_ = false, waited_ = false;
    bool from_behind_ = false, reached_low_ = false, reached_high_ = false;
};

}  // namespace lockstep::isolation
