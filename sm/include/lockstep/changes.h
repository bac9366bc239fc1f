// changes.h - the change feed: the committed changes of a store, one after the other.
//
// Concepts   A feed reads the log. It gives the changes of the transactions in the order of their
//            commits, and within a transaction in the order in which they were made. A change is
//            given when its commit is durable. What a rollback has undone is not there.
//            A *position* is a text that says which changes were given. The consumer keeps it with
//            what it has made of them: a feed that goes on from there gives each later change
//            once, also after a restart or a crash of the store.
//            A feed never makes a writer wait. Options::changes_log_bytes is the log that the
//            store keeps for feeds. A feed that is further behind reads the archive, if
//            Options::archive names one.
// To copy    a store: begin a snapshot transaction, take Store::changes_point() of it, read the
//            objects in it, and follow the feed from there. The event `reset` asks for the same for
//            one object. Then the feed goes on where it is, and the consumer passes over changes of
//            that object whose commit lies below ChangePoint::lsn: it has read them.
// Not given  are the entries of secondary indexes, which follow from the records. A heap's records
//            have their ids, which a copy cannot choose.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

namespace sm {
class ChangeReader;
class Engine;
}  // namespace sm

// What happened.
enum class ChangeKind : uint8_t {
    insert,  // a new record: its whole value
    update,  // the whole value is another one
    patch,  // value[offset, offset + old.size()) has become `value`, which may be longer or shorter
    erase,  // the record has gone
    create,  // a new, empty index or heap
    drop,    // the index or heap has gone, and its records with it
    // What the object has now is not in the log: read it again in a snapshot transaction. An index
    // was filled by bulk_load(); or the object was dropped since, and the store was opened since,
    // so that its changes up to the `drop` that follows are left out.
    reset,
    commit,  // all changes of the transaction have been given
};
// "insert", "update" and so on. A static string.
const char* change_kind_name(ChangeKind kind);

// One change. Its texts are valid until the next call of the feed, or its end.
struct Change {
    ChangeKind kind{};
    bool is_index = false;  // else a heap
    Slice object = {};      // name; empty: it was dropped, and the log does not tell any more
    ObjectId id = {};       // number; another object may get it once this one was dropped
    ObjectId of = {};       // of `create`: a secondary index of that index; else 0
    Slice key = {};         // of an index
    RecordId record = {};   // of a heap
    size_t offset = 0;      // of `patch`
    Slice value = {};       // of `insert`, `update`, `patch`
    // What was replaced or erased, where the log has it: always of `patch`, never of the `erase` of
    // an index.
    std::optional<Slice> old = {};
    TxnId txn = {};
    Lsn commit = {};  // place of its commit record
    // When the commit became durable, in nanoseconds since 1970 (UTC), at most so late; 0: not
    // known, because Options::changes_log_bytes was 0.
    Nanos time = 0;
};

// Where a feed goes on behind a snapshot: Store::changes_point().
struct ChangePoint {
    std::string position;
    Lsn lsn;  // the snapshot sees the transactions whose Change::commit is below
};

// The oldest place that a feed can begin at: the begin of the store, while its log or its archive
// has that, else the last checkpoint.
inline constexpr std::string_view kChangesFromOldest = "oldest";

// A feed, from Store::changes(). One thread at a time uses it. Movable. Its Store must live; once
// that is closed, next() returns store_closed. Takes up to 10 MB, and the largest value.
class ChangeFeed {
public:
    ChangeFeed(ChangeFeed&&) noexcept;
    ChangeFeed& operator=(ChangeFeed&&) noexcept;
    ~ChangeFeed();

    // The next change. False: there is none within `wait` nanoseconds; kNever waits for ever. What
    // a durable commit has changed is there at once, or, if the feed tells times, with the next
    // flush of the log. Suspends a user thread, blocks any other. Errors: changes_lost (the log
    // that it needs is gone; the text names the remedy), bad_archive (the archive that has it is
    // damaged), bad_path (the archive is not there), corrupt_log, io_error, out_of_memory,
    // unsupported (a change that a version before this one has logged without what a feed needs),
    // store_failed, store_closed, forked. After an error position() is as before the call.
    Result<bool> next(Change& change, Nanos wait = 0);
    // Behind what next() gave: a short text of printable characters. It also moves on while next()
    // returns false, so keep it now and then even if nothing changes. Never blocks.
    std::string position() const;

private:
    friend class Store;
    ChangeFeed(sm::Engine& engine, std::unique_ptr<sm::ChangeReader> reader);
    sm::Engine* engine_;
    std::unique_ptr<sm::ChangeReader> reader_;
};

}  // namespace lockstep
