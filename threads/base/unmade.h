// unmade.h - memory for objects that are made one by one.
//
// Concepts   An array of N objects is made whole, whatever part of it is used. On a hot path that
//            costs more than the few objects that are used, and the compiler makes "rep stos" of
//            it, which takes some thirty cycles before the first byte.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

namespace lockstep {

// Memory for N objects. Nothing ends them.
template <class T, size_t N>
union Unmade {
    static_assert(std::is_trivially_destructible_v<T>);
    Unmade() {}  // NOLINT(modernize-use-equals-default): that would be deleted
    T items[N];
};

}  // namespace lockstep
