// restart.cc - ARIES restart: one pass for analysis and redo, then locks for the transactions in
// doubt, rollback of the losers, and a checkpoint.
//
// Blocking   The reader blocks worker 0's kernel thread for each chunk of the log; nothing else
//            runs in the store yet.
#include "sm/core/cleanup.h"
#include "sm/recovery/recovery_parts.h"
#include "sm/space/space_map.h"
#include "threads/base/check.h"
#include "threads/base/memory_reserve.h"

namespace lockstep::sm {

namespace {

// RC-5. A change behind the restore's point needs the checkpoint that came before it.
Result<void> require_applied(const RestartEnv& env, const txn::LogRecordView& record) {
    if (record.header->kind < txn::kSmLogKindFirst ||
        record.lsn.value < env.superblock.history_begin)
        return {};
    return fail(ErrorCode::corrupt_superblock, "superblock is older than a change in the log",
                env.superblock.checkpoint_lsn, record.lsn.value);
}

Result<void> read_log(RestartEnv& env, Lsn from, Analysis& analysis, ParallelRedo& redo,
                      RecoveryReport& report) {
    txn::LogReader reader(*env.disk, env.log_options);
    reader.seek(from);
    for (txn::LogRecordView record;
         reader.position() < report.log_end && TRY(reader.next(record));) {
        TRY(MemoryReserve::require());  // partitions' batches grow beyond it
        ++report.records;
        TRY(analysis.see(record));
        if (analysis.begins_with_checkpoint()) TRY(redo.feed(record));
        else TRY(require_applied(env, record));
    }
    return reader.require_end(report.log_end);
}

// One after the other, newest first: the order depends on the log alone (RC-4).
Result<void> undo_losers(RestartEnv& env, const std::vector<Unended>& losers,
                         RecoveryReport& report) {
    DCHECK(env.txns->active() == 0);  // nothing else runs
    for (const Unended& loser : losers) {
        txn::Transaction* txn = TRY(env.txns->adopt(loser.id, loser.first, loser.last));
        DCHECK(txn->id == loser.id && txn->last_lsn == loser.last);
        txn->thread = threads::current();
        txn->state = txn::TxnState::aborting;
        report.undone += TRY(undo_chain(env, *txn, kLsnNone));
        env.txns->finish_abort(*txn, true);
        ++report.losers;
    }
    return {};
}

// RC-5. The next restart begins with what is changed from now on.
Result<void> begin_redo_here(RestartEnv& env, const std::vector<Unended>& losers) {
    DCHECK(env.checkpointer != nullptr && env.image_lsn.load() == kLsnMax.value);
    env.losers = &losers;
    auto done = env.checkpointer->run(true);
    env.losers = nullptr;
    return done;
}

}  // namespace

Result<RecoveryReport> restart(RestartEnv& env, Lsn checkpoint_begin) {
    const Clock& clock = env.runtime->clock();
    RecoveryReport report;
    report.redo_from = checkpoint_begin;
    report.log_end = env.log->tail();
    DCHECK(checkpoint_begin <= report.log_end);
    env.image_lsn.store(kLsnMax.value);
    const Nanos began = clock.now();

    Analysis analysis(checkpoint_begin);
    Nanos read;
    {
        ParallelRedo redo(env, report);
        TRY(redo.start());
        auto reading = read_log(env, checkpoint_begin, analysis, redo, report);
        read = clock.now();
        auto applied = redo.finish();
        TRY(reading);
        TRY(applied);
    }
    TRY(require_list(env.superblock, analysis.lacks_list(), report.log_end));
    if (env.log_read) TRY(env.log_read());
    const Nanos redone = clock.now();
    report.analysis_nanos = read - began;
    report.redo_nanos = redone - read;
    if (env.redone) env.redone();
    // What is changed from now on is replayed from the same begin record, until the next
    // checkpoint: the same image rule goes on.
    if (analysis.begins_with_checkpoint()) env.image_lsn.store(analysis.image_lsn().value);
    env.txns->set_next_id(std::max(analysis.next_txn(), TxnId{env.superblock.next_txn}));
    TRY(env.space->open());
    if (env.objects) TRY(env.objects->load());
    std::vector<Unended> losers = analysis.unended();
    report.in_doubt = TRY(adopt_in_doubt(env, losers));
    if (!analysis.begins_with_checkpoint()) TRY(begin_redo_here(env, losers));
    // Not before: a redo finds the page again (keep_repaired()), and RC-5 allows no change.
    env.pool->set_repaired([&env](ExclusivePage& page) { return log_repaired_page(env, page); });
    TRY(undo_losers(env, losers, report));
    report.undo_nanos = clock.now() - redone;
    report.clean = env.superblock.clean && analysis.changes() == 0;
    if (!report.clean && env.checkpointer) TRY(env.checkpointer->run(true));
    return report;
}

}  // namespace lockstep::sm
