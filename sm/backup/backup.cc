// backup.cc - the steps of a backup, in their order.
#include "sm/backup/backup.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "sm/backup/backup_pages.h"
#include "sm/backup/log_copy.h"
#include "sm/buffer/buffer_pool.h"
#include "sm/space/space_map.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/memory_reserve.h"
#include "threads/base/wall_clock.h"
#include "threads/thread/between_calls.h"
#include "threads/thread/thread.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace {

constexpr uint32_t kPiecePages = BackupTarget::kRoomBytes / kPageBytes;
static_assert(kPiecePages <= BufferPool::kCopyMax);
constexpr uint32_t kLooksMax = 1 << 14;  // pages between two pauses
constexpr Nanos kLogPause = 20 * kMillisecond;
constexpr uint64_t kLogPiece = BackupTarget::kRoomBytes;
constexpr uint64_t kLogShare = 4;  // the copy of the log lags at most so much of the log behind

Slice slice_of(const std::byte* bytes, size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}

// One backup that is being made.
class Backup {
public:
    Backup(RestartEnv& env, BackupTarget& target, const BackupOptions& options,
           const std::function<Result<void>()>& goes_on)
        : env_(env), target_(target), options_(options), goes_on_(goes_on) {}
    Result<BackupInfo> run();

private:
    void assert_state() const {
        DCHECK(copied_ <= looked_at_ + kPiecePages && zeroed_ <= looked_at_);
        DCHECK(incremental() || copied_ <= lsns_.size());
        DCHECK(log_.has_value());
        superblock_.assert_state();
    }
    Result<void> begin();
    Result<void> check_options() const;
    Result<void> copy_pages();
    bool may_have_changed(PageId id) const;
    void choose_piece();
    Result<void> copy_piece();
    Result<void> skip_bad_page(PageId id, const Error& why, Page& copy);
    void complete_map(PageId id, Page& copy) const;
    Result<void> write_piece();
    Result<void> copy_log();
    Result<void> pause();
    Result<void> keep_up();
    Result<void> read_superblock(Lsn log_from);
    Result<void> write_superblocks();
    Result<void> write_lsns();
    Result<BackupInfo> finish();
    Result<void> write(std::string_view file, uint64_t offset, Slice bytes) {
        bytes_ += bytes.size();
        return target_.write(file, offset, bytes);
    }
    LogCopy& log() {
        DCHECK(log_.has_value());
        return *log_;  // NOLINT(bugprone-unchecked-optional-access): from begin() on
    }
    Page* page(uint32_t i) const { return room_ + i; }
    // page() gives the pages of the next write.
    Result<void> take_room() {
        room_ = reinterpret_cast<Page*>(TRY(target_.room()));
        DCHECK(room_ != nullptr);
        return {};
    }
    bool incremental() const { return options_.since != nullptr; }

    RestartEnv& env_;
    BackupTarget& target_;
    const BackupOptions& options_;
    const std::function<Result<void>()>& goes_on_;
    // Copies and checks beside the workers. A pool of its own, because an application's functions
    // may block the store's for long, and meanwhile the log would be held (BK-3).
    threads::OffloadPool beside_{1};
    Page* room_ = nullptr;
    Superblock superblock_{};
    std::optional<LogCopy> log_;
    std::vector<PageId> piece_;   // pages of the next write
    std::vector<uint64_t> lsns_;  // of the volume's pages; 0: not looked at
    uint64_t newest_ = 0;         // highest lsn of a copied page
    uint64_t looked_at_ = kSuperblocks, copied_ = kSuperblocks, zeroed_ = 0, bytes_ = 0;
    uint64_t paced_log_ = 0;  // bytes of log that were copied at the pace
    Nanos started_ = 0;
};

Result<BackupInfo> Backup::run() {
    started_ = threads::now();
    TRY(begin());
    TRY(copy_pages());
    TRY(copy_log());
    TRY(write_lsns());
    return finish();
}

