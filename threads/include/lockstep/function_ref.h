// function_ref.h - a reference to something that can be called, for calls that use it only until
// they return.
#pragma once

#include <type_traits>
#include <utility>

#include <lockstep/no_throw.h>
#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

template <class Signature>
class FunctionRef;

// Refers to a function or a function object and does not own it. A lambda may stand directly in the
// argument list: it lives until the call returns. Two pointers, never allocates, copies freely.
template <class R, class... A>
class FunctionRef<R(A...)> {
public:
    // Refers to `f`, which must live as long as this object is called.
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
                 std::is_invocable_r_v<R, F&, A...>)
    FunctionRef(F&& f) noexcept {
        using Callee = std::remove_reference_t<F>;
        if constexpr (std::is_function_v<Callee>) {
            callee_.function = reinterpret_cast<void (*)()>(&f);
            call_ = [](Pointer callee, A... arguments) -> R {
                return detail::call_no_throw(*reinterpret_cast<Callee*>(callee.function),
                                             std::forward<A>(arguments)...);
            };
        } else {
            callee_.object = const_cast<void*>(static_cast<const void*>(__builtin_addressof(f)));
            call_ = [](Pointer callee, A... arguments) -> R {
                return detail::call_no_throw(*static_cast<Callee*>(callee.object),
                                             std::forward<A>(arguments)...);
            };
        }
    }
    // Calls it. An exception that leaves it ends the process (std::terminate).
    R operator()(A... arguments) const { return call_(callee_, std::forward<A>(arguments)...); }

private:
    union Pointer {
        void* object;
        void (*function)();
    };
    Pointer callee_;
    R (*call_)(Pointer, A...);
};

}  // namespace lockstep
