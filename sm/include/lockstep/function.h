// function.h - something that can be called, kept to be called later.
//
// Concepts   A std::function would do. But <functional> adds 14,000 lines to what a program
//            compiles for each file that includes store.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <lockstep/no_throw.h>
#include <lockstep/owned.h>
#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

namespace detail {
// Pointers, and classes such as std::function. A lambda without a capture is none of them, although
// it converts to a pointer.
template <class F>
concept MayBeEmpty = std::is_pointer_v<F> ||
                     (
                         requires(const F& f) { f == nullptr; } && !requires(const F& f) { +f; });
// With arguments in parentheses, so a pointer to a member is none.
template <class F, class R, class... A>
concept CallableAs = std::is_invocable_r_v<R, F&, A...> && !std::is_member_pointer_v<F>;
}  // namespace detail

template <class Signature>
class Function;

// A function or function object that is kept and called later, or none. Made from whatever can be
// called, a std::function included; it need only move. Copies share the function object. A pointer
// in size; allocates when it is made, and never when it is copied or called. Calling none is an
// error of the program.
template <class R, class... A>
class Function<R(A...)> {
public:
    // None.
    Function() = default;
    // Empty.
    Function(std::nullptr_t) {}
    // Keeps a copy of `f`. A null pointer or an empty std::function gives none.
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
                 detail::CallableAs<std::decay_t<F>, R, A...>)
    Function(F&& f) {
        using Callee = std::decay_t<F>;
        if constexpr (detail::MayBeEmpty<std::remove_cvref_t<F>>) {
            if (f == nullptr) return;
        }
        callee_ = detail::Shared<Kept>(new KeptOf<Callee>(std::forward<F>(f)));
    }
    // True if there is something to call.
    explicit operator bool() const noexcept { return static_cast<bool>(callee_); }
    // True if there is nothing to call.
    friend bool operator==(const Function& f, std::nullptr_t) noexcept { return !f; }
    // Calls it. From any kernel thread if the function allows it. An exception that leaves it ends
    // the process (std::terminate).
    R operator()(A... arguments) const { return callee_->call(std::forward<A>(arguments)...); }

private:
    struct Kept {
        virtual ~Kept() = default;
        virtual R call(A... arguments) = 0;
        uint32_t owners = 1;
    };
    template <class F>
    struct KeptOf final : Kept {
        template <class G>
        explicit KeptOf(G&& g) : f(std::forward<G>(g)) {}
        R call(A... arguments) override {
            if constexpr (std::is_void_v<R>)
                static_cast<void>(detail::call_no_throw(f, std::forward<A>(arguments)...));
            else return detail::call_no_throw(f, std::forward<A>(arguments)...);
        }
        F f;
    };
    detail::Shared<Kept> callee_;
};

}  // namespace lockstep
