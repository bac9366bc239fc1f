// xid.h - XIDs as gids of prepared transactions.
//
// Layout     "XA", the format id as 8 bytes, little-endian, the lengths of both parts, a byte each,
//            and the parts. At most 140 bytes, the longest gid.
//            So the gids of this layout belong to XA. All others are names of applications: no XID
//            stands for them, so no call of the switch lists or ends them.
// Invariants XI-1 Two XIDs have one gid only if format, lengths and bytes are equal.
//            [test: Xa.XidsAreGids]
// Blocking   Never.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/xa/lockstep_xa.h"

namespace lockstep::xa {

// A name that the standard allows: a format of 0 or more, and parts of 1 to 64 bytes.
bool sound(const XID* xid);
std::string gid_of(const XID& xid);
// Nothing: the gid is not one of an XID.
std::optional<XID> xid_of(std::string_view gid);

}  // namespace lockstep::xa
