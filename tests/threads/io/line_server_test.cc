// labels: unit tsan
// line_server_test.cc - a line in, a line out: many clients, slow and silent ones, bad ones, and
// the socket's file.
#include "threads/io/line_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/own_directory.h"
#include "threads/io/local_socket.h"

namespace lockstep::threads::line_server_test {

class Peer {
public:
    explicit Peer(const std::string& directory) {
        auto fd = connect_local(directory, "s");
        EXPECT_TRUE(fd) << fd.error().text();
        fd_ = fd ? *fd : -1;
    }
    Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)), got_(other.got_) {}
    ~Peer() {
        if (fd_ >= 0) close(fd_);
    }
    void say(const std::string& text) const {
        ASSERT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
    }
    void say_no_more() const { shutdown(fd_, SHUT_WR); }
    // The next line; "<end>" if the server closes, "<silence>" if it says nothing for so long.
    std::string hear(int milliseconds = 20'000) {
        size_t end, seen = 0;
        while ((end = got_.find('\n', seen)) == std::string::npos) {
            seen = got_.size();
            pollfd polled{fd_, POLLIN, 0};
            if (poll(&polled, 1, milliseconds) <= 0) return "<silence>";
            char bytes[4096];
            const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
            if (n <= 0) return "<end>";
            got_.append(bytes, static_cast<size_t>(n));
        }
        std::string line = got_.substr(0, end);
        got_.erase(0, end + 1);
        return line;
    }
    int fd() const { return fd_; }

private:
    int fd_;
    std::string got_;
};

class LineServerTest : public ::testing::Test {
public:
    ~LineServerTest() override {
        server.reset();
        std::filesystem::remove_all(directory);
    }

protected:
    LineServerTest() : directory(make_own_directory("lines")) {
        settings.directory = *Directory::open(*disk, directory);
        settings.name = "s";
        settings.too_long = "too long";
        settings.too_many = "too many";
        settings.handle = [this](std::string_view line, LineReply reply) {
            if (line == "later") late.push_back(std::move(reply));
            else if (line == "much") reply.send(std::string(kMuch, 'x'));
            else reply.send("got " + std::string(line));
        };
    }
    void start() {
        auto started = LineServer::start(settings);
        ASSERT_TRUE(started) << started.error().text();
        server = std::move(*started);
    }
    mode_t mode() const {
        struct stat file {};
        EXPECT_EQ(lstat((directory + "/s").c_str(), &file), 0);
        return file.st_mode;
    }

    static constexpr size_t kMuch = 8 << 20;
    const std::unique_ptr<Disk> disk = make_disk(IoBackend::pool);
    std::string directory;
    LineServer::Settings settings;
    std::vector<LineReply> late;  // of the server's thread, while it runs
    std::unique_ptr<LineServer> server;
};

TEST_F(LineServerTest, AnswersInOrder) {
    start();
    Peer peer(directory);
    peer.say("one\ntwo\nthr");
    EXPECT_EQ(peer.hear(), "got one");
    EXPECT_EQ(peer.hear(), "got two");
    peer.say("ee\n\n");
    EXPECT_EQ(peer.hear(), "got three");
    EXPECT_EQ(peer.hear(), "got ");
    // A last line without its end still counts, as from `nc -N`.
    peer.say("last");
    peer.say_no_more();
    EXPECT_EQ(peer.hear(), "got last");
    EXPECT_EQ(peer.hear(), "<end>");
}

TEST_F(LineServerTest, ASlowAndASilentClientHoldNobody) {
    start();
    Peer slow(directory), silent(directory), waiting(directory), other(directory);
    slow.say("much\nmuch\n");  // 16 MB that it does not read
    silent.say("half a line");
    waiting.say("later\n");
    for (int i = 0; i < 100; ++i) {
        other.say("x\n");
        ASSERT_EQ(other.hear(), "got x");
    }
    EXPECT_EQ(waiting.hear(0), "<silence>");
    EXPECT_EQ(slow.hear().size(), size_t{kMuch});
    EXPECT_EQ(slow.hear().size(), size_t{kMuch});
    silent.say("\n");
    EXPECT_EQ(silent.hear(), "got half a line");
}

