// server_load - keeps connections to an example server busy and prints the requests a second.
//
//   server_load PORT CONNECTIONS SECONDS
//
// Each connection sends its next request when it has the answer to the last one. Half of the
// requests are PUT, half are GET, of random keys. An answer that the protocol does not know, or
// no answer for 30 seconds, ends the program with status 1.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kKeys = 10'000, kValueBytes = 100;
constexpr int kPatienceSeconds = 30;  // a disk may stand still for seconds

struct Client {
    int socket = -1;
    bool put = false;
    std::string answer;
};

class Load {
public:
    Load(int port, int connections) : clients_(static_cast<size_t>(connections)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (uint32_t n = 0; n < clients_.size(); ++n) {
            const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
                give_up("cannot connect");
            const int on = 1;
            setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            epoll_event event{.events = EPOLLIN, .data = {.u32 = n}};
            epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
            clients_[n].socket = socket;
        }
    }
    // The requests that were answered in that time. Waits for those that were not.
    uint64_t run(double seconds) {
        using Clock = std::chrono::steady_clock;
        const auto end = Clock::now() + std::chrono::duration<double>(seconds);
        for (Client& client : clients_) ask(client);
        uint64_t answered = 0;
        for (size_t waiting = clients_.size(); waiting > 0;) {
            epoll_event events[64];
            const int count = epoll_wait(epoll_, events, 64, kPatienceSeconds * 1000);
            if (count == 0) give_up("no answer for " + std::to_string(kPatienceSeconds) + " s");
            const bool over = Clock::now() >= end;
            for (int n = 0; n < count; ++n) {
                Client& client = clients_[events[n].data.u32];
                if (!receive(client)) continue;
                if (over) {
                    --waiting;
                } else {
                    ++answered;
                    ask(client);
                }
            }
        }
        return answered;
    }

private:
    [[noreturn]] static void give_up(const std::string& why) {
        std::fprintf(stderr, "server_load: %s\n", why.c_str());
        std::exit(1);
    }
    void ask(Client& client) {
        client.put = !client.put;
        std::string line = (client.put ? "PUT key" : "GET key") + std::to_string(random_() % kKeys);
        if (client.put)
            line += ' ' + std::string(kValueBytes, static_cast<char>('a' + random_() % 26));
        line += '\n';
        if (send(client.socket, line.data(), line.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(line.size()))
            give_up("the server has closed a connection");
    }
    // True when the answer is complete.
    static bool receive(Client& client) {
        char bytes[4096];
        const ssize_t got = recv(client.socket, bytes, sizeof bytes, 0);
        if (got <= 0) give_up("the server has closed a connection");
        client.answer.append(bytes, static_cast<size_t>(got));
        if (client.answer.back() != '\n') return false;
        const std::string_view line = client.answer;
        const bool sound = client.put ? line == "OK\n"
                                      : line == "NONE\n" || (line.starts_with("VALUE ") &&
                                                             line.size() == 7 + kValueBytes);
        if (!sound) give_up("answer: " + client.answer);
        client.answer.clear();
        return true;
    }

    std::vector<Client> clients_;
    const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
    std::minstd_rand random_{1};
};

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s PORT CONNECTIONS SECONDS\n", argv[0]);
        return 2;
    }
    const int connections = std::max(1, std::atoi(argv[2]));
    const double seconds = std::atof(argv[3]);
    Load load(std::atoi(argv[1]), connections);
    load.run(seconds / 5);  // the pool fills
    std::printf("%.0f\n", static_cast<double>(load.run(seconds)) / seconds);
    return 0;
}
