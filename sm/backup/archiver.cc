// archiver.cc - see archiver.h.
#include "sm/backup/archiver.h"

#include <algorithm>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/io/disk_file.h"
#include "threads/thread/thread.h"
#include "threads/worker/offload.h"

namespace lockstep::sm {

using txn::block_ceil;

namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr Nanos kPauseAfterError = kSecond;

// An error that no later attempt mends.
bool is_final(const Error& error) {
    return error.code == ErrorCode::bad_archive || error.code == ErrorCode::bad_version;
}

std::unique_ptr<ArchiveTarget> target_of(RestartEnv& env, ArchivePlace* place) {
    const Options& o = env.options;
    if (o.archive_sink) return std::make_unique<SinkArchive>(o.archive_sink);
    DCHECK(place != nullptr);
    return std::make_unique<DirectoryArchive>(*place, o.sync);
}

}  // namespace

Archiver::Archiver(RestartEnv& env, txn::LogHold hold, std::unique_ptr<ArchiveTarget> target)
    : env_(env),
      hold_(std::move(hold)),
      target_(std::move(target)),
      own_begin_{std::min(env.superblock.history_begin, env.superblock.log_start)},
      backlog_max_(env.options.archive_backlog_bytes.value_or(env.log->capacity_bytes() / 4)),
      files_(*env.disk, env.log_options.directory, env.log_options.segment_bytes) {
    next_.store(hold_.from().value);
    env.log->on_whole_segment([this] {
        look_at_backlog();
        wanted_.release();
    });
}

Result<std::unique_ptr<Archiver>> Archiver::create(RestartEnv& env, ArchivePlace* place) {
    txn::LogHold hold = TRY(env.log->hold());
    env.log->keep_times();
    return std::unique_ptr<Archiver>(new Archiver(env, std::move(hold), target_of(env, place)));
}

Archiver::~Archiver() { hold_.forget(); }

Result<void> Archiver::start() {
    DCHECK(threads::current() != nullptr && !ended_);
    buffer_ = TRY(threads::make_aligned_buffer(kPieceBytes, threads::PageSize::huge));
    tail_ = env_.log->tail().value;
    check_.emplace(Lsn{tail_});
    piece_at_ = threads::now();
    if (const auto found = locate(); !found) {
        if (is_final(found.error())) return found;
        note_failure(found.error());
    }
    ended_ = std::make_unique<threads::Completion>();
    const auto started = env_.runtime->spawn(0, "archiver", [this] { run(); });
    if (started) return {};
    ended_.reset();
    return std::unexpected(started.error());
}

Result<void> Archiver::stop() {
    if (!ended_) return {};
    const auto durable = env_.log->wait_durable(env_.log->tail());
    stopping_.store(true);
    wanted_.release();
    ended_->wait();
    ended_.reset();
    return durable;
}

Result<void> Archiver::check() {
    DCHECK(!located_ && !ended_);
    const auto end = find_end();
    if (!end && is_final(end.error())) return std::unexpected(end.error());
    return {};
}

// AR-6. An archive that cannot be read now is asked again.
Result<Lsn> Archiver::find_end() {
    if (archive_end_) return *archive_end_;
    const Lsn has = TRY(target_->look(env_.superblock));
    const Lsn log_end = env_.run_begin;
    if (has > log_end)
        return bad_archive("option archive",
                           "the archive ends at LSN " + std::to_string(has.value) +
                               ", the store's log at " + std::to_string(log_end.value) +
                               ": another copy of this store has written to it, or the log has "
                               "lost its end; name another directory, or restore the store");
    archive_end_ = has;
    return has;
}

// Where the archive ends. LSNs below the hold are not there any more. A restored store never had
// those below own_begin_.
Result<void> Archiver::locate() {
    if (located_) return {};
    DCHECK(gap_end_.load() == 0 || env_.options.archive_failure == ArchiveFailure::go_on);
    const Lsn has = TRY(find_end());
    const Lsn from = std::max(hold_.from(), own_begin_);
    if (has != kLsnNone && has < from) {
        gaps_.fetch_add(1, std::memory_order_relaxed);
        env_.report(1, "archive: log from " + std::to_string(has.value) + " to " +
                           std::to_string(from.value) +
                           " was recycled by an open without the archive: the archive has a gap, "
                           "make a new backup");
    }
    next_.store(std::max(has, from).value);
    hold_.advance(Lsn{next_.load()});
    DCHECK(next_.load() >= hold_.from().value);
    located_ = true;
    return {};
}

