// gid_text.h - the gid of a prepared transaction as an operator reads and types it.
//
// Concepts   Printable ASCII stands for itself. Every other byte, a backslash and a double quote
//            are \x and two hexadecimal digits, as in the texts of errors. So each gid has one
//            text, and each text of a gid can be read back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/types.h>

namespace lockstep::sm {

std::string gid_text(Slice gid);
// Empty: the text has a backslash without \xNN, or its length is none of a gid.
std::optional<std::string> gid_of_text(std::string_view text);

}  // namespace lockstep::sm
