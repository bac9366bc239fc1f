// ctx_points.h - the one table of CTX points: places where a team may pass the CPU on.
//
// Concepts   A point's class says what the switch is for. data: memory was prefetched and arrives
//            while the others run; worth it from two members on. code: a stretch of executed
//            instructions ends here, which the next member finds in the cache; worth it from three
//            members on. Points are switched on and off by name or by set at run time. Placement
//            rule: never between reading a version and validating it, never with an exclusive
//            latch.
// Sets       none; manual: the points that pay in time on today's processors, the data ones;
//            icache: those of class code too, for caches smaller than an operation's code; auto:
//            from a file with one name per line, '#' begins a comment (ctx_points_from(),
//            steps_options.h). A point keeps its name for good: such files name points of this
//            table only. A code point that is switched off costs one predicted branch:
//            worker_local.code_points stands before it.
#pragma once

#include <cstdint>

namespace lockstep::threads {

// name, class, what stands before it
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

constexpr uint32_t ctx_bit(CtxPoint point) { return 1u << static_cast<unsigned>(point); }
constexpr uint32_t ctx_bits_of(CtxClass kind) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < kCtxPoints; ++i)
        if (kCtxPointInfo[i].kind == kind) bits |= 1u << i;
    return bits;
}
inline constexpr uint32_t kCtxManual = ctx_bits_of(CtxClass::data);
inline constexpr uint32_t kCtxCode = ctx_bits_of(CtxClass::code);
// Set `icache`: all but the deliberately misplaced one.
inline constexpr uint32_t kCtxIcache = (kCtxManual | kCtxCode) & ~ctx_bit(CtxPoint::misplaced);

}  // namespace lockstep::threads
