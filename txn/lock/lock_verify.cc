// lock_verify.cc - checks the whole table against its invariants, while nothing else runs.
//
// Concepts   verify() may run while waiters are parked. A right granted to an owner that has not
//            run since is in the table but not yet in the owner's list. Such owners are recognised
//            by their outcome, which they have not read yet.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "txn/lock/lock_impl.h"

namespace lockstep::txn {
namespace {

class Verifier {
public:
    explicit Verifier(const LockManager::Impl& impl) : impl_(impl) {}

    std::string run() {
        list_names();
        const uint32_t depth = std::max(impl_.resize.depth, impl_.resize.target);
        for (size_t i = 0; i < size_t{1} << depth && error_.empty(); ++i) check_bucket(i);
        for (uint32_t slot = 0; slot < impl_.owners_end.load() && error_.empty(); ++slot)
            check_owner(slot);
        for (size_t i = 0; i < LockManager::Impl::kPartitions && error_.empty(); ++i)
            error_ = impl_.partitions[i].stage.verify(queued_[i], 0);
        check_strong();
        check_pools();
        for (const auto& [owner, waits_for] : blockers_) check_cycle(owner);
        return error_;
    }

private:
    void require(bool good, const char* what, uint64_t name) {
        if (!good && error_.empty()) error_ = std::string(what) + ", lock " + std::to_string(name);
    }

    void list_names() {
        for (uint32_t slot = 0; slot < impl_.owners_end.load(); ++slot) {
            const LockOwner* owner = impl_.owners[slot].load();
            if (!owner) continue;
            auto& names = names_[owner];
            held_[owner];
            for (auto* chunk = owner->chunk; chunk; chunk = chunk->before)
                for (uint64_t i = 0; i < owner->used_in(chunk); ++i)
                    names.insert(chunk->names[i].value);
            for (uint32_t i = 0; i < owner->intents_used; ++i)
                names.insert(object_lock_name(owner->intents[i].lock->id).value);
        }
    }

    // LM-4: each holder in the table lists the name.
    void check_listed(const LockOwner* owner, uint64_t name) {
        require(owner != nullptr, "LM-4: holder is not registered", name);
        if (owner) held_[owner].insert(name);
        if (!owner || owner->outcome != WaitOutcome::none) return;
        require(names_[owner].contains(name), "LM-4: holder does not list the name", name);
    }

    // LT-1: one bucket for each name.
    void check_depth(const LockBucket& bucket, size_t index) {
        const Resize& resize = impl_.resize;
        const uint32_t low = std::min(resize.depth, resize.target);
        const bool changed = (index & ((size_t{1} << low) - 1)) < resize.moved;
        const uint32_t depth = changed ? resize.target : resize.depth;
        require(bucket.depth() == (index >> depth ? 0 : depth), "LT-1: depth of bucket", index);
        require(!bucket.is_held(), "latched bucket", index);
        require(bucket.head() == bucket.normal_header(), "LK-6: odd bit of bucket", index);
        require(bucket.depth() || bucket.head() == 0, "LT-1: bucket outside the table", index);
    }

    void check_bucket(size_t index) {
        std::unordered_set<uint64_t> seen;
        LockBucket& first = impl_.array.buckets[index];
        check_depth(first, index);
        for (LockBucket* part = &first; part; part = part->overflow) {
            bool used = part == &first;
            in_use_.overflows += part != &first;
            for (unsigned i = 0; i < LockBucket::kEntries; ++i) {
                if (!part->uses(i)) continue;
                const LockEntry& entry = part->entries[i];
                used = true;
                require((entry.name & LockArray::mask_of(first.depth())) ==
                            impl_.array.offset_of(first),
                        "LT-1: entry in a foreign bucket", entry.name);
                require(seen.insert(entry.name).second, "two entries of one name", entry.name);
                if (word::is_fat(entry.word)) {
                    check_head(entry.name, *word::head(entry.word));
                } else {
                    require(word::mode(entry.word) != LockMode::none, "thin entry without a right",
                            entry.name);
                    const uint32_t slot = word::slot(entry.word);
                    check_listed(
                        slot < impl_.options.owners_max ? impl_.owners[slot].load() : nullptr,
                        entry.name);
                }
            }
            require(used, "empty overflow bucket", index);
        }
    }

