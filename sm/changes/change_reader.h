// change_reader.h - reads the log as a feed of committed changes (lockstep/changes.h).
//
// Concepts   The reader looks for commit records. From one it follows the transaction's chain of
//            records backward, as a rollback would: a compensation record leads past what it has
//            undone. What it meets are the changes that count, and they are told in the order of
//            the log. So nothing is kept of transactions that have not committed, and a transaction
//            that was prepared before a restart is one like any other. The log is the only memory
//            of a large transaction: at most kWindow places are kept, and for the next ones the
//            chain is followed again.
//            The catalog's records tell which objects are made and dropped. What an object was
//            called before that is known from the catalog. The number of an object that was dropped
//            before this run of the store may be another's by now. So start() reads the log between
//            the position and the begin of this run, and objects that were dropped there are told
//            of as a whole.
//            The time of a commit is that of the first time record behind it (LOG-7).
// Invariants CF-1 A commit is told only if it is durable, with all before it.
//                 [kept by: look_ahead()]
//            CF-2 A position names a commit record, or the end of one, and how many rows of it were
//                 told or passed over. Which rows a commit has depends on the log alone.
//                 [test: ChangeFeed.APositionGivesEachLaterChangeOnce]
//            CF-3 What the log does not have is an error or the event `reset`, never left out.
//                 [test: ChangeFeed.MakesAnEqualStore]
// Blocking   Parks for I/O on a worker, blocks elsewhere. One thread at a time.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/changes.h>
#include "sm/backup/archived_log.h"
#include "sm/catalog/catalog.h"
#include "sm/changes/log_rows.h"
#include "sm/host/host.h"

namespace lockstep::sm {

// Which changes were told: all of commits below `at`, and `rows` rows of the commit that is there.
struct ChangePosition {
    uint64_t store = 0, history = 0;
    Lsn at{};
    uint64_t rows = 0;

    std::string text() const;
    // Error: bad_argument.
    static Result<ChangePosition> parse(std::string_view text);
};
// Behind what the transaction, a snapshot, sees. Error: bad_argument.
Result<ChangePosition> position_behind(const Host& host, const txn::Transaction& txn);

class ChangeReader {
public:
    static constexpr size_t kWindow = 1 << 20;  // places of records
    static constexpr size_t kAhead = 1 << 10;   // commits whose time is looked for

    // `archive` may be null. All outlive the object.
    ChangeReader(const Host& host, const Catalog& catalog, ArchivePlace* archive,
                 size_t window = kWindow)
        : host_(host), catalog_(catalog), window_max_(window) {
        if (archive != nullptr) archived_.emplace(*archive, host.superblock);
    }
    // `from` as for Store::changes(). Errors: bad_argument, and those of next().
    Result<void> start(std::string_view from);
    // As ChangeFeed::next(), without a wait.
    Result<bool> next(Change& change);
    ChangePosition position() const;

private:
    struct Commit {
        Lsn at, end, last;
        TxnId txn;
        Nanos time;
    };
    struct Object {
        std::string name;
        bool is_index = true;
        ObjectId of{};
        bool gone = false, told = false;  // dropped before this run, and the reset was told
    };

    void assert_state() const {
        DCHECK(rows_at_ <= rows_.size() && window_.size() <= window_max_);
        DCHECK(told_.at <= scan_ || scan_ == kLsnNone);
    }
    Result<txn::LogRecordView> read(Lsn lsn, std::string& buffer);
    [[gnu::cold]] std::unexpected<Error> lost(Lsn lsn) const;
    Lsn oldest();
    Result<void> learn_drops();
    Result<void> note_drop(const txn::LogRecordView& record);
    Result<std::string> dropped_name(Lsn before);
    Result<bool> find_commit();
    Result<void> look_ahead();
    void begin(const Commit& commit);
    void end_commit();
    Result<void> follow_chain();
    Result<LogRow*> next_row();
    Result<bool> tell(const LogRow& row, Change& change);
    Result<bool> tell_object(const LogRow& row, Change& change);
    Result<void> note_piece(const txn::LogRecordView& record);
    Result<void> read_large();
    Object& object(ObjectId id);
    void tell_commit(Change& change) const;

    const Host& host_;
    const Catalog& catalog_;
    const size_t window_max_;
    std::optional<ArchivedLog> archived_;
    Lsn gone_{};           // the log below is not there, but for the archive
    ChangePosition told_;  // while no commit is open
    Lsn scan_{};           // the next record that is looked at
    std::deque<Commit> ahead_;
    std::map<uint32_t, Object> objects_;
    // --- the commit that is being told
    bool open_ = false, any_told_ = false;
    Commit commit_{};
    uint64_t row_ = 0, skip_ = 0;
    std::deque<Lsn> window_;  // descending
    bool more_ = false;       // there are places above those of the window
    Lsn done_{};
    // --- the record that is being told
    std::string buffer_, other_buffer_, name_;
    ObjectId of_{};
    Lsn before_{};
    std::vector<LogRow> rows_;
    size_t rows_at_ = 0;
    // --- the chain that was written last
    uint64_t chain_ = 0;
    std::vector<Lsn> pieces_;
    std::string large_;
};

}  // namespace lockstep::sm
