// thread_server - a server with one kernel thread for each connection, which blocks in recv() and
// in Store::run(). It is there for comparison with epoll_server and asio_server.
//
//   thread_server DIRECTORY PORT
//
// The protocol is in line_protocol.h. SIGTERM ends the server and closes the store.
#include <poll.h>

#include <list>
#include <thread>

#include "line_protocol.h"
#include "server.h"

using namespace lockstep;
using namespace example;

namespace {

bool send_all(int socket, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = send(socket, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
}

void serve_connection(Store& store, Index index, int socket) {
    Input input;
    for (std::string_view line;;) {
        switch (input.next(line)) {
            case Input::State::need_more:
                if (input.fill(socket) <= 0) return;
                continue;
            case Input::State::too_long:
                (void)send_all(socket, error_line("line too long"));
                return;
            case Input::State::line: break;
        }
        const Request request = parse(line);
        const std::string answer =
            request.fault != nullptr
                ? error_line(request.fault)
                : answer_line(store.run([&](Txn& txn) { return serve(txn, index, request); }));
        if (!send_all(socket, answer)) return;
    }
}

struct Connection {
    Connection(Store& store, Index index, int s)
        : socket(s), thread([this, &store, index] {
              serve_connection(store, index, socket);
              shutdown(socket, SHUT_RDWR);  // the other end sees the end before join()
              ended = true;
          }) {}
    ~Connection() {
        shutdown(socket, SHUT_RDWR);  // ends a recv()
        thread.join();
        close(socket);
    }

    const int socket;
    std::atomic<bool> ended{false};
    std::thread thread;
};

Result<void> run(Store& store, Index index, int listener, int signals) {
    std::list<Connection> connections;
    for (;;) {
        pollfd waits[2] = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
        if (poll(waits, 2, -1) < 0) continue;
        if (waits[1].revents != 0) break;
        const int one = accept_one(listener, 0);
        if (one < 0) continue;
        connections.remove_if([](const Connection& each) { return each.ended.load(); });
        if (connections.size() >= kConnectionsMax) close(one);
        else connections.emplace_back(store, index, one);
    }
    connections.clear();
    return store.close();
}

}  // namespace

int main(int argc, char** argv) { return run_server(argc, argv, run); }
