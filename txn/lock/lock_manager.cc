// lock_manager.cc - construction of the lock manager, and its short calls: lock, try, unlock, held.
//
// Concepts   The common case uses one free entry, or the caller's own, in one bucket: latch,
//            compare three names, write 16 bytes, unlatch, note the name. Everything else is out of
//            line (lock_acquire.cc).
#include "txn/lock/lock_manager.h"

#include <sys/mman.h>

#include <algorithm>

#include "threads/base/hints.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

LockManager::Impl::Impl(const LockOptions& o) : options(o) {
    for (size_t i = 0; i < kPartitions; ++i)
        partitions.emplace_back(lock_stage_options(options.stage));
    // Waiters and holders are counted in 16 bits, and the smallest table needs a shift below 64.
    options.owners_max = std::clamp<uint32_t>(options.owners_max, 1, 65535);
    options.buckets_log2 = std::clamp<uint32_t>(options.buckets_log2, 4, 32);
    shift = 64 - options.buckets_log2;
    bucket_bytes = sizeof(LockBucket) << options.buckets_log2;
    void* memory =
        mmap(nullptr, bucket_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);  // a store cannot start without its lock table
    // A hint: fewer TLB misses where the system grants it.
    madvise(memory, bucket_bytes, MADV_HUGEPAGE);
    buckets = static_cast<LockBucket*>(memory);
    owners = std::make_unique<std::atomic<LockOwner*>[]>(options.owners_max);
    search.seen.resize(options.owners_max);
    search.nodes.reserve(options.owners_max);
    search.path.reserve(options.owners_max);
    search.buckets.reserve(options.owners_max);
}

LockManager::Impl::~Impl() { munmap(buckets, bucket_bytes); }

LockManager::LockManager(const LockOptions& options) : impl_(std::make_unique<Impl>(options)) {
    buckets_ = impl_->buckets;
    shift_ = impl_->shift;
}

LockManager::~LockManager() = default;

void LockManager::add_owner(LockOwner& owner) {
    CHECK(owner.slot < impl_->options.owners_max);
    CHECK(impl_->owners[owner.slot].load(std::memory_order_relaxed) == nullptr);
    owner.assert_state();
    DCHECK(owner.locks_held == 0 && owner.waiting.load() == nullptr);
    uint32_t end = impl_->owners_end.load();
    while (end <= owner.slot && !impl_->owners_end.compare_exchange_weak(end, owner.slot + 1)) {}
    impl_->owners[owner.slot].store(&owner);  // sequentially consistent: see lock_object.cc
}

void LockManager::remove_owner(LockOwner& owner) {
    CHECK(impl_->owners[owner.slot].load(std::memory_order_relaxed) == &owner);
    CHECK(owner.locks_held == 0 && owner.intents_used == 0);  // LM-4: release_all came before
    DCHECK(owner.waiting.load() == nullptr && owner.strong_unlisted == nullptr);
    while (owner.chunk) impl_->pop_chunk(owner);
    impl_->owners[owner.slot].store(nullptr);
    while (impl_->watchers.load() != 0) cpu_relax();
}

void LockManager::forget_owner(LockOwner& owner) {
    while (owner.chunk) impl_->pop_chunk(owner);
}

Result<void> LockManager::lock(LockOwner& owner, LockName name, LockMode mode) {
    DCHECK(name.value != 0 && mode != LockMode::none);
    owner.assert_state();
    if (!has_room(owner)) [[unlikely]]
        return impl_->grow_and_lock(*this, owner, name, mode);
    LockBucket& bucket = buckets_[name.value >> shift_];
    if (lock_thin(bucket, owner, name, mode) == Grant::slow) [[unlikely]]
        return impl_->lock_slow(bucket, owner, name, mode);
    return {};
}

Result<void> LockManager::Impl::grow_and_lock(LockManager& self, LockOwner& owner, LockName name,
                                              LockMode mode) {
    if (!grow_names(owner)) return fail(ErrorCode::out_of_memory, "lock names");
    return self.lock(owner, name, mode);
}

Result<void> LockManager::Impl::lock_slow(LockBucket& b, LockOwner& owner, LockName name,
                                          LockMode mode) {
    if (TRY(acquire(b, owner, name, mode, Ask::wait)) == Grant::fresh) push_name(owner, name);
    return {};
}

Result<bool> LockManager::try_lock(LockOwner& owner, LockName name, LockMode mode) {
    DCHECK(name.value != 0 && mode != LockMode::none);
    owner.assert_state();
    if (!has_room(owner) && !impl_->grow_names(owner)) [[unlikely]]
        return fail(ErrorCode::out_of_memory, "lock names");
    LockBucket& bucket = buckets_[name.value >> shift_];
    Grant grant = lock_thin(bucket, owner, name, mode);
    if (grant == Grant::slow) [[unlikely]] {
        grant = TRY(impl_->acquire(bucket, owner, name, mode, Ask::attempt));
        if (grant == Grant::fresh) push_name(owner, name);
    }
    return grant != Grant::refused;
}

