// labels: unit tsan
// socket_test.cc - reads, writes and accepts on sockets: by io_uring, by the poller, and on foreign
// kernel threads.
#include <lockstep/net.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/fd.h>
#include "tests/code_of.h"
#include "tests/threads/worker/fd_ways.h"

namespace lockstep::socket_test {

using threads::Runtime;

constexpr Nanos kLong = 60 * kSecond;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

// At most `limit` bytes, or "ERROR errno".
std::string read_text(int socket, size_t limit = 100, Nanos timeout = kLong) {
    std::string text(limit, '\0');
    const auto bytes = read_socket(socket, std::as_writable_bytes(std::span(text)), timeout);
    if (!bytes)
        return std::string(error_name(bytes.error().code)) + " " + std::to_string(bytes.error().os);
    text.resize(*bytes);
    return text;
}

// Two connected sockets, closed at the end.
struct Pair {
    int ends[2];
    explicit Pair(int flags = 0) {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | flags, 0, ends), 0);
    }
    ~Pair() {
        for (const int end : ends)
            if (end >= 0) close(end);
    }
    void end(int i) { close(std::exchange(ends[i], -1)); }
};

// A listening TCP socket of the loopback interface.
struct Listener {
    int fd = -1;
    sockaddr_in address{};
    explicit Listener(int flags = SOCK_NONBLOCK) {
        fd = socket(AF_INET, SOCK_STREAM | flags, 0);
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
        EXPECT_EQ(listen(fd, 2000), 0);
        EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
    }
    ~Listener() { close(fd); }
    int connect() const {
        const int client = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                  0);
        return client;
    }
};

// Closes so that the peer meets ECONNRESET.
void reset(int socket) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(socket);
}

class Socket : public FdWays {};

TEST_P(Socket, ReadsWhatCameAndTheEnd) {
    for (const int flags : {0, int{SOCK_NONBLOCK}}) {
        Pair pair(flags);
        std::atomic<bool> reading{false}, has_first{false};
        spawn(0, [&] {
            reading = true;
            EXPECT_EQ(read_text(pair.ends[0]), "first");
            has_first = true;
            EXPECT_EQ(read_text(pair.ends[0], 3), "sec");  // the rest stays
            EXPECT_EQ(read_text(pair.ends[0]), "ond");
            EXPECT_EQ(read_text(pair.ends[0]), "");  // the end
            EXPECT_EQ(read_text(pair.ends[0]), "");
            reading = false;
        });
        spawn(0, [&] {
            while (!reading) threads::yield();
            threads::sleep_until(threads::now() + 2 * kMillisecond);
            EXPECT_TRUE(write_socket(pair.ends[1], bytes_of("first")));
            while (!has_first) threads::yield();
            threads::sleep_until(threads::now() + 2 * kMillisecond);
            EXPECT_TRUE(write_socket(pair.ends[1], bytes_of("second")));
            pair.end(1);
        });
        while (reading) std::this_thread::yield();
        runtime_->stop();
        start();
    }
}

TEST_P(Socket, ADeadlineEndsAReadAndLosesNothing) {
    Pair pair;
    spawn(0, [&] {
        for (int i = 0; i < 5; ++i) {
            const Nanos start = threads::now();
            EXPECT_EQ(read_text(pair.ends[0], 100, 3 * kMillisecond), "timeout 0");
            EXPECT_GE(threads::now() - start, 3 * kMillisecond);
            EXPECT_EQ(read_text(pair.ends[0], 100, 0), "timeout 0");
        }
        EXPECT_TRUE(write_socket(pair.ends[1], bytes_of("kept")));
        EXPECT_EQ(read_text(pair.ends[0], 100, 0), "kept");
    });
    runtime_->stop();
}

