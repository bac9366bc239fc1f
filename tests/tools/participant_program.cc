// participant_program.cc - a store behind a Unix socket, for postgres_test.py: accounts, and the
// calls of a two-phase commit. It ends by SIGKILL only.
//
// Usage: participant-program DIRECTORY SOCKET ACCOUNTS BALANCE
// Commands, a line each, and their answers: `prepare GID ACCOUNT DELTA`: prepared; `commit GID`,
// `rollback GID`: ended, unknown; `list`: the gids in doubt; `done`: all gids that have committed;
// `sum`: of all balances; `verify`: ok. An error begins with `error`.
#include <lockstep/store.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

namespace {

using namespace lockstep;

std::string account(int64_t number) { return "account " + std::to_string(number); }

class Participant {
public:
    explicit Participant(Store& store) : store_(store) {}

    // Records may be locked by transactions in doubt, so the index tells whether it is done.
    Result<void> fill(int64_t accounts, int64_t balance) {
        if (store_.index("accounts")) return {};
        return store_.run([&](Txn& txn) -> Result<void> {
            LOCKSTEP_TRY(store_.create_index(txn, "done"));
            const Index index = LOCKSTEP_TRY(store_.create_index(txn, "accounts"));
            for (int64_t i = 0; i < accounts; ++i)
                LOCKSTEP_TRY(index.put(txn, account(i), std::to_string(balance)));
            return {};
        });
    }

    Result<std::string> answer(const std::string& line) {
        std::istringstream words(line);
        std::string what, gid;
        int64_t number = 0, delta = 0;
        words >> what >> gid >> number >> delta;
        if (what == "prepare") return prepare(gid, number, delta);
        if (what == "commit") return ended(store_.commit_prepared(gid));
        if (what == "rollback") return ended(store_.rollback_prepared(gid));
        if (what == "list") return list();
        if (what == "done" || what == "sum") return read_all(what == "sum");
        if (what == "verify") return verify();
        return fail(ErrorCode::bad_argument, "command");
    }

private:
    Result<std::string> prepare(const std::string& gid, int64_t number, int64_t delta) {
        const Index accounts = LOCKSTEP_TRY(store_.index("accounts"));
        const Index done = LOCKSTEP_TRY(store_.index("done"));
        TxnOptions options;
        options.lock_timeout = 500 * kMillisecond;
        LOCKSTEP_TRY(store_.run(
            [&](Txn& txn) -> Result<void> {
                std::string value;
                if (!LOCKSTEP_TRY(accounts.get(txn, account(number), value, Access::write)))
                    return fail(ErrorCode::no_such_record, "account");
                value = std::to_string(std::stoll(value) + delta);
                LOCKSTEP_TRY(accounts.put(txn, account(number), value));
                LOCKSTEP_TRY(done.insert(txn, gid, ""));
                LOCKSTEP_TRY(txn.prepare(gid));
                return {};
            },
            options));
        return std::string("prepared");
    }
    static Result<std::string> ended(const Result<bool>& result) {
        return std::string(LOCKSTEP_TRY(result) ? "ended" : "unknown");
    }
    Result<std::string> list() {
        std::string all;
        for (const PreparedInfo& of : store_.prepared()) all += of.gid + " ";
        return all;
    }
    // Sees no lock, and what has committed.
    Result<std::string> read_all(bool sum) {
        const Index index = LOCKSTEP_TRY(store_.index(sum ? "accounts" : "done"));
        std::string all;
        int64_t total = 0;
        LOCKSTEP_TRY(store_.run(
            [&](Txn& txn) -> Result<void> {
                all.clear();
                total = 0;
                Cursor cursor = index.scan(txn);
                while (LOCKSTEP_TRY(cursor.next())) {
                    if (sum) total += std::stoll(std::string(cursor.value()));
                    else all += std::string(cursor.key()) + " ";
                }
                return {};
            },
            {.isolation = Isolation::snapshot}));
        return sum ? std::to_string(total) : all;
    }
    Result<std::string> verify() {
        const auto faults = LOCKSTEP_TRY(store_.verify());
        return faults.empty() ? std::string("ok") : "error " + faults.front();
    }

    Store& store_;
};

void serve(Participant& participant, int connection) {
    std::string line;
    for (char c = 0; read(connection, &c, 1) == 1;) {
        if (c != '\n') {
            line += c;
            continue;
        }
        const auto answer = participant.answer(line);
        const std::string text = (answer ? *answer : "error " + answer.error().text()) + "\n";
        // The coordinator may be dead.
        if (send(connection, text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
        line.clear();
    }
    close(connection);
}

int listen_at(const char* path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    unlink(path);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return -1;
    return listen(listener, 16) == 0 ? listener : -1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return std::puts("usage: participant-program DIRECTORY SOCKET ACCOUNTS BALANCE");
    auto store = Store::open(argv[1], {.pool_bytes = 16ull << 20});
    if (!store) return std::puts(store.error().text().c_str()), 1;
    Participant participant(*store);
    if (const auto filled = participant.fill(std::stoll(argv[3]), std::stoll(argv[4])); !filled)
        return std::puts(filled.error().text().c_str()), 1;
    const int listener = listen_at(argv[2]);
    if (listener < 0) return std::perror(argv[2]), 1;
    std::puts("ready");
    std::fflush(stdout);
    for (int connection = 0; (connection = accept(listener, nullptr, nullptr)) >= 0;)
        std::thread([&participant, connection] { serve(participant, connection); }).detach();
    return 1;
}
