// error_detail.h - the longer text of an error, which Error itself has no place for.
//
// Concepts   Error is small and trivially copyable, because it lies beside every result. Some
//            failures need more words than its numbers: a lock that was not granted names its
//            object, its key and its holder. Such a text is kept here, and Error::detail is its
//            number. The process has one ring of the last kErrorDetailsKept texts, so an error can
//            still be read after its transaction has ended and its store is closed.
//            Error::text() includes the text while it is kept.
// Blocking   A spin lock, briefly. Allocates nothing but the results.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/result.h>

namespace lockstep {

inline constexpr size_t kErrorDetailsKept = 256;
inline constexpr size_t kErrorDetailBytesMax = 1000;  // longer texts are cut

// Keeps a copy of `text` and sets error.detail to its number. Any kernel thread.
[[gnu::cold]] void set_error_detail(Error& error, std::string_view text);
// fail() with a longer text.
[[gnu::cold]] Unexpected fail_with(ErrorCode code, const char* what, std::string_view text);
// The text, or empty if the error has none, or so many later ones that it is lost.
[[gnu::cold]] std::string error_detail(const Error& error);

}  // namespace lockstep
