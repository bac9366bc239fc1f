// change_reader.cc - from the log to commits, and from a commit to its rows.
#include "sm/changes/change_reader.h"

#include <algorithm>
#include <charconv>

#include "sm/btree/overflow.h"
#include "sm/change/log_kinds.h"
#include "sm/core/lock_error.h"
#include "sm/recovery/recovery.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"
#include "txn/isolation_rules.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

namespace {

bool is(const txn::LogRecordView& record, txn::TxnLogKind kind) {
    return record.header->kind == static_cast<uint16_t>(kind);
}
bool is(const txn::LogRecordView& record, LogKind kind) {
    return record.header->kind == static_cast<uint16_t>(kind);
}
bool is_of_catalog(const txn::LogRecordView& record) {
    return record.header->object == kCatalogObject.value;
}

[[gnu::cold]] Unexpected no_position(std::string_view text, const char* why) {
    return fail_with(ErrorCode::bad_argument, "position of a change feed",
                     printable(text) + " " + why);
}

}  // namespace

std::string ChangePosition::text() const {
    char text[80];
    const int n = std::snprintf(
        text, sizeof text, "%016llx-%016llx-%llu-%llu", static_cast<unsigned long long>(store),
        static_cast<unsigned long long>(history), static_cast<unsigned long long>(at.value),
        static_cast<unsigned long long>(rows));
    DCHECK(n > 0 && static_cast<size_t>(n) < sizeof text);
    return {text, static_cast<size_t>(n)};
}

Result<ChangePosition> ChangePosition::parse(std::string_view text) {
    ChangePosition read;
    uint64_t* const fields[] = {&read.store, &read.history, &read.at.value, &read.rows};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (size_t i = 0; i < std::size(fields); ++i) {
        if (i != 0 && (at == end || *at++ != '-')) return no_position(text, "is not one");
        const auto [next, wrong] = std::from_chars(at, end, *fields[i], i < 2 ? 16 : 10);
        if (wrong != std::errc{}) return no_position(text, "is not one");
        at = next;
    }
    if (at != end || read.at.value % 8 != 0 || read.text() != text)
        return no_position(text, "is not one");
    return read;
}

Result<ChangePosition> position_behind(const Host& host, const txn::Transaction& txn) {
    if (!txn::rules_of(txn.isolation).by_snapshot)
        return fail(ErrorCode::bad_argument, "transaction that is not a snapshot", txn.id.value);
    const Superblock& block = host.superblock;
    return ChangePosition{block.store_number(), block.history, txn.sees, 0};
}

Result<void> ChangeReader::start(std::string_view from) {
    const Superblock& block = host_.superblock;
    const Lsn end = host_.log->tail();
    told_ = {block.store_number(), block.history, end, 0};
    if (from == kChangesFromOldest) {
        told_.at = oldest();
    } else if (!from.empty()) {
        const ChangePosition given = TRY(ChangePosition::parse(from));
        if (given.store != told_.store || !block.follows(given.history, given.at.value))
            return no_position(from, "is of another store, or of one from before a restore");
        if (given.at > end || given.at.value < txn::kLogFirst)
            return no_position(from, "is not in the log of this store");
        told_.at = given.at;
        told_.rows = given.rows;
    }
    scan_ = told_.at;
    TRY(learn_drops());
    assert_state();
    return {};
}

// A record is known to begin there.
Lsn ChangeReader::oldest() {
    const Lsn first{txn::kLogFirst};
    const txn::LogFiles files(*host_.disk, host_.directory, host_.log_options.segment_bytes);
    if (files.disk().exists(files.segment(0)) && host_.log->read(first, buffer_)) return first;
    if (archived_ && archived_->has(first).value_or(false)) return first;
    const Lsn begun = host_.checkpointer->last_begin();
    return begun != kLsnNone ? begun : Lsn{host_.superblock.checkpoint_lsn};
}

std::unexpected<Error> ChangeReader::lost(Lsn lsn) const {
    return fail_with(
        ErrorCode::changes_lost, "log",
        "LSN " + std::to_string(lsn.value) + " is not there any more, the log begins at " +
            std::to_string(host_.log->start().value) +
            "; read the objects again in a snapshot transaction and go on from its "
            "changes_point(), read the feed more often, or raise option changes_log_bytes");
}

Result<txn::LogRecordView> ChangeReader::read(Lsn lsn, std::string& buffer) {
    if (lsn >= gone_) {
        auto record = host_.log->read(lsn, buffer);
        // Nobody else needs log below its start, so what cannot be read there was recycled.
        if (record || record.error().code != ErrorCode::corrupt_log ||
            lsn.value >= std::max(host_.log->start().value, host_.first_record.load()))
            return record;
        gone_ = Lsn{lsn.value + 1};
    }
    if (!archived_ || !TRY(archived_->has(lsn))) return lost(lsn);
    return archived_->read(lsn, buffer);
}

// Objects that were there at the position and were dropped before this run.
Result<void> ChangeReader::learn_drops() {
    for (Lsn at = told_.at; at < host_.run_begin;) {
        const auto record = TRY(read(at, buffer_));
        at = record.end();
        TRY(note_drop(record));
    }
    return {};
}

