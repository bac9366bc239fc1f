// control.h - the control socket: lets the command line see and steer a store that is open.
//
// Concepts   A client connects to the Unix socket `control` in the store's directory (mode 0600)
//            and sends JSON objects, one a line. Each gets one line: {"result": ...}, or
//            {"error": {"code", "thing", "reason", "remedy"}}. Names end in their unit.
//              {"command": "stat"}               counters, waits, teams, reports, hot locks
//              {"command": "metrics"}            the text of Store::metrics()
//              {"command": "transactions", "limit": 10}    the oldest; without limit all
//              {"command": "locks"}              waits for locks now, and hot locks
//              {"command": "end", "transaction": 7}
//              {"command": "prepared"}           the transactions in doubt
//              {"command": "commit", "gid": "text"}       ends one; "rollback" likewise. The text
//                  is that of gid_text.h. {"ended": false}: none is in doubt under that gid
//              {"command": "checkpoint"}
//              {"command": "backup", "to": "/absolute/path"}   Store::backup(); optional are
//                  "since": "/an/earlier/backup", "bytes_per_second": 50000000
//              {"command": "changes", "from": "oldest"}   committed changes from that position on,
//                  some of them, each with the position behind it; "": from now on. Not all that
//                  there are if "position" in the answer is not that of the answer before
//            The first two never need a worker, so they also answer while a callback blocks one.
//            The others run on a user thread; meanwhile other clients are served.
//            A command whose work ends the store, such as "end" of the transaction that the
//            application waits for, still gets its answer: closing waits for its user thread.
// Blocking   start(), stop() and disconnect() wait for the kernel thread of the socket.
#pragma once

#include <memory>
#include <string>

#include <lockstep/types.h>
#include "threads/io/line_server.h"

namespace lockstep::sm {

class Host;
class PreparedTxns;
class TxnWatch;

class Control {
public:
    Control(Host& host, TxnWatch& watch, PreparedTxns& prepared)
        : engine_(host), watch_(watch), prepared_(prepared) {}
    // Errors: those of LineServer::start(); bad_option in a simulation.
    Result<void> start();
    // No command begins any more. One that runs goes on, and its client gets the answer.
    // Idempotent; also if start() has failed.
    void stop() {
        if (server_) server_->stop();
    }
    // Sends the last answers and disconnects all clients. The user threads of commands have ended.
    void disconnect() { server_.reset(); }

private:
    void handle(std::string_view line, threads::LineReply reply);
    template <class Work>
    void on_user_thread(threads::LineReply reply, Work work);

    Host& engine_;
    TxnWatch& watch_;
    PreparedTxns& prepared_;
    Nanos opened_ = 0;
    std::unique_ptr<threads::LineServer> server_;
};

}  // namespace lockstep::sm
