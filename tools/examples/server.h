// server.h - what the example servers share besides their protocol: arguments, the store, the
// listening socket, the end.
#pragma once

#include <lockstep/store.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace example {

using namespace lockstep;

constexpr int kConnectionsMax = 1000;

// A socket of 127.0.0.1; port 0: one that is free. Prints the port.
inline Result<int> listen_on(int port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    if (socket < 0 || setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(socket, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
        listen(socket, SOMAXCONN) != 0 ||
        getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
        return fail_os(ErrorCode::io_error, errno, "listen");
    std::printf("listening on port %d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    return socket;
}

// An accepted connection, or -1. Answers are small: they must not wait for more to send.
inline int accept_one(int listener, int flags) {
    const int socket = accept4(listener, nullptr, nullptr, flags | SOCK_CLOEXEC);
    const int on = 1;
    if (socket >= 0) setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
}

// SIGTERM and SIGINT, blocked from here on in this and all later threads, as a descriptor.
inline int end_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

// main(): opens the store with one worker and serves until a signal ends it. `serve` gets the
// listening socket and the descriptor of the signals; it closes the store.
inline int run_server(int argc, char** argv,
                      const std::function<Result<void>(Store&, Index, int, int)>& serve) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s DIRECTORY PORT (0: a free one)\n", argv[0]);
        return 2;
    }
    const int signals = end_signals();
    const auto run = [&]() -> Result<void> {
        Store store = LOCKSTEP_TRY(Store::open(argv[1], {.workers = 1}));
        const Index index = LOCKSTEP_TRY(
            store.run([&](Txn& txn) { return store.open_or_create_index(txn, "pairs"); }));
        return serve(store, index, LOCKSTEP_TRY(listen_on(std::atoi(argv[2]))), signals);
    };
    const Result<void> done = run();
    if (!done) std::fprintf(stderr, "%s: %s\n", argv[0], done.error().text().c_str());
    return done ? 0 : 1;
}

}  // namespace example
