// sweep.cc - walks the whole volume and frees what carries the object's number.
#include "sm/space/sweep.h"

#include <algorithm>
#include <vector>

#include "sm/buffer/buffer_pool.h"
#include "sm/space/space_map.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

namespace {}

Result<void> sweep(Env& env, ObjectId object, std::span<const PageId> keep) {
    DCHECK(object.value != 0);  // that is what maps and free pages carry
    std::vector<PageId> sorted(keep.begin(), keep.end()), unreached;
    std::ranges::sort(sorted, {}, &PageId::value);
    for (uint32_t p = kFirstMapPage.value + 1; p < env.space->pages_total(); ++p) {
        if (p % limits::pages_swept() == 0) threads::yield();
        const PageId id{p};
        if (!TRY(env.space->is_used(id)) ||
            std::ranges::binary_search(sorted, p, {}, &PageId::value))
            continue;
        Result<SharedPage> page = env.pool->fix_shared(id);
        // A damaged page of another object must not stop the sweep.
        if (!page) {
            if (!is_bad_page(page.error().code)) return std::unexpected(page.error());
            continue;
        }
        if ((*page)->id() == id && (*page)->header.object == object.value) unreached.push_back(id);
    }
    return env.space->free_now(unreached);
}

}  // namespace lockstep::sm
