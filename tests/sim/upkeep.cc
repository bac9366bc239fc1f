// upkeep.cc - what happens beside transactions or while none runs: backups, space given back,
// transactions that are ended from outside.
#include <fmt/format.h>

#include "sm/backup/restore.h"
#include "tests/sim/records.h"

namespace lockstep::sim {

namespace {
constexpr size_t kCopiesMax = 4;
}  // namespace

std::string Records::directory_of(size_t copy) const {
    return generation_ == 0 ? fmt::format("/backup{}", copy)
                            : fmt::format("/backup{}.{}", generation_, copy);
}

void Records::inherit(const Records& earlier, uint64_t at) {
    if (!shared_.config.variety.late_backups) return;
    for (const Copy& copy : earlier.copies_) {
        if (copy.ended > at) break;
        copies_.push_back(copy);
        copies_.back().ended = 0;
    }
    inherited_ = copies_.size();
}

void Records::check(const char* what, const Result<void>& done) {
    if (done) return;
    const ErrorCode code = done.error().code;
    const bool lost_superblock = shared_.config.profile == FaultProfile::lost_writes &&
                                 code == ErrorCode::corrupt_superblock;
    if (!lost_superblock && !(shared_.failures_allowed && is_failure_of_environment(code)))
        shared_.report.fail(fmt::format("{}: {}", what, done.error().text()));
}

// All threads stop before their next transaction, until then.
void Records::rest(Host& host, Nanos pause) {
    if (pause > 0) {
        shared_.report.add(Count::idle_times);
        quiet_until_ = std::max(quiet_until_, host.clock().now() + pause);
    }
    while ((host.clock().now() < quiet_until_ || auditing_) && !shared_.report.failed())
        sleep_for(host.clock().now() < quiet_until_ ? quiet_until_ - host.clock().now()
                                                    : kMillisecond);
}

// Each second one is incremental. Two that follow each other on an idle store are of one point.
void Records::back_up(Host& host) {
    const bool late = generation_ > 0;
    if (copies_begun_ == kCopiesMax || (late && !shared_.config.variety.late_backups)) return;
    const size_t number = copies_begun_++;
    BackupOptions how;
    const BackupInfo since = copies_.empty() ? BackupInfo() : copies_.back().info;
    // The first one behind a recovery follows one from before the crash.
    const bool incremental = number % 2 == (inherited_ > 0 ? 0 : 1) && !copies_.empty();
    if (incremental) how.since = &since;
    const size_t base = copies_.size() - 1;
    const auto done = host->backup(directory_of(number), how);
    if (!done) return check("backup", std::unexpected(done.error()));
    shared_.report.add(late ? Count::late_backups : Count::backups);
    copies_.push_back({directory_of(number), *done, incremental ? base : kNoBase, ledger_.tick()});
}

void Records::give_back_space(Host& host) {
    if (std::exchange(shrinking_, true)) return;
    const auto done = host->give_back_space();
    shrinking_ = false;
    shared_.report.add(Count::shrinks);
    if (!done) check("give_back_space", std::unexpected(done.error()));
}

void Records::cycle(Host& host) {
    shared_.report.add(Count::cycles);
    back_up(host);
    give_back_space(host);
    back_up(host);
}

// Any of them. It may end by itself first, or be in doubt.
void Records::end_another(Host& host, uint64_t choice) {
    std::vector<TransactionInfo> all = host->transactions();
    std::erase_if(all, [](const TransactionInfo& t) { return t.internal; });
    if (all.empty()) return;
    const TxnId id = all[choice % all.size()].id;
    ended_.insert(id.value);
    const auto done = host->end_transaction(id);
    if (done) return shared_.report.add(Count::ended_outside);
    if (done.error().code != ErrorCode::txn_ended && done.error().code != ErrorCode::bad_argument)
        check("end_transaction", done);
}

// Each holds exactly the commits up to its point. With the archive, it becomes the state of the
// archive's end and of a point between.
void Records::judge_copies(threads::SimDisk& disk) {
    for (size_t at = inherited_; at < copies_.size(); ++at) {
        const Copy& copy = copies_[at];
        std::vector<std::string> parts{copy.directory};
        for (size_t n = copy.base; n != kNoBase; n = copies_[n].base)
            parts.insert(parts.begin(), copies_[n].directory);
        judge_copy(disk, parts, parts.size() == 1 ? copy.directory : "", {});
        if (!shared_.config.variety.archive) continue;
        const Lsn end = judge_copy(disk, parts, "", {.archive = kArchive});
        if (end == kLsnNone || end <= copy.info.lsn) continue;
        const uint64_t length = end.value - copy.info.lsn.value;
        const Lsn between{shared_.config.variety.second
                              ? copy.info.lsn.value + hash_of(copy.directory + "/") % length
                              : copy.info.lsn.value + length / 2};
        judge_copy(disk, parts, "", {.archive = kArchive, .until = between});
    }
}

// `directory`: opened as it is; empty: the parts are restored. Returns the point.
Lsn Records::judge_copy(threads::SimDisk& disk, const std::vector<std::string>& parts,
                        std::string directory, const RestoreOptions& how) {
    const auto wrong = [&](const std::string& what) {
        shared_.report.fail(
            fmt::format("{} {}: {}", how.archive ? "archive" : "backup", parts.back(), what));
        return kLsnNone;
    };
    if (shared_.report.failed()) return kLsnNone;
    const auto image = disk.image(0, threads::SimCrash::keep_all);
    Lsn point = copies_[0].info.lsn;
    for (const Copy& copy : copies_)
        if (copy.directory == parts.back()) point = copy.info.lsn;
    if (directory.empty()) {
        directory = "/restored";
        const auto done = sm::restore_on(*image, parts, directory, how);
        if (!done) return wrong("restore: " + done.error().text());
        point = done->lsn;
    }
    Config config = shared_.config;
    config.variety.archive = false;
    Host host(*image, config, 5000);
    if (const auto opened = host.open(directory); !opened) return wrong(opened.error().text());
    if (const std::string fault = doubts_.roll_back_all(host); !fault.empty()) return wrong(fault);
    const auto seen = host.read_all();
    if (!seen) return wrong("reading: " + seen.error().text());
    if (const std::string fault = ledger_.judge_copy(*seen, point, doubts_.undecided());
        !fault.empty())
        return wrong(fmt::format("at {}: {}", point.value, fault));
    const auto faults = host->verify();
    if (!faults) return wrong("verify: " + faults.error().text());
    for (const std::string& text : *faults) wrong(text);
    shared_.report.add(generation_ > 0 ? Count::late_copies_judged : Count::copies_judged);
    return point;
}

}  // namespace lockstep::sim