Result<void> Backup::read_superblock(Lsn log_from) {
    if (TRY(threads::io_read(env_.data_file, 0, page(0), kSuperblocks * kPageBytes, "superblock")) <
        kSuperblocks * kPageBytes)
        return fail(ErrorCode::corrupt_superblock, "superblock is cut off");
    superblock_ = TRY(choose_superblock(*page(0), *page(1)));
    if (Lsn{superblock_.log_start} < log_from)
        return fail(ErrorCode::corrupt_superblock, "superblock is older than the log",
                    superblock_.log_start, log_from.value);
    return {};
}

// BK-3: held first, so the log still has all that the superblock needs.
Result<void> Backup::begin() {
    TRY(target_.begin());
    TRY(take_room());
    txn::LogHold hold = TRY(env_.log->hold());
    // As for a page, a single bad read has no effect: it is repeated once.
    if (!read_superblock(hold.from())) TRY(read_superblock(hold.from()));
    // After the superblock, whose read may take long. Pages that the volume gets later have all
    // their changes above B.
    const uint64_t volume = TRY(env_.disk->size(env_.data_file));
    superblock_.clean = 0;
    DCHECK(superblock_.checkpoint_lsn != 0 &&
           superblock_.log_segment_bytes == env_.log_options.segment_bytes);
    TRY(check_options());
    TRY(MemoryReserve::require());
    lsns_.assign(volume / kPageBytes, 0);
    log_.emplace(*env_.disk, *env_.log, env_.log_options, std::move(hold),
                 Lsn{superblock_.log_start}, beside_);
    DCHECK(lsns_.size() > kSuperblocks);
    assert_state();
    if (incremental()) return {};
    return target_.reserve("data", lsns_.size() * kPageBytes);
}

Result<void> Backup::check_options() const {
    if (options_.bytes_per_second == 0)
        return fail(ErrorCode::bad_argument, "bytes_per_second of a backup is 1 or more", 0);
    if (!incremental()) return {};
    const BackupInfo& since = *options_.since;
    if (since.store[0] != superblock_.uuid[0] || since.store[1] != superblock_.uuid[1])
        return fail(ErrorCode::bad_backup, "the earlier backup is of another store");
    if (since.redo_from == kLsnNone || since.redo_from > since.lsn)
        return fail(ErrorCode::bad_backup, "the earlier backup: redo_from is 0, or above lsn",
                    since.redo_from.value, since.lsn.value);
    if (since.lsn > env_.log->durable())
        return fail(ErrorCode::bad_backup, "the earlier backup is newer than the store",
                    since.lsn.value, env_.log->durable().value);
    if (!superblock_.follows(since.history, since.lsn.value)) {
        auto error = fail(ErrorCode::bad_backup, "the earlier backup", since.lsn.value);
        set_error_detail(error.error(), "this store has never had its state, at LSN " +
                                            std::to_string(since.lsn.value) +
                                            ", since one of the two was restored and went on by "
                                            "itself: make a full backup");
        return error;
    }
    return {};
}

Result<void> Backup::copy_pages() {
    while (looked_at_ < lsns_.size()) {
        choose_piece();
        if (!piece_.empty()) TRY(copy_piece());
        TRY(pause());
    }
    return {};
}

// False: the earlier backup has the page as it is (BK-7).
bool Backup::may_have_changed(PageId id) const {
    if (!incremental()) return true;
    const Lsn since = options_.since->redo_from;
    DCHECK(since != kLsnNone && env_.run_begin != kLsnNone);
    if (since < env_.run_begin) return true;
    return env_.pool->may_be_newer(id, since);
}

void Backup::choose_piece() {
    piece_.clear();
    const uint64_t end = std::min<uint64_t>(lsns_.size(), looked_at_ + kLooksMax);
    while (looked_at_ < end && piece_.size() < kPiecePages) {
        const PageId id{static_cast<uint32_t>(looked_at_++)};
        if (may_have_changed(id)) piece_.push_back(id);
    }
    DCHECK(looked_at_ <= lsns_.size());
    DCHECK(std::ranges::is_sorted(piece_, {}, &PageId::value));
}

