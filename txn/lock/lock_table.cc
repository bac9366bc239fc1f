// lock_table.cc - entries of a bucket: find, insert, erase; thin to fat and back.
//
// Blocking   Everything here runs under the bucket's latch and takes at most a pool's.
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

LockEntry* LockManager::Impl::find(LockBucket& bucket, uint64_t name) {
    for (LockBucket* part = &bucket; part; part = part->overflow)
        if (LockEntry* entry = find_inline(*part, LockName{name})) return entry;
    return nullptr;
}

LockEntry* LockManager::Impl::insert(LockBucket& bucket, uint64_t name) {
    DCHECK(has_name(bucket, name) && find(bucket, name) == nullptr);
    bucket.assert_state();
    LockBucket* last = &bucket;
    for (LockBucket* part = &bucket; part; part = part->overflow) {
        if (const uint64_t free = ~part->head() & LockBucket::kUsedMask)
            return use(*part, static_cast<unsigned>(std::countr_zero(free)) - 1, name);
        last = part;
    }
    LockBucket* more = overflows_of(bucket).get();
    if (!more) return nullptr;
    DCHECK(last->overflow == nullptr && more->overflow == nullptr);
    more->header.store(0, std::memory_order_relaxed);
    last->overflow = more;
    return use(*more, 0, name);
}

LockEntry* LockManager::Impl::use(LockBucket& part, unsigned entry, uint64_t name) {
    DCHECK(!part.uses(entry) && name != 0);
    part.entries[entry].name = name;
    part.set_used(entry, true);
    return &part.entries[entry];
}

void LockManager::Impl::erase(LockBucket& bucket, LockEntry* entry) {
    const uint64_t name = entry->name;
    DCHECK(has_name(bucket, name) && part_of(entry).uses(index_of(entry)));
    LockBucket& part = part_of(entry);
    DCHECK(&part == &bucket || bucket.overflow != nullptr);
    part.set_used(index_of(entry), false);
    if (&part == &bucket || !part.is_empty()) return;
    LockBucket* before = &bucket;
    while (before->overflow != &part) before = before->overflow;
    before->overflow = part.overflow;
    overflows_of(bucket).put(&part);
}

// Finds the thin holder's owner from its slot: an owner with a lock stays registered.
LockHead* LockManager::Impl::inflate(uint64_t name, LockEntry* entry) {
    DCHECK(!word::is_fat(entry->word) && entry->name == name);
    LockOwner* owner = owners[word::slot(entry->word)].load(std::memory_order_acquire);
    CHECK(owner != nullptr);  // LM-4: a holder is registered
    DCHECK(owner->slot == word::slot(entry->word));
    Partition& pools = partition(name);
    LockHead* head = pools.heads.get();
    if (!head) return nullptr;
    *head = LockHead{};
    if (!add_granted(name, head, owner, word::mode(entry->word))) {
        pools.heads.put(head);
        return nullptr;
    }
    entry->word = word::fat(head);
    inflations.fetch_add(1, std::memory_order_relaxed);
    return head;
}

void LockManager::Impl::deflate(LockBucket& bucket, LockEntry* entry) {
    LockHead* head = word::head(entry->word);
    DCHECK(bucket.is_held());
    head->assert_state();
    LockRequest* only = head->granted_first;
    if (!head->line.empty()) {
        CHECK(only != nullptr);  // LK-1: with no holder every waiter could be granted
        return;
    }
    if (only && only->next) return;
    Partition& pools = partition(entry->name);
    if (only) {
        DCHECK(head->granted.mask == only->granted);
        DCHECK(owners[only->owner->slot].load(std::memory_order_relaxed) == only->owner);
        entry->word = word::thin(only->owner->slot, only->granted);
        pools.requests.put(only);
    }
    pools.heads.put(head);
    if (!only) erase(bucket, entry);
}

LockRequest* LockManager::Impl::add_granted(uint64_t name, LockHead* head, LockOwner* owner,
                                            LockMode mode) {
    head->assert_state();
    DCHECK(granted_of(head, owner) == nullptr && mode != LockMode::none);  // one request each
    LockRequest* request = partition(name).requests.get();
    if (!request) return nullptr;
    request->name.store(name, std::memory_order_relaxed);
    request->owner = owner;
    request->head = head;
    request->granted = mode;
    request->wanted = LockMode::none;
    request->entered = 0;
    request->prev = nullptr;
    request->next = head->granted_first;
    if (head->granted_first) head->granted_first->prev = request;
    head->granted_first = request;
    head->granted.add(mode);
    return request;
}

LockRequest* LockManager::Impl::granted_of(LockHead* head, const LockOwner* owner) {
    LockRequest* request = head->granted_first;
    while (request && request->owner != owner) request = request->next;
    return request;
}

LockMode LockManager::Impl::rights_of(const LockEntry* entry, const LockOwner& owner,
                                      LockMode* others, LockMode* waiting) {
    *others = *waiting = LockMode::none;
    if (!entry) return LockMode::none;
    if (!word::is_fat(entry->word)) {
        if (word::slot(entry->word) == owner.slot) return word::mode(entry->word);
        *others = word::mode(entry->word);
        return LockMode::none;
    }
    LockHead* head = word::head(entry->word);
    const LockRequest* own = granted_of(head, &owner);
    const LockMode rights = own ? own->granted : LockMode::none;
    *others = head->granted.without(rights);
    *waiting = head->waiting.mask;
    return rights;
}

}  // namespace lockstep::txn
