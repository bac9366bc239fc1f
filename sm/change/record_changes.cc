// record_changes.cc - from page actions to the functions that know their records.
#include "sm/change/record_changes.h"

namespace lockstep::sm {

#define X(name) \
    void records_undone_##name(ObjectId object, PageId page, Slice payload, UndoneVisit visit);
LOCKSTEP_RECORD_ACTIONS(X)
#undef X

void records_undone(PageAction action, ObjectId object, PageId page, Slice payload,
                    UndoneVisit visit) {
    switch (action) {
#define X(name) \
    case PageAction::name: return records_undone_##name(object, page, payload, visit);
        LOCKSTEP_RECORD_ACTIONS(X)
#undef X
        default: return;
    }
}

}  // namespace lockstep::sm
