// erased_keys.cc - the ordered set of keys and the queue that frees them.
#include "sm/version/erased_keys.h"

#include <algorithm>

#include "threads/base/limits.h"

namespace lockstep::sm {

static_assert(ErasedKeys::kFoundMax == limits::most::erased_found);

// Under lock_: the key's place beside the newest one, where it most likely belongs. The ghosts of a
// leaf go in their order.
ErasedKeys::Keys::const_iterator ErasedKeys::place_of(ObjectId object, Slice key) const {
    DCHECK(lock_.is_held() && queue_.empty() == keys_.empty());
    if (queue_.empty()) return keys_.end();
    const Keys::const_iterator newest = queue_.back();
    return Less()(*newest, Place{object, key}) ? std::next(newest) : newest;
}

bool ErasedKeys::add(ObjectId object, Slice key) {
    DCHECK(object.value != 0);
    Keys made;
    made.insert({object, std::string(key)});
    Keys::node_type node = made.extract(made.begin());
    const SpinGuard guard(lock_);
    const size_t before = keys_.size();
    const auto at = keys_.insert(place_of(object, key), std::move(node));
    if (keys_.size() == before) return false;
    queue_.push_back(at);
    count_.store(keys_.size(), std::memory_order_release);
    shares_[object.value % kShares].fetch_add(1, std::memory_order_release);
    bytes_.fetch_add(bytes_of(key), std::memory_order_relaxed);
    DCHECK(queue_.size() == keys_.size());
    return true;
}

bool ErasedKeys::any_of(ObjectId object) const {
    if (!any()) return false;
    const SpinGuard guard(lock_);
    const auto at = keys_.lower_bound(Place{object, {}});
    return at != keys_.end() && at->object == object;
}

void ErasedKeys::find(ObjectId object, Slice low, const Slice* high, From from, Found& out) const {
    DCHECK(high == nullptr || low <= *high);
    out.text.clear();
    out.begin.clear();
    out.all = true;
    const SpinGuard guard(lock_);
    auto first = keys_.lower_bound(Place{object, low});
    auto last = keys_.lower_bound(high != nullptr ? Place{object, *high}
                                                  : Place{ObjectId{object.value + 1}, {}});
    // The keys next to that side.
    auto at = from == From::low ? first : last;
    size_t n = 0;
    for (; n < limits::erased_found() && at != (from == From::low ? last : first); ++n)
        from == From::low ? ++at : --at;
    (from == From::low ? last : first) = at;
    out.all = n < limits::erased_found();
    for (; first != last; ++first) {
        DCHECK(first->object == object);
        out.begin.push_back(static_cast<uint32_t>(out.text.size()));
        out.text.append(first->key);
    }
    DCHECK(out.begin.size() == n);
}

size_t ErasedKeys::sweep(size_t most, FunctionRef<bool(const RecordName&)> needed) {
    if (!any()) return 0;
    size_t freed = 0;
    Keys gone;  // freed behind the lock
    const SpinGuard guard(lock_);
    for (size_t left = std::min(most, queue_.size()); left != 0; --left) {
        const Keys::iterator at = queue_.front();
        queue_.pop_front();
        // A key that is needed again is added under the lock: after it has a version (EK-1).
        if (needed(name_of_key(at->object, at->key))) {
            queue_.push_back(at);
            continue;
        }
        bytes_.fetch_sub(bytes_of(at->key), std::memory_order_relaxed);
        [[maybe_unused]] const uint64_t before =
            shares_[at->object.value % kShares].fetch_sub(1, std::memory_order_release);
        DCHECK(before != 0);
        gone.insert(keys_.extract(at));
        ++freed;
    }
    count_.store(keys_.size(), std::memory_order_release);
    DCHECK(queue_.size() == keys_.size());
    return freed;
}

const char* ErasedKeys::verify() const {
    const SpinGuard guard(lock_);
    std::array<uint64_t, kShares> shares{};
    uint64_t bytes = 0;
    for (const Entry& entry : keys_) {
        ++shares[entry.object.value % kShares];
        bytes += bytes_of(entry.key);
    }
    if (queue_.size() != keys_.size() || count_.load() != keys_.size()) return "erased keys";
    if (bytes_.load() != bytes) return "bytes of erased keys";
    for (size_t i = 0; i < kShares; ++i)
        if (shares_[i].load() != shares[i]) return "erased keys of an object";
    return "";
}

void ErasedKeys::clear() {
    const SpinGuard guard(lock_);
    keys_.clear();
    queue_.clear();
    count_.store(0, std::memory_order_release);
    for (auto& share : shares_) share.store(0, std::memory_order_release);
    bytes_.store(0, std::memory_order_relaxed);
}

}  // namespace lockstep::sm
