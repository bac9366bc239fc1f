// host.cc - driving a store.
#include "tests/sim/host.h"

namespace lockstep::sim {

namespace {
constexpr uint64_t kStepsMax = 20'000'000;       // far beyond what any single call here takes
}

Host::Host(threads::SimDisk& disk, const Config& config, uint64_t variant) : disk_(disk), tick_(config.tick) {
    seams_.disk = &disk;
    seams_.clock = &clock_;
    seams_.caller_driven = true;
    seams_.seed = stream(config.seed, Stream::schedule).fork(variant).next();
    seams_.random_schedule = true;
    seams_.idle = [this] { return idle(); };
    options_.workers = config.workers;
    options_.pool_bytes = config.pool_bytes;
    options_.log_bytes = config.log_bytes;
    options_.log_segment_bytes = 1 << 20;
    options_.log_ring_bytes = 1 << 20;
    options_.checkpoint_log_bytes = config.checkpoint_log_bytes;
    options_.lazy_flush_interval = config.lazy_flush_interval;
    options_.lock_table_bytes_log2 = 16;
    options_.transactions_max = 64;
    options_.lock_timeout = config.lock_timeout;
    options_.escalate_at = config.escalate_at;
    options_.steps = config.steps;
    options_.seams = &seams_;
    options_.logger = [this](int level, std::string_view text) {
        if (level == 0) errors_ += std::string(text) + "\n";
    };
}

Host::~Host() { abandon(); }

Result<void> Host::open() {
    auto opened = Store::open("/store", options_);
    if (!opened) return std::unexpected(opened.error());
    store_.emplace(std::move(*opened));
    return {};
}

Result<void> Host::close() {
    auto done = store_->close();
    store_.reset();
    return done;
}

void Host::abandon() {
    if (!store_) return;
    store_->engine().abandon();
    store_.reset();
}

bool Host::idle() {
    if (disk_.advance(clock_)) return true;
    const Nanos next = store_ ? store_->engine().runtime->next_deadline() : kNever;
    clock_.advance(next != kNever && next > clock_.now() ? std::min(next - clock_.now(), kSecond) : kMillisecond);
    return true;
}

void Host::step() {
    clock_.advance(tick_);
    if (!store_->engine().runtime->step()) idle();
}

bool Host::on_thread(std::function<Result<void>()> fn, Result<void>* result) {
    bool ended = false;
    Result<void> outcome;
    auto handle = store_->start([&]() -> Result<void> {
        outcome = fn();
        ended = true;
        return {};
    }, 0);
    for (uint64_t steps = 0; !ended; ++steps) {
        if (steps > kStepsMax) return false;
        step();
    }
    if (result) *result = outcome;
    return true;
}

Result<void> Host::read_object(Txn& txn, const Store::Entry& entry, ObjectContent& object) {
    object = {.is_index = entry.is_index, .rows = {}};
    if (!entry.is_index)
        return TRY(store_->heap(entry.name)).scan(txn, [&](RecordId id, Slice value) {
            return object.rows.emplace(key_of_record(id), value_of(std::string(value))).second;
        });
    Cursor cursor = TRY(store_->index(entry.name)).scan(txn);
    while (TRY(cursor.next())) object.rows.emplace_hint(object.rows.end(), cursor.key(), value_of(std::string(cursor.value())));
    return {};
}

Result<Content> Host::read_all(std::set<std::string>* unreadable) {
    Content content;
    Result<void> outcome;
    const bool ended = on_thread([&]() -> Result<void> {
        for (const Store::Entry& entry : store_->list()) {
            auto done = store_->run([&](Txn& txn) { return read_object(txn, entry, content[entry.name]); }, {.read_only = true});
            if (!done && unreadable && done.error().code == ErrorCode::corrupt_page) {
                unreadable->insert(entry.name);
                content.erase(entry.name);
            } else {
                TRY(done);
            }
        }
        return {};
    }, &outcome);
    if (!ended) return fail(ErrorCode::timeout, "reading everything hangs");
    if (!outcome) return std::unexpected(outcome.error());
    return content;
}

}  // namespace lockstep::sim