void Archiver::run() {
    while (true) {
        const Nanos pause = failing_.load() ? kPauseAfterError : kPause;
        const bool stop = stopping_.load();
        if (!stop) {
            if (!failing_.load())
                wanted_.acquire(1, threads::now() + pause, threads::ParkReason::sleep);
            else threads::sleep_until(threads::now() + pause);
        }
        Result<bool> done = true;
        while (done.has_value() && *done && !env_.failed())
            done = archive_one(stop || stopping_.load());
        if (!done.has_value()) note_failure(done.error());
        look_at_backlog();
        if (stop || env_.failed()) break;
    }
    attempt_began_.store(0);
    if (backlog() != 0)
        env_.report(1, "archive: " + std::to_string(backlog()) +
                           " bytes of log are not archived; the next open does it");
    ended_->set();
}

// AR-5. An earlier end of the log is a record's end, and so is the present one.
uint64_t Archiver::find_stable() {
    const uint64_t tail = env_.log->tail().value;
    const uint64_t durable = env_.log->durable().value;
    DCHECK(stable_ <= tail_ && tail_ <= tail);
    if (tail_ <= durable) stable_ = std::exchange(tail_, tail);
    if (tail <= durable) stable_ = tail_ = tail;
    return stable_;
}

// True if a piece was archived. `all`: also what a full segment or the interval would wait for.
Result<bool> Archiver::archive_one(bool all) {
    attempt_began_.store(threads::now());
    TRY(locate());
    skip_gap();
    assert_state();
    const uint64_t begin = next_.load(), stable = find_stable();
    uint64_t end = files_.segment_end(begin);
    DCHECK(begin < end && begin % 8 == 0);
    if (stable < end) {
        const std::optional<Nanos> interval = env_.options.archive_interval;
        const bool due = all || (interval && threads::now() - piece_at_ >= *interval);
        end = due ? stable : begin;
    }
    if (end > begin) {
        const PieceName piece{env_.superblock.history, begin, end};
        const auto copied = copy_piece(piece);
        if (!copied) {
            target_->give_up();
            if (begin < gap_end_.load()) return true;  // was given up meanwhile
            return std::unexpected(copied.error());
        }
        DCHECK(next_.load() == begin && end <= env_.log->durable().value);
        next_.store(end);
        hold_.advance(Lsn{end});
        DCHECK(hold_.from().value >= end);  // AR-1
        pieces_.fetch_add(1, std::memory_order_relaxed);
        bytes_.fetch_add(piece.file_bytes(), std::memory_order_relaxed);
        piece_at_ = threads::now();
    }
    attempt_began_.store(0);
    if (failing_.exchange(false)) env_.report(2, "archive: it works again");
    told_ = false;
    look_at_backlog();
    return end > begin;
}

// On a kernel thread beside the workers.
Result<void> Archiver::read_log(uint64_t at, uint64_t bytes, uint64_t useful) {
    DCHECK(buffer_ != nullptr && check_.has_value() && bytes <= kPieceBytes);
    const threads::DiskFile file(
        files_.disk(),
        TRY(files_.open(files_.number_of(at), threads::Disk::kReadOnly | threads::Disk::kDirect)));
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): from start() on
    return read_checked_log(files_, file.id(), at, {buffer_.get(), bytes}, useful, *check_);
}

Result<void> Archiver::copy_piece(const PieceName& piece) {
    CHECK(piece.end <= env_.log->durable().value);  // AR-3
    TRY(target_->begin(piece.text()));
    const uint64_t base = piece.first_block();
    DCHECK(files_.number_of(piece.begin) == files_.number_of(piece.end - 1));
    for (uint64_t at = base; at < piece.end; at += kPieceBytes) {
        const uint64_t bytes = std::min(kPieceBytes, block_ceil(piece.end) - at);
        const uint64_t useful = std::min(bytes, piece.end - at);
        const Result<void> read =
            threads::run_on(reader_, [&] { return read_log(at, bytes, useful); });
        if (piece.begin < gap_end_.load())  // AR-3
            return fail(ErrorCode::archive_failed, "log was recycled", piece.begin);
        TRY(read);
        TRY(target_->write(sizeof(ArchiveBlock) + at - base,
                           {reinterpret_cast<const char*>(buffer_.get()), bytes}));
    }
    ArchiveHeader header = archive_header(env_.superblock, ArchiveKind::piece);
    header.begin = piece.begin;
    header.end = piece.end;
    header.assert_state();
    const auto block = std::make_unique<ArchiveBlock>();
    encode_archive(header, {}, *block);
    return target_->finish(*block);
}

