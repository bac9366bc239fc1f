// btree_insert_many.cc - inserting many records: a run of ascending keys that become neighbours is
// one change of its leaf.
//
// Concepts   A run shares what a single insert does alone: one descent, one latch, one gap check,
//            one log record. All keys of a run go into the same gap between two keys of the leaf.
//            Each key still has its own lock, taken before the leaf is latched.
//            A run is as long as the leaf has space. It ends before a record that needs more: an
//            existing key or ghost, a gap that another transaction reads, a full leaf, a large
//            value. That record is inserted alone, and the next run begins after it.
//            Undo logs one compensation for each key (btree_undo.cc); the log space for them is
//            reserved before.
#include <lockstep/index.h>
#include "sm/btree/btree_impl.h"
#include "sm/btree/btree_key_order.h"
#include "sm/core/lock_wait.h"
#include "threads/base/limits.h"
#include "threads/base/unmade.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kRunMax = limits::most::insert_run;  // records
constexpr size_t kKeyRoom = 48;                       // longer keys are inserted alone
constexpr size_t kRunBytes = 2048;                    // of payload
static_assert(kKeyRoom <= kKeyBytesMax && kRunBytes < kPageBytes - kSlotsAt);

class Run {
public:
    Run(BTree& tree, Env& env, txn::Transaction& txn, std::span<const NewRecord> records)
        : tree_(tree),
          env_(env),
          txn_(txn),
          records_(records.first(std::min<size_t>(records.size(), limits::insert_run()))) {}

    // How many records from the front are in; 0: the first must go in alone.
    Result<size_t> insert();

private:
    void set_keys();
    Result<void> lock();
    bool fits_between(const BTree::Target& t, size_t n) const;
    Result<void> log(BTree::Target& t) const;
    KeyView key(size_t i) const { return {text_[i], records_[i].key.size()}; }

    BTree& tree_;
    Env& env_;
    txn::Transaction& txn_;
    const std::span<const NewRecord> records_;
    size_t count_ = 0;  // of the records, those that may be one run
    Unmade<txn::LockName, kRunMax> names_;
    char text_[kRunMax][kKeyRoom + 16];
};

// The run ends where keys do not ascend and where the payload would be too long.
void Run::set_keys() {
    size_t bytes = sizeof(payload::PutMany);
    for (const NewRecord& record : records_) {
        bytes += sizeof(payload::RecordHead) + record.key.size() + record.value.size();
        if (record.key.size() > kKeyRoom || bytes > kRunBytes ||
            (count_ > 0 && !key_below(records_[count_ - 1].key, record.key)))
            break;
        put_key(text_[count_], record.key);
        const txn::LockName name = key(count_).lock_name(tree_.id());
        new (&names_.items[count_]) txn::LockName(name);
        env_.locks->prefetch(name);
        ++count_;
    }
}

Result<void> Run::lock() {
    DCHECK(threads::current()->latch_depth == 0);  // BT-3
    const std::span<const txn::LockName> names(names_.items, count_);
    for (size_t i = 0; i < count_; ++i) {
        i += env_.locks->try_lock_records(txn_.locks, tree_.lock(), names.subspan(i),
                                          txn::LockMode::X);
        if (i < count_) [[unlikely]]
            TRY(wait_for_key(*env_.locks, txn_.locks, {tree_.lock(), names[i], txn::LockMode::X},
                             key(i)));
    }
    return {};
}

// Do the first `n` records belong side by side before the target's slot, and do they fit? Keys
// ascend, so the last key decides.
bool Run::fits_between(const BTree::Target& t, size_t n) const {
    DCHECK(n >= 1 && n <= count_);
    const Page& page = *t.page;
    const KeyView last = key(n - 1);
    if (!high_infinite(page) && compare_fence(last, high(page), page) >= 0) return false;
    bool exact;
    if (find(page, last, exact) != t.slot || exact) return false;
    size_t bytes = 0;
    for (size_t i = 0; i < n; ++i)
        bytes +=
            kSlotCost + records_[i].key.size() - header(page).prefix + records_[i].value.size();
    return bytes <= free_bytes(page);
}

Result<void> Run::log(BTree::Target& t) const {
    constexpr uint32_t kUndoBytes = 128;  // a compensation record without its key
    char bytes[kRunBytes];
    char* end = bytes;
    uint32_t undo = 0;
    for (size_t i = 0; i < count_; ++i) {
        const payload::RecordHead head{static_cast<uint16_t>(records_[i].key.size()),
                                       static_cast<uint16_t>(records_[i].value.size())};
        store(end, head);
        end = copy_bytes(copy_bytes(end + sizeof head, records_[i].key), records_[i].value);
        undo += kUndoBytes + static_cast<uint32_t>(records_[i].key.size());
    }
    t.assert_state();
    DCHECK(!t.found && count_ >= 2 && count_ <= kRunMax);
    DCHECK(sizeof(payload::PutMany) + static_cast<size_t>(end - bytes) <= kRunBytes);
    const payload::PutMany head{static_cast<uint16_t>(t.slot), static_cast<uint16_t>(count_)};
    ChangePart part{&t.page,
                    PageAction::btree_put_many,
                    0,
                    {payload::bytes_of(head), Slice(bytes, static_cast<size_t>(end - bytes))},
                    undo};
    TRY(change_pages(env_, &txn_, ChangeRole::forward, LogKind::btree_insert_many, tree_.id(),
                     {&part, 1}));
    return {};
}

Result<size_t> Run::insert() {
    set_keys();
    if (count_ < 2) return size_t{0};
    TRY(lock());
    if (tree_.upkeep() != nullptr) [[unlikely]]
        return size_t{0};  // since the locks were asked for (UP-1)
    BTree::Target t;
    TRY(tree_.latch_for(txn_, records_[0].key, false, t));
    if (t.found) return size_t{0};
    while (count_ >= 2 && !fits_between(t, count_)) count_ /= 2;
    if (count_ < 2) return size_t{0};
    BTree::NextKey next;
    if (TRY(tree_.check_gap(*env_.locks, txn_, t, names_.items[0], next)) != BTree::GapCheck::clear)
        return size_t{0};
    TRY(log(t));
    t.page.release();
    tree_.remember(txn_, t.id, t.slot + static_cast<unsigned>(count_) - 1, t.leaves_freed);
    return count_;
}

}  // namespace

Result<size_t> BTree::insert_run(txn::Transaction& txn, std::span<const NewRecord> records) {
    // Gaps that it reads itself are cut in two one by one.
    if (local_of(txn).gap_reader == txn.id || !writable(txn, 0, 0)) return size_t{0};
    if (upkeep() != nullptr) [[unlikely]]
        return size_t{0};  // each record alone
    return Run(*this, env_, txn, records).insert();
}

Result<void> BTree::insert_many(txn::Transaction& txn, std::span<const NewRecord> records) {
    while (!records.empty()) {
        size_t done = records.size() > 1 ? TRY(insert_run(txn, records)) : 0;
        if (done == 0) {
            TRY(insert(txn, records.front().key, records.front().value));
            done = 1;
        }
        DCHECK(done <= records.size());
        records = records.subspan(done);
    }
    return {};
}

}  // namespace lockstep::sm
