// key_copy.h - a copy of a key, within the object if it is short.
#pragma once

#include <memory>

#include <lockstep/types.h>
#include "sm/buffer/bytes.h"

namespace lockstep::sm {

class KeyCopy {
public:
    explicit KeyCopy(Slice key) : size_(key.size()) {
        if (size_ > sizeof short_) [[unlikely]]
            long_ = std::make_unique_for_overwrite<char[]>(size_);
        bytes::copy_bytes(long_ ? long_.get() : short_, key);
    }

    bool empty() const { return size_ == 0; }
    operator Slice() const {  // NOLINT(google-explicit-constructor)
        return {long_ ? long_.get() : short_, size_};
    }

private:
    const size_t size_;
    std::unique_ptr<char[]> long_;
    char short_[48];
};

}  // namespace lockstep::sm
