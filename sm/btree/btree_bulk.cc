// btree_bulk.cc - loading sorted pairs into an empty tree: leaves built full from left to right,
// inner levels on top of them.
//
// Concepts   Pages are written in groups of eight, one redo-only record per group. They are
//            unreachable until the last record formats the root above them. That record belongs to
//            the transaction, so rollback empties the tree. During the load, and again after a
//            rollback, the load is on the drop list. After a crash open() frees the index's pages
//            that its root does not reach. So it does with pages that could not be freed when the
//            load failed or was rolled back: the load stays on the list.
#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/core/cleanup.h"
#include "sm/version/version_table.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kBulkGroup = limits::most::bulk_group;
constexpr size_t kUsable = kPageBytes - kSlotsAt;
static_assert(kBulkGroup * sizeof(PageId) <= sizeof(PageReservation::pages));  // one reservation

// A node being filled: full keys, because its prefix is known only when its fences are.
struct Draft {
    struct Entry {
        uint32_t at;  // of the key in `text`; the value follows
        uint16_t key_bytes, value_bytes, flags;
    };
    std::vector<Entry> entries;
    std::string text;  // keys and values, so that an entry needs no memory of its own
    std::string low;
    PageId first_child = kPageNone;
    size_t bytes = 0;  // without prefix truncation: never too little

    size_t cost(size_t key, size_t value) const { return kSlotCost + key + value; }
    Slice key(const Entry& e) const { return Slice(text).substr(e.at, e.key_bytes); }
    Slice value(const Entry& e) const {
        return Slice(text).substr(e.at + e.key_bytes, e.value_bytes);
    }
    Slice last_key() const { return key(entries.back()); }
    // `fence`: longest upper fence the node can get if the entry goes in.
    bool has_room(size_t key, size_t value, size_t fence, size_t limit) const {
        return entries.empty() || bytes + cost(key, value) + low.size() + fence <= limit;
    }
    void add(Slice key, Slice value, uint16_t flags) {
        DCHECK(entries.empty() || last_key() < key);
        DCHECK(key.size() + value.size() <= kPageBytes);
        bytes += cost(key.size(), value.size());
        entries.push_back({static_cast<uint32_t>(text.size()), static_cast<uint16_t>(key.size()),
                           static_cast<uint16_t>(value.size()), flags});
        text.append(key).append(value);
    }
};

// A finished page: its fences are known, its number and right sibling are given when its group is
// written.
struct Finished {
    Draft draft;
    std::string high;
    bool infinite = false;
};

struct ChildRef {
    std::string low;
    PageId page;
};

class Loader {
public:
    Loader(Env& env, BTree& tree, size_t limit) : env_(env), tree_(tree), limit_(limit) {}

    Result<void> leaf_entry(Slice key, Slice value, uint16_t flags) {
        // A separator is at most one byte longer than the key on its left.
        if (!draft_.has_room(key.size(), value.size(), key.size() + 1, limit_))
            TRY(close(separator(draft_.last_key(), key), 0));
        draft_.add(key, value, flags);
        return {};
    }
    // Everything is in: writes the rest of the leaves and the levels above; then link_root() hangs
    // them into the tree.
    Result<void> write_rest();
    Result<void> link_root(txn::Transaction& txn);
    void note_chain(Slice ref) { chains_.push_back(overflow_ref(ref)); }
    // After an error: nothing refers to the pages yet. False: not all of them could be freed.
    bool free_all() {
        bool all = env_.space->free_now(pages_).has_value();
        for (const OverflowRef& ref : chains_)
            all &= free_overflow(env_, tree_.id(), PageId{ref.first}, ref.chain).has_value();
        return all;
    }

private:
    // The draft's upper fence is `high`: it becomes a finished page, and the next draft begins
    // there.
    Result<void> close(Slice high, unsigned level) {
        assert_state();
        DCHECK(Slice(draft_.low) < high && (draft_.entries.empty() || draft_.last_key() < high));
        DCHECK((level == 0) == (draft_.first_child == kPageNone));
        std::string fence(high);
        finished_.push_back({std::move(draft_), fence, false});
        draft_ = Draft{};
        draft_.low = std::move(fence);
        if (finished_.size() < limits::bulk_group()) return {};
        TRY(write_group(level));
        give_way();
        return {};
    }
    void assert_state() const {
        DCHECK(finished_.size() < limits::bulk_group() && written_.size() <= pages_.size());
        DCHECK(limit_ <= kUsable);
    }
    Result<void> write_group(unsigned level);
    void give_way();
    Result<void> write_level(std::vector<ChildRef> children, unsigned level);
    static std::string records_of(const Draft& draft, size_t prefix_bytes) {
        std::string out;
        out.reserve(kPageBytes);
        for (const Draft::Entry& e : draft.entries)
            RecordWriter{out}.add(e.flags, {}, draft.key(e).substr(prefix_bytes), draft.value(e));
        return out;
    }

