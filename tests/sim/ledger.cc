// ledger.cc - checking reads against the serial order, and recovered contents against what was
// promised.
#include "tests/sim/ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::sim {

const Rows& Ledger::rows(const std::string& object) const {
    static const Rows kNone;
    const auto found = model_.find(object);
    return found == model_.end() ? kNone : found->second.rows;
}

const std::vector<Ledger::Version>* Ledger::versions(const std::string& object,
                                                     const std::string& key) const {
    const auto of_object = history_.find(object);
    if (of_object == history_.end()) return nullptr;
    const auto of_key = of_object->second.find(key);
    return of_key == of_object->second.end() ? nullptr : &of_key->second;
}

size_t Ledger::commit_called(std::string marker, Changes changes,
                             const std::vector<Observation>& reads,
                             const std::vector<size_t>& weakly_read_from, bool durable,
                             const std::string& who) {
    Commit c{.marker = std::move(marker),
             .changes = std::move(changes),
             .read_from = {},
             .called = tick(),
             .durable = durable,
             .fault = check(reads, who)};
    for (const Observation& read : reads) note_sources(read, c.read_from);
    c.read_from.insert(c.read_from.end(), weakly_read_from.begin(), weakly_read_from.end());
    const size_t number = commits_.size();
    for (const Change& change : c.changes) {
        apply(model_, change);
        note_history(number, change);
    }
    commits_.push_back(std::move(c));
    return number;
}

void Ledger::note_history(size_t number, const Change& change) {
    if (change.kind == Change::row)
        history_[change.object][change.key].push_back({number, change.value});
    else
        history_[kNames][change.object].push_back(
            {number, change.kind == Change::drop ? nullptr : value_of({})});
}

// The newest version of each key that the read covers: also of those that it found missing.
void Ledger::note_sources(const Observation& read, std::vector<size_t>& sources) const {
    if (read.of == Observation::Of::entries) return note_sources_of_entries(read, sources);
    if (read.of == Observation::Of::name) {
        if (const auto* all = versions(kNames, read.object); all != nullptr && !all->empty())
            sources.push_back(all->back().commit);
        return;
    }
    const auto of_object = history_.find(read.object);
    if (of_object == history_.end()) return;
    const auto& keys = of_object->second;
    for (auto key = keys.lower_bound(read.low); key != keys.end(); ++key) {
        if (read.point ? key->first != read.low : !read.high.empty() && key->first >= read.high)
            break;
        if (!key->second.empty() &&
            !std::binary_search(read.own.begin(), read.own.end(), key->first))
            sources.push_back(key->second.back().commit);
    }
}

void Ledger::commit_returned(size_t number, Result<Lsn> end) {
    Commit& c = commits_[number];
    c.returned = tick();
    if (!end) {
        c.unknown = true;
        return;
    }
    if (!c.fault.empty()) report_.fail(c.fault);
    c.end = end->value;
    check_pending();
    if (c.durable) note_acknowledged(number);
}

void Ledger::became_durable(size_t number) {
    tick();
    note_acknowledged(number);
}

// With a commit record everything below it is durable; a reader answers for those whose versions it
// has seen, a missing row included.
void Ledger::note_acknowledged(size_t number) {
    const Commit acknowledged = commits_[number];
    const uint64_t durable = acknowledged.two_phase ? acknowledged.after : acknowledged.end;
    for (size_t i = 0; i < commits_.size(); ++i) {
        Commit& c = commits_[i];
        const bool below = c.end != 0 && c.end <= durable;
        const bool read = std::find(acknowledged.read_from.begin(), acknowledged.read_from.end(),
                                    i) != acknowledged.read_from.end();
        if ((i == number || below || read) && c.acknowledged == kNotYet) c.acknowledged = clock_;
    }
}

void Ledger::became_durable(Lsn end) {
    tick();
    for (Commit& c : commits_)
        if (c.end != 0 && c.end <= end.value && c.acknowledged == kNotYet) c.acknowledged = clock_;
}

void Ledger::second_phase_returned(size_t number, Lsn after, Lsn before, const Result<bool>& done) {
    Commit& c = commits_[number];
    c.returned = tick();
    c.two_phase = true;
    if (!done.has_value()) {
        c.unknown = true;
        return;
    }
    if (!c.fault.empty()) report_.fail(c.fault);
    c.after = after.value;
    c.end = before.value;
    check_pending();
    note_acknowledged(number);
}

void Ledger::commit_refused(size_t number) {
    Commit& refused = commits_[number];
    for (const Change& change : refused.changes) {
        const bool row = change.kind == Change::row;
        std::erase_if(history_[row ? change.object : kNames][row ? change.key : change.object],
                      [number](const Version& v) { return v.commit == number; });
    }
    refused.changes.clear();
    refused.marker.clear();
    refused.returned = tick();
    model_ = base_;
    for (const Commit& c : commits_)
        for (const Change& change : c.changes) apply(model_, change);
    check_pending();
}

