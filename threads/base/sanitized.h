// sanitized.h - is the address sanitizer on?
#pragma once

namespace lockstep {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif !defined(__has_feature)
inline constexpr bool kAddressSanitizer = false;
#elif __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace lockstep
