// pass.cc - the turns of a server: which chunk, its blocks, who gets them, what is kept.
#include "sm/scan/pass.h"

#include <algorithm>

#include "threads/base/try.h"

namespace lockstep::sm::scan {

namespace {

constexpr uint32_t kPassedOverMax = 16;

constexpr uint32_t kAnyColumns[] = {1};  // blocks are kept and dropped as a whole

// May the scan have this chunk next? One that is ordered takes its chunks as they ascend.
bool may_take(const ScanState& scan, size_t chunk) {
    return scan.needed.has(chunk) && (!scan.ordered || scan.needed.next(0) == chunk);
}

Error error_of(const Unexpected& failure) { return failure.error(); }

// A group of the turn while its snapshot is read.
struct OpenGroup {
    std::shared_ptr<Group> group;
    std::unique_ptr<Reading> reading;
};

std::vector<uint16_t> all_wanted(std::span<const ScanState* const> scans) {
    std::vector<uint16_t> out;
    for (const ScanState* scan : scans) {
        if (std::ranges::includes(out, scan->wanted)) continue;
        std::vector<uint16_t> sum;
        std::ranges::set_union(out, scan->wanted, std::back_inserter(sum));
        out = std::move(sum);
    }
    return out;
}

// The rows of a block that the scan wants, as blocks of its own columns.
Result<void> cut_out(const ScanState& scan, const std::shared_ptr<const BlockData>& block,
                     std::vector<Block>& out) {
    DCHECK(block->rows > 0 && block->has(scan.wanted));
    std::shared_ptr<const BlockData> rows = block;
    if (!scan.filter.empty()) {
        std::vector<uint32_t> chosen;
        scan.filter.select(*block, chosen);
        if (chosen.empty()) return {};
        if (chosen.size() < block->rows) {
            rows = pick(*block, scan.given, chosen);
            if (!rows) return fail(ErrorCode::out_of_memory, "block of columns");
            DCHECK(rows->rows == chosen.size());
        }
    }
    out.push_back(Selected::block(std::move(rows), scan.selected));
    return {};
}

}  // namespace

void Service::serve(const std::shared_ptr<Pass>& pass) {
    Pacer pacer = this->pacer();
    std::unique_lock lock(mutex_);
    DCHECK(threads::current() != nullptr && !pass->cut);
    while (!stopping_ && take_in(*pass, lock)) {
        pass->assert_state();
        Turn turn;
        if (!choose(*pass, turn)) {
            if (pass->scans.empty()) break;
            pacer.waits();
            pass->wake.wait(mutex_, [&] { return std::exchange(pass->poked, false); });
            pacer.waited();
            continue;
        }
        lock.unlock();
        make(*pass, turn, pacer);
        count(counters_.busy_nanos, pacer.take_used());
        lock.lock();
        deliver(*pass, turn);
        keep(*pass, turn);
    }
    if (stopping_) end_all(*pass, error_of(fail(ErrorCode::store_closed, "report")));
    forget(pass);
}

// Takes new scans in, and cuts the index for the first of them. False: it cannot be cut, or the
// store closes.
bool Service::take_in(Pass& pass, std::unique_lock<Mutex>& lock) {
    if (!pass.cut) {
        lock.unlock();
        Result<std::vector<std::string>> cuts = cut_object(pass.object);
        lock.lock();
        if (!cuts) {
            end_all(pass, cuts.error());
            return false;
        }
        DCHECK(std::ranges::is_sorted(*cuts) && !pass.cut);
        pass.cuts = std::move(*cuts);
        pass.cut = true;
        if (stopping_) return false;
    }
    admit(pass);
    return true;
}

// Each begins at once, for nobody may wait for another scan's consumer (RB-2). The policy says
// where, and with whom it shares; the first of them names it.
void Service::admit(Pass& pass) {
    const auto ended = [](const auto& scan) { return scan->ended; };
    std::erase_if(pass.scans, ended);
    std::erase_if(pass.fresh, ended);
    if (pass.fresh.empty()) return;
    if (pass.scans.empty()) pass.choose_policy(hooks_.pool_bytes);
    std::vector<Waiting> waiting;
    for (const auto& scan : pass.fresh) {
        scan->assert_state();
        DCHECK(scan->queue.empty() && scan->batch == kNoBatch);
        scan->needed = ChunkSet(pass.chunks());
        for (size_t i = 0; i < pass.chunks(); ++i)
            if (std::ranges::any_of(scan->ranges, [&](const KeyRange& range) {
                    return range.meets(pass.range(i));
                }))
                scan->needed.add(i);
        scan->left = scan->total = scan->needed.count();
        waiting.push_back({.needs = &scan->needed});
    }
    pass.policy->admit(pass.look(), {.next_batch = pass.next_batch}, waiting);
    for (size_t i = 0; i < waiting.size(); ++i) {
        ScanState& scan = *pass.fresh[i];
        scan.batch = waiting[i].batch;
        DCHECK(scan.batch != kNoBatch);
        pass.next_batch = std::max(pass.next_batch, scan.batch + 1);
        scan.begin = scan.ordered ? 0 : waiting[i].begin;
        scan.served = pass.turns;
        if (scan.left == 0) end(scan, {});
        pass.scans.push_back(std::move(pass.fresh[i]));
    }
    pass.fresh.clear();
}

void Pass::choose_policy(uint64_t pool_bytes) {
    ScanPolicy chosen = fresh.front()->policy;
    if (chosen == ScanPolicy::automatic)
        chosen = chunks() * kChunkPages * kPageBytes > pool_bytes ? ScanPolicy::relevance
                                                                  : ScanPolicy::full;
    policy = &policy_of(chosen);
    used.resize(chunks());
    loaded.assign(1, ChunkSet(chunks()));
    pinned = ChunkSet(chunks());
}

PassView Pass::look() {
    DCHECK(policy != nullptr && loaded.size() == 1);
    loaded[0] = ChunkSet(chunks());
    usable.assign(scans.size(), loaded[0]);
    views.clear();
    for (const Made& made : kept) loaded[0].add(made.chunk);
    for (size_t i = 0; i < scans.size(); ++i) {
        const ScanState& scan = *scans[i];
        for (const Made& made : kept)
            if (may_take(scan, made.chunk) && made.serves(scan)) usable[i].add(made.chunk);
        views.push_back({.needs = &scan.needed,
                         .there = &usable[i],
                         .left = scan.left,
                         .ready = usable[i].count() + scan.queue.size(),
                         .batch = scan.batch,
                         .begin = scan.begin,
                         .served = scan.served,
                         .waited = scan.passed_over,
                         .takes = !scan.ended && !scan.sated()});
    }
    return {.chunks = chunks(),
            .cursor = cursor,
            .scans = views,
            .there = loaded,
            .column_pages = kAnyColumns,
            .pinned = &pinned,
            .used = used};
}

std::pair<ScanState*, size_t> Pass::next() {
    const PassView view = look();
    const Policy& in_order = policy_of(ScanPolicy::normal);
    const auto row = [&](size_t i) -> const Policy& {
        return scans[i]->ordered ? in_order : *policy;
    };
    std::optional<size_t> due, served;
    for (size_t i = 0; i < scans.size(); ++i) {
        const uint32_t waits = scans[i]->passed_over;
        if (!views[i].takes) continue;
        if (waits >= kPassedOverMax && (!due || waits > scans[*due]->passed_over)) due = i;
        if (!kept.empty() && row(i).use(view, views[i]) &&
            (!served || waits > scans[*served]->passed_over))
            served = i;
    }
    if (due) served = due;
    if (!served) {
        const ScanView* const whom = policy->whom(view);
        if (whom == nullptr) return {};
        served = static_cast<size_t>(whom - views.data());
    }
    const ScanView& scan = views[*served];
    const auto there = row(*served).use(view, scan);
    const size_t chunk = there ? *there : row(*served).load(view, scan).chunk;
    DCHECK(scan.takes && may_take(*scans[*served], chunk));
    return {scans[*served].get(), chunk};
}

// A chunk for one scan, which the others of its batch share.
bool Service::choose(Pass& pass, Turn& turn) {
    std::erase_if(pass.scans, [](const auto& scan) { return scan->ended; });
    // Groups that only this list still has.
    std::erase_if(pass.made_for, [](const auto& one) { return one.first.use_count() == 1; });
    if (pass.scans.empty()) return false;
    const auto [first, chunk] = pass.next();
    if (first == nullptr) return false;
    DCHECK(!first->sated() && !first->ended);
    turn.chunk = chunk;
    for (const auto& scan : pass.scans) {
        if (scan->ended || scan->sated()) continue;
        if (scan->batch == first->batch && may_take(*scan, chunk)) {
            scan->passed_over = 0;
            turn.shares.push_back({scan});
        } else {
            ++scan->passed_over;
            DCHECK(scan->passed_over <= kPassedOverMax + pass.scans.size());  // RB-5
        }
    }
    DCHECK(!turn.shares.empty() && first->passed_over == 0);
    first->served = pass.used[chunk] = ++pass.turns;
    pass.cursor = (chunk + 1) % pass.chunks();
    if (const size_t next = first->needed.next(pass.cursor); next != chunk) turn.next = next;
    for (const Made& made : pass.kept)
        if (made.chunk == turn.chunk) turn.made.push_back(made);
    turn.kept = turn.made.size();
    return true;
}

// Makes the blocks of one turn.
class Service::Maker {
public:
    Maker(Pass& pass, Turn& turn, Pacer& pacer, Counters& counters)
        : pass_(pass), turn_(turn), pacer_(pacer), counters_(counters) {}
    void open_groups();
    void fill_shares();
    void cool_down();

private:
    Result<void> read(const OpenGroup& one, const std::vector<uint16_t>& columns);
    Result<const Made*> made_for(const ScanState& scan);
    Result<void> fill(Turn::Share& share);
    void look_ahead();
    void ask_ahead();