// An object that is dropped comes on the drop list behind the erasure of its name.
Result<void> ChangeReader::note_drop(const txn::LogRecordView& record) {
    if (!is_of_catalog(record) || !is(record, LogKind::btree_insert)) return {};
    std::vector<LogRow> rows;
    TRY(read_rows(record, rows));
    DropEntry entry;
    if (rows.size() != 1 || !TRY(DropList::read(rows[0].key, rows[0].value, entry)) ||
        entry.number != 0)
        return {};
    const std::string name = TRY(dropped_name(Lsn{record.header->prev}));
    if (name.empty()) return {};  // an object that is being made
    objects_.try_emplace(entry.object.value,
                         Object{name, entry.kind == DropKind::index, {}, true, false});
    return {};
}

// The name that the record erases; empty if it is another one.
Result<std::string> ChangeReader::dropped_name(Lsn before) {
    if (before == kLsnNone) return std::string();
    const auto record = TRY(read(before, other_buffer_));
    if (!is_of_catalog(record) || !is(record, LogKind::btree_erase)) return std::string();
    std::vector<LogRow> rows;
    TRY(read_rows(record, rows));
    const bool is_name = rows.size() == 1 && !rows[0].key.empty() && rows[0].key[0] != '\0';
    return is_name ? rows[0].key : std::string();
}

// Commits up to the next time record, which is theirs.
Result<void> ChangeReader::look_ahead() {
    const auto known = [&] { return !ahead_.empty() && ahead_.front().time != 0; };
    // A record of which anything is durable is complete in memory.
    const Lsn durable = host_.log->durable();
    while (!known() && ahead_.size() < kAhead && scan_ < durable) {
        const auto record = TRY(read(scan_, buffer_));
        if (record.end() > durable) break;  // CF-1
        if (is(record, txn::TxnLogKind::commit)) {
            const txn::LogRecordHeader& head = *record.header;
            ahead_.push_back({record.lsn, record.end(), Lsn{head.prev}, TxnId{head.txn}, 0});
        } else if (is(record, txn::TxnLogKind::time)) {
            txn::TimePayload payload;
            if (record.payload_bytes() < sizeof payload)
                return fail(ErrorCode::corrupt_log, "time record", record.lsn.value);
            std::memcpy(&payload, record.payload(), sizeof payload);
            for (Commit& commit : ahead_)
                if (commit.time == 0) commit.time = payload.time;
        }
        scan_ = record.end();
    }
    return {};
}

Result<bool> ChangeReader::find_commit() {
    DCHECK(!open_);
    TRY(look_ahead());
    if (ahead_.empty()) {
        if (scan_ > told_.at) told_ = {told_.store, host_.superblock.history, scan_, 0};
        return false;
    }
    const Commit& first = ahead_.front();
    // Its time follows.
    if (first.time == 0 && ahead_.size() < kAhead && host_.log->keeps_times()) return false;
    begin(first);
    if (const auto followed = follow_chain(); !followed) {
        open_ = false;
        return std::unexpected(followed.error());
    }
    ahead_.pop_front();
    return true;
}

void ChangeReader::begin(const Commit& commit) {
    DCHECK(commit.at >= told_.at && commit.last < commit.at);
    commit_ = commit;
    open_ = true;
    row_ = 0;
    skip_ = commit.at == told_.at ? told_.rows : 0;
    any_told_ = skip_ != 0;
    window_.clear();
    more_ = false;
    done_ = kLsnNone;
    rows_.clear();
    rows_at_ = 0;
    chain_ = 0;
    pieces_.clear();
}

void ChangeReader::end_commit() {
    DCHECK(open_ && window_.empty() && rows_at_ == rows_.size());
    open_ = false;
    told_ = {told_.store, host_.superblock.history, commit_.end, 0};
}

// Fills the window with the lowest places above done_.
Result<void> ChangeReader::follow_chain() {
    window_.clear();
    more_ = false;
    for (Lsn at = commit_.last; at > done_;) {
        const auto record = TRY(read(at, other_buffer_));
        const txn::LogRecordHeader& head = *record.header;
        if (head.txn != commit_.txn.value || head.prev >= at.value)
            return fail(ErrorCode::corrupt_log, "chain of a transaction", at.value,
                        commit_.txn.value);
        at = Lsn{head.prev};
        if ((head.flags & txn::kLogUndoable) == 0) continue;
        window_.push_back(record.lsn);
        if (commit_.at < host_.run_begin) {
            const std::string copy = other_buffer_;
            TRY(note_drop(
                {record.lsn, reinterpret_cast<const txn::LogRecordHeader*>(copy.data())}));
        }
        if (window_.size() <= window_max_) continue;
        window_.pop_front();
        more_ = true;
    }
    assert_state();
    return {};
}

