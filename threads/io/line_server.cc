// line_server.cc - the loop over all connections.
#include "threads/io/line_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "threads/base/try.h"
#include "threads/io/local_socket.h"

namespace lockstep::threads {

struct LineOutbox {
    struct Answer {
        uint64_t client;
        std::string line;
    };
    std::mutex mutex;
    std::vector<Answer> answers;  // under mutex
    bool stopping = false;        // under mutex: take no more requests
    bool ending = false;          // under mutex: send the answers that are here, and end
    int event_fd = -1;

    ~LineOutbox() {
        if (event_fd >= 0) close(event_fd);
    }
    void wake() const {
        const uint64_t one = 1;
        (void)!write(event_fd, &one, sizeof one);
    }
};

namespace {

constexpr int kRestMilliseconds = 100;
constexpr size_t kReadBytes = 16 * 1024;
constexpr int kAdmittedPerRound = 64;

}  // namespace

void LineReply::send(std::string line) {
    CHECK(outbox_ != nullptr);  // LN-2
    line += '\n';
    {
        const std::lock_guard lock(outbox_->mutex);
        if (!outbox_->ending) outbox_->answers.push_back({client_, std::move(line)});
    }
    outbox_->wake();
    outbox_.reset();
}

LineServer::LineServer(Settings settings)
    : settings_(std::move(settings)), outbox_(std::make_shared<LineOutbox>()) {}

Result<std::unique_ptr<LineServer>> LineServer::start(Settings settings) {
    DCHECK(settings.handle && settings.clients_max > 0 && settings.line_bytes_max > 0);
    std::unique_ptr<LineServer> server(new LineServer(std::move(settings)));
    server->outbox_->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->outbox_->event_fd < 0)
        return fail_os(ErrorCode::too_many, errno, "eventfd of a socket's thread");
    server->listener_ = TRY(listen_local(server->settings_.directory, server->settings_.name));
    // The application's signals are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int refused = pthread_create(&server->thread_, nullptr, thread_main, server.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused != 0) return fail_os(ErrorCode::too_many, refused, "kernel thread of a socket");
    server->started_ = true;
    return server;
}

void LineServer::stop() {
    if (!started_) return;
    DCHECK(!pthread_equal(pthread_self(), thread_));  // handle() would wait for itself
    {
        const std::lock_guard lock(outbox_->mutex);
        outbox_->stopping = true;
    }
    outbox_->wake();
    stopped_.wait(false, std::memory_order_acquire);
}

LineServer::~LineServer() {
    stop();
    {
        const std::lock_guard lock(outbox_->mutex);
        outbox_->ending = true;
    }
    outbox_->wake();
    if (started_) pthread_join(thread_, nullptr);
    for (Client& client : clients_)
        if (client.fd >= 0) drop(client);
    close_listener();
}

// Idempotent.
void LineServer::close_listener() {
    if (listener_ < 0) return;
    close(std::exchange(listener_, -1));
    unlink_local(settings_.directory, settings_.name);
}

void* LineServer::thread_main(void* self) {
    pthread_setname_np(pthread_self(), "lockstep-ctl");
    static_cast<LineServer*>(self)->work();
    return nullptr;
}

void LineServer::work() {
    std::vector<pollfd> polled;
    for (;;) {
        ++rounds_;
        polled.clear();
        polled.push_back({outbox_->event_fd, POLLIN, 0});
        polled.push_back({resting_ ? -1 : listener_, POLLIN, 0});
        for (const Client& client : clients_) {
            client.assert_state();
            const bool listens = client.idle() && !client.at_end;
            polled.push_back(
                {client.fd,
                 static_cast<short>((listens ? POLLIN : 0) | (client.out.empty() ? 0 : POLLOUT)),
                 0});
        }
        const int ready = ::poll(polled.data(), polled.size(), resting_ ? kRestMilliseconds : -1);
        CHECK(ready >= 0 || errno == EINTR || errno == ENOMEM || errno == EAGAIN);
        resting_ = false;
        if (ready < 0) continue;
        for (size_t i = 0; i < clients_.size(); ++i)
            if (const short events = polled[i + 2].revents; events != 0) serve(clients_[i], events);
        std::erase_if(clients_, [](const Client& client) { return client.fd < 0; });
        bool stopping = false, ending = false;
        if (polled[0].revents != 0) {
            uint64_t count;
            (void)!read(outbox_->event_fd, &count, sizeof count);
            const std::lock_guard lock(outbox_->mutex);
            stopping = outbox_->stopping;
            ending = outbox_->ending;
        }
        if (stopping) take_no_more();
        take_answers();
        if (ending) return send_last();
        if (polled[1].revents != 0 && listener_ >= 0) admit();
    }
}

// Idempotent.
void LineServer::take_no_more() {
    DCHECK(pthread_equal(pthread_self(), thread_));
    close_listener();
    for (Client& client : clients_) {
        client.in.clear();
        client.at_end = client.leaving = true;
        if (client.idle()) drop(client);
    }
    std::erase_if(clients_, [](const Client& client) { return client.fd < 0; });
    DCHECK(std::ranges::all_of(clients_, &Client::leaving));
    stopped_.store(true, std::memory_order_release);
    stopped_.notify_all();
}