    Env& env_;
    BTree& tree_;
    const size_t limit_;
    Draft draft_;
    std::vector<Finished> finished_;
    std::vector<ChildRef> written_;    // pages of the level being written
    std::vector<PageId> pages_;        // all pages of the tree written
    std::vector<OverflowRef> chains_;  // and all chains
    unsigned root_level_ = 0;
    // Written last on the leaf level: waits for its right sibling.
    PageId last_ = kPageNone;
};

Result<void> Loader::write_group(unsigned level) {
    const size_t n = finished_.size();
    if (n == 0) return {};
    DCHECK(n <= kBulkGroup);
    // The page before is latched before the map: the order of every structure change.
    ExclusivePage before;
    const bool link = level == 0 && last_ != kPageNone;
    if (link) before = TRY(env_.pool->fix_exclusive(last_));
    PageReservation space = TRY(env_.space->prepare(static_cast<uint32_t>(n)));
    ExclusivePage pages[kBulkGroup];
    payload::Format formats[kBulkGroup];
    std::string records[kBulkGroup];
    std::vector<ChangePart> parts;
    parts.push_back(space.part());
    const payload::SetChild sibling{space.pages[0].value, payload::kLink, 0};
    if (link)
        parts.push_back(
            {&before, PageAction::btree_set_child, 0, {payload::bytes_of(sibling), {}, {}, {}}});
    const auto drop_all = [&](const Error& error) -> std::unexpected<Error> {
        for (ExclusivePage& page : pages)
            if (page) env_.pool->drop(std::move(page));
        return std::unexpected(error);
    };
    for (size_t i = 0; i < n; ++i) {
        Result<ExclusivePage> fresh = env_.pool->fix_new(space.pages[i]);
        if (!fresh) return drop_all(fresh.error());
        pages[i] = std::move(*fresh);
        const Finished& f = finished_[i];
        DCHECK(f.draft.entries.size() <= kSlotsMax && (!f.infinite || i + 1 == n));
        const PageId right = level == 0 && i + 1 < n ? space.pages[i + 1] : kPageNone;
        records[i] = records_of(f.draft, fence_prefix(f.draft.low, f.high, f.infinite));
        formats[i] = {space.pages[i].value,
                      tree_.id().value,
                      level == 0 ? right.value : f.draft.first_child.value,
                      static_cast<uint16_t>(level),
                      static_cast<uint16_t>(f.draft.entries.size()),
                      static_cast<uint16_t>(f.draft.low.size()),
                      f.infinite ? kInfinite : static_cast<uint16_t>(f.high.size())};
        parts.push_back({&pages[i],
                         PageAction::btree_format,
                         kPartFresh,
                         {payload::bytes_of(formats[i]), f.draft.low, f.high, records[i]}});
    }
    Result<Lsn> done =
        change_pages(env_, nullptr, ChangeRole::system, LogKind::btree_bulk, tree_.id(), parts);
    if (!done) return drop_all(done.error());
    for (size_t i = 0; i < n; ++i) {
        written_.push_back({finished_[i].draft.low, space.pages[i]});
        pages_.push_back(space.pages[i]);
    }
    last_ = space.pages[n - 1];
    finished_.clear();
    return {};
}

