// mapping_cache.cc - idle mappings, the last one given first.
#include "threads/base/mapping_cache.h"

#include <sys/mman.h>

#include <algorithm>

#include "threads/base/check.h"

namespace lockstep::threads {

MappingCache::~MappingCache() {
    for (const Idle& idle : idle_) munmap(idle.at, idle.bytes);
}

void* MappingCache::take(MappingUse use, size_t bytes) {
    DCHECK(bytes > 0);
    SpinGuard guard(lock_);
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) {
        return idle.use == use && idle.bytes == bytes;
    });
    if (found == idle_.rend()) return nullptr;
    void* const at = found->at;
    idle_.erase(std::next(found).base());
    return at;
}

void MappingCache::give(MappingUse use, void* at, size_t bytes) {
    DCHECK(at != nullptr && bytes > 0);
    DCHECK(reinterpret_cast<uintptr_t>(at) % 4096 == 0);  // munmap() takes whole pages
    Idle oldest{};
    {
        SpinGuard guard(lock_);
        DCHECK(idle_.size() <= kIdleMax);
        if (idle_.size() == kIdleMax) {
            oldest = idle_.front();
            idle_.erase(idle_.begin());
        }
        idle_.push_back({use, bytes, at});
    }
    if (oldest.at != nullptr) munmap(oldest.at, oldest.bytes);
}

}  // namespace lockstep::threads