// Null: the transaction has no more.
Result<LogRow*> ChangeReader::next_row() {
    while (rows_at_ == rows_.size()) {
        if (window_.empty()) {
            if (more_) TRY(follow_chain());
            if (window_.empty()) return static_cast<LogRow*>(nullptr);
        }
        const auto record = TRY(read(window_.back(), buffer_));
        rows_.clear();
        rows_at_ = 0;
        of_ = ObjectId{record.header->object};
        before_ = Lsn{record.header->prev};
        if (is(record, LogKind::overflow_write)) TRY(note_piece(record));
        TRY(read_rows(record, rows_));
        done_ = record.lsn;
        window_.pop_back();
    }
    return &rows_[rows_at_++];
}

// A chain is written from its end, in records of a few pages.
Result<void> ChangeReader::note_piece(const txn::LogRecordView& record) {
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        if (part.action != PageAction::overflow_format) continue;
        uint64_t chain = 0;
        (void)overflow_piece(part.payload, chain);
        if (chain != chain_) pieces_.clear();
        chain_ = chain;
        pieces_.push_back(record.lsn);
        return {};
    }
    return fail(ErrorCode::corrupt_log, "record of a large value", record.lsn.value);
}

Result<void> ChangeReader::read_large() {
    large_.clear();
    for (auto at = pieces_.rbegin(); at != pieces_.rend(); ++at) {
        const auto record = TRY(read(*at, other_buffer_));
        uint32_t cursor = 0;
        for (PartView part; TRY(next_part(record, cursor, part));) {
            uint64_t chain = 0;
            if (part.action == PageAction::overflow_format)
                large_.append(overflow_piece(part.payload, chain));
        }
        DCHECK(large_.size() <= kValueBytesMax);
    }
    if (large_.empty())
        return fail(ErrorCode::corrupt_log, "large value of a transaction", commit_.at.value);
    return {};
}

Result<bool> ChangeReader::next(Change& change) {
    assert_state();
    for (;;) {
        if (!open_ && !TRY(find_commit())) return false;
        LogRow* const row = TRY(next_row());
        if (row == nullptr) {
            end_commit();
            if (!any_told_) continue;
            tell_commit(change);
            return true;
        }
        const Result<bool> told = tell(*row, change);
        if (!told.has_value()) {
            --rows_at_;  // it is told again
            return told;
        }
        if (++row_ <= skip_) continue;
        any_told_ |= *told;
        if (*told) return true;
    }
}

ChangePosition ChangeReader::position() const {
    if (!open_) return told_;
    return {told_.store, host_.superblock.history, commit_.at, std::max(row_, skip_)};
}

void ChangeReader::tell_commit(Change& change) const {
    change = {
        .kind = ChangeKind::commit, .txn = commit_.txn, .commit = commit_.at, .time = commit_.time};
}

ChangeReader::Object& ChangeReader::object(ObjectId id) {
    const auto [at, fresh] = objects_.try_emplace(id.value);
    Object& object = at->second;
    if (!fresh) return object;
    const auto entry = catalog_.find(id);
    if (entry && !entry->name.empty())
        object = {entry->name, entry->kind == ObjectKind::index, entry->of, false, false};
    else object.gone = true;
    return object;
}

// False: nobody is told of the row.
Result<bool> ChangeReader::tell(const LogRow& row, Change& change) {
    tell_commit(change);
    if (of_ == kCatalogObject) return tell_object(row, change);
    if (of_.value < kFirstUserObject.value) return false;
    Object& of = object(of_);
    if (of.of != ObjectId{} || (of.gone && of.told)) return false;
    change.is_index = of.is_index;
    change.object = of.name;
    change.id = of_;
    if (of.gone || row.what == LogRow::What::fill) {
        of.told = of.gone;
        change.kind = ChangeKind::reset;
        return true;
    }
    static_assert(static_cast<int>(ChangeKind::erase) == static_cast<int>(LogRow::What::erase));
    static_assert(static_cast<int>(ChangeKind::patch) == static_cast<int>(LogRow::What::patch));
    change.kind = static_cast<ChangeKind>(row.what);
    if (row.large) TRY(read_large());
    change.key = row.key;
    change.record = row.id;
    change.offset = row.offset;
    change.value = row.large ? Slice(large_) : row.value;
    if (row.has_old) change.old = row.old;
    return true;
}

Result<bool> ChangeReader::tell_object(const LogRow& row, Change& change) {
    if (row.what != LogRow::What::insert) return false;
    DropEntry drop;
    if (!TRY(DropList::read(row.key, row.value, drop))) {
        const CatalogEntry entry = TRY(catalog_entry(row.key, row.value));
        const bool is_index = entry.kind == ObjectKind::index;
        objects_[entry.id.value] = {entry.name, is_index, entry.of, false, false};
        change.kind = ChangeKind::create;
        change.is_index = is_index;
        change.object = row.key;
        change.id = entry.id;
        change.of = entry.of;
        return true;
    }
    if (drop.number != 0) return false;
    name_ = TRY(dropped_name(before_));
    if (name_.empty()) return false;
    objects_.erase(drop.object.value);
    change.kind = ChangeKind::drop;
    change.is_index = drop.kind == DropKind::index;
    change.object = name_;
    change.id = drop.object;
    return true;
}

}  // namespace lockstep::sm