    void check_head(uint64_t name, const LockHead& head) {
        DCHECK(name != 0);
        RightCounts granted = {}, waiting = {};
        ++in_use_.heads;
        require(head.granted_first != nullptr, "LK-1: fat entry without a holder", name);
        require(!head.line.empty() || (head.granted_first && head.granted_first->next),
                "fat entry with one holder only", name);
        for (auto* a = head.granted_first; a; a = a->next) {
            check_listed(a->owner, name);
            ++in_use_.requests;
            require(a->head == &head && a->name.load() == name && a->granted != LockMode::none,
                    "request out of place", name);
            granted.add(a->granted);
            for (auto* b = a->next; b; b = b->next) {
                require(a->owner != b->owner, "two requests of one owner", name);
                require(compatible(a->granted, b->granted) || compatible(b->granted, a->granted),
                        "LM-1: conflicting holders", name);
            }
        }
        check_queue(name, head, waiting);
        for (int bit = 0; bit < 7; ++bit)
            require(granted.count[bit] == head.granted.count[bit] &&
                        waiting.count[bit] == head.waiting.count[bit],
                    "wrong counts", name);
        require(granted.mask == head.granted.mask && waiting.mask == head.waiting.mask,
                "wrong masks", name);
    }

    void check_queue(uint64_t name, const LockHead& head, RightCounts& waiting) {
        LockMode ahead = LockMode::none;
        bool new_seen = false;
        for (auto* request = head.line.first; request; request = request->next) {
            require(request->name.load() == name && request->head == &head, "queue links", name);
            ++in_use_.requests;
            for_each_blocker(*request, [&](const LockRequest& at, bool) {
                blockers_[request->owner].push_back(at.owner);
                return true;
            });
            require(request->owner->waiting.load() == request,
                    "LM-3: owner does not wait for its request", name);
            require(waiting_.insert(request->owner).second, "LM-3: owner waits twice", name);
            require(request->bypassed <= impl_.options.stage.bypass_max,
                    "STG-2: overtaken too often", name);
            require(!request->own || !new_seen, "conversion behind a new request", name);
            new_seen = new_seen || !request->own;
            const LockMode others =
                request->own ? head.granted.without(request->own->granted) : head.granted.mask;
            require(!compatible(request->wanted, others) ||
                        (!request->own && !compatible(ahead, request->wanted)),
                    "LM-2: a waiter could be granted", name);
            ahead = ahead | request->wanted;
            waiting.add(request->wanted);
        }
        queued_[LockManager::Impl::partition_of(name)] += head.line.length;
        require(LockStage::verify_line(head.line).empty(), "queue links", name);
    }

    void check_owner(uint32_t slot) {
        const LockOwner* owner = impl_.owners[slot].load();
        if (!owner) return;
        require((owner->waiting.load() != nullptr) == waiting_.contains(owner),
                "LM-3: owner waits outside every queue", slot);
        uint64_t listed = 0;
        for (auto* chunk = owner->chunk; chunk; chunk = chunk->before, ++in_use_.chunks)
            listed += owner->used_in(chunk);
        require(listed == owner->locks_held, "LM-4: names miscounted, owner slot", slot);
        check_names(*owner);
        for (uint32_t i = 0; i < LockOwner::kIntentsMax; ++i)
            require((owner->noted[i].load() != 0) == (i < owner->intents_used),
                    "IL-2: noted intentions, owner slot", slot);
        for (uint32_t i = 0; i < owner->intents_used; ++i) check_intent(*owner, i);
        for (auto* list = owner->strong_unlisted; list; list = list->before, ++in_use_.objects)
            for (uint64_t i = 0; i < list->used; ++i) ++strong_[list->of[i]].sure;
    }

    // The owner's list, as far as it is sure, has each name once and no name that is not held.
    void check_names(const LockOwner& owner) {
        DCHECK(owner.next <= owner.end);
        if (owner.names_unsure) return;
        const auto& held = held_[&owner];
        std::unordered_set<uint64_t> once;
        for (auto* chunk = owner.chunk; chunk; chunk = chunk->before)
            for (uint64_t i = 0; i < owner.used_in(chunk); ++i) {
                const uint64_t name = chunk->names[i].value;
                require(held.contains(name), "LM-4: listed name is not held", name);
                require(once.insert(name).second, "LM-4: name is listed twice", name);
            }
    }

