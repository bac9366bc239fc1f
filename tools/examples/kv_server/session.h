// session.h - one connection: buffers, pipelines, MULTI.
//
// Concepts   A connection takes turns with the others in the stages of the server (routes.h).
//            All requests that have arrived form a *batch*, and a batch is one transaction: one
//            commit and one wait for the log, however many requests a client sends at once. The
//            answers leave when it has committed. With --durability always no answer, not even that
//            of a read, tells what a crash could take back. A deadlock victim runs again whole.
//            MULTI keeps requests until EXEC, which ends its batch.
//            Requests before a HELLO have replies of the version before it.
// Limits     A connection holds a request and a queue of --buffer-bytes each, and replies of four
//            times that. An idle connection holds about 4 KB besides its stack.
// Blocking   run() suspends its user thread for the socket, locks, pages and the log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "database.h"
#include "input.h"
#include "resp.h"
#include "routes.h"

namespace kv {

class Session {
public:
    // Owns the connected socket.
    Session(Database& database, int socket);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    // Serves until the client leaves, breaks the protocol or says QUIT, or the store closes.
    // Errors: those of the socket.
    lockstep::Result<void> run();

private:
    // Its place among arguments_. Without arguments: what came is malformed.
    struct Request {
        size_t first = 0, count = 0;
    };
    // One reply to come: a text, or a command that runs.
    struct Step {
        const Command* command = nullptr;     // null: `reply`
        size_t first = 0, count = 0;          // its arguments in arguments_
        Protocol protocol = Protocol::resp2;  // of the reply
        std::string reply;
        // Commands behind this one that belong to it: the text is the head of the array of EXEC.
        size_t members = 0;
    };
    // What MULTI has collected.
    struct Queue {
        bool open = false, refused = false;
        std::string text;  // all arguments
        std::vector<const Command*> commands;
        std::vector<std::pair<size_t, size_t>> counted;  // first and number of each one's arguments
        std::vector<size_t> ends;                        // of each argument in `text`
    };

    // The work of the stages. Each returns the next stage.
    lockstep::Result<StageId> connect();
    lockstep::Result<StageId> parse();
    lockstep::Result<StageId> plan();
    lockstep::Result<StageId> execute();
    lockstep::Result<StageId> reply();
    // From a stage on, as the stages say, and out again. Counts the route.
    lockstep::Result<void> pass(StageId first);

    void plan_request(const Request& request, bool& full);
    void plan_session_command(const Command& command, Arguments arguments, bool& full);
    void plan_hello(Arguments arguments);
    void plan_client(Arguments arguments);
    void plan_exec();
    void enqueue(const Command& command, const Request& request);
    void answer(std::string text);
    void answer_error(std::string_view text);

    lockstep::Result<void> run_parts();
    size_t run_part(size_t first);
    lockstep::Result<void> lock_in_order(size_t first, lockstep::Txn& txn);
    lockstep::Result<size_t> run_steps(size_t first, lockstep::Txn* txn, int64_t& records);
    lockstep::Result<void> run_step(const Step& step, lockstep::Txn* txn, int64_t& records);
    void refuse_part(size_t first, size_t end, const lockstep::Error& error);
    lockstep::Result<void> send();
    lockstep::Result<void> linger();

    Database& database_;
    const int socket_;
    InputBuffer input_;
    RequestParser parser_;
    lockstep::StagedRequest request_;
    const Route* route_ = nullptr;  // that request_ should take
    Pacer pacer_;
    std::vector<std::string_view> arguments_;  // of the batch; views of input_ and executing_
    std::vector<Request> requests_;            // that were parsed
    size_t planned_ = 0;                       // of them
    bool incomplete_ = true;                   // the parser needs more bytes
    std::vector<Step> steps_;
    std::string output_;
    std::string scratch_;
    Queue queue_;
    const uint64_t id_;
    Protocol protocol_ = Protocol::resp2;  // of the requests that are planned next
    std::string name_;                     // of CLIENT SETNAME
    std::string executing_;                // Queue::text of the batch's EXEC
    bool closing_ = false;                 // after the batch
};

}  // namespace kv