void Ledger::check_snapshot(Lsn sees, std::vector<Observation> reads, std::string who) {
    tick();
    pending_.push_back({sees, commits_.size(), std::move(reads), std::move(who)});
    check_pending();
}

void Ledger::check_pending() {
    std::erase_if(pending_, [this](const SnapshotReads& s) { return check_now(s); });
}

// False: some commit has not returned yet, and only its end tells whether it is seen.
bool Ledger::check_now(const SnapshotReads& snapshot) {
    Content content = base_;
    for (size_t i = 0; i < snapshot.commits; ++i) {
        const Commit& c = commits_[i];
        if (c.changes.empty()) continue;
        if (c.unknown) return true;  // nothing can be said
        if (c.returned == kNotYet) return false;
        if (c.two_phase && c.after >= snapshot.sees.value) continue;
        if (c.two_phase && c.end > snapshot.sees.value) return true;  // perhaps
        if (c.end > snapshot.sees.value) continue;
        for (const Change& change : c.changes) apply(content, change);
    }
    report_.add(Count::snapshots_checked);
    std::swap(model_, content);
    const std::string fault = check(snapshot.reads, snapshot.who);
    std::swap(model_, content);
    if (!fault.empty()) report_.fail(fault + fmt::format(", at snapshot {}", snapshot.sees.value));
    return true;
}

void Ledger::abort_called(const std::vector<Observation>& reads, const std::string& who) {
    if (const std::string fault = check(reads, who); !fault.empty()) report_.fail(fault);
}

std::string Ledger::check(const std::vector<Observation>& reads, const std::string& who) {
    for (const Observation& read : reads) {
        if (read.of != Observation::Of::rows) {
            std::string fault =
                read.of == Observation::Of::name ? check_name(read, who) : check_entries(read, who);
            if (!fault.empty()) return fault;
            continue;
        }
        if (!read.point) {
            if (std::string fault = check_range(read, who); !fault.empty()) return fault;
            continue;
        }
        report_.add(Count::reads_checked);
        const Rows& now = rows(read.object);
        const auto found = now.find(read.low);
        const Value expected = found == now.end() ? nullptr : found->second;
        const auto seen = read.seen.find(read.low);
        const Value value = seen == read.seen.end() ? nullptr : seen->second;
        if (read.existence_only) {
            if ((seen != read.seen.end()) != (expected != nullptr))
                return fmt::format("{} was told that {}[{}] {}, the serial order says {}", who,
                                   read.object, show(read.low),
                                   seen != read.seen.end() ? "exists" : "does not exist",
                                   show(expected));
            continue;
        }
        if (!same(value, expected))
            return fmt::format("{} read {}[{}] as {}, the serial order says {}", who, read.object,
                               show(read.low), show(value), show(expected));
    }
    return {};
}

// Both walk in key order, the model without the transaction's own rows.
std::string Ledger::check_range(const Observation& read, const std::string& who) {
    report_.add(Count::ranges_checked);
    const Rows& now = rows(read.object);
    auto expected = now.lower_bound(read.low);
    const auto end = read.high.empty() ? now.end() : now.lower_bound(read.high);
    auto seen = read.seen.begin();
    for (;;) {
        while (expected != end &&
               std::binary_search(read.own.begin(), read.own.end(), expected->first))
            ++expected;
        const bool more = expected != end && (read.high.empty() || expected->first < read.high);
        if (!more && seen == read.seen.end()) return {};
        if (!more || seen == read.seen.end() || seen->first != expected->first ||
            !same(seen->second, expected->second)) {
            return fmt::format(
                "{} scanned {} [{}, {}) and met {}, the serial order says {}", who, read.object,
                show(read.low), show(read.high),
                seen == read.seen.end() ? "the end"
                                        : show(seen->first) + " = " + show(seen->second),
                more ? show(expected->first) + " = " + show(expected->second) : "the end");
        }
        report_.add(Count::rows_checked);
        ++expected;
        ++seen;
    }
}

// Some version that was not certainly superseded when the read began.
bool Ledger::may_see(const std::string& object, const std::string& key, const Value& value,
                     uint64_t began) const {
    if (const auto* all = versions(object, key)) {
        for (auto v = all->rbegin(); v != all->rend(); ++v) {
            if (same(v->value, value)) return true;
            if (commits_[v->commit].returned <= began) return false;
        }
    }
    const auto base = base_.find(object);
    if (base == base_.end()) return value == nullptr;
    const auto row = base->second.rows.find(key);
    return same(row == base->second.rows.end() ? nullptr : row->second, value);
}

// Of the versions that the read may have seen, the oldest one's commit: if a newer one is durable,
// so is this. None: it may be of the base.
std::optional<size_t> Ledger::weak_source(const std::string& object, const std::string& key,
                                          const Value& value, uint64_t began) const {
    std::optional<size_t> oldest;
    const auto* all = versions(object, key);
    if (all == nullptr) return oldest;
    for (auto v = all->rbegin(); v != all->rend(); ++v) {
        if (same(v->value, value)) oldest = v->commit;
        if (commits_[v->commit].returned <= began) return oldest;
    }
    const auto base = base_.find(object);
    if (base == base_.end()) return value == nullptr ? std::nullopt : oldest;
    const auto row = base->second.rows.find(key);
    const bool of_base = same(row == base->second.rows.end() ? nullptr : row->second, value);
    return of_base ? std::nullopt : oldest;
}

