// line_server.h - answers lines of text from local programs, on a kernel thread of its own.
//
// Concepts   A *client* is a connection to a Unix socket. It sends requests, a line each, and gets
//            one line for each, in order. The handler gets a request together with a LineReply, and
//            may answer at once or later from any thread. Meanwhile the client's next request stays
//            in the socket, so a client has at most one request and one answer in memory.
//            If clients_max are connected, the one that has been idle for longest makes room.
//            The end has two steps, so that a request that ends its own server is still answered.
// Invariants LN-1 A client that is slow, silent or gone delays no other client and no handler: the
//                 thread never blocks on one descriptor. [LineServer tests]
//            LN-2 Each reply is sent once, and reaches the client that asked or none.
//                 [checked: LineReply::send()]
//            LN-3 A round does bounded work however fast clients connect, so the answers and the
//                 end of the server are delayed by one round at most.
//                 [ControlTest.CloseWhileClientsAsk]
// Blocking   start() waits for the kernel thread to begin, stop() for it to take note, and the
//            destructor for its end; nothing else waits.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/result.h>
#include "threads/base/check.h"
#include "threads/io/directory.h"

namespace lockstep::threads {

// Answers that wait to be sent. Shared, because an answer may come after the server's end.
struct LineOutbox;

// The right to answer one request. Movable. Unused, the client waits until it gives up.
class LineReply {
public:
    LineReply(std::shared_ptr<LineOutbox> outbox, uint64_t client,
              std::shared_ptr<const std::atomic<bool>> gone)
        : outbox_(std::move(outbox)), client_(client), gone_(std::move(gone)) {
        DCHECK(outbox_ != nullptr && client_ != 0 && gone_ != nullptr);
    }
    // Sends the line, without its end, which is added. From any thread, once. Never blocks.
    void send(std::string line);
    // The client has closed its connection, so long work for it may end. From any thread.
    bool abandoned() const {
        DCHECK(gone_ != nullptr);
        return gone_->load(std::memory_order_relaxed);
    }

private:
    std::shared_ptr<LineOutbox> outbox_;
    uint64_t client_;
    std::shared_ptr<const std::atomic<bool>> gone_;
};

class LineServer {
public:
    struct Settings {
        Directory directory;  // of the socket; open
        std::string name;
        // Called on the server's thread; must not block.
        std::function<void(std::string_view line, LineReply reply)> handle;
        // Sent before the connection is closed: the request is longer than line_bytes_max; there
        // are clients_max clients, and each waits for an answer.
        std::string too_long, too_many;
        size_t line_bytes_max = 64 * 1024;
        uint32_t clients_max = 256;
    };
    // Errors: those of listen_local(), too_many (no kernel thread or eventfd).
    static Result<std::unique_ptr<LineServer>> start(Settings settings);
    // Removes the socket and disconnects the clients that wait for no answer. handle() is not
    // called any more. Clients whose request is with the handler still get their answer.
    // Idempotent; not from handle(), and calls do not overlap.
    void stop();
    // stop(), then sends the answers that were given, and closes all connections. Waits for clients
    // that do not read their answer for kLastAnswersMs at most.
    ~LineServer();
    static constexpr int kLastAnswersMs = 1000;
    LineServer(const LineServer&) = delete;
    LineServer& operator=(const LineServer&) = delete;

private:
    struct Client {
        int fd = -1;
        uint64_t number = 0;
        uint64_t used = 0;     // round of its newest event
        bool busy = false;     // its request is with the handler
        bool at_end = false;   // it sends no more
        bool leaving = false;  // close when the answer is sent
        std::string in, out;   // received, without what was handled; to be sent
        size_t sent = 0;       // of `out`
        // Set when the connection ends, for the LineReply of a request that is with the handler.
        std::shared_ptr<std::atomic<bool>> gone;
        bool idle() const { return !busy && out.empty(); }
        void assert_state() const { DCHECK(fd >= 0 && number != 0 && sent <= out.size()); }
    };

    explicit LineServer(Settings settings);
    static void* thread_main(void* self);
    void work();
    void admit();
    bool make_room();
    void take_answers();
    void serve(Client& client, short events);
    void receive(Client& client);
    void handle_line(Client& client);
    void transmit(Client& client);
    void take_no_more();
    void close_listener();
    void send_last();
    static void drop(Client& client);

    const Settings settings_;
    const std::shared_ptr<LineOutbox> outbox_;
    int listener_ = -1;
    pthread_t thread_{};
    bool started_ = false;
    std::atomic<bool> stopped_{false};  // by the thread, for stop()
    // The thread's own.
    std::vector<Client> clients_;
    uint64_t numbers_ = 0, rounds_ = 0;
    bool resting_ = false;  // no descriptors are left: accept nothing for a moment
};

}  // namespace lockstep::threads