Result<void> Backup::copy_piece() {
    const auto count = static_cast<uint32_t>(piece_.size());
    assert_state();
    DCHECK(count > 0 && count <= kPiecePages && piece_.back().value < lsns_.size());
    TRY(take_room());
    for (uint32_t done = 0; done < count;) {
        const PageId first = piece_[done];
        uint32_t some = 1;
        while (done + some < count && piece_[done + some].value == first.value + some) ++some;
        const uint32_t end = done + some;
        const auto copied = env_.pool->copy_pages(first, some, page(done), beside_);
        done += some;
        if (copied) continue;
        if (!is_bad_page(copied.error().code) || done == end)
            return std::unexpected(copied.error());
        TRY(skip_bad_page(piece_[done], copied.error(), *page(done)));
        ++done;
    }
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t id = piece_[i].value;
        complete_map(piece_[i], *page(i));
        DCHECK(page(i)->header.page_id == id || page(i)->header.checksum == 0);
        lsns_[id] = page(i)->header.lsn;
        newest_ = std::max(newest_, page(i)->header.lsn);
    }
    return write_piece();
}

// A free page that cannot be read takes nothing with it: zeros are a free page. If it was in use at
// B, the log frees it, and brings it if it is used again.
Result<void> Backup::skip_bad_page(PageId id, const Error& why, Page& copy) {
    DCHECK(is_bad_page(why.code) && id.value >= kSuperblocks);
    for (int tries = 0; TRY(env_.space->is_used(id)); ++tries) {
        // It may have been free when its old bytes were read, and have been taken since.
        if (tries == 2) return std::unexpected(why);
        uint32_t one = 1;
        const Result<void> copied = env_.pool->copy_pages(id, one, &copy, beside_);
        if (copied || !is_bad_page(copied.error().code)) return copied;
    }
    env_.report(1, "backup: free page " + std::to_string(id.value) +
                       " is damaged and copied as zeros: " + why.text());
    std::memset(static_cast<void*>(&copy), 0, kPageBytes);
    ++zeroed_;
    return {};
}

// BK-6. The file has no map where it was cut and has grown again: all pages there are free. But the
// earlier backup may have the old map, which zeros would leave in place. A map that changed its
// bits above B comes from the log.
void Backup::complete_map(PageId id, Page& copy) const {
    if (!incremental() || !is_map_page(id) || copy.header.lsn != 0) return;
    const Lsn begin{superblock_.checkpoint_lsn};
    DCHECK(copy.kind() == PageKind::free);
    if (begin > options_.since->redo_from) make_empty_map(copy, id, begin);
}

Result<void> Backup::write_piece() {
    const auto count = static_cast<uint32_t>(piece_.size());
    if (!incremental()) {
        copied_ += count;
        return write("data", uint64_t{piece_[0].value} * kPageBytes,
                     slice_of(page(0)->bytes(), count * kPageBytes));
    }
    // BK-6.
    const uint64_t above = options_.since->redo_from.value;
    DCHECK(above != 0 && above <= env_.log->durable().value);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (page(i)->header.lsn <= above) {
            // A page that became free is not written as a rule, so the earlier backup may have an
            // older state of it. A redo from an older checkpoint may have written it since.
            if (page(i)->kind() == PageKind::free) lsns_[piece_[i].value] = 0;
            continue;
        }
        if (kept != i) std::memcpy(static_cast<void*>(page(kept)), page(i), kPageBytes);
        ++kept;
    }
    if (kept == 0) return {};
    const uint64_t offset = (copied_ - kSuperblocks) * kPageBytes;
    copied_ += kept;
    return write(kPagesName, offset, slice_of(page(0)->bytes(), kept * kPageBytes));
}

// What the pages have left of the log that is there now. finish() copies what comes meanwhile.
Result<void> Backup::copy_log() {
    for (uint64_t left = log().lag(); left > 0; left -= std::min(left, kLogPiece)) TRY(pause());
    return {};
}

