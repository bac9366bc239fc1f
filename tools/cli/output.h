// output.h - a file or stdout, written in large pieces.
//
// Invariants OU-1 The first failed write is kept, and finish() reports it: no byte is lost in
//                 silence. [checked: finish()]
#pragma once

#include <string>

namespace lockstep::cli {

class Output {
public:
    // Empty path or "-": stdout. An existing file is replaced.
    explicit Output(const std::string& path);
    ~Output();
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    // What is appended here is written by flush_if_full() and finish().
    std::string& text() { return text_; }
    // False once a write has failed: the caller may stop.
    bool flush_if_full() { return text_.size() < kPiece || flush(); }
    // Writes the rest and syncs a regular file. The text of the first error, or an empty text.
    std::string finish();
    const std::string& error() const { return error_; }

private:
    static constexpr size_t kPiece = 1u << 20;
    bool flush();

    std::string path_;
    int fd_ = -1;
    std::string text_;
    std::string error_;
};

}  // namespace lockstep::cli