Result<void> LockManager::wait_until_grantable(LockOwner& owner, LockName name, LockMode mode,
                                               ObjectId object) {
    LockBucket& bucket = buckets_[name.value >> shift_];
    bucket.latch.lock();
    owner.waits_in = object;
    TRY(impl_->acquire(bucket, owner, name, mode, Ask::instant));
    return {};
}

bool LockManager::grantable(const LockOwner& owner, LockName name, LockMode mode) {
    LockBucket& bucket = buckets_[name.value >> shift_];
    const SpinGuard guard(bucket.latch);
    if (!find_inline(bucket, name) && !bucket.overflow) [[likely]]
        return true;
    LockMode others, waiting;
    const LockMode own = Impl::rights_of(Impl::find(bucket, name.value), owner, &others, &waiting);
    return covers(own, mode) ||
           (compatible(mode, others) && (own != LockMode::none || compatible(waiting, mode)));
}

LockMode LockManager::held(const LockOwner& owner, LockName name) const {
    LockBucket& bucket = buckets_[name.value >> shift_];
    const SpinGuard guard(bucket.latch);
    LockMode others, waiting;
    return Impl::rights_of(Impl::find(bucket, name.value), owner, &others, &waiting);
}

void LockManager::unlock(LockOwner& owner, LockName name, LockMode rights) {
    owner.assert_state();
    LockBucket& bucket = buckets_[name.value >> shift_];
    bucket.latch.lock();
    owner.seen = std::max(owner.seen, bucket.note());  // LM-8
    const Rest rest = release_thin(bucket, owner.slot, name, rights);
    if (rest == Rest::slow) [[unlikely]]
        return impl_->unlock_slow(bucket, owner, name, rights);
    bucket.latch.unlock();
    if (rest == Rest::some) return;
    // Usually it is the newest name of a chunk that holds more.
    LockOwner::Chunk* chunk = owner.chunk;
    if (!chunk || chunk->used < 2 || chunk->names[chunk->used - 1] != name) [[unlikely]]
        return impl_->forget_name(owner, name);
    DCHECK(owner.locks_held >= chunk->used);
    --chunk->used;
    --owner.locks_held;
}

void LockManager::Impl::unlock_slow(LockBucket& b, LockOwner& owner, LockName name,
                                    LockMode rights) {
    if (release(b, owner, name, rights)) forget_name(owner, name);
}

void LockManager::keep_note(LockName name) {
    if (MUTANT(removed_ghost_not_noted)) return;
    LockBucket& bucket = buckets_[name.value >> shift_];
    bucket.latch.lock();
    const uint64_t note = bucket.note();
    bucket.latch.unlock();
    raise_note(impl_->unnamed, note);
}

void LockManager::keep_note(Lsn committed) { raise_note(impl_->unnamed, commit_note(committed)); }

LockManager::Stats LockManager::stats() const {
    Stats stats;
    for (const Impl::Partition& partition : impl_->partitions)
        stats.granted_at_once += partition.released.load(std::memory_order_relaxed);
    stats.waits = impl_->waits.load(std::memory_order_relaxed);
    stats.deadlocks = impl_->deadlocks.load(std::memory_order_relaxed);
    stats.timeouts = impl_->timeouts.load(std::memory_order_relaxed);
    stats.escalations = impl_->escalations.load(std::memory_order_relaxed);
    stats.inflations = impl_->inflations.load(std::memory_order_relaxed);
    stats.wait_nanos = impl_->wait_nanos.load(std::memory_order_relaxed);
    return stats;
}

StageStats LockManager::stage_stats() const {
    StageStats sum;
    for (const Impl::Partition& partition : impl_->partitions) sum.add(partition.stage.stats());
    return sum;
}

size_t LockManager::memory_bytes() const {
    size_t bytes = impl_->bucket_bytes + sizeof(Impl) +
                   Impl::kPartitions * sizeof(Impl::Partition) +
                   impl_->options.owners_max * (sizeof(LockOwner*) + 2 * sizeof(uint32_t) +
                                                sizeof(DeadlockSearch::Node) + sizeof(LockBucket*));
    for (const Impl::Partition& partition : impl_->partitions)
        bytes += partition.requests.memory_bytes() + partition.heads.memory_bytes() +
                 partition.overflows.memory_bytes() + partition.chunks.memory_bytes();
    return bytes;
}

}  // namespace lockstep::txn
