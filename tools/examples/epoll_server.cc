// epoll_server - a server with one plain epoll loop: start() hands each request to the store, and
// an eventfd brings its answer back to the loop's thread.
//
//   epoll_server DIRECTORY PORT            the store's worker runs the transactions
//   epoll_server DIRECTORY PORT inline     the loop waits for each transaction, for comparison
//
// The protocol is in line_protocol.h. SIGTERM ends the server and closes the store.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/sync.h>
#include "line_protocol.h"
#include "server.h"

using namespace lockstep;
using namespace example;

namespace {

// The adaptor: any thread posts, the loop takes. The eventfd is readable while something waits.
template <class T>
class Mailbox {
public:
    void post(T item) {
        const std::lock_guard guard(mutex_);
        items_.push_back(std::move(item));
        if (items_.size() == 1) eventfd_write(event_, 1);
    }
    std::vector<T> take() {
        eventfd_t posts;
        eventfd_read(event_, &posts);
        const std::lock_guard guard(mutex_);
        return std::exchange(items_, {});
    }
    int descriptor() const { return event_; }

private:
    Mutex mutex_;  // suspends a user thread; a kernel thread's mutex would stop the worker
    std::vector<T> items_;
    const int event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

struct Connection {
    explicit Connection(int s) : socket(s) {}
    ~Connection() { close(socket); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    const int socket;
    Input input;
    std::string output;   // of the last request; the next one waits for its end
    bool asked = false;   // the store has its request
    bool ending = false;  // once the output is sent
};

struct Answer {
    Connection* to;
    std::string line;
};

class Server {
public:
    Server(Store& store, Index index, bool inline_run)
        : store_(store), index_(index), inline_(inline_run) {}

    Result<void> run(int listener, int signals) {
        for (const int one : {listener, signals, answers_.descriptor()}) watch(one, one, EPOLLIN);
        for (bool on = true; on;) {
            epoll_event events[64];
            const int count = epoll_wait(epoll_, events, 64, -1);
            for (int n = 0; n < count; ++n) {
                const int which = events[n].data.fd;
                if (which == signals) on = false;
                else if (which == listener) accept_all(listener);
                else if (which == answers_.descriptor()) take_answers();
                else if (const auto found = connections_.find(which); found != connections_.end())
                    advance(*found->second);
            }
        }
        // Waits for the functions that run and for their callbacks, which use this object.
        return store_.close();
    }

private:
    void watch(int descriptor, int number, uint32_t events) {
        epoll_event event{.events = events, .data = {.fd = number}};
        epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
    }
    void accept_all(int listener) {
        for (int one; (one = accept_one(listener, SOCK_NONBLOCK)) >= 0;) {
            if (connections_.size() >= kConnectionsMax) {
                close(one);
                continue;
            }
            connections_.emplace(one, std::make_unique<Connection>(one));
            watch(one, one, EPOLLIN | EPOLLOUT | EPOLLET);  // reports changes: see advance()
        }
    }
    void take_answers() {
        for (Answer& answer : answers_.take()) {
            answer.to->output = std::move(answer.line);
            answer.to->asked = false;
            advance(*answer.to);
        }
    }
    // Sends, reads and asks until the connection has to wait: for the socket or for the store. One
    // that waits for the store stays as it is, whatever its socket reports.
    void advance(Connection& connection) {
        while (!connection.asked) {
            if (!send_output(connection)) return;
            if (connection.ending) return drop(connection);
            std::string_view line;
            switch (connection.input.next(line)) {
                case Input::State::line: ask(connection, parse(line)); break;
                case Input::State::too_long:
                    connection.output = error_line("line too long");
                    connection.ending = true;
                    break;
                case Input::State::need_more:
                    if (!receive(connection)) return;
            }
        }
    }
    // False: not all could be sent, or the connection is gone.
    bool send_output(Connection& connection) {
        std::string& output = connection.output;
        while (!output.empty()) {
            const ssize_t sent =
                send(connection.socket, output.data(), output.size(), MSG_NOSIGNAL);
            if (sent < 0) {
                if (errno != EAGAIN && errno != EINTR) drop(connection);
                if (errno != EINTR) return false;
            } else {
                output.erase(0, static_cast<size_t>(sent));
            }
        }
        return true;
    }
    // False: nothing has arrived, or the connection is gone.
    bool receive(Connection& connection) {
        const ssize_t got = connection.input.fill(connection.socket);
        if (got > 0) return true;
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) drop(connection);
        return false;
    }
    void ask(Connection& connection, Request request) {
        if (request.fault != nullptr) {
            connection.output = error_line(request.fault);
        } else if (inline_) {
            connection.output =
                answer_line(store_.run([&](Txn& txn) { return serve(txn, index_, request); }));
        } else {
            connection.asked = true;
            auto handle = store_.spawn([index = index_, request = std::move(request)](Txn& txn) {
                return serve(txn, index, request);
            });
            // A new handle takes a callback. A function that was refused calls it here.
            (void)handle.then([this, &connection](Result<std::string> answer) {
                answers_.post({&connection, answer_line(answer)});
            });
        }
    }
    void drop(Connection& connection) { connections_.erase(connection.socket); }

    Store& store_;
    const Index index_;
    const bool inline_;
    const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
    std::unordered_map<int, std::unique_ptr<Connection>> connections_;
    Mailbox<Answer> answers_;
};

}  // namespace

int main(int argc, char** argv) {
    const bool inline_run = argc > 3 && std::string_view(argv[3]) == "inline";
    return run_server(argc, argv, [&](Store& store, Index index, int listener, int signals) {
        return Server(store, index, inline_run).run(listener, signals);
    });
}
