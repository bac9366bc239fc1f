// lock_list.h - all locks of an owner as values, so that they can be logged and taken again.
#pragma once

#include <vector>

#include "txn/lock/lock_mode.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

struct LockList {
    struct OfObject {
        ObjectId object{};
        LockMode mode = LockMode::none;
    };
    struct OfName {
        LockName name{};
        LockMode mode = LockMode::none;
    };
    std::vector<OfObject> objects;
    std::vector<OfName> names;
    size_t size() const { return objects.size() + names.size(); }
};

}  // namespace lockstep::txn
