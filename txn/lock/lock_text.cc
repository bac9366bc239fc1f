// lock_text.cc - what a refused lock says: the lock, its holders, the cycle of a deadlock.
#include "txn/lock/lock_text.h"

#include <algorithm>

#include "threads/base/error_detail.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

namespace {

std::string number(uint64_t value) { return std::to_string(value); }
std::string txn_text(TxnId id) { return "txn " + number(id.value); }

// Milliseconds with a unit, as "12 ms" or "10.250 s".
std::string time_text(Nanos time) {
    const uint64_t ms = time / kMillisecond;
    if (ms < 1000) return number(ms) + " ms";
    const std::string rest = number(ms % 1000);
    return number(ms / 1000) + "." + std::string(3 - rest.size(), '0') + rest + " s";
}

}  // namespace

std::string lock_name_text(LockName name) {
    std::string digits;
    for (uint64_t value = name.value; value || digits.empty(); value >>= 4)
        digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
    return "0x" + digits;
}

// The object and, if it is not the object's own lock, the name in it.
std::string LockManager::Impl::place_text(ObjectId object, uint64_t name,
                                          const LockPlace& place) const {
    DCHECK(name != 0);
    if (object == kNoObject) return lock_name_text(LockName{name});
    const std::string text =
        options.object_text ? options.object_text(object) : "object " + number(object.value);
    if (object_lock_name(object).value == name) return text;
    const std::string known = options.place_text ? options.place_text(place) : "";
    return text + ", " + (known.empty() ? lock_name_text(LockName{name}) : known);
}

std::string Blocker::text(const std::function<std::string(TxnId)>& in_doubt) const {
    DCHECK(txn != kTxnNone && mode != LockMode::none && inner != txn);
    const std::string prepared = in_doubt ? in_doubt(txn) : "";
    std::string text = (queued ? "behind " : "held by ") + txn_text(txn) +
                       (prepared.empty() ? "" : ", " + prepared) + " (" + lock_mode_name(mode);
    // A bound: nobody notes when an uncontended lock is taken.
    if (time >= kMillisecond)
        text += std::string(queued ? ", waiting for " : ", for at least ") + time_text(time);
    text += ")";
    if (inner != kTxnNone) text += ", whose user thread runs " + txn_text(inner);
    return text;
}

std::unexpected<Error> LockManager::Impl::wait_failed(const LockOwner& owner, LockName name,
                                                      LockMode mode, WaitOutcome outcome,
                                                      const Blockers& blockers) {
    DCHECK(name.value != 0 && mode != LockMode::none && outcome != WaitOutcome::granted);
    DCHECK(owner.waiting.load() == nullptr && owner.thread == threads::current());
    DCHECK(threads::current()->latch_depth == 0);  // object_text() may take one
    std::string text = std::string("asked for ") + lock_mode_name(mode) + " on " +
                       place_text(owner.waits_in, name.value);
    auto refused = [&](ErrorCode code, uint64_t b = 0) {
        auto error = fail(code, "lock", name.value, b);
        set_error_detail(error.error(), text);
        return error;
    };
    switch (outcome) {
        case WaitOutcome::own_thread:
        case WaitOutcome::deadlock: {
            DCHECK(owner.cycle != 0);
            const std::string cycle = describe_cycle(owner.cycle);
            if (!cycle.empty()) text += "; " + cycle;
            return refused(
                outcome == WaitOutcome::deadlock ? ErrorCode::deadlock : ErrorCode::self_deadlock,
                owner.cycle);
        }
        case WaitOutcome::timeout:
            text += " and waited " + time_text(blockers.waited);
            for (uint32_t i = 0; i < std::min(blockers.count, Blockers::kMax); ++i)
                text += "; " + blockers.of[i].text(options.in_doubt_text);
            if (blockers.count > Blockers::kMax)
                text += "; and " + number(blockers.count - Blockers::kMax) + " more";
            return refused(ErrorCode::lock_timeout);
        case WaitOutcome::cancelled: return refused(ErrorCode::cancelled);
        case WaitOutcome::store_failed: {
            const Result<void> state = options.store_state();
            CHECK(!state);  // a failed store stays failed (LOG-5)
            return std::unexpected(state.error());
        }
        case WaitOutcome::granted:
        case WaitOutcome::none: break;
    }
    CHECK(false);  // LK-3: a wait ends with an outcome
    return refused(ErrorCode::cancelled);
}

std::string LockManager::describe_cycle(uint32_t id) const { return impl_->describe_cycle(id); }

std::string LockManager::Impl::describe_cycle(uint32_t id) {
    CycleRecord record;
    {
        const SpinGuard guard(search.latch);
        record = search.kept[id % DeadlockSearch::kKept];
    }
    if (id == 0 || record.id != id) return {};
    DCHECK(record.length > 0);
    DCHECK(record.victim != kTxnNone);
    std::string text;
    const uint32_t lines = std::min<uint32_t>(record.length, CycleRecord::kLines);
    for (uint32_t i = 0; i < lines; ++i) {
        const CycleLine& line = record.lines[i];
        if (i) text += "; ";
        text += txn_text(line.txn) + " waits for " + lock_mode_name(line.wanted) + " on " +
                place_text(line.object, line.name, line.place) + " " +
                line.blocker.text(options.in_doubt_text);
    }
    if (record.length > lines) text += "; and " + number(record.length - lines) + " more";
    return text + "; victim " + txn_text(record.victim);
}

}  // namespace lockstep::txn
