// mapping_cache.cc - idle mappings, the last one given first.
#include "threads/base/mapping_cache.h"

#include <sys/mman.h>

#include <algorithm>

#include "threads/base/check.h"

namespace lockstep::threads {

MappingCache::~MappingCache() {
    for (size_t i = 0; i < used_; ++i) munmap(idle_[i].at, idle_[i].bytes);
}

void* MappingCache::take(MappingUse use, size_t bytes) {
    DCHECK(bytes > 0);
    SpinGuard guard(lock_);
    for (size_t i = used_; i-- > 0;) {
        if (idle_[i].use != use || idle_[i].bytes != bytes) continue;
        void* const at = idle_[i].at;
        std::copy(idle_ + i + 1, idle_ + used_--, idle_ + i);
        return at;
    }
    return nullptr;
}

void MappingCache::give(MappingUse use, void* at, size_t bytes) {
    DCHECK(at != nullptr && bytes > 0);
    DCHECK(reinterpret_cast<uintptr_t>(at) % 4096 == 0);  // munmap() takes whole pages
    Idle oldest{};
    {
        SpinGuard guard(lock_);
        DCHECK(used_ <= kIdleMax);
        if (used_ == kIdleMax) {
            oldest = idle_[0];
            std::copy(idle_ + 1, idle_ + used_--, idle_);
        }
        idle_[used_++] = {use, bytes, at};
    }
    if (oldest.at != nullptr) munmap(oldest.at, oldest.bytes);
}

}  // namespace lockstep::threads
