// erased_keys.h - keys of B-tree records that have left their leaves and that snapshots may see.
//
// Concepts   A deleted record stays in its leaf as a ghost. Ghosts slow down the scans of others.
//            So they are removed as soon as their names are free, also below a snapshot. Point
//            reads of a snapshot find the record's versions by its name. Its scans need the order:
//            they merge the leaves' keys with the keys that are kept here.
//            Keys that a leaf has again, or that have no version any more, do no harm: a scan looks
//            up what the snapshot sees of each key.
// Invariants EK-1 While a record that is in no leaf has a version whose writer did not abort, its
//                 key is here. It is put here under the exclusive latch of its leaf, before it
//                 leaves the leaf.
// Blocking   Spin lock, held for a bounded number of keys. Nothing parks.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include <lockstep/function_ref.h>
#include "sm/version/record_state.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {

class ErasedKeys {
public:
    // False: the key is here already.
    bool add(ObjectId object, Slice key);
    bool any() const { return count_.load(std::memory_order_acquire) != 0; }
    bool any_of(ObjectId object) const;
    // False: no key of the object is here.
    bool may_have_of(ObjectId object) const {
        return shares_[object.value % kShares].load(std::memory_order_acquire) != 0;
    }

    enum class From : uint8_t { low, high };
    struct Found {
        std::string text;             // of all keys
        std::vector<uint32_t> begin;  // of each key in `text`, ascending by key
        bool all = true;              // no key of the range was left out
        Slice key(size_t i) const {
            const size_t end = i + 1 < begin.size() ? begin[i + 1] : text.size();
            return Slice(text).substr(begin[i], end - begin[i]);
        }
    };
    // Keys in [low, high), a null `high` being the end: at most kFoundMax from that side on.
    static constexpr size_t kFoundMax = 128;
    void find(ObjectId object, Slice low, const Slice* high, From from, Found& out) const;

    // Drops keys that are not needed, looking at `most` of them. Returns the number.
    size_t sweep(size_t most, FunctionRef<bool(const RecordName&)> needed);
    void clear();
    // The counts, while nothing runs: text of a fault, or empty.
    const char* verify() const;

    // Memory of one key.
    static size_t bytes_of(Slice key) { return sizeof(Entry) + 64 + key.size(); }
    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

private:
    struct Entry {
        ObjectId object;
        std::string key;
    };
    struct Place {
        ObjectId object;
        Slice key;
    };
    struct Less {
        using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
        static Place place(const Entry& e) { return {e.object, e.key}; }
        static Place place(const Place& p) { return p; }
        bool operator()(const auto& a, const auto& b) const {
            const Place x = place(a), y = place(b);
            return x.object.value != y.object.value ? x.object.value < y.object.value
                                                    : x.key < y.key;
        }
    };
    using Keys = std::set<Entry, Less>;
    Keys::const_iterator place_of(ObjectId object, Slice key) const;

    mutable SpinLock lock_;
    Keys keys_;                         // under lock_
    std::deque<Keys::iterator> queue_;  // of all keys, in the order in which sweep() looks at them
    std::atomic<uint64_t> count_{0}, bytes_{0};
    static constexpr size_t kShares = 64;
    std::array<std::atomic<uint64_t>, kShares> shares_{};  // keys by object; objects share them
};

}  // namespace lockstep::sm
