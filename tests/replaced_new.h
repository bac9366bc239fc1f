// replaced_new.h - operator new and delete of a test program, which calls functions of its own.
//
// Include it once, behind the definitions of allocate_or_throw(bytes, alignment),
// allocate_or_null(bytes, alignment) and deallocate(address), in the global namespace. An alignment
// of 1 asks for none.
#pragma once

#include <cstddef>
#include <new>

// NOLINTBEGIN(misc-definitions-in-headers): of one file of each program.
void* operator new(size_t bytes) { return allocate_or_throw(bytes, 1); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
    return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
    return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    return allocate_or_null(bytes, 1);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
    return allocate_or_null(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return allocate_or_null(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return allocate_or_null(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* at) noexcept { deallocate(at); }
void operator delete[](void* at) noexcept { deallocate(at); }
void operator delete(void* at, size_t) noexcept { deallocate(at); }
void operator delete[](void* at, size_t) noexcept { deallocate(at); }
void operator delete(void* at, std::align_val_t) noexcept { deallocate(at); }
void operator delete[](void* at, std::align_val_t) noexcept { deallocate(at); }
void operator delete(void* at, size_t, std::align_val_t) noexcept { deallocate(at); }
void operator delete[](void* at, size_t, std::align_val_t) noexcept { deallocate(at); }
// NOLINTEND(misc-definitions-in-headers)
