// attempt_prepare.cc - the first phase of a two-phase commit, which ends the attempt.
#include <fmt/format.h>

#include "tests/sim/attempt.h"

namespace lockstep::sim {

// What has changed nothing ends at once, as by commit().
void Attempt::vote_read_only(Txn& txn) {
    const size_t number = work_.ledger().commit_called({}, {}, reads_, read_from_, true, who_);
    const Result<Vote> vote = txn.prepare(fmt::format("reader {}", number_));
    if (vote && *vote != Vote::read_only) unexpected("prepare", "a reader is in doubt");
    work_.ledger().commit_returned(number,
                                   vote ? Result<Lsn>(kLsnNone) : std::unexpected(vote.error()));
    if (!vote) refused(txn, "prepare", vote.error());
}

void Attempt::prepare(Txn& txn) {
    if (plan_.read_only) return vote_read_only(txn);
    const auto marker = leave_marker(txn);
    if (!marker) return (void)end(txn, std::unexpected(marker.error()));
    Ledger& ledger = work_.ledger();
    Doubt& doubt = work_.doubts().add({.gid = work_.gid_of(*marker),
                                       .marker = *marker,
                                       .who = who_,
                                       .changes = changes_,
                                       .reads = reads_,
                                       .read_from = read_from_,
                                       .decision = plan_.decision,
                                       .called = ledger.tick()});
    const Lsn before = host_.log_end();
    const Result<Vote> vote = txn.prepare(doubt.gid);
    shared_.digest.add(202, host_.clock().now(), thread_, number_, vote ? 0 : 1);
    if (!vote) return refused(txn, "prepare", vote.error());
    if (*vote != Vote::prepared) return unexpected("prepare", "it has changed nothing");
    shared_.report.add(Count::prepared);
    ledger.became_durable(before);
    doubt.prepared = ledger.now();
    work_.decide_later(host_, doubt, plan_.in_doubt);
}

// The call failed, and the transaction may be there still.
void Attempt::refused(Txn& txn, const char* call, const Error& error) {
    shared_.report.add(Count::failed);
    // Half of the slots of transactions may be in doubt.
    const bool too_many = error.code == ErrorCode::too_many && shared_.config.variety.crowd;
    if (!too_many && !may_fail(error.code)) unexpected(call, error.text());
    if (txn.live()) (void)txn.abort();
}

}  // namespace lockstep::sim
