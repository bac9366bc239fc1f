// log_mark.h - writes marks into the write log of a dm-log-writes device (Linux device mapper).
#pragma once

#include <string>

namespace lockstep::acked {

// The device mapper keeps marks in the order of the writes: a mark stands behind every flush that
// had completed before write() was called.
class LogMark {
public:
    explicit LogMark(std::string device);
    ~LogMark();
    LogMark(const LogMark&) = delete;
    LogMark& operator=(const LogMark&) = delete;

    // Why no mark can be written; empty if it can.
    const std::string& why_not() const { return why_not_; }
    // `word` has no spaces. Stops the process if the kernel refuses it. Several kernel threads may
    // call it at once. Blocks.
    void write(const std::string& word) const;

private:
    std::string device_, why_not_;
    int fd_;
};

}  // namespace lockstep::acked