// Deadlines and bytes race: what a cancelled read has received already must be its result.
TEST_P(Socket, DeadlinesAndBytesRace) {
    constexpr size_t kBytes = 2000;
    Pair pair;
    std::string sent, received;
    for (size_t i = 0; i < kBytes; ++i) sent += static_cast<char>('a' + i % 26);
    spawn(0, [&] {
        for (const Nanos end = threads::now() + 20 * kSecond;
             received.size() < kBytes && threads::now() < end;) {
            std::array<std::byte, 7> buffer;
            const auto bytes = read_socket(pair.ends[0], buffer, 10 * kMicrosecond);
            if (bytes) received.append(reinterpret_cast<const char*>(buffer.data()), *bytes);
            else ASSERT_EQ(bytes.error().code, ErrorCode::timeout);
        }
    });
    spawn(1, [&] {
        for (size_t i = 0; i < kBytes; ++i) {
            ASSERT_TRUE(write_socket(pair.ends[1], bytes_of(sent.substr(i, 1))));
            if (i % 4 == 0) threads::sleep_until(threads::now() + 10 * kMicrosecond);
        }
    });
    runtime_->stop();
    EXPECT_EQ(received, sent);
}

// More than the socket's buffers take at once: the writer waits for the reader.
TEST_P(Socket, WritesEverything) {
    Pair pair;
    std::string sent(3'000'000, '\0'), received;
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 24);
    spawn(0, [&] {
        EXPECT_TRUE(write_socket(pair.ends[0], bytes_of(sent), kLong));
        pair.end(0);
    });
    spawn(1, [&] {
        for (std::string part; !(part = read_text(pair.ends[1], 70'000)).empty();) received += part;
    });
    runtime_->stop();
    EXPECT_TRUE(received == sent) << received.size();
}

TEST_P(Socket, AWriterWithoutReaderTimesOut) {
    Pair pair;
    spawn(0, [&] {
        const std::string much(8'000'000, 'x');
        EXPECT_EQ(code_of(write_socket(pair.ends[0], bytes_of(much), 3 * kMillisecond)),
                  ErrorCode::timeout);
        EXPECT_EQ(code_of(write_socket(pair.ends[0], bytes_of(much), 0)), ErrorCode::timeout);
    });
    runtime_->stop();
}

TEST_P(Socket, ThePeerIsGone) {
    Listener listener;
    const int client = listener.connect();
    std::atomic<bool> reading{false};
    spawn(0, [&] {
        const int server = accept_socket(listener.fd, kLong).value_or(-1);
        EXPECT_EQ(fcntl(server, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        reading = true;
        EXPECT_EQ(read_text(server), "io_error " + std::to_string(ECONNRESET));
        const auto written = write_socket(server, bytes_of("x"));  // raises no SIGPIPE
        EXPECT_EQ(code_of(written), ErrorCode::io_error);
        EXPECT_EQ(written.error().os, EPIPE);
        close(server);
    });
    spawn(0, [&] {
        while (!reading) threads::yield();
        reset(client);
    });
    runtime_->stop();
}

// shutdown() is how one thread ends the call of another.
TEST_P(Socket, ShutdownEndsCalls) {
    Pair pair;
    Listener listener;
    std::atomic<int> waiting{0}, ended{0};
    spawn(0, [&] {
        ++waiting;
        EXPECT_EQ(read_text(pair.ends[0]), "");
        ++ended;
    });
    spawn(1, [&] {
        ++waiting;
        const auto socket = accept_socket(listener.fd);
        EXPECT_EQ(code_of(socket), ErrorCode::io_error);
        EXPECT_EQ(socket.error().os, EINVAL);
        ++ended;
    });
    while (waiting < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    shutdown(pair.ends[0], SHUT_RDWR);
    shutdown(listener.fd, SHUT_RDWR);
    runtime_->stop();
    EXPECT_EQ(ended, 2);
}

TEST_P(Socket, TheEndOfTheStoreCancels) {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int i = 0; i < 40; ++i) pairs.push_back(std::make_unique<Pair>(i % 2 ? SOCK_NONBLOCK : 0));
    Listener listener;
    std::atomic<int> waiting{0}, cancelled{0};
    for (uint32_t i = 0; i < 40; ++i)
        spawn(i, [&, i] {
            ++waiting;
            const std::string end = read_text(pairs[i]->ends[0], 10, i % 3 ? kNever : kLong);
            cancelled += end == "cancelled 0";
        });
    spawn(0, [&] {
        ++waiting;
        cancelled += code_of(accept_socket(listener.fd)) == ErrorCode::cancelled;
    });
    while (waiting < 41) std::this_thread::yield();
    runtime_->end_fd_waits();
    spawn(0, [&] { EXPECT_EQ(read_text(pairs[0]->ends[0]), "cancelled 0"); });
    runtime_->stop();
    EXPECT_EQ(cancelled, 41);
}

// An echo server with more connections than a ring has places, several acceptors, and a client on
// the other worker for each.
TEST_P(Socket, ManyConnections) {
    constexpr int kClients = 700, kRounds = 3;
    Listener listener;
    std::atomic<int> accepted{0}, answered{0};
    for (uint32_t acceptor = 0; acceptor < 3; ++acceptor)
        spawn(acceptor, [&] {
            while (accepted < kClients) {
                const auto socket = accept_socket(listener.fd, 5 * kMillisecond);
                if (!socket) {
                    ASSERT_EQ(socket.error().code, ErrorCode::timeout);
                    continue;
                }
                ASSERT_TRUE(runtime_->spawn(0, "echo", [socket = *socket] {
                    for (std::string text; !(text = read_text(socket)).empty();)
                        EXPECT_TRUE(write_socket(socket, bytes_of(text)));
                    close(socket);
                }));
                ++accepted;
            }
        });
    for (uint32_t i = 0; i < kClients; ++i)
        spawn(1, [&, i] {
            const int socket = listener.connect();
            const std::string text = "client " + std::to_string(i);
            for (int k = 0; k < kRounds; ++k) {
                EXPECT_TRUE(write_socket(socket, bytes_of(text)));
                answered += read_text(socket) == text;
            }
            close(socket);
        });
    while (accepted < kClients) std::this_thread::yield();
    runtime_->stop();
    EXPECT_EQ(accepted, kClients);
    EXPECT_EQ(answered, kClients * kRounds);
}

TEST_P(Socket, WrongArguments) {
    Pair pair;
    Listener blocking(0), listener;
    spawn(0, [&] {
        std::array<std::byte, 4> buffer;
        int pipe_ends[2];
        ASSERT_EQ(pipe2(pipe_ends, O_NONBLOCK), 0);
        for (const int fd : {-1, 1'000'000, pipe_ends[0]}) {
            EXPECT_EQ(code_of(read_socket(fd, buffer)), ErrorCode::bad_argument);
            EXPECT_EQ(code_of(write_socket(fd, buffer)), ErrorCode::bad_argument);
            EXPECT_EQ(code_of(accept_socket(fd)), ErrorCode::bad_argument);
        }
        EXPECT_EQ(code_of(read_socket(pair.ends[0], {})), ErrorCode::bad_argument);
        EXPECT_TRUE(write_socket(pair.ends[0], {}));
        EXPECT_EQ(code_of(accept_socket(blocking.fd)), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(accept_socket(listener.fd, 0)), ErrorCode::timeout);
        EXPECT_EQ(code_of(read_socket(listener.fd, buffer)), ErrorCode::bad_argument);
        for (const int end : pipe_ends) close(end);
    });
    runtime_->stop();
}

INSTANTIATE_TEST_SUITE_P(Ways, Socket, kFdWays, name_of);

TEST(SocketForeign, BlocksTheKernelThread) {
    Pair pair;
    EXPECT_EQ(read_text(pair.ends[0], 10, 0), "timeout 0");
    EXPECT_EQ(read_text(pair.ends[0], 10, 2 * kMillisecond), "timeout 0");
    std::thread other([&] { EXPECT_TRUE(write_socket(pair.ends[1], bytes_of("bytes"))); });
    EXPECT_EQ(read_text(pair.ends[0]), "bytes");
    other.join();
    Listener listener;
    const int client = listener.connect();
    const auto server = accept_socket(listener.fd);
    ASSERT_TRUE(server);
    close(client);
    EXPECT_EQ(read_text(*server), "");
    close(*server);
}

TEST(SocketForeign, ASimulationRefuses) {
    Pair pair;
    Listener listener;
    auto runtime = *Runtime::start({.caller_driven = true});
    std::array<std::byte, 1> byte{};
    std::vector<ErrorCode> codes;
    ASSERT_TRUE(runtime->spawn(0, "server", [&] {
        codes = {code_of(read_socket(pair.ends[0], byte)),
                 code_of(write_socket(pair.ends[0], byte)), code_of(accept_socket(listener.fd))};
    }));
    runtime->stop();
    EXPECT_EQ(codes, std::vector<ErrorCode>(3, ErrorCode::unsupported));
}

}  // namespace lockstep::socket_test
