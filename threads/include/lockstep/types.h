// types.h - identifiers, sizes and units that every layer shares.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

// A distinct integer type. Ids of different kinds do not mix, and no number converts to an id by
// accident.
template <class Tag, class Rep>
struct Id {
    Rep value{};
    constexpr Id() = default;
    // From a number, explicitly.
    constexpr explicit Id(Rep v) : value(v) {}
    constexpr auto operator<=>(const Id&) const = default;
};

// Byte offset of a record in the store's log. Lsn{0} means "none": the first record starts above
// it.
struct Lsn : Id<struct LsnTag, uint64_t> {
    using Id::Id;
    // The place so many bytes above.
    constexpr Lsn operator+(uint64_t bytes) const { return Lsn{value + bytes}; }
    // Bytes between two places.
    constexpr uint64_t operator-(Lsn other) const { return value - other.value; }
};
// No place, and a place above all others.
inline constexpr Lsn kLsnNone{0};
inline constexpr Lsn kLsnMax{UINT64_MAX};

using PageId = Id<struct PageIdTag, uint32_t>;  // page number within the store's volume
// Never reused within a store; 0 = no transaction.
using TxnId = Id<struct TxnIdTag, uint64_t>;
// Catalog number of an index or a heap; 0 = the store itself.
using ObjectId = Id<struct ObjectIdTag, uint32_t>;
using SlotNo = Id<struct SlotNoTag, uint16_t>;  // record position on a page
inline constexpr PageId kPageNone{UINT32_MAX};
inline constexpr TxnId kTxnNone{0};

// Stable address of a heap record: the page and slot where it was first put.
struct RecordId {
    PageId page = kPageNone;
    SlotNo slot{};
    constexpr auto operator<=>(const RecordId&) const = default;
};

// A view of bytes with another owner. Valid as long as the owner says.
using Slice = std::string_view;

// Bytes of a page, and of a cache line.
inline constexpr size_t kPageBytes = 8192;
inline constexpr size_t kCacheLineBytes = 64;

// Time of the store's clock, in nanoseconds from an arbitrary start.
using Nanos = uint64_t;
inline constexpr Nanos kNever = UINT64_MAX;  // as a deadline: wait without end
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

}  // namespace lockstep

// Ids are keys of unordered containers.
template <class Tag, class Rep>
struct std::hash<lockstep::Id<Tag, Rep>> {
    // The hash of the number.
    size_t operator()(const lockstep::Id<Tag, Rep>& id) const noexcept {
        return std::hash<Rep>{}(id.value);
    }
};