    // LM-6, IL-4: a confirmed intention that is only noted stands beside no strong right of others.
    void check_intent(const LockOwner& owner, uint32_t i) {
        const Intent& intent = owner.intents[i];
        DCHECK(i < owner.intents_used && intent.lock != nullptr);
        const uint64_t noted = owner.noted[i].load(),
                       name = object_lock_name(intent.lock->id).value;
        require(noted::is_for(noted, intent.lock->id), "IL-2: noted for another object", name);
        Strong& strong = strong_[intent.lock];
        intent.strong_counted ? ++strong.sure : strong.maybe += intent.real;
        if (owner.outcome == WaitOutcome::none)
            require(
                without(intent.held, noted::mode(noted) | rights_of(owner, name)) == LockMode::none,
                "IL-1: a right on an object is recorded nowhere", name);
        if (intent.held == LockMode::none || held_[&owner].contains(name)) return;
        if (intent.lock->strong.load() == 0) return;
        for (const auto& [other, names] : held_)
            require(other == &owner || !names.contains(name) ||
                        compatible(intent.held, rights_of(*other, name)),
                    "LM-6: noted intention beside a strong right", name);
    }
    LockMode rights_of(const LockOwner& owner, uint64_t name) const {
        const uint64_t shape = impl_.array.shape.load();
        DCHECK(name != 0 && owner.slot < impl_.options.owners_max);
        LockMode others = LockMode::none, waiting = LockMode::none;
        const LockEntry* entry = LockManager::Impl::find(impl_.array.bucket(shape, name), name);
        return entry ? LockManager::Impl::rights_of(entry, owner, &others, &waiting)
                     : LockMode::none;
    }

    // IL-4: nobody is counted who has no strong right and wants none. An owner in the middle of its
    // request may be counted and not say so yet. A barred object is counted by itself.
    void check_strong() {
        for (const auto& [lock, owners] : strong_) {
            const uint32_t counted = lock->strong.load();
            DCHECK(lock->id.value != kNoObject.value);
            require(counted >= owners.sure &&
                        (lock->gone.load() || counted <= owners.sure + owners.maybe),
                    "IL-4: owners of strong rights miscounted", object_lock_name(lock->id).value);
        }
    }

    // LK-10: what the pools gave out is in the table, or in the lists of the owners.
    void check_pools() {
        InUse given;
        for (const auto& partition : impl_.partitions) {
            given.requests += partition.requests.in_use();
            given.heads += partition.heads.in_use();
            given.overflows += partition.overflows.in_use();
            given.chunks += partition.chunks.in_use();
            given.objects += partition.objects.in_use();
        }
        DCHECK(in_use_.heads * 2 <= in_use_.requests);  // LK-1: a fat lock has two requests
        require(given.requests == in_use_.requests, "requests lost", given.requests);
        require(given.heads == in_use_.heads, "heads lost", given.heads);
        require(given.overflows == in_use_.overflows, "overflow buckets lost", given.overflows);
        require(given.chunks == in_use_.chunks, "chunks of names lost", given.chunks);
        require(given.objects == in_use_.objects, "lists of objects lost", given.objects);
    }

    // LM-5: following the waits from `start` never leads back to it.
    void check_cycle(const LockOwner* start) {
        DCHECK(start->waiting.load() != nullptr);
        std::vector<const LockOwner*> next{start};
        std::unordered_set<const LockOwner*> seen;
        while (!next.empty()) {
            const LockOwner* owner = next.back();
            next.pop_back();
            const auto at = blockers_.find(owner);
            if (at == blockers_.end()) continue;
            for (const LockOwner* blocker : at->second) {
                require(blocker != start, "LM-5: a deadlock is left, txn", start->txn.value);
                if (seen.insert(blocker).second) next.push_back(blocker);
            }
        }
    }

    // Owners with a strong right on an object; and those that may be asking for one.
    struct Strong {
        uint32_t sure = 0, maybe = 0;
    };
    // Objects of the pools that the walk has found.
    struct InUse {
        size_t requests = 0, heads = 0, overflows = 0, chunks = 0, objects = 0;
    };

    const LockManager::Impl& impl_;
    std::unordered_map<const LockOwner*, std::unordered_set<uint64_t>> names_;
    std::unordered_map<const LockOwner*, std::unordered_set<uint64_t>> held_;  // in the table
    std::unordered_map<const LockOwner*, std::vector<const LockOwner*>> blockers_;
    std::unordered_map<const ObjectLock*, Strong> strong_;
    std::unordered_set<const LockOwner*> waiting_;
    InUse in_use_;
    uint64_t queued_[LockManager::Impl::kPartitions] = {};
    std::string error_;
};

}  // namespace

std::string LockManager::verify() const { return Verifier(*impl_).run(); }

}  // namespace lockstep::txn