TEST_F(LineServerTest, AReplyMayComeLateAndFromAnotherThread) {
    start();
    {
        Peer gone(directory);
        gone.say("later\n");
        Peer other(directory);
        other.say("x\n");
        EXPECT_EQ(other.hear(), "got x");  // so both were handled
    }
    Peer peer(directory);
    peer.say("later\nnext\n");
    EXPECT_EQ(peer.hear(50), "<silence>");  // LN-2: in order
    Peer probe(directory);
    probe.say("x\n");
    EXPECT_EQ(probe.hear(), "got x");
    ASSERT_EQ(late.size(), 2u);
    EXPECT_TRUE(late[0].abandoned());
    EXPECT_FALSE(late[1].abandoned());
    std::thread([&] {
        late[0].send("for one that has gone");
        late[1].send("late");
    }).join();
    EXPECT_EQ(peer.hear(), "late");
    EXPECT_EQ(peer.hear(), "got next");
}

TEST_F(LineServerTest, AReplyAfterTheEnd) {
    start();
    Peer peer(directory);
    peer.say("later\n");
    Peer probe(directory);
    probe.say("x\n");
    EXPECT_EQ(probe.hear(), "got x");
    server.reset();
    EXPECT_EQ(peer.hear(), "<end>");
    EXPECT_FALSE(std::filesystem::exists(directory + "/s"));
    late[0].send("nobody hears it");
}

TEST_F(LineServerTest, StopLetsTheAnswersUnderWayOut) {
    start();
    Peer waiting(directory), last(directory), silent(directory), half(directory);
    waiting.say("later\nnever handled\n");
    last.say("later\n");
    half.say("half a line");
    Peer probe(directory);
    probe.say("x\n");
    EXPECT_EQ(probe.hear(), "got x");
    server->stop();
    server->stop();
    EXPECT_FALSE(std::filesystem::exists(directory + "/s"));
    for (Peer* peer : {&silent, &half, &probe}) EXPECT_EQ(peer->hear(), "<end>");
    EXPECT_EQ(waiting.hear(50), "<silence>");
    ASSERT_EQ(late.size(), 2u);
    late[0].send("after stop");
    EXPECT_EQ(waiting.hear(), "after stop");
    EXPECT_EQ(waiting.hear(), "<end>");
    late[1].send("just before the end");
    server.reset();
    EXPECT_EQ(last.hear(), "just before the end");
    EXPECT_EQ(last.hear(), "<end>");
}

// More than the sockets' buffers have room for.
TEST_F(LineServerTest, TheEndSendsLongAnswersToTheirEnd) {
    start();
    Peer reads(directory), sleeps(directory);
    reads.say("later\n");
    sleeps.say("later\n");
    Peer probe(directory);
    probe.say("x\n");
    EXPECT_EQ(probe.hear(), "got x");
    ASSERT_EQ(late.size(), 2u);
    constexpr size_t kLong = 1 << 20;
    for (LineReply& reply : late) reply.send(std::string(kLong, 'x'));
    size_t heard = 0;
    std::thread reader([&] { heard = reads.hear().size(); });
    server.reset();
    reader.join();
    EXPECT_EQ(heard, kLong);
}

TEST_F(LineServerTest, ALineThatIsTooLong) {
    settings.line_bytes_max = 10;
    start();
    Peer peer(directory);
    peer.say("1234567890\n");
    EXPECT_EQ(peer.hear(), "got 1234567890");
    peer.say("12345678901");
    EXPECT_EQ(peer.hear(), "too long");
    EXPECT_EQ(peer.hear(), "<end>");
    Peer other(directory);
    other.say("12345678901\nx\n");
    EXPECT_EQ(other.hear(), "too long");
    EXPECT_EQ(other.hear(), "<end>");
}