// Between two pieces of pages: a piece of the log, and a pause.
Result<void> Backup::pause() {
    assert_state();
    DCHECK(looked_at_ <= lsns_.size());
    if (env_.failed()) return env_.log->refused();
    TRY(goes_on_());
    if (options_.progress) {
        const threads::InCallback inside;
        options_.progress({.pages = looked_at_,
                           .pages_total = lsns_.size(),
                           .bytes = bytes_ + log().bytes(),
                           .log_bytes = log().bytes()});
    }
    const uint64_t before = log().bytes();
    TRY(log().catch_up(target_, kLogPiece));
    paced_log_ += log().bytes() - before;
    DCHECK(paced_log_ <= log().bytes());
    TRY(keep_up());
    if (!options_.bytes_per_second) {
        threads::yield();
        return {};
    }
    const double seconds =
        static_cast<double>(bytes_ + paced_log_) / static_cast<double>(*options_.bytes_per_second);
    const Nanos due = started_ + static_cast<Nanos>(seconds * kSecond);
    while (threads::now() < due) {
        TRY(goes_on_());
        threads::sleep_until(std::min(due, threads::now() + kLogPause));
        TRY(keep_up());
    }
    return {};
}

// BK-3: also of a slow backup, however fast the log grows. These bytes do not count for the pace:
// else a backup would never end if the log grows faster.
Result<void> Backup::keep_up() {
    const uint64_t lag_max = env_.log_options.capacity_bytes / kLogShare;
    DCHECK(lag_max > 0);
    while (log().lag() > lag_max) TRY(log().catch_up(target_, kLogPiece));
    return {};
}

// Both copies of the superblock: the backup's own, which names the checkpoint of the begin.
Result<void> Backup::write_superblocks() {
    for (uint32_t i = 0; i < kSuperblocks; ++i) {
        TRY(take_room());
        const uint32_t number = make_superblock_page(superblock_, *page(0));
        DCHECK(number < kSuperblocks);
        if (incremental()) continue;
        TRY(write("data", number * kPageBytes, slice_of(page(0)->bytes(), kPageBytes)));
    }
    return {};
}

// LW-3: a page above B comes from the log, and all others are copied with that lsn.
Result<void> Backup::write_lsns() {
    return WrittenLsns::make_file(
        superblock_.store_number(), lsns_, BackupTarget::kRoomBytes,
        [this] { return target_.room(); },
        [this](uint64_t offset, std::span<const std::byte> slots) {
            return write("data.lsn", offset, slice_of(slots.data(), slots.size()));
        });
}

Result<BackupInfo> Backup::finish() {
    env_.log->wait_until_published();
    const Lsn end = env_.log->tail();
    const Nanos ended_at = wall_now(env_.runtime->clock());
    CHECK(newest_ <= end.value);  // BK-2
    TRY(env_.log->wait_durable(end));
    TRY(log().finish(target_, end));
    TRY(write_superblocks());
    DCHECK(end.value > superblock_.checkpoint_lsn && env_.log->durable() >= end);
    BackupManifest manifest{};
    manifest.superblock = superblock_;
    manifest.end = end.value;
    manifest.pages = looked_at_;
    manifest.pages_copied = copied_;
    manifest.since_redo = incremental() ? options_.since->redo_from.value : 0;
    manifest.since_end = incremental() ? options_.since->lsn.value : 0;
    manifest.log_bytes = log().bytes() + 2 * txn::kLogBlock;
    manifest.bytes = bytes_ + manifest.log_bytes + kManifestBytes;
    manifest.pages_zeroed = zeroed_;
    manifest.nanos = threads::now() - started_;
    manifest.ended_at = ended_at;
    const auto block = std::make_unique<ManifestBlock>();
    encode_manifest(manifest, *block);
    TRY(target_.finish(*block));  // BK-5
    return manifest.info();
}

}  // namespace

Result<BackupInfo> make_backup(RestartEnv& env, BackupTarget& target, const BackupOptions& options,
                               const std::function<Result<void>()>& goes_on) {
    DCHECK(threads::current() != nullptr && !env.options.read_only);
    DCHECK(goes_on != nullptr);
    if (env.failed()) return env.log->refused();
    auto info = Backup(env, target, options, goes_on).run();
    if (!info) target.give_up();
    return info;
}

}  // namespace lockstep::sm