// A load never waits by itself, but it fills log that must be recycled. So it lets other threads
// run and gives the checkpoint time to keep up.
void Loader::give_way() {
    const txn::Log& log = *env_.log;
    threads::yield();
    for (int i = 0; i < 2000 && !log.failed() &&
                    log.used_bytes() + log.undo_reserved_bytes() > log.capacity_bytes() / 4 * 3;
         ++i)
        threads::sleep_until(threads::now() + 5 * kMillisecond);
}

Result<void> Loader::write_level(std::vector<ChildRef> children, unsigned level) {
    DCHECK(!children.empty() && children[0].low.empty() && finished_.empty());
    draft_ = Draft{};
    draft_.first_child = children[0].page;
    for (size_t i = 1; i < children.size(); ++i) {
        DCHECK(children[i - 1].low < children[i].low);
        const std::string& key = children[i].low;
        const size_t fence = i + 1 < children.size() ? children[i + 1].low.size() : 0;
        if (!draft_.has_room(key.size(), sizeof(uint32_t), fence, limit_)) {
            // The separator moves up, its child comes first in the next node.
            TRY(close(key, level));
            draft_.first_child = children[i].page;
            continue;
        }
        draft_.add(key, payload::bytes_of(children[i].page.value), 0);
    }
    return {};
}

Result<void> Loader::write_rest() {
    std::vector<ChildRef> children;
    for (unsigned level = 0;; ++level) {
        root_level_ = level;
        // The draft is all there is on this level.
        if (written_.empty() && finished_.empty()) return {};
        finished_.push_back({std::move(draft_), {}, true});
        TRY(write_group(level));
        children = std::exchange(written_, {});
        TRY(write_level(std::move(children), level + 1));
    }
}

Result<void> Loader::link_root(txn::Transaction& txn) {
    ExclusivePage root = TRY(env_.pool->fix_exclusive(tree_.root()));
    if (!tree_.is_empty_root(*root))
        return fail(ErrorCode::bad_argument, "bulk load into an index that is not empty",
                    tree_.id().value);
    assert_state();
    DCHECK(draft_.low.empty() && finished_.empty() && written_.empty());
    DCHECK((root_level_ == 0) == (draft_.first_child == kPageNone));
    const std::string records = records_of(draft_, 0);
    const payload::Format format{tree_.root().value,
                                 tree_.id().value,
                                 draft_.first_child.value,
                                 static_cast<uint16_t>(root_level_),
                                 static_cast<uint16_t>(draft_.entries.size()),
                                 0,
                                 kInfinite};
    ChangePart part{
        &root, PageAction::btree_format, kPartFresh, {payload::bytes_of(format), {}, {}, records}};
    TRY(change_pages(env_, &txn, ChangeRole::forward, LogKind::btree_bulk, tree_.id(), {&part, 1}));
    return {};
}

// False: there was nothing to load.
Result<bool> load_all(Env& env, BTree& tree, txn::Transaction& txn, Loader& loader,
                      std::move_only_function<bool(Slice& key, Slice& value)>& next) {
    std::string before;
    bool any = false;
    for (Slice key, value; next(key, value); any = true) {
        if (key.size() > kKeyBytesMax || value.size() > kValueBytesMax) {
            TRY(check_write(txn, key.size(), value.size()));
        }
        if (any && key <= Slice(before))
            return fail(ErrorCode::bad_argument, "bulk load's keys do not ascend", tree.id().value);
        before.assign(key);
        if (!too_large(key.size(), value.size())) {
            TRY(loader.leaf_entry(key, value, 0));
            continue;
        }
        const Result<std::string> ref = write_overflow(env, nullptr, tree.id(), value);
        if (!ref) {
            tree.keep_load_listed();  // the begin of the chain may be left
            return std::unexpected(ref.error());
        }
        loader.note_chain(*ref);
        TRY(loader.leaf_entry(key, *ref, kOverflow));
    }
    if (any) TRY(loader.write_rest());
    return any;
}

