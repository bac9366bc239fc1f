// ctx_points.h - the one table of CTX points: places where a team may pass the CPU on.
//
// Concepts   A point's class tells what the switch is for. At a *data* point memory was prefetched
//            and arrives while the others run. It pays from two members on. At a *code* point a
//            stretch of instructions ends, which the next member finds in the cache. It pays from
//            three members on. Points are switched on and off at run time, by name or by set.
//            Placement rule: never between reading a version and validating it, and never with an
//            exclusive latch held.
// Sets       The set `none` is empty. `manual` has the data points, which save time on current
//            processors. `icache` adds the code points, for caches smaller than an operation's
//            code. `auto` comes from a file with one name per line, where '#' begins a comment
//            (ctx_points_from() in steps_options.h).
// Names      A point keeps its name for good, because such files name the points of this table. A
//            code point that is off costs one predicted branch: code tests worker_local.code_points
//            before it.
#pragma once

#include <cstdint>

namespace lockstep::threads {

// name, class, what precedes the point
#define LOCKSTEP_CTX_POINTS(X)                                                             \
    X(btree_inner, data, "level-1 node prefetched, before its version is read")            \
    X(btree_word, data, "leaf's latch word prefetched, which tells where the leaf is")     \
    X(btree_leaf, data, "leaf and lock bucket prefetched")                                 \
    X(lock_bucket, data, "lock bucket prefetched, the leaf being at hand")                 \
    X(record, data, "record prefetched")                                                   \
    X(located, code, "locks held, place found, before the leaf is latched")                \
    X(finished, code, "a change is done, nothing latched, before the application goes on") \
    X(misplaced, code, "for tests: inside a latched section")

enum class CtxPoint : uint8_t {
#define X(name, kind, what) name,
    LOCKSTEP_CTX_POINTS(X)
#undef X
        kCount
};
inline constexpr unsigned kCtxPoints = static_cast<unsigned>(CtxPoint::kCount);

enum class CtxClass : uint8_t { data, code };
struct CtxPointInfo {
    const char* name;
    CtxClass kind;
    const char* what;
};
inline constexpr CtxPointInfo kCtxPointInfo[] = {
#define X(name, kind, what) {#name, CtxClass::kind, what},
    LOCKSTEP_CTX_POINTS(X)
#undef X
};

static_assert(sizeof(kCtxPointInfo) == kCtxPoints * sizeof(CtxPointInfo));
static_assert(kCtxPoints <= 32);  // a point is a bit of uint32_t

constexpr uint32_t ctx_bit(CtxPoint point) { return 1u << static_cast<unsigned>(point); }
constexpr uint32_t ctx_bits_of(CtxClass kind) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < kCtxPoints; ++i)
        if (kCtxPointInfo[i].kind == kind) bits |= 1u << i;
    return bits;
}
inline constexpr uint32_t kCtxManual = ctx_bits_of(CtxClass::data);
inline constexpr uint32_t kCtxCode = ctx_bits_of(CtxClass::code);
// Set `icache`: all points except the deliberately misplaced one.
inline constexpr uint32_t kCtxIcache = (kCtxManual | kCtxCode) & ~ctx_bit(CtxPoint::misplaced);

static_assert((kCtxManual & kCtxCode) == 0 && (kCtxManual & ~kCtxIcache) == 0);
}  // namespace lockstep::threads
