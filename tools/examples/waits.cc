// waits - user threads that wait for sockets, timers, each other and blocking functions, without
// blocking the one kernel thread that they share.
//
// Each connection has a user thread, which waits for numbers and stores the running sum. A timer
// ticks meanwhile. At the end a kernel thread of the pool does what blocks.
#include <lockstep/fd.h>
#include <lockstep/offload.h>
#include <lockstep/store.h>
#include <lockstep/sync.h>
#include <lockstep/timer.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

using namespace lockstep;

namespace {

constexpr int kConnections = 50, kNumbers = 20;

// Stores each number that arrives, until the other end closes.
Result<void> serve(Store& store, Index sums, int socket, Channel<uint32_t>& results) {
    uint32_t sum = 0, number = 0;
    for (;;) {
        const ssize_t bytes = recv(socket, &number, sizeof number, MSG_DONTWAIT);
        if (bytes == 0) {
            close(socket);
            return results.send(sum);
        }
        if (bytes < 0) {
            LOCKSTEP_TRY(wait_fd(socket, POLLIN, 10 * kSecond));  // other user threads run
            continue;
        }
        sum += number;
        LOCKSTEP_TRY(store.run([&](Txn& txn) -> Result<void> {
            const Slice value(reinterpret_cast<const char*>(&sum), sizeof sum);
            return sums.put(txn, Key().u32(static_cast<uint32_t>(socket)), value);
        }));
    }
}

Result<void> run(const char* path) {
    Store store = LOCKSTEP_TRY(Store::open(path, {.logger = [](int, std::string_view text) {
                                               std::printf("%.*s\n", static_cast<int>(text.size()),
                                                           text.data());
                                           }}));
    const Index sums =
        LOCKSTEP_TRY(store.run([&](Txn& txn) { return store.open_or_create_index(txn, "sums"); }));
    Channel<uint32_t> results(4);
    std::vector<int> clients;
    std::vector<Handle<void>> servers;
    for (int i = 0; i < kConnections; ++i) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
            return fail_os(ErrorCode::io_error, errno, "socketpair");
        clients.push_back(ends[0]);
        servers.push_back(
            store.start([&, end = ends[1]] { return serve(store, sums, end, results); }));
    }
    Timer timer;
    timer.start(kMillisecond, kMillisecond);
    uint64_t ticks = 0;
    auto ticker = store.start([&]() -> Result<void> {
        for (auto n = timer.wait(); n; n = timer.wait()) ticks += *n;
        return {};  // cancelled
    });
    for (uint32_t n = 1; n <= kNumbers; ++n)
        for (const int client : clients) (void)!write(client, &n, sizeof n);
    for (const int client : clients) close(client);
    uint64_t total = 0;
    for (int i = 0; i < kConnections; ++i) total += LOCKSTEP_TRY(results.receive()).value_or(0);
    for (auto& server : servers) LOCKSTEP_TRY(server.join());
    timer.cancel();
    LOCKSTEP_TRY(ticker.join());
    // Blocks a kernel thread of the pool, not the store's worker.
    auto slow = store.start([] { return offload([] { return usleep(1000) == 0; }); });
    const bool slept = LOCKSTEP_TRY(slow.join());
    const uint64_t expected = uint64_t{kConnections} * kNumbers * (kNumbers + 1) / 2;
    std::printf("sum %llu, expected %llu; %s ticks\n", (unsigned long long)total,
                (unsigned long long)expected, ticks > 0 ? "some" : "no");
    if (total != expected || !slept) return fail(ErrorCode::bad_argument, "numbers were lost");
    return store.close();
}

}  // namespace

int main(int argc, char** argv) {
    const auto done = run(argc > 1 ? argv[1] : "waits.db");
    if (!done) std::puts(done.error().text().c_str());
    return done ? 0 : 1;
}
