// server.cc - accepts connections, and refuses those that are too many.
#include "server.h"

#include <arpa/inet.h>
#include <lockstep/net.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "session.h"

namespace kv {

using namespace lockstep;

namespace {

constexpr int kBacklog = 4096;
constexpr uint32_t kOtherDescriptors = 128;  // the store's files, rings, and some reserve
constexpr Nanos kPause = 50 * kMillisecond;  // while there is no descriptor

// One slot of connections_max; given back with the connection's end.
class Admission {
public:
    explicit Admission(ServerCounters& counters) : counters_(counters) { ++counters_.connections; }
    ~Admission() { --counters_.connections; }
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

private:
    ServerCounters& counters_;
};

void refuse(Database& database, int socket, std::string_view text) {
    ++database.counters.connections_rejected;
    std::string reply;
    append_error(reply, text);
    (void)write_socket(socket, std::as_bytes(std::span(reply)), 0);
    close(socket);
}

// The connection's errors end the connection only.
void start_session(Database& database, int socket) {
    ++database.counters.connections_received;
    auto admission = std::make_unique<Admission>(database.counters);
    const auto session =
        database.store.start([&database, socket, admission = std::move(admission)] {
            return Session(database, socket).run();
        });
    if (const auto started = session.started(); !started)
        refuse(database, socket, "ERR " + started.error().text());
}

}  // namespace

Result<int> listen_on(const std::string& address, uint16_t& port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1)
        return fail(ErrorCode::bad_argument, "--bind takes an IPv4 address such as 127.0.0.1");
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0) return fail_os(ErrorCode::io_error, errno, "listening socket");
    const int on = 1;
    socklen_t length = sizeof name;
    auto* const generic = reinterpret_cast<sockaddr*>(&name);
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, generic, length) != 0 || listen(listener, kBacklog) != 0 ||
        getsockname(listener, generic, &length) != 0) {
        const int error = errno;
        close(listener);
        return fail_os(ErrorCode::io_error, error, "bind or listen of port", port);
    }
    port = ntohs(name.sin_port);
    return listener;
}

Result<void> serve(Database& database, int listener) {
    for (;; yield()) {  // connections that wait must not keep the CPU from those that are open
        const Result<int> socket = accept_socket(listener);
        if (socket) {
            if (database.counters.connections < database.options.connections_max)
                start_session(database, *socket);
            else refuse(database, *socket, "ERR max number of clients reached");
        } else if (socket.error().code == ErrorCode::too_many) {
            sleep_for(kPause);
        } else if (socket.error().code == ErrorCode::cancelled) {
            return {};
        } else {
            return Unexpected(socket.error());
        }
    }
}

uint32_t fit_descriptors(uint32_t connections) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return connections;
    const rlim_t wanted = rlim_t{connections} + kOtherDescriptors;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = std::min(wanted, limit.rlim_max);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted) return connections;
    return limit.rlim_cur > kOtherDescriptors
               ? static_cast<uint32_t>(limit.rlim_cur - kOtherDescriptors)
               : 1;
}

}  // namespace kv
