// live_client.cc - connects, sends a line, reads a line.
#include "tools/cli/live/live_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "threads/io/local_socket.h"
#include "threads/io/lock_holder.h"
#include "tools/cli/json_text.h"

namespace lockstep::cli {
namespace {

constexpr const char* kSocketName = "control";

// The process that has the store open for writing.
std::optional<threads::LockHolder> writer_of(const std::string& directory) {
    const int file = open((directory + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    auto holder = threads::lock_holder(file);
    close(file);
    return holder && holder->exclusive ? holder : std::nullopt;
}

// The directory does not let this user look for the socket.
bool is_closed_to_us(const std::string& directory) {
    struct stat socket {};
    return ::stat((directory + "/" + kSocketName).c_str(), &socket) != 0 && errno == EACCES;
}

// What stands behind a connection that failed.
LiveError refused(const std::string& directory, int why) {
    if (why == EACCES && is_closed_to_us(directory))
        return {"no_access", directory, "its files may not be read: Permission denied",
                "run the command as the owner of the directory, or as root"};
    if (why == EACCES || why == EPERM)
        return {"no_access", directory, "the control socket belongs to another user",
                "run the command as the user who opened the store, or as root"};
    if (why == EAGAIN)
        return {"no_answer", directory, "the control socket's queue is full", "try again"};
    const auto holder = writer_of(directory);
    if (!holder && ::access((directory + "/data").c_str(), F_OK) != 0)
        return {"not_open", directory, "holds no store", "check the path"};
    if (!holder)
        return {"not_open", directory, "no process has this store open",
                "`lockstep stat` reads a closed store"};
    return {"no_control", directory,
            fmt::format("the store is open in {}, which serves no control socket", holder->text()),
            "set Options::control, or start lockstep-tpcc with --control"};
}

}  // namespace

int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Json LiveError::json() const {
    return {{"error", {{"code", code}, {"thing", thing}, {"reason", reason}, {"remedy", remedy}}}};
}

Live<LiveClient> LiveClient::connect(const std::string& directory) {
    const auto fd = threads::connect_local(directory, kSocketName);
    if (!fd) return std::unexpected(refused(directory, fd.error().os));
    return LiveClient(directory, *fd);
}

LiveClient::LiveClient(LiveClient&& other) noexcept
    : directory_(std::move(other.directory_)),
      fd_(std::exchange(other.fd_, -1)),
      read_(std::move(other.read_)) {}
LiveClient& LiveClient::operator=(LiveClient&& other) noexcept {
    std::swap(directory_, other.directory_);
    std::swap(fd_, other.fd_);
    std::swap(read_, other.read_);
    return *this;
}
LiveClient::~LiveClient() {
    if (fd_ >= 0) close(fd_);
}

LiveError LiveClient::lost() const {
    return {"closed", directory_, "the store has been closed, or its process has ended",
            "wait for the next open"};
}

Live<void> LiveClient::send(const Json& request) {
    const std::string line = json_text(request) + "\n";
    // A path with other bytes would become another path.
    if (Json::parse(line, nullptr, false) != request)
        return std::unexpected(
            LiveError{"bad_argument", directory_, "a path or a gid of the command is not UTF-8",
                      "name a path in UTF-8, and write the other bytes of a gid as \\xNN"});
    for (size_t sent = 0; sent < line.size();) {
        const ssize_t done = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            // A store that refuses the connection says why before it closes it.
            const auto said = receive(0);
            return std::unexpected(said && !*said ? said->error() : lost());
        }
        sent += static_cast<size_t>(done);
    }
    return {};
}

std::optional<Live<Json>> LiveClient::receive(int timeout_ms) {
    const int64_t deadline = now_ms() + timeout_ms;
    size_t end;
    while ((end = read_.find('\n')) == std::string::npos) {
        pollfd polled{fd_, POLLIN, 0};
        const int left =
            timeout_ms < 0 ? -1 : static_cast<int>(std::max<int64_t>(0, deadline - now_ms()));
        const int ready = poll(&polled, 1, left);
        if (ready == 0) return std::nullopt;
        if (ready < 0) {
            if (errno != EINTR || timeout_ms >= 0) return std::nullopt;
            continue;
        }
        char bytes[64 * 1024];
        const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::unexpected(lost());
        read_.append(bytes, static_cast<size_t>(got));
    }
    const Json answer =
        Json::parse(read_.begin(), read_.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
    read_.erase(0, end + 1);
    if (answer.is_object() && answer.contains("result")) return answer["result"];
    if (!answer.is_object() || !answer.contains("error"))
        return std::unexpected(LiveError{"no_answer", directory_, "the answer is not understood",
                                         "use the `lockstep` of the store's version"});
    const Json& error = answer["error"];
    const auto field = [&](const char* name) { return error.value(name, std::string()); };
    return std::unexpected(
        LiveError{field("code"), field("thing"), field("reason"), field("remedy")});
}

Live<Json> LiveClient::ask(const Json& request, int timeout_ms) {
    if (auto sent = send(request); !sent) return std::unexpected(sent.error());
    auto answer = receive(timeout_ms);
    if (answer) return *std::move(answer);
    return std::unexpected(
        LiveError{"no_answer", directory_, fmt::format("no answer within {} ms", timeout_ms),
                  "a callback of the application may block a worker (Options::slice_warning)"});
}

}  // namespace lockstep::cli