void Archiver::note_failure(const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    failures_.fetch_add(1, std::memory_order_relaxed);
    failing_.store(true);
    if (std::exchange(told_, true)) return;
    env_.report(1, "archive: " + error.text() + "; " + std::to_string(backlog()) + " bytes wait, " +
                       (env_.options.archive_failure == ArchiveFailure::stop_writers
                            ? "writers stop at "
                            : "log is given up at ") +
                       std::to_string(backlog_max_));
}

uint64_t Archiver::backlog() const {
    const uint64_t next = std::max(next_.load(), gap_end_.load());
    return env_.log->durable().value - std::min(next, env_.log->durable().value);
}

// Whether the present attempt has lasted too long. A clock that leaps, as that of a machine that
// was suspended, is no failure: the attempt must be late for some time more.
bool Archiver::is_late() {
    const Nanos began = attempt_began_.load(), now = threads::now();
    DCHECK(late_since_ <= now);
    if (began == 0 || now <= began + kAttemptMax) return late_since_ = 0, false;
    if (late_since_ == 0) late_since_ = now;
    return now >= late_since_ + kLateMin;
}

// On worker 0: the flusher or the archiver.
void Archiver::look_at_backlog() {
    const bool failing = is_late() || failing_.load();
    const bool over = backlog() >= backlog_max_;
    if (env_.options.archive_failure == ArchiveFailure::stop_writers) {
        if (failing && over && !env_.log->writers_stopped())
            env_.report(0, "archive: it fails, and writers stop");
        env_.log->stop_writers(failing && over);  // AR-2
        return;
    }
    if (!failing || !over) return;
    // The rest of the bound stays, so that the gap is as small as it can be.
    const uint64_t segment = files_.segment_bytes();
    const uint64_t keep = env_.log->durable().value - backlog_max_ / 2;
    const uint64_t end = keep / segment * segment;
    if (end <= std::max(next_.load(), gap_end_.load())) return;
    if (gap_end_.load() == 0) {
        gaps_.fetch_add(1, std::memory_order_relaxed);
        env_.report(0, "archive: it fails, and log is given up from " +
                           std::to_string(next_.load()) +
                           " on: the chain is broken, make a new backup when it works");
    }
    DCHECK(end > gap_end_.load() && end <= env_.log->durable().value);
    gap_end_.store(end);
    hold_.advance(Lsn{end});
}

void Archiver::skip_gap() {
    const uint64_t end = gap_end_.load();
    // A piece that was given up while its last write waited, and yet succeeded, leaves no gap.
    if (end <= next_.load()) {
        gap_end_.store(0);
        return;
    }
    DCHECK(end % files_.segment_bytes() == 0 && end <= env_.log->durable().value);
    next_.store(end);
    gap_end_.store(0);
    check_.emplace(env_.log->tail());
}

Archiver::Stats Archiver::stats() const {
    return {.pieces = pieces_.load(std::memory_order_relaxed),
            .bytes = bytes_.load(std::memory_order_relaxed),
            .failures = failures_.load(std::memory_order_relaxed),
            .gaps = gaps_.load(std::memory_order_relaxed),
            .backlog_bytes = backlog()};
}

Result<void> note_backup(ArchivePlace& archive, const Superblock& block, Lsn point,
                         const std::string& directory, bool sync) {
    if (directory.size() > kArchivePathMax)
        return fail_with(ErrorCode::bad_path, "backup: the path is too long for the archive",
                         directory + " has " + std::to_string(directory.size()) + " bytes, " +
                             std::to_string(kArchivePathMax) + " at most");
    ArchiveHeader header = archive_header(block, ArchiveKind::backup);
    header.begin = header.end = point.value;
    DCHECK(point != kLsnNone);
    const auto first = std::make_unique<ArchiveBlock>();
    encode_archive(header, directory, *first);
    DirectoryArchive target(archive, sync);
    char name[40];
    std::snprintf(name, sizeof name, "backup-%020llu",
                  static_cast<unsigned long long>(point.value));
    TRY(target.begin(name));
    return target.finish(*first);
}

}  // namespace lockstep::sm
