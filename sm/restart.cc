// restart.cc - ARIES restart: one pass that analyses and redoes, then the losers are rolled back, then a checkpoint.
//
// Blocking   The reader blocks worker 0's kernel thread for each chunk of the log; nothing else runs in the store yet.
#include "sm/catalog.h"
#include "sm/recovery_parts.h"
#include "threads/base/check.h"
#include "threads/base/memory_reserve.h"
#include "threads/base/planted.h"

namespace lockstep::sm {

namespace {

Result<void> read_log(Engine& engine, Lsn from, Analysis& analysis, ParallelRedo& redo, RecoveryReport& report) {
    txn::LogReader reader(*engine.disk, engine.log_options);
    reader.seek(from);
    for (txn::LogRecordView record; reader.position() < report.log_end && TRY(reader.next(record));) {
        TRY(MemoryReserve::require());           // lanes' batches grow beyond it
        ++report.records;
        TRY(analysis.see(record));
        TRY(redo.feed(record));
    }
    if (reader.position() < report.log_end) return fail(ErrorCode::corrupt_log, "log", reader.position().value);
    return {};
}

// One after the other, newest first: the order depends on the log alone (RC-4).
Result<void> undo_losers(Engine& engine, const std::vector<Analysis::Loser>& losers, RecoveryReport& report) {
    for (const Analysis::Loser& loser : losers) {
        if (PLANTED(loser_kept) && &loser == losers.data()) continue;
        txn::Transaction* txn = TRY(engine.txns->adopt(loser.id, loser.first, loser.last));
        txn->thread = threads::current();
        txn->state = txn::TxnState::aborting;
        report.undone += TRY(undo_chain(engine, *txn, kLsnNone));
        engine.txns->finish_abort(*txn, true);
        ++report.losers;
    }
    return {};
}

}  // namespace

Result<RecoveryReport> restart(Engine& engine, Lsn checkpoint_begin) {
    const Clock& clock = engine.runtime->clock();
    RecoveryReport report;
    report.redo_from = checkpoint_begin;
    report.log_end = engine.log->tail();
    engine.image_horizon.store(kLsnMax.value);
    const Nanos began = clock.now();

    Analysis analysis(checkpoint_begin);
    Nanos read;
    {
        ParallelRedo redo(engine, report);
        TRY(redo.start());
        auto reading = read_log(engine, checkpoint_begin, analysis, redo, report);
        read = clock.now();
        auto applied = redo.finish();
        TRY(reading);
        TRY(applied);
    }
    const Nanos redone = clock.now();
    report.analysis_nanos = read - began;
    report.redo_nanos = redone - read;
    if (const Seams* seams = engine.options.seams; seams && seams->redone) seams->redone(engine);
    // What is changed from now on is replayed from the same begin record, until the next checkpoint: the same image rule goes on.
    engine.image_horizon.store(analysis.horizon().value);
    engine.txns->set_next_id(std::max(analysis.next_txn(), TxnId{engine.superblock.next_txn}));
    TRY(engine.space->open());
    if (engine.catalog) TRY(engine.catalog->load());
    TRY(undo_losers(engine, analysis.losers(), report));
    report.undo_nanos = clock.now() - redone;
    report.clean = engine.superblock.clean && analysis.changes() == 0;
    if (!report.clean && engine.checkpointer) TRY(engine.checkpointer->run(true));
    return report;
}

}  // namespace lockstep::sm
