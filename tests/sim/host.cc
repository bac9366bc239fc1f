// host.cc - the store of a configuration, and its content.
#include "tests/sim/host.h"

#include "sm/buffer/page.h"
#include "sm/engine/engine.h"
#include "tests/sim/entries.h"
#include "txn/log/log.h"

namespace lockstep::sim {

Host::Host(threads::SimDisk& disk, const Config& config, uint64_t variant)
    : SimStore(disk, stream(config.seed, Stream::schedule).fork(variant).next(), config.workers),
      tick_(config.tick) {
    Options& o = options();
    o.transactions_max = config.transactions_max;
    if (config.pool_bytes < o.pool_bytes) pool_bytes(config.pool_bytes);
    o.log_bytes = config.log_bytes;
    o.log_segment_bytes = config.log_segment_bytes;
    o.checkpoint_log_bytes = config.checkpoint_log_bytes;
    o.lazy_flush_interval = config.lazy_flush_interval;
    o.lock_timeout = config.lock_timeout;
    o.escalate_at = config.escalate_at;
    o.steps = config.steps;
    o.executors = config.executors;
    if (config.variety.archive) o.archive = kArchive, o.archive_interval = 100 * kMillisecond;
    interrupt_one_in(config.interrupt_one_in);
    // Memory for some fifteen versions: snapshots become too old, and versions are given up.
    if (config.seed % 4 == 1) version_bytes(2048);
}

Result<void> Host::open(std::string_view directory) {
    TRY(SimStore::open(directory));
    return attach_keys();
}

Result<void> Host::attach_keys() {
    for (const Store::Entry& entry : (*this)->list())
        if (entry.of != ObjectId{}) TRY((*this)->attach_key(entry.name, entry_keys));
    return {};
}

Lsn Host::log_end() { return engine().log->tail(); }

Result<void> Host::make_secondary(Txn& txn, const std::string& name, Index of) {
    TRY((*this)->open_or_create_index(txn, "by." + name, {.of = of, .key = entry_keys}));
    return {};
}

bool Host::on_thread(std::function<Result<void>()> fn, Result<void>* result) {
    Result<void> outcome;
    if (!drive([&] { outcome = fn(); }, tick_)) return false;
    if (result) *result = outcome;
    return true;
}

Result<void> Host::read_object(Txn& txn, const Store::Entry& entry, ObjectContent& object) {
    object = {.is_index = entry.is_index, .rows = {}};
    if (!entry.is_index)
        return TRY((*this)->heap(entry.name)).scan(txn, [&](RecordId id, Slice value) {
            return object.rows.emplace(key_of_record(id), value_of(std::string(value))).second;
        });
    Cursor cursor = TRY((*this)->index(entry.name)).scan(txn);
    while (TRY(cursor.next()))
        object.rows.emplace_hint(object.rows.end(), cursor.key(),
                                 value_of(std::string(cursor.value())));
    return {};
}

Result<Content> Host::read_all(std::set<std::string>* unreadable) {
    Content content;
    Result<void> outcome;
    const bool ended = on_thread(
        [&]() -> Result<void> {
            for (const Store::Entry& entry : (*this)->list()) {
                if (entry.of != ObjectId{}) continue;  // verify() compares it with its primary
                auto done = (*this)->run(
                    [&](Txn& txn) { return read_object(txn, entry, content[entry.name]); },
                    {.read_only = true});
                if (!done && unreadable && sm::is_bad_page(done.error().code)) {
                    unreadable->insert(entry.name);
                    content.erase(entry.name);
                } else {
                    TRY(done);
                }
            }
            return {};
        },
        &outcome);
    if (!ended) return fail(ErrorCode::timeout, "reading everything hangs");
    if (!outcome) return std::unexpected(outcome.error());
    return content;
}

}  // namespace lockstep::sim
