// lock_manager.cc - construction of the lock manager, and its short calls: lock, try, unlock, held.
//
// Concepts   The common case finds a bucket without locks: latch it, write 16 bytes, unlatch, note
//            the name. Everything else is out of line.
#include "txn/lock/lock_manager.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "threads/base/coherence.h"
#include "threads/base/hints.h"
#include "threads/base/zero_bytes.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

LockManager::Impl::Impl(const LockOptions& o, LockArray& a)
    : options(o),
      array(a),
      partitions(
          make_partitions(lock_stage_options(o.stage), std::make_index_sequence<kPartitions>())) {
    // A table has two buckets or more.
    options.owners_max = std::clamp<uint32_t>(options.owners_max, 1, kOwnersMax);
    options.buckets_log2 = std::clamp<uint32_t>(options.buckets_log2, 1, LockArray::kDepthMax);
    options.buckets_min_log2 =
        std::clamp<uint32_t>(options.buckets_min_log2, 1, options.buckets_log2);
    array.buckets = map_buckets();
    resize.depth = resize.target = options.buckets_min_log2;
    array.shape = LockArray::shape_of(resize.depth);
    for (size_t i = 0; i < size_t{1} << resize.depth; ++i)
        array.buckets[i].header = LockBucket::header_of(resize.depth);
    owners = std::make_unique<std::atomic<LockOwner*>[]>(options.owners_max);
    search.seen.resize(options.owners_max);
    search.nodes.reserve(options.owners_max);
    search.path.reserve(options.owners_max);
    search.buckets.reserve(options.owners_max);
    coherence::name("lock bucket", array.buckets, bucket_bytes(options.buckets_log2),
                    sizeof(LockBucket));
    coherence::name("lock manager", this, sizeof *this, sizeof *this);
    for (const Partition& part : partitions)
        coherence::name("lock pool", &part, sizeof part, sizeof part);
    coherence::name_field("lock manager", "shape", array.shape);
}

LockManager::Impl::~Impl() {
    const size_t bytes = bucket_bytes(options.buckets_log2);
    if (options.mappings != nullptr) {
        std::memset(static_cast<void*>(array.buckets), 0, bytes);
        options.mappings->give(threads::MappingUse::locks, array.buckets, bytes);
    } else {
        munmap(array.buckets, bytes);
    }
}

LockBucket* LockManager::Impl::map_buckets() const {
    const size_t bytes = bucket_bytes(options.buckets_log2);
    void* memory = options.mappings != nullptr
                       ? options.mappings->take(threads::MappingUse::locks, bytes)
                       : nullptr;
    if (memory == nullptr) {
        memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(memory != MAP_FAILED);  // a store cannot start without its lock table
        // Whole huge pages would be touched where the table needs a part of one.
        madvise(memory, bytes, MADV_NOHUGEPAGE);
    }
    DCHECK(reinterpret_cast<uintptr_t>(memory) % kCacheLineBytes == 0);
    DCHECK(all_zero(static_cast<const std::byte*>(memory), sizeof(LockBucket)));
    return static_cast<LockBucket*>(memory);
}

LockManager::LockManager(const LockOptions& options)
    : impl_(std::make_unique<Impl>(options, array_)) {}

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
    if (!has_room(owner) || !lock_in_empty(array_, owner.slot, name, mode)) [[unlikely]]
        return impl_->lock_slow(owner, name, mode);
    push_name(owner, name);
    return {};
}

