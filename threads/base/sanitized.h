// sanitized.h - which sanitizer the compiler puts in: g++ and clang say it differently.
#pragma once

#ifdef __has_feature
#define LOCKSTEP_HAS_FEATURE(name) __has_feature(name)
#else
#define LOCKSTEP_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || LOCKSTEP_HAS_FEATURE(address_sanitizer)
#define LOCKSTEP_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) || LOCKSTEP_HAS_FEATURE(thread_sanitizer)
#define LOCKSTEP_TSAN 1
#endif
#if defined(LOCKSTEP_ASAN) || defined(LOCKSTEP_TSAN)
#define LOCKSTEP_SANITIZED 1
#endif

// A function that reads what another kernel thread writes, and knows that it may be torn or old.
#define LOCKSTEP_NO_TSAN __attribute__((no_sanitize("thread"), noinline))

namespace lockstep {

#ifdef LOCKSTEP_ASAN
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#ifdef LOCKSTEP_TSAN
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace lockstep
