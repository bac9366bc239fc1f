// labels: unit
// touched_lines_test.cc - how many cache lines of a transaction and of its thread each step of its
// life touches. A field that moves to another line fails here.
#include <gtest/gtest.h>

#include <set>

#include "txn/transaction.h"

namespace lockstep::txn::touched_lines_test {

// Fields of one object, as the lines that they lie in.
template <class T>
class Lines {
public:
    template <class... Fields>
    Lines& touch(const Fields&... fields) {
        (add(&fields, sizeof fields), ...);
        return *this;
    }
    size_t count() const { return lines_.size(); }
    T object{};

private:
    void add(const void* field, size_t bytes) {
        const auto at = static_cast<size_t>(static_cast<const char*>(field) -
                                            reinterpret_cast<const char*>(&object));
        for (size_t line = at / kCacheLineBytes; line <= (at + bytes - 1) / kCacheLineBytes; ++line)
            lines_.insert(line);
    }
    std::set<size_t> lines_;
};

constexpr uint32_t kPaymentObjects = 5, kNewOrderObjects = 9;

void begin(Lines<Transaction>& l) {
    Transaction& t = l.object;
    l.touch(t.id, t.slot, t.state, t.isolation, t.durability, t.read_only, t.heed, t.thread,
            t.thread_id, t.last_lsn, t.undo_next, t.savepoints, t.generation, t.shard, t.began,
            t.next_free);
    l.touch(t.locks.txn, t.locks.thread, t.locks.timeout, t.locks.work, t.locks.priority,
            t.locks.operations);
}
// The first lock on a record of each object.
void lock(Lines<Transaction>& l, uint32_t objects) {
    LockOwner& o = l.object.locks;
    l.touch(o.next, o.end, o.locks_held, o.slot, o.intents_used, o.intent_hint, o.intents_of);
    for (uint32_t i = 0; i < objects; ++i) l.touch(o.intents[i], o.noted[i]);
}
// A log record, without what sm keeps in Transaction::upper.
void change(Lines<Transaction>& l) {
    Transaction& t = l.object;
    l.touch(t.id, t.state, t.heed, t.first_lsn, t.last_lsn, t.undo, t.locks.work);
}
void commit(Lines<Transaction>& l, uint32_t objects) {
    Transaction& t = l.object;
    l.touch(t.state, t.thread, t.durability, t.first_lsn, t.last_lsn, t.id, t.undo, t.shard,
            t.next_free, t.slot);
    LockOwner& o = t.locks;
    l.touch(o.next, o.chunk, o.locks_held, o.slot, o.names_unsure, o.intents_used, o.intents_of,
            o.strong_unlisted, o.waits, o.seen);
    for (uint32_t i = 0; i < objects; ++i) l.touch(o.intents[i], o.noted[i]);
}

TEST(TouchedLines, OfATransaction) {
    Lines<Transaction> begins, locks, changes, commits;
    begin(begins);
    EXPECT_EQ(begins.count(), 3u);
    lock(locks, 1);
    EXPECT_EQ(locks.count(), 3u);
    change(changes);
    EXPECT_EQ(changes.count(), 2u);
    commit(commits, 1);
    EXPECT_EQ(commits.count(), 6u);
}

TEST(TouchedLines, OfWholeTransactions) {
    for (const auto& [objects, most] : {std::pair{kPaymentObjects, 7u}, {kNewOrderObjects, 9u}}) {
        Lines<Transaction> all;
        begin(all);
        lock(all, objects);
        change(all);
        commit(all, objects);
        EXPECT_EQ(all.count(), most) << objects << " objects";
    }
}

TEST(TouchedLines, OfTheNamesOfALock) {
    Lines<LockOwner::Chunk> payment;
    for (int i = 0; i < 6; ++i) payment.touch(payment.object.names[i]);
    EXPECT_EQ(payment.count(), 1u);
    EXPECT_EQ(sizeof(Intent) * 4, kCacheLineBytes);
}

// begin() and an operation on a thread that does not wait.
TEST(TouchedLines, OfAThread) {
    Lines<threads::Thread> lines;
    threads::Thread& t = lines.object;
    lines.touch(t.sp, t.next, t.latch_depth, t.state, t.worker, t.fast_form, t.team_rounds,
                t.team_stays, t.id, t.task);
    EXPECT_EQ(lines.count(), 1u);
}

}  // namespace lockstep::txn::touched_lines_test
