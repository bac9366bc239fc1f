// version_bucket.h - a bucket of the table that finds the versions of records by name.
//
// Concepts   The versions of a record form a chain, newest first. A bucket is a list of chains. Its
//            head carries tags in the bits that no pointer has: one of 16 for each record. So most
//            looks for a record without versions read nothing else.
// Invariants VB-1 A bucket's tags are those of its records at least. Each is one of the bits that
//                 the record's hash chooses.
//            VB-2 A record has one chain in its bucket. Only the newest version has a valid `next`.
// Blocking   Nothing. The caller holds the bucket's lock, except where it says otherwise.
// Source     The tagged pointers of hash joins: Leis, Boncz, Kemper, Neumann, "Morsel-Driven
//            Parallelism", 2014.
#pragma once

#include <atomic>

#include "sm/version/version.h"
#include "threads/base/hints.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {

class VersionBucket {
public:
    static constexpr size_t kBucketsMax = 1u << 28;  // of a table; the other bits choose tags

    mutable SpinLock lock;

    // Any thread. False: the record has no version.
    bool may_have(ShortHash hash) const {
        return (word_.load(std::memory_order_acquire) & tag_of(hash)) != 0;
    }
    // The same. Asks for the first chain, if the record may have one.
    bool ask_for_first(ShortHash hash) const {
        const uint64_t word = word_.load(std::memory_order_acquire);
        if ((word & tag_of(hash)) == 0) return false;
        prefetch_line(first_of(word));
        return true;
    }
    // The rest is under the lock. The record's newest version.
    [[gnu::always_inline]] Version* find(const RecordName& name) const {
        return find(name.object, name.key, short_hash(name.hash));
    }
    // The same of a record that may have one: the tags are not looked at again.
    [[gnu::always_inline]] Version* find_in_chains(const RecordName& name) const {
        return find_in(first_of(word_.load(std::memory_order_relaxed)), name.object, name.key,
                       short_hash(name.hash));
    }
    // Asks for what comes behind the first chain's newest version, which is mostly the one that
    // the caller will look for.
    void ask_behind_first() const {
        DCHECK(lock.is_held());
        const Version* const first = first_of(word_.load(std::memory_order_relaxed));
        if (first == nullptr) return;
        prefetch_line(first->writer);
        prefetch_line(first->older);
    }
    // Becomes the newest of its record, which has none.
    void push_first(Version& version) {
        DCHECK(lock.is_held() && !version.linked && newest_of(version) == nullptr);
        const uint64_t word = word_.load(std::memory_order_relaxed);
        version.next = first_of(word);
        version.linked = true;
        set_first(&version, (word | tag_of(version.hash)) & kTags);
    }
    // Becomes the newest of its record.
    void push(Version& version) {
        DCHECK(lock.is_held() && !version.linked);
        Version* const newest = newest_of(version);
        if (newest == nullptr) return push_first(version);
        version.older = newest;
        version.linked = true;
        replace(*newest, &version);
    }
    // Becomes the oldest of its record.
    void push_oldest(Version& version) {
        Version* oldest = newest_of(version);
        if (oldest == nullptr) return push_first(version);
        while (oldest->older != nullptr) oldest = oldest->older;
        oldest->older = &version;
        version.linked = true;
    }
    void unlink(Version& version) {
        DCHECK(lock.is_held() && version.linked);
        Version* at = newest_of(version);
        DCHECK(at != nullptr);
        if (at == &version) {
            replace(version, version.older);
            if (version.older == nullptr) set_tags();
        } else {
            while (at->older != &version) at = at->older;
            at->older = version.older;
        }
        version.linked = false;
    }

private:
    static constexpr uint32_t kPointerBits = 48;
    static constexpr uint64_t kTags = ~uint64_t{0} << kPointerBits;

    static uint64_t tag_of(ShortHash hash) { return uint64_t{1} << (kPointerBits + (hash >> 28)); }
    static Version* first_of(uint64_t word) { return reinterpret_cast<Version*>(word & ~kTags); }
    [[gnu::always_inline]] Version* find(ObjectId object, Slice key, ShortHash hash) const {
        DCHECK(lock.is_held());
        const uint64_t word = word_.load(std::memory_order_relaxed);
        if ((word & tag_of(hash)) == 0) return nullptr;
        return find_in(first_of(word), object, key, hash);
    }
    [[gnu::always_inline]] Version* find_in(Version* at, ObjectId object, Slice key,
                                            ShortHash hash) const {
        DCHECK(lock.is_held());
        while (at != nullptr && !at->is_of(object, key, hash)) at = at->next;
        return at;
    }
    // Of the version's record. Apart: push() and unlink() are short otherwise.
    [[gnu::noinline]] Version* newest_of(const Version& version) const {
        return find(version.object, version.key(), version.hash);
    }
    void set_first(Version* version, uint64_t tags) {
        const auto pointer = reinterpret_cast<uintptr_t>(version);
        DCHECK((pointer & kTags) == 0 && (tags & ~kTags) == 0);
        word_.store(pointer | tags, std::memory_order_release);
    }
    // In the list: `by` takes the place of a record's newest version; null: nothing does.
    void replace(Version& newest, Version* by) {
        Version* const behind = newest.next;
        if (by != nullptr) by->next = behind;
        Version* const instead = by != nullptr ? by : behind;
        const uint64_t word = word_.load(std::memory_order_relaxed);
        Version* at = first_of(word);
        if (at == &newest) return set_first(instead, word & kTags);
        while (at->next != &newest) at = at->next;
        at->next = instead;
    }
    // Those of the records that are left.
    void set_tags() {
        Version* const first = first_of(word_.load(std::memory_order_relaxed));
        uint64_t tags = 0;
        for (const Version* at = first; at != nullptr; at = at->next) tags |= tag_of(at->hash);
        set_first(first, tags);
    }

    std::atomic<uint64_t> word_{0};  // written under lock
};

}  // namespace lockstep::sm
