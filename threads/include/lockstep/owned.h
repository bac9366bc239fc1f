// owned.h - owners of objects, for members of public classes.
//
// Concepts   std::unique_ptr and std::shared_ptr would do. But <memory> doubles what a program
//            compiles for each file that includes store.h.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep::detail {

// The one owner of an object, or of none. The object's type may be incomplete, except where it is
// deleted. Movable.
template <class T>
class Owned {
public:
    Owned() = default;
    explicit Owned(T* object) noexcept : object_(object) {}
    Owned(Owned&& other) noexcept : object_(other.release()) {}
    Owned& operator=(Owned&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    ~Owned() { reset(); }

    explicit operator bool() const noexcept { return object_ != nullptr; }
    T* get() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    T* operator->() const noexcept { return object_; }
    // Gives the object up; the caller deletes it.
    T* release() noexcept { return std::exchange(object_, nullptr); }
    // Deletes the object and takes another one.
    void reset(T* object = nullptr) noexcept {
        static_assert(sizeof(T) > 0, "the type must be complete here");
        delete std::exchange(object_, object);
    }

private:
    T* object_ = nullptr;
};

// One of the owners of an object, or of none. The object counts them in `uint32_t owners = 1`. The
// count is atomic, the pointer is not.
template <class T>
class Shared {
public:
    Shared() = default;
    explicit Shared(T* fresh) noexcept : object_(fresh) {}
    Shared(const Shared& other) noexcept : object_(other.object_) {
        if (object_) __atomic_fetch_add(&object_->owners, 1u, __ATOMIC_RELAXED);
    }
    Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Shared& operator=(Shared other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Shared() {
        if (object_ && __atomic_sub_fetch(&object_->owners, 1u, __ATOMIC_ACQ_REL) == 0)
            delete object_;
    }

    explicit operator bool() const noexcept { return object_ != nullptr; }
    T& operator*() const noexcept { return *object_; }
    T* operator->() const noexcept { return object_; }

private:
    T* object_ = nullptr;
};

}  // namespace lockstep::detail
