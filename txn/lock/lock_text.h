// lock_text.h - lock names as they stand in texts.
#pragma once

#include <string>

#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

// "0x" and the hexadecimal digits of the name.
std::string lock_name_text(LockName name);

}  // namespace lockstep::txn
