// xid.cc - XIDs as gids of prepared transactions.
#include "tools/xa/xid.h"

#include <cstdint>
#include <cstring>

namespace lockstep::xa {

namespace {

constexpr std::string_view kTag = "XA";
constexpr size_t kFormatBytes = sizeof(int64_t);
constexpr size_t kHeadBytes = kTag.size() + kFormatBytes + 2;
static_assert(kHeadBytes + XIDDATASIZE == LOCKSTEP_GID_BYTES_MAX);

}  // namespace

bool sound(const XID* xid) {
    return xid != nullptr && xid->formatID >= 0 && xid->gtrid_length >= 1 &&
           xid->gtrid_length <= MAXGTRIDSIZE && xid->bqual_length >= 1 &&
           xid->bqual_length <= MAXBQUALSIZE;
}

std::string gid_of(const XID& xid) {
    std::string gid(kTag);
    const auto format = static_cast<uint64_t>(xid.formatID);
    for (size_t i = 0; i < kFormatBytes; ++i) gid += static_cast<char>(format >> 8 * i & 0xff);
    gid += static_cast<char>(xid.gtrid_length);
    gid += static_cast<char>(xid.bqual_length);
    gid.append(xid.data, static_cast<size_t>(xid.gtrid_length + xid.bqual_length));
    return gid;
}

std::optional<XID> xid_of(std::string_view gid) {
    if (gid.size() < kHeadBytes || !gid.starts_with(kTag)) return {};
    XID xid = {};
    uint64_t format = 0;
    for (size_t i = 0; i < kFormatBytes; ++i)
        format |= uint64_t{static_cast<unsigned char>(gid[kTag.size() + i])} << 8 * i;
    xid.formatID = static_cast<long>(format);
    xid.gtrid_length = static_cast<unsigned char>(gid[kHeadBytes - 2]);
    xid.bqual_length = static_cast<unsigned char>(gid[kHeadBytes - 1]);
    if (!sound(&xid)) return {};
    const auto bytes = static_cast<size_t>(xid.gtrid_length + xid.bqual_length);
    if (gid.size() != kHeadBytes + bytes) return {};
    std::memcpy(xid.data, gid.data() + kHeadBytes, bytes);
    return xid;
}

}  // namespace lockstep::xa
