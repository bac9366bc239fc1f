// key_behind.h - the least key that is larger than all keys with a prefix.
#pragma once

#include <algorithm>

#include <lockstep/record.h>
#include "threads/base/check.h"

namespace lockstep::sm {

// The upper bound of a scan over a prefix. Empty, which means to the end of the index: no such key
// exists, because the prefix consists of bytes 255. A prefix above kKeyBytesMax stays as it is, and
// the scan refuses it as its lower bound.
class KeyBehind {
public:
    explicit KeyBehind(Slice prefix) {
        const Slice kept = prefix.substr(0, kKeyBytesMax);
        std::copy(kept.begin(), kept.end(), bytes_);
        size_ = kept.size();
        DCHECK(size_ <= sizeof bytes_);
        while (size_ > 0 && bytes_[size_ - 1] == '\xff') --size_;
        if (size_ == 0) return;
        ++bytes_[size_ - 1];
        DCHECK(Slice(*this) > kept);
    }
    // The bytes belong to the object.
    operator Slice() const { return {bytes_, size_}; }  // NOLINT(google-explicit-constructor)

private:
    size_t size_ = 0;
    char bytes_[kKeyBytesMax];
};

}  // namespace lockstep::sm
