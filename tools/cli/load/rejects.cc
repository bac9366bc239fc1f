// rejects.cc - the two files of refused lines.
#include "tools/cli/load/rejects.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "threads/base/check.h"
#include "tools/base/say.h"
#include "tools/cli/counted.h"

namespace lockstep::cli {
namespace {

constexpr uint64_t kSaid = 5;  // reasons that go to stderr as well
constexpr size_t kRejectsPiece = 1u << 20;

}  // namespace

void Rejects::File::write() {
    for (size_t done = 0; done < text.size();) {
        const ssize_t n =
            ::pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(bytes + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw Failed(path + ": " + std::strerror(n < 0 ? errno : ENOSPC));
        done += static_cast<size_t>(n);
    }
    bytes += text.size();
    text.clear();
}

void Rejects::File::cut_back(uint64_t to) {
    if (::ftruncate(fd, static_cast<off_t>(to)) != 0)
        throw Failed(path + ": " + std::strerror(errno));
    bytes = to;
    text.clear();
}

Rejects::Rejects(const std::string& path, const RowReader& input, const std::string& header)
    : files_{File{.path = path}, File{.path = path + ".why"}}, header_(header) {
    for (File& file : files_) {
        if (input.is_file(file.path))
            throw Failed("--rejects " + file.path + ": is the input; name another file");
        file.fd = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file.fd < 0) throw Failed(file.path + ": " + std::strerror(errno));
    }
}

Rejects::~Rejects() {
    for (const File& file : files_)
        if (file.fd >= 0) ::close(file.fd);
}

void Rejects::go_on(const Place& place) {
    place_ = place;
    files_[0].cut_back(place.bytes);
    files_[1].cut_back(place.why_bytes);
    if (place.bytes == 0) files_[0].text = header_;
}

void Rejects::add(uint64_t line, const Refusal& refusal) {
    DCHECK(!refusal.why.empty());
    const std::string why = fmt::format("line {}: {}\n", line, refusal.why);
    if (place_.refused++ < kSaid) say_error("refused: {}", why);
    files_[0].text += refusal.text;
    if (!refusal.text.ends_with('\n')) files_[0].text += '\n';
    files_[1].text += why;
    for (File& file : files_)
        if (file.text.size() >= kRejectsPiece) file.write();
}

Rejects::Place Rejects::write() {
    for (File& file : files_) {
        file.write();
        if (::fdatasync(file.fd) != 0) throw Failed(file.path + ": " + std::strerror(errno));
    }
    place_.bytes = files_[0].bytes;
    place_.why_bytes = files_[1].bytes;
    return place_;
}

void Rejects::finish() {
    write();
    if (place_.refused > 0)
        return say_error("note: {} of the input, now in {}, with reasons in {}\n",
                         counted(place_.refused, "row was refused", "rows were refused"),
                         files_[0].path, files_[1].path);
    for (const File& file : files_) ::unlink(file.path.c_str());
}

}  // namespace lockstep::cli