bool Ledger::stable_since(const std::string& object, const std::string& key, uint64_t began) const {
    const auto* all = versions(object, key);
    return all == nullptr || all->empty() || commits_[all->back().commit].returned <= began;
}

void Ledger::check_weak(const Observation& read, uint64_t began, const std::string& who,
                        std::vector<size_t>& sources) {
    const auto source = [&](const std::string& key, const Value& value) {
        if (const auto commit = weak_source(read.object, key, value, began))
            sources.push_back(*commit);
    };
    report_.add(Count::weak_reads_checked);
    const auto wrong = [&](const std::string& key, const Value& value) {
        report_.fail(fmt::format(
            "{} (below serializable) read {}[{}] as {}, which was never committed or gone before",
            who, read.object, show(key), show(value)));
    };
    if (read.point) {
        const auto seen = read.seen.find(read.low);
        const Value value = seen == read.seen.end() ? nullptr : seen->second;
        if (!may_see(read.object, read.low, value, began)) wrong(read.low, value);
        source(read.low, value);
        return;
    }
    for (const auto& [key, value] : read.seen) {
        if (!may_see(read.object, key, value, began)) return wrong(key, value);
        source(key, value);
    }
    if (const auto keys = history_.find(read.object); keys != history_.end())
        for (auto key = keys->second.lower_bound(read.low);
             key != keys->second.end() && (read.high.empty() || key->first < read.high); ++key)
            if (!read.seen.contains(key->first) &&
                !std::binary_search(read.own.begin(), read.own.end(), key->first))
                source(key->first, nullptr);
    const Rows& now = rows(read.object);
    const auto end = read.high.empty() ? now.end() : now.lower_bound(read.high);
    for (auto row = now.lower_bound(read.low);
         row != end && (read.high.empty() || row->first < read.high); ++row) {
        if (read.seen.contains(row->first) ||
            std::binary_search(read.own.begin(), read.own.end(), row->first))
            continue;
        if (stable_since(read.object, row->first, began)) return wrong(row->first, nullptr);
    }
}

bool Ledger::has_marker(const Content& seen, const std::string& marker) {
    const auto markers = seen.find(kMarkers);
    return markers != seen.end() && markers->second.rows.contains(marker);
}

void Ledger::apply_late(Content& expected, const Content& seen,
                        const std::vector<LateCommit>& late) {
    for (const LateCommit& l : late)
        if (l.certain || has_marker(seen, l.marker))
            for (const Change& change : *l.changes) apply(expected, change);
}

std::string Ledger::judge(const Content& seen, uint64_t at, const std::vector<LateCommit>& late,
                          const std::set<std::string>& unreadable) const {
    const auto survived = [&](const Commit& c) {
        return c.marker.empty() || has_marker(seen, c.marker);
    };
    uint64_t newest = 0;
    for (const Commit& c : commits_)
        if (c.called <= at && !c.two_phase && !c.marker.empty() && survived(c))
            newest = std::max(newest, c.end);
    Content expected = base_;
    for (size_t i = 0; i < commits_.size(); ++i) {
        const Commit& c = commits_[i];
        if (c.called > at) break;
        if (c.marker.empty()) continue;
        if (!survived(c)) {
            // LD-1.
            if (c.acknowledged <= at)
                return fmt::format("commit {} was acknowledged and is lost", i);
            // LD-2.
            if (!c.two_phase && c.end != 0 && c.end < newest)
                return fmt::format("commit {} at {} is lost, one at {} is there", i, c.end, newest);
            continue;
        }
        for (const Change& change : c.changes) apply(expected, change);
    }
    apply_late(expected, seen, late);
    for (const std::string& name : unreadable) expected.erase(name);
    // LD-3.
    return difference(expected, seen);
}

std::string Ledger::judge_copy(const Content& seen, Lsn point,
                               const std::vector<LateCommit>& late) const {
    Content expected = base_;
    for (size_t i = 0; i < commits_.size(); ++i) {
        const Commit& c = commits_[i];
        if (c.marker.empty()) continue;
        const bool there = has_marker(seen, c.marker), known = !c.unknown && c.end != 0;
        if (known && c.end <= point.value && !there)
            return fmt::format("commit {} at {} is missing", i, c.end);
        if (known && (c.two_phase ? c.after : c.end - 1) >= point.value && there)
            return fmt::format("commit {} at {} came later", i, c.end);
        if (!there) continue;
        for (const Change& change : c.changes) apply(expected, change);
    }
    apply_late(expected, seen, late);
    return difference(expected, seen);
}

}  // namespace lockstep::sim