// The load stands on the drop list until the transaction that hangs it into the tree has committed.
class ListedLoad {
public:
    ListedLoad(Env& env, ObjectId object)
        : env_(env), entry_{DropKind::load, object, kPageNone, env.log->tail().value} {}
    Result<void> begin(txn::Transaction& txn, const BTree& tree) {
        DCHECK(tree.id() == entry_.object);
        if (!env_.drops) return {};
        TRY(run_system_txn(env_,
                           [&](txn::Transaction& own) { return env_.drops->add(own, entry_); }));
        // Removes an entry that is still there: not removed because the load failed, or restored by
        // rollback. If pages of it are left, the next open needs the entry. A tree lives until the
        // store is closed (CA-1).
        at_end(txn, [&env = env_, &tree, entry = entry_](bool) {
            if (!tree.load_stays_listed()) (void)env.drops->remove_now({&entry, 1});
        });
        return {};
    }
    Result<void> end(txn::Transaction& txn) {
        if (!env_.drops) return {};
        return env_.drops->remove(txn, entry_);
    }

private:
    Env& env_;
    const DropEntry entry_;
};

}  // namespace

bool BTree::is_empty_root(const Page& root) const {
    return is_leaf(root) && count(root) == 0 &&
           (env_.versions == nullptr || !env_.versions->erased().any_of(id_));
}

Result<bool> BTree::is_empty() const {
    const SharedPage root = TRY(env_.pool->fix_shared(root_));
    return is_empty_root(*root);
}

Result<void> BTree::bulk_load(txn::Transaction& txn,
                              std::move_only_function<bool(Slice& key, Slice& value)> next,
                              uint32_t fill) {
    if (!writable(txn, 0, 0)) TRY(check_write(txn, 0, 0));
    if (fill < 50 || fill > 100) return fail(ErrorCode::bad_argument, "fill", fill);
    if (!TRY(is_empty()))
        return fail(ErrorCode::bad_argument, "bulk load into an index that is not empty",
                    id_.value);
    ListedLoad listed(env_, id_);
    TRY(listed.begin(txn, *this));
    Loader loader(env_, *this, kUsable * fill / 100);
    const auto load = [&]() -> Result<void> {
        if (!TRY(load_all(env_, *this, txn, loader, next))) return {};
        // Before the link: a rollback empties the tree first, then lists what it left.
        TRY(listed.end(txn));
        // Before it can be seen. The tree has no record, not even an erased one, so no snapshot
        // sees one.
        TRY(history_.loaded_by(txn));
        return loader.link_root(txn);
    };
    Result<void> done = load();
    if (!done && !loader.free_all()) keep_load_listed();
    return done;
}

// The tree was empty before. It becomes empty again, and then its pages are freed.
Result<void> BTree::undo_bulk(txn::Transaction& txn, const txn::LogRecordView& record) {
    Report report = TRY(verify());
    ExclusivePage root = TRY(env_.pool->fix_exclusive(root_));
    const payload::Format format{root_.value, id_.value, kPageNone.value, 0, 0, 0, kInfinite};
    ChangePart part{
        &root, PageAction::btree_format, kPartFresh, {payload::bytes_of(format), {}, {}, {}}};
    TRY(change_pages(env_, &txn, ChangeRole::compensation, LogKind::btree_bulk, id_, {&part, 1},
                     Lsn{record.header->prev}));
    leaves_freed_.fetch_add(1, std::memory_order_release);
    root.release();
    std::erase(report.pages, root_);
    const Result<void> freed = env_.space->free_now(report.pages);
    // A fault hides what lies below it.
    if (!freed || !report.faults.empty()) keep_load_listed();
    if (freed || env_.failed()) return freed;
    env_.report(1, "space of a load that was rolled back is freed at the next open: " +
                       freed.error().text());
    return {};
}

}  // namespace lockstep::sm
