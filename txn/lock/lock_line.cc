// lock_line.cc - a repetition waits for its turn, and leaves its lines early.
#include "txn/lock/lock_line.h"

#include <algorithm>
#include <utility>

#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

Retry LockManager::retry_of(const LockOwner& owner, bool victim) {
    DCHECK(owner.txn != kTxnNone && owner.waiting.load() == nullptr);
    Retry retry{.first = owner.is_repetition() ? owner.age : owner.txn,
                .deadlocks = level_of(owner) + uint32_t{victim}};
    if (victim) retry.object = owner.waits_in, retry.lock = owner.lost.value;
    return retry;
}

void LockManager::repeat(LockOwner& owner, const Retry& retry) {
    DCHECK(owner.locks_held == 0 && owner.txn != kTxnNone);
    if (retry.first == kTxnNone) return;
    owner.repeats = owner.txn;
    owner.age = retry.first;
    owner.level = static_cast<uint8_t>(std::min<uint32_t>(retry.deadlocks, kLevels));
    if (owner.level == 0 || retry.lock == 0) return;
    owner.waits_in = retry.object;
    const LockPlace place{.kind = PlaceKind::line};
    owner.place = &place;
    const LockName lines[kLevels] = {line_of_record(LockName{retry.lock}),
                                     line_of_object(retry.object), line_of_store()};
    for (uint8_t i = 0; i < owner.level && impl_->wait_in_line(*this, owner, lines[i]);) ++i;
    owner.place = nullptr;
}

// True once the owner has the line. Goes to the end of the line again as long as the line moves.
// All who wait do so, and the order stays nearly the same.
bool LockManager::Impl::wait_in_line(LockManager& self, LockOwner& owner, LockName line) {
    DCHECK(is_line(line) && owner.waiting.load() == nullptr);  // LNE-3
    const Nanos longest = owner.timeout;
    const Nanos began = threads::now(), bound = std::min(longest, options.timeout);
    bool taken = false, moves = true;
    for (TxnId first{}; moves && !taken;) {
        const TxnId before = std::exchange(first, first_in_line(line));
        const Nanos waited = threads::now() - began;
        if ((first != kTxnNone && first == before) || waited >= bound) break;
        owner.timeout = std::min(kPatience, bound - waited);
        const Result<void> locked = self.lock(owner, line, LockMode::X);
        taken = locked.has_value();
        moves = taken || locked.error().code == ErrorCode::lock_timeout;
    }
    owner.timeout = longest;
    return taken;
}

// Who has the line now, or kTxnNone.
TxnId LockManager::Impl::first_in_line(LockName line) {
    LockBucket& bucket = latch(line.value);
    const BucketGuard guard(bucket);
    const LockEntry* entry = find(bucket, line.value);
    if (entry == nullptr) return kTxnNone;
    if (word::is_fat(entry->word)) return word::head(entry->word)->granted_first->owner->txn;
    const LockOwner* owner = owners[word::slot(entry->word)].load(std::memory_order_acquire);
    CHECK(owner != nullptr);  // LM-4: a holder is registered
    return owner->txn;
}

void LockManager::leave_lines(LockOwner& owner) {
    owner.assert_state();
    for (LockOwner::Chunk* chunk = owner.chunk; chunk; chunk = chunk->before)
        for (uint64_t i = 0; i < owner.used_in(chunk); ++i)
            if (is_line(chunk->names[i])) {
                impl_->release_one(owner, chunk->names[i], LockMode::X);
                owner.names_unsure = true;  // the list keeps the name
            }
}

}  // namespace lockstep::txn