    Pass& pass_;
    Turn& turn_;
    Pacer& pacer_;
    Counters& counters_;
    std::vector<OpenGroup> open_;
    std::vector<uint16_t> columns_;  // that any scan of the turn wants
    bool looked_ = false;
    std::vector<PageId> ahead_;  // in the order in which they are needed
    size_t asked_ = 0;           // of these, for how many the pool was asked
    unsigned leaves_ = 0;        // that were read
};

// The snapshot with the oldest quiet place comes first: what is quiet for it is so for all others
// (RB-3).
void Service::Maker::open_groups() {
    std::vector<const ScanState*> scans;
    for (const Turn::Share& share : turn_.shares) {
        scans.push_back(share.scan.get());
        const auto& group = share.scan->group;
        if (std::ranges::find(open_, group, &OpenGroup::group) == open_.end())
            open_.push_back({group, std::make_unique<Reading>(*group)});
    }
    std::erase_if(open_, [](const OpenGroup& one) { return !*one.reading; });
    std::ranges::sort(open_, {},
                      [](const OpenGroup& one) { return one.reading->snapshot().quiet; });
    DCHECK(!scans.empty() && open_.size() <= scans.size());
    columns_ = all_wanted(scans);
}

// Looks for the leaves of this chunk, and of the one that the pass takes probably next.
void Service::Maker::look_ahead() {
    if (std::exchange(looked_, true)) return;
    const auto look = [&](size_t chunk) {
        std::vector<PageId> pages = missing_pages(pass_.object, pass_.range(chunk));
        ahead_.insert(ahead_.end(), pages.begin(), pages.end());
        std::vector<PageId>& brought = pass_.brought[chunk];
        if (brought.empty()) brought = std::move(pages);  // else some are still being read
    };
    look(turn_.chunk);
    if (turn_.next) look(*turn_.next);
}

// The pool takes no more than it has free frames for, so it is asked again while the pass reads;
// not after each leaf, because neighbours are read in one transfer.
void Service::Maker::ask_ahead() {
    constexpr unsigned kLeavesBetween = 8;
    if (asked_ == ahead_.size() || leaves_++ % kLeavesBetween != 0) return;
    asked_ += pool_of(pass_.object).read_ahead(std::span(ahead_).subspan(asked_));
    DCHECK(asked_ <= ahead_.size());
}

// What was not in memory before need not stay there.
void Service::Maker::cool_down() {
    const auto at = pass_.brought.find(turn_.chunk);
    if (at == pass_.brought.end()) return;
    if (!at->second.empty()) pool_of(pass_.object).cool(at->second);
    pass_.brought.erase(at);
}

Result<void> Service::Maker::read(const OpenGroup& one, const std::vector<uint16_t>& columns) {
    look_ahead();
    ask_ahead();
    const auto rest = [&] {
        ask_ahead();
        pacer_.rest();
    };
    auto chunk = TRY(read_chunk(pass_.object, one.reading->snapshot(), pass_.range(turn_.chunk),
                                *pass_.columns, columns, rest));
    const Lsn newest = chunk.newest;
    Made made{.chunk = turn_.chunk,
              .columns = columns,
              .groups = {one.group},
              .blocks = std::make_shared<const MadeChunk>(std::move(chunk)),
              .brought = !pass_.brought[turn_.chunk].empty()};
    // Quiet for both: neither has looked a record up.
    const bool was_quiet = newest <= one.reading->snapshot().quiet;
    for (const OpenGroup& other : open_)
        if (was_quiet && other.group != one.group && newest <= other.reading->snapshot().quiet)
            made.groups.push_back(other.group);
    made.assert_state();
    DCHECK(newest <= one.reading->snapshot().sees || made.groups.size() == 1);  // RB-3
    count(counters_.made);
    count(counters_.bytes, made.blocks->bytes());
    for (const auto& block : made.blocks->blocks) count(counters_.rows, block->rows);
    turn_.made.push_back(std::move(made));
    return {};
}

// What serves the scan; it is made if there is nothing.
Result<const Made*> Service::Maker::made_for(const ScanState& scan) {
    const auto find = [&]() -> const Made* {
        const auto made =
            std::ranges::find_if(turn_.made, [&](const Made& one) { return one.serves(scan); });
        return made != turn_.made.end() ? &*made : nullptr;
    };
    if (const Made* const made = find()) return made;
    const auto group = std::ranges::find(open_, scan.group, &OpenGroup::group);
    if (group == open_.end()) return fail(ErrorCode::store_closed, "report");
    Result<void> done = read(*group, columns_);
    // A record may not fit a column that only another scan has asked for.
    if (!done && done.error().code == ErrorCode::bad_argument && columns_ != scan.wanted)
        done = read(*group, scan.wanted);
    if (!done) return std::unexpected(done.error());
    const Made* const made = find();
    DCHECK(made != nullptr && made->chunk == turn_.chunk);
    return made;
}

Result<void> Service::Maker::fill(Turn::Share& share) {
    const Made& made = *TRY(made_for(*share.scan));
    for (const auto& block : made.blocks->blocks) TRY(cut_out(*share.scan, block, share.blocks));
    return {};
}

// In the order of the groups; those without a snapshot last.
void Service::Maker::fill_shares() {
    std::ranges::sort(turn_.shares, {}, [&](const Turn::Share& share) {
        return std::ranges::find(open_, share.scan->group, &OpenGroup::group) - open_.begin();
    });
    for (Turn::Share& share : turn_.shares)
        if (const Result<void> filled = fill(share); !filled) share.error = filled.error();
}

void Service::make(Pass& pass, Turn& turn, Pacer& pacer) {
    DCHECK(threads::current()->latch_depth == 0 && pass.cut);
    Maker maker(pass, turn, pacer, counters_);
    maker.open_groups();
    maker.fill_shares();
    maker.cool_down();
}

void Service::deliver(Pass& pass, Turn& turn) {
    uint64_t given = 0;
    for (Turn::Share& share : turn.shares) {
        ScanState& scan = *share.scan;
        scan.assert_state();
        if (scan.ended) continue;
        DCHECK(!scan.sated());
        if (share.error.code != ErrorCode::none) {
            end(scan, share.error);
            continue;
        }
        DCHECK(scan.needed.has(turn.chunk) && scan.left > 0);  // RB-1
        scan.needed.remove(turn.chunk);
        --scan.left;
        ++given;
        DCHECK(scan.needed.count() == scan.left);
        for (Block& block : share.blocks) scan.queue.push_back(std::move(block));
        if (scan.left == 0) end(scan, {});
        else if (!share.blocks.empty()) scan.announce();
    }
    DCHECK(turn.made.size() >= turn.kept);
    const uint64_t fresh = turn.made.size() - turn.kept;
    if (given > fresh) count(counters_.shared, given - fresh);
    for (size_t i = turn.kept; i < turn.made.size(); ++i)
        for (const auto& group : turn.made[i].groups) {
            std::vector<bool>& before = pass.made_for[group];
            before.resize(pass.chunks());
            if (before[turn.chunk]) count(counters_.made_again);
            before[turn.chunk] = true;
        }
}

// Keeps what a scan of the pass still needs, and what was read from disk, for scans of the same
// state that come later. If it is too much, the latter goes first. Then the policy says what goes.
void Service::keep(Pass& pass, Turn& turn) {
    for (size_t i = turn.kept; i < turn.made.size(); ++i) {
        turn.made[i].assert_state();
        DCHECK(turn.made[i].chunk == turn.chunk);
        kept_bytes_ += turn.made[i].blocks->bytes();
        pass.kept.push_back(std::move(turn.made[i]));
    }
    const auto drop = [&](const Made& made) {
        DCHECK(kept_bytes_ >= made.blocks->bytes());
        kept_bytes_ -= made.blocks->bytes();
        return true;
    };
    const auto is_of_use = [&](const Made& made, bool now) {
        return std::ranges::any_of(pass.scans, [&](const auto& scan) {
            return !scan->ended && (!now || scan->needed.has(made.chunk)) && made.serves(*scan);
        });
    };
    std::erase_if(pass.kept,
                  [&](const Made& made) { return !is_of_use(made, !made.brought) && drop(made); });
    if (kept_bytes_ > hooks_.bytes)
        std::erase_if(pass.kept, [&](const Made& made) {
            return kept_bytes_ > hooks_.bytes && !is_of_use(made, true) && drop(made);
        });
    while (kept_bytes_ > hooks_.bytes && !pass.kept.empty()) {
        const Place any{.chunk = pass.chunks(), .score = std::numeric_limits<uint64_t>::max()};
        // A policy that would wait for its scans does not get its way (RB-2).
        const auto victim = pass.policy->evict(pass.look(), any);
        const auto at = std::ranges::find(
            pass.kept, victim ? victim->chunk : pass.kept.front().chunk, &Made::chunk);
        DCHECK(at != pass.kept.end());
        drop(*at);
        pass.kept.erase(at);
    }
    DCHECK(kept_bytes_ <= hooks_.bytes);  // RB-4
}

}  // namespace lockstep::sm::scan
