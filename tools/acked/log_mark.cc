// log_mark.cc - the message "mark TEXT" by the device mapper's ioctl, without a process for each.
#include "tools/acked/log_mark.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "threads/base/check.h"

namespace lockstep::acked {

LogMark::LogMark(std::string device)
    : device_(std::move(device)), fd_(open("/dev/mapper/control", O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0) why_not_ = std::string("/dev/mapper/control: ") + std::strerror(errno);
    if (device_.size() >= DM_NAME_LEN) why_not_ = "the device's name is too long: " + device_;
}

LogMark::~LogMark() {
    if (fd_ >= 0) close(fd_);
}

void LogMark::write(const std::string& word) const {
    const std::string message = "mark " + word;
    alignas(dm_ioctl) char call[sizeof(dm_ioctl) + sizeof(dm_target_msg) + 256] = {};
    constexpr size_t kText = sizeof(dm_ioctl) + sizeof(dm_target_msg);
    CHECK(kText + message.size() < sizeof call);
    auto& header = *reinterpret_cast<dm_ioctl*>(call);
    header.version[0] = DM_VERSION_MAJOR;
    header.data_size = sizeof call;
    header.data_start = sizeof(dm_ioctl);
    std::memcpy(header.name, device_.c_str(), device_.size());
    // Sector 0: the target that the message is for begins there.
    std::memcpy(call + kText, message.data(), message.size());
    CHECK(ioctl(fd_, DM_TARGET_MSG, call) == 0);
}

}  // namespace lockstep::acked