Result<Grant> LockManager::Impl::lock_long(LockOwner& owner, LockName name, LockMode mode,
                                           Ask ask) {
    if (!has_room(owner) && !grow_names(owner)) [[unlikely]]
        return fail(ErrorCode::out_of_memory, "lock names");
    LockBucket& b = latch(name.value);
    Grant grant = acquire_thin(b, owner.slot, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        grant = TRY(acquire(b, owner, name, mode, ask));
    else b.unlatch_thin();
    if (grant == Grant::fresh) push_name(owner, name);
    return grant;
}

Result<void> LockManager::Impl::lock_slow(LockOwner& owner, LockName name, LockMode mode) {
    TRY(lock_long(owner, name, mode, Ask::wait));
    return {};
}

Result<bool> LockManager::try_lock(LockOwner& owner, LockName name, LockMode mode) {
    DCHECK(name.value != 0 && mode != LockMode::none);
    owner.assert_state();
    return TRY(impl_->lock_long(owner, name, mode, Ask::attempt)) != Grant::refused;
}

Result<void> LockManager::wait_until_grantable(LockOwner& owner, LockName name, LockMode mode,
                                               ObjectId object) {
    LockBucket& bucket = impl_->latch(name.value);
    owner.waits_in = object;
    TRY(impl_->acquire(bucket, owner, name, mode, Ask::instant));
    return {};
}

// The look is an exchange, although it changes nothing: it comes before or after a lock on the same
// bucket, and what the caller did before it is then seen by that lock's owner.
bool LockManager::grantable(const LockOwner& owner, LockName name, LockMode mode) {
    const uint64_t shape = array_.shape.load(std::memory_order_relaxed);
    DCHECK(name.value != 0 && mode != LockMode::none);
    const uint64_t h = array_.bucket(shape, name.value).header.fetch_add(0);
    if (static_cast<uint16_t>(h) == LockArray::empty_header(shape)) [[likely]]
        return true;
    return impl_->grantable_slow(owner, name, mode);
}

namespace {

// An owner that holds nothing and is registered nowhere.
const LockOwner& nobody() {
    struct Nobody : LockOwner {
        Nobody() { slot = UINT32_MAX; }
    };
    static const Nobody none;
    DCHECK(none.locks_held == 0);
    return none;
}

}  // namespace

bool LockManager::grantable(LockName name, LockMode mode) {
    return grantable(nobody(), name, mode);
}

bool LockManager::Impl::grantable_slow(const LockOwner& owner, LockName name, LockMode mode) {
    LockBucket& bucket = latch(name.value);
    LockMode others, waiting;
    const LockMode own = rights_of(find(bucket, name.value), owner, &others, &waiting);
    bucket.unlatch_thin();
    return covers(own, mode) ||
           (compatible(mode, others) && (own != LockMode::none || compatible(waiting, mode)));
}

bool LockManager::only_committed(LockOwner& owner, LockName name) {
    const uint64_t shape = array_.shape.load(std::memory_order_relaxed);
    const uint64_t h = array_.bucket(shape, name.value).header.load(std::memory_order_acquire);
    DCHECK(name.value != 0 && owner.intents_used > 0);  // LM-9: an intention on the object
    if (static_cast<uint16_t>(h) != LockArray::empty_header(shape)) [[unlikely]]
        return impl_->only_committed_slow(owner, name, owner.seen);
    owner.seen = std::max(owner.seen, LockBucket::note_of(h));  // LM-8
    return true;
}

bool LockManager::only_committed(const ObjectLock& object, LockName name, Lsn& seen) {
    const uint64_t shape = array_.shape.load(std::memory_order_relaxed);
    const uint64_t h = array_.bucket(shape, name.value).header.load(std::memory_order_acquire);
    DCHECK(name.value != 0);
    if (static_cast<uint16_t>(h) != LockArray::empty_header(shape)) [[unlikely]]
        return impl_->only_committed_used(object, name, seen);
    return impl_->only_committed_but_object(object, LockBucket::note_of(h), seen);
}

bool LockManager::Impl::only_committed_used(const ObjectLock& object, LockName name, Lsn& seen) {
    uint64_t note = 0;
    return only_committed_slow(nobody(), name, note) &&
           only_committed_but_object(object, note, seen);
}

// `note`: of the name's bucket.
inline bool LockManager::Impl::only_committed_but_object(const ObjectLock& object, uint64_t note,
                                                         Lsn& seen) const {
    if (object.strong.load(std::memory_order_acquire) != 0) return false;
    // Behind `strong`: an owner notes its commit before it releases a strong lock.
    note = std::max({note, object.committed.load(std::memory_order_acquire),
                     unnamed.load(std::memory_order_acquire)});
    seen = lsn_of_note(note);
    return true;
}

bool LockManager::Impl::only_committed_slow(const LockOwner& owner, LockName name, uint64_t& seen) {
    LockBucket& bucket = latch(name.value);
    LockMode others, waiting;
    rights_of(find(bucket, name.value), owner, &others, &waiting);
    const uint64_t note = bucket.note();
    bucket.unlatch_thin();
    if ((others & LockMode::X) != LockMode::none) return false;
    seen = std::max(seen, note);  // LM-8
    return true;
}

LockMode LockManager::held(const LockOwner& owner, LockName name) const {
    LockBucket& bucket = impl_->latch(name.value);
    LockMode others, waiting;
    const LockMode own = Impl::rights_of(Impl::find(bucket, name.value), owner, &others, &waiting);
    bucket.unlatch_thin();
    return own;
}

void LockManager::unlock(LockOwner& owner, LockName name, LockMode rights) {
    owner.assert_state();
    LockBucket& bucket = impl_->latch(name.value);
    owner.seen = std::max(owner.seen, bucket.note());  // LM-8
    const Rest rest = release_thin(bucket, owner.slot, name, rights);
    if (rest == Rest::slow) [[unlikely]]
        return impl_->unlock_slow(bucket, owner, name, rights);
    bucket.unlatch_thin();
    if (rest == Rest::some) return;
    // Usually it is the newest name of a chunk that holds more.
    LockOwner::Chunk* chunk = owner.chunk;
    if (!chunk || owner.next < chunk->names + 2 || owner.next[-1] != name) [[unlikely]]
        return impl_->forget_name(owner, name);
    --owner.next;
    --owner.locks_held;
}

void LockManager::Impl::unlock_slow(LockBucket& b, LockOwner& owner, LockName name,
                                    LockMode rights) {
    if (release(b, owner, name, rights)) forget_name(owner, name);
}

void LockManager::keep_note(LockName name) {
    LockBucket& bucket = impl_->latch(name.value);
    const uint64_t note = bucket.note();
    bucket.unlatch_thin();
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
    size_t bytes = buckets() * sizeof(LockBucket) + sizeof(Impl) +
                   Impl::kPartitions * sizeof(Impl::Partition) +
                   impl_->options.owners_max * (sizeof(LockOwner*) + 2 * sizeof(uint32_t) +
                                                sizeof(DeadlockSearch::Node) + sizeof(LockBucket*));
    for (const Impl::Partition& partition : impl_->partitions)
        bytes += partition.requests.memory_bytes() + partition.heads.memory_bytes() +
                 partition.overflows.memory_bytes() + partition.chunks.memory_bytes() +
                 partition.objects.memory_bytes();
    return bytes;
}

size_t LockManager::buckets() const {
    return ((array_.shape.load(std::memory_order_relaxed) & UINT32_MAX) >> LockArray::kNameShift) +
           1;
}

std::span<const std::byte> LockManager::address_space() const {
    return {reinterpret_cast<const std::byte*>(array_.buckets),
            bucket_bytes(impl_->options.buckets_log2)};
}

}  // namespace lockstep::txn