// What does not fit into a client's socket at once.
void LineServer::send_last() {
    DCHECK(listener_ < 0);
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::milliseconds(kLastAnswersMs);
    for (;;) {
        std::erase_if(clients_, [](const Client& client) { return client.fd < 0; });
        std::vector<pollfd> polled;
        polled.reserve(clients_.size());
        for (const Client& client : clients_)
            polled.push_back({client.out.empty() ? -1 : client.fd, POLLOUT, 0});
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        if (std::ranges::all_of(polled, [](const pollfd& of) { return of.fd < 0; }) ||
            left.count() <= 0)
            return;
        (void)::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
        for (size_t i = 0; i < clients_.size(); ++i)
            if (polled[i].revents != 0) transmit(clients_[i]);
    }
}

// Clients may connect faster than they are admitted, so a round admits a bounded number (LN-3).
void LineServer::admit() {
    DCHECK(listener_ >= 0 && !resting_);
    for (int i = 0; i < kAdmittedPerRound; ++i) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            resting_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
            return;
        }
        if (clients_.size() >= settings_.clients_max && !make_room()) {
            const std::string line = settings_.too_many + "\n";
            (void)send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            close(fd);
            continue;
        }
        clients_.push_back({.fd = fd,
                            .number = ++numbers_,
                            .used = rounds_,
                            .in = {},
                            .out = {},
                            .gone = std::make_shared<std::atomic<bool>>(false)});
    }
}

// Takes the place of the client that has been idle for longest.
bool LineServer::make_room() {
    Client* oldest = nullptr;
    for (Client& client : clients_)
        if (client.idle() && (oldest == nullptr || client.used < oldest->used)) oldest = &client;
    if (oldest == nullptr) return false;
    drop(*oldest);
    clients_.erase(clients_.begin() + (oldest - clients_.data()));
    return true;
}

void LineServer::take_answers() {
    std::vector<LineOutbox::Answer> answers;
    {
        const std::lock_guard lock(outbox_->mutex);
        answers.swap(outbox_->answers);
    }
    for (LineOutbox::Answer& answer : answers) {
        const auto client = std::ranges::find(clients_, answer.client, &Client::number);
        if (client == clients_.end()) continue;  // it has gone
        DCHECK(client->busy && client->out.empty());
        client->busy = false;
        client->out = std::move(answer.line);
        client->sent = 0;
    }
    for (Client& client : clients_)
        if (!client.out.empty() && client.sent == 0) transmit(client);
    std::erase_if(clients_, [](const Client& client) { return client.fd < 0; });
}

void LineServer::serve(Client& client, short events) {
    client.used = rounds_;
    if ((events & POLLIN) != 0) receive(client);
    else if ((events & POLLOUT) != 0) transmit(client);
    else drop(client);  // it has hung up
}

void LineServer::receive(Client& client) {
    DCHECK(client.idle());
    char bytes[kReadBytes];
    const ssize_t got = recv(client.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return drop(client);
    if (got == 0) client.at_end = true;
    else client.in.append(bytes, static_cast<size_t>(got));
    handle_line(client);
}

// Hands on the first complete line, if there is one; a last line may lack its end.
void LineServer::handle_line(Client& client) {
    DCHECK(client.idle());
    size_t end = client.in.find('\n');
    if (end == std::string::npos && client.at_end && !client.in.empty()) end = client.in.size();
    if (end > settings_.line_bytes_max &&
        (end != std::string::npos || client.in.size() > settings_.line_bytes_max)) {
        client.in.clear();
        client.at_end = client.leaving = true;
        client.out = settings_.too_long + "\n";
        client.sent = 0;
        return transmit(client);
    }
    if (end == std::string::npos) {
        if (client.at_end) drop(client);
        return;
    }
    const std::string line = client.in.substr(0, end);
    client.in.erase(0, std::min(end + 1, client.in.size()));
    client.busy = true;
    settings_.handle(line, LineReply(outbox_, client.number, client.gone));
}

void LineServer::transmit(Client& client) {
    DCHECK(client.fd >= 0 && client.sent <= client.out.size());
    while (client.sent < client.out.size()) {
        const ssize_t done = send(client.fd, client.out.data() + client.sent,
                                  client.out.size() - client.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EAGAIN) return;
        if (done < 0) return drop(client);
        client.sent += static_cast<size_t>(done);
    }
    std::string().swap(client.out);
    client.sent = 0;
    if (client.leaving) return drop(client);
    // The next request may have come with the one before.
    if (!client.in.empty() || client.at_end) handle_line(client);
}

void LineServer::drop(Client& client) {
    DCHECK(client.fd >= 0 && client.gone != nullptr);
    client.gone->store(true, std::memory_order_relaxed);
    close(client.fd);
    client.fd = -1;
}

}  // namespace lockstep::threads