TEST_F(LineServerTest, TheLongestIdleClientMakesRoom) {
    settings.clients_max = 3;
    start();
    Peer a(directory), b(directory), c(directory);
    for (Peer* peer : {&a, &b, &c}) {
        peer->say("x\n");
        EXPECT_EQ(peer->hear(), "got x");
    }
    a.say("x\n");
    EXPECT_EQ(a.hear(), "got x");
    Peer d(directory);
    d.say("x\n");
    EXPECT_EQ(d.hear(), "got x");
    EXPECT_EQ(b.hear(), "<end>");
    for (Peer* peer : {&a, &c, &d}) peer->say("later\n");
    while (true) {  // until all three are busy
        Peer e(directory);
        // The server may have refused it, and closed the connection, before it says anything.
        (void)send(e.fd(), "x\n", 2, MSG_NOSIGNAL);
        if (e.hear() == "too many") break;
    }
}

TEST_F(LineServerTest, AHundredClientsAtOnce) {
    start();
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 100; ++i)
        threads.emplace_back([&, i] {
            Peer peer(directory);
            const std::string text = std::to_string(i);
            for (int n = 0; n < 10; ++n) {
                peer.say(text + "\n");
                right += peer.hear() == "got " + text;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 1000);
}

TEST_F(LineServerTest, OnlyTheOwnerMayConnect) {
    const mode_t before = umask(0);
    start();
    umask(before);
    EXPECT_EQ(mode(), S_IFSOCK | 0600u);
    server.reset();
    umask(0777);
    start();
    umask(before);
    EXPECT_EQ(mode(), S_IFSOCK | 0600u);
}

// The mode is right when the name appears, and not only afterwards.
TEST_F(LineServerTest, NeverAWiderMode) {
    const mode_t before = umask(0);
    std::atomic<bool> stop{false};
    std::atomic<int> seen{0}, wide{0};
    std::thread watcher([&] {
        while (!stop) {
            struct stat file {};
            if (lstat((directory + "/s").c_str(), &file) != 0) continue;
            ++seen;
            wide += (file.st_mode & 077) != 0;
        }
    });
    for (int i = 0; i < 50 || (seen == 0 && i < 5000); ++i) {
        start();
        server.reset();
    }
    stop = true;
    watcher.join();
    umask(before);
    EXPECT_GT(seen, 0);
    EXPECT_EQ(wide, 0);
}

TEST_F(LineServerTest, ASocketLeftBehindIsReplaced) {
    const auto left = listen_local(settings.directory, "s");
    ASSERT_TRUE(left);
    close(*left);  // as a crash does: the file stays
    const auto refused = connect_local(directory, "s");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().os, ECONNREFUSED);
    start();
    Peer peer(directory);
    peer.say("x\n");
    EXPECT_EQ(peer.hear(), "got x");
}

TEST_F(LineServerTest, AFileOfThatNameStays) {
    std::ofstream(directory + "/s") << "precious";
    const auto started = LineServer::start(settings);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, ErrorCode::bad_path);
    EXPECT_NE(started.error().text().find("/s is no socket"), std::string::npos)
        << started.error().text();
    std::string text;
    std::ifstream(directory + "/s") >> text;
    EXPECT_EQ(text, "precious");
}

TEST_F(LineServerTest, ALongPath) {
    std::string path = directory;
    for (int i = 0; i < 20; ++i) path += "/a-folder-with-a-long-name";
    std::filesystem::create_directories(path);
    settings.directory = *Directory::open(*disk, path);
    start();
    Peer peer(path);
    peer.say("x\n");
    EXPECT_EQ(peer.hear(), "got x");
    server.reset();
    EXPECT_FALSE(std::filesystem::exists(path + "/s"));
}

}  // namespace lockstep::threads::line_server_test
