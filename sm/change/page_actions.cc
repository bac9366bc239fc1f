// page_actions.cc - the actions that belong to no structure: whole page, page becomes free.
#include "sm/change/log_kinds.h"
#include "threads/base/check.h"

namespace lockstep::sm {

// Payload as write_image() makes it.
void apply_page_image(Page& page, Slice payload) { install_image(page, payload); }

void apply_page_free(Page& page, Slice) {
    DCHECK(page.kind() != PageKind::superblock && page.kind() != PageKind::space_map);
    format_page(page, page.id(), ObjectId{0}, PageKind::free);
}

}  // namespace lockstep::sm
