// labels: unit
// public_calls_test.cc - what every public call does from a user thread, from a foreign thread,
// behind close(), in the child of a fork() and in a store that has failed.
//
// Concepts   The table in sm/PUBLIC_CALLS.md is what this test finds. LOCKSTEP_WRITE=1 writes it
//            anew. Each call gets a transaction of its own, which is rolled back behind it.
#include "tests/sm/api/public_calls.h"

#include <gtest/gtest.h>

#include <lockstep/sync.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/end_child.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::public_calls_test {

constexpr const char* kDocument = LOCKSTEP_SOURCE_DIR "/sm/PUBLIC_CALLS.md";
constexpr const char* kBegin = "<!-- public calls: begin -->\n";
constexpr const char* kEnd = "<!-- public calls: end -->\n";
constexpr const char* kForbidden = "-";
constexpr size_t kHandles = 8;          // that the calls of one situation use up
constexpr unsigned kLimitSeconds = 60;  // a child that hangs is killed

using Outcomes = std::map<std::string, std::string>;  // by the name of the call

// While it lives, writes to files fail with EFBIG. No write that was done is lost.
class NoFileMayGrow {
public:
    NoFileMayGrow() {
        old_handler_ = signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &none);
    }
    ~NoFileMayGrow() {
        setrlimit(RLIMIT_FSIZE, &before_);
        signal(SIGXFSZ, old_handler_);
    }

private:
    rlimit before_;
    void (*old_handler_)(int);
};

class PublicCalls : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        ASSERT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
        ASSERT_EQ(write(pipe_[1], "x", 1), 1);
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets_), 0);
        ASSERT_EQ(write(sockets_[1], "five in all", 11), 11);
        listen_and_connect();
        calls_ = public_calls();
        std::ranges::stable_sort(calls_, {}, &PublicCall::order);
    }
    void TearDown() override {
        for (const int fd : {pipe_[0], pipe_[1], sockets_[0], sockets_[1], listener_}) close(fd);
        for (const int client : clients_) close(client);
        StoreCrash::TearDown();
    }

    // A listening socket, and one connection for each situation.
    void listen_and_connect() {
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        auto* const any = reinterpret_cast<sockaddr*>(&address);
        socklen_t bytes = sizeof address.sun_family;  // the system chooses a name
        listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ASSERT_EQ(bind(listener_, any, bytes), 0);
        ASSERT_EQ(listen(listener_, kSituations), 0);
        bytes = sizeof address;
        ASSERT_EQ(getsockname(listener_, any, &bytes), 0);
        for (int& client : clients_) {
            client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            ASSERT_EQ(connect(client, any, bytes), 0);
        }
    }

    // A store with the objects that the calls act on.
    World world(Store& store, Situation situation) {
        World w{.situation = situation,
                .root = root_,
                .store = store,
                .index = {},
                .empty = {},
                .primary = {},
                .secondary = {},
                .heap = {},
                .record = {},
                .point = {},
                .handle = {},
                .fd = pipe_[0],
                .steps = steps_of_run(),
                .socket = sockets_[0],
                .listener = listener_};
        start_handles(w, []() -> Result<int> { return 1; });
        for (auto& handle : w.handles)
            while (!w.handle.ready() || !handle.ready()) sleep_for(kMillisecond / 10);
        EXPECT_TRUE(store.run([&](Txn& txn) -> Result<void> {
            w.index = TRY(store.create_index(txn, "i"));
            w.empty = TRY(store.create_index(txn, "empty"));
            TRY(store.create_index(txn, "doomed"));
            w.heap = TRY(store.create_heap(txn, "h"));
            w.record = TRY(w.heap.insert(txn, "value"));
            w.primary = TRY(store.create_index(txn, "p"));
            const auto by_value = [](Slice, Slice value, SecondaryKeys& keys) { keys.add(value); };
            w.secondary = TRY(store.create_index(txn, "s", {.of = w.primary, .key = by_value}));
            TRY(w.primary.insert(txn, "k", "value"));
            return w.index.insert(txn, "k", "value");
        }));
        on_thread(store, [&] {
            auto txn = store.begin();
            EXPECT_TRUE(txn && w.index.put(*txn, "other", "value"));
            const auto point = txn->commit();
            w.point = point ? *point : kLsnNone;
        });
        return w;
    }
    template <class F>
    static void start_handles(World& w, F fn) {
        w.handle = w.store.start(fn);
        w.handles.clear();
        while (w.handles.size() < kHandles) w.handles.push_back(w.store.start(fn));
    }
    // A transaction for one call. It keeps no record lock, so calls of other such transactions of
    // this thread do not meet it.
    static std::unique_ptr<OpenTxn> open_txn(World& w) {
        auto txn = w.store.begin({.isolation = Isolation::read_committed});
        EXPECT_TRUE(txn);
        const auto savepoint = txn->savepoint();
        auto open = std::make_unique<OpenTxn>(std::move(*txn), *savepoint, Index().scan(*txn),
                                              find_by(*txn, Index(), "value"));
        open->cursor = w.index.scan(open->txn, "k", "l");
        open->by = find_by(open->txn, w.secondary, "value");
        EXPECT_TRUE(open->cursor.next().value_or(false) && open->by.next().value_or(false));
        return open;
    }
    static void end(std::unique_ptr<OpenTxn> open) {
        if (open && open->txn.live()) (void)open->txn.abort();
    }
    static std::string outcome(const PublicCall& call, World& w, OpenTxn* txn) {
        if (call.forbidden[static_cast<size_t>(w.situation)]) return kForbidden;
        const std::string one = call.in_world ? call.in_world(w) : call.in_txn(w, *txn);
        const std::string& either = call.either[static_cast<size_t>(w.situation)];
        return either.find(one) == std::string::npos ? one : either;
    }

    // On a user thread. Beside it runs another one, which sees whether a call gives up the CPU.
    Outcomes from_user_thread() {
        Store store = open("user");
        World w = world(store, Situation::user_thread);
        Outcomes outcomes;
        bool ended = false;
        uint64_t turns = 0;
        auto beside = store.start([&]() -> Result<void> {
            for (; !ended; ++turns) yield();
            return {};
        });
        on_thread(store, [&] {
            for (const PublicCall& call : calls_) {
                auto txn = call.in_txn ? open_txn(w) : nullptr;
                const uint64_t before = turns;
                outcomes[call.name] = outcome(call, w, txn.get());
                EXPECT_TRUE(call.waits == Waits::may || turns == before) << call.name;
                end(std::move(txn));
            }
            ended = true;
        });
        EXPECT_TRUE(beside.join());
        return outcomes;
    }
    // On a foreign thread, while the transaction is a user thread's.
    Outcomes from_foreign_thread() {
        Store store = open("foreign");
        World w = world(store, Situation::foreign_thread);
        Outcomes outcomes;
        for (const PublicCall& call : calls_) {
            if (call.in_world) {
                outcomes[call.name] = outcome(call, w, nullptr);
                continue;
            }
            with_txn_of_a_thread(
                w, [&](OpenTxn& txn) { outcomes[call.name] = outcome(call, w, &txn); });
        }
        return outcomes;
    }
    // fn(txn) here, while a user thread keeps the transaction open.
    template <class F>
    static void with_txn_of_a_thread(World& w, F fn) {
        std::unique_ptr<OpenTxn> txn;
        Semaphore begun(0), used(0);
        auto owner = w.store.start([&]() -> Result<void> {
            txn = open_txn(w);
            begun.release();
            TRY(used.acquire());
            end(std::move(txn));
            return {};
        });
        EXPECT_TRUE(begun.acquire());
        fn(*txn);
        used.release();
        EXPECT_TRUE(owner.join());
    }
    // Behind close(), with a transaction that had ended before.
    Outcomes behind_close() {
        Store store = open("closed");
        World w = world(store, Situation::closed);
        std::optional<Txn> ended;
        on_thread(store, [&] {
            ended.emplace(std::move(*store.begin()));
            EXPECT_TRUE(ended->commit());
        });
        EXPECT_TRUE(store.close());
        OpenTxn txn{std::move(*ended), Savepoint{}, w.index.scan(*ended),
                    find_by(*ended, w.secondary, "value")};
        txn.cursor = w.index.scan(txn.txn);
        txn.by = find_by(txn.txn, w.secondary, "value");
        Outcomes outcomes;
        for (const PublicCall& call : calls_) outcomes[call.name] = outcome(call, w, &txn);
        return outcomes;
    }
    // In a child process, with a transaction and a handle of a thread that is the parent's.
    Outcomes in_forked_child() {
        Store store = open("forked");
        World w = world(store, Situation::forked);
        Event release;
        start_handles(w, [&]() -> Result<int> {
            TRY(release.wait());
            return 1;
        });
        Outcomes outcomes;
        with_txn_of_a_thread(w, [&](OpenTxn& txn) { outcomes = child_outcomes(w, txn); });
        release.set();
        return outcomes;
    }
    Outcomes child_outcomes(World& w, OpenTxn& txn) {
        const std::string file = root_ + "/outcomes";
        const pid_t child = fork();
        if (child == 0) {
            alarm(kLimitSeconds);
            std::ofstream out(file);
            for (const PublicCall& call : calls_) {
                const std::string one = outcome(call, w, &txn);
                out << call.name << '\t' << one << std::endl;
            }
            end_child(0);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        Outcomes outcomes;
        std::ifstream in(file);
        for (std::string line; std::getline(in, line);)
            outcomes[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
            << "status " << status << " behind " << outcomes.size() << " calls";
        return outcomes;
    }
    // After a failed write of the log: on a user thread, or on a foreign one if the call is refused
    // on every user thread. The transactions began before.
    Outcomes behind_failure(const Outcomes& user) {
        Options options = small_options();
        options.logger = {};
        Store store = open("failed", options);
        World w = world(store, Situation::failed);
        Outcomes outcomes;
        const auto foreign = [&](const PublicCall& call) {
            return user.at(call.name) == "`wrong_thread`" || user.at(call.name) == kForbidden;
        };
        on_thread(store, [&] {
            std::vector<std::unique_ptr<OpenTxn>> open;
            for (const PublicCall& call : calls_)
                open.push_back(call.in_txn ? open_txn(w) : nullptr);
            fail_the_log(w);
            for (size_t n = 0; n < calls_.size(); ++n) {
                if (!foreign(calls_[n]))
                    outcomes[calls_[n].name] = outcome(calls_[n], w, open[n].get());
                end(std::move(open[n]));
            }
        });
        for (const PublicCall& call : calls_)
            if (foreign(call)) outcomes[call.name] = outcome(call, w, nullptr);
        return outcomes;
    }
    static void fail_the_log(World& w) {
        const NoFileMayGrow limit;
        auto done = w.store.run([&](Txn& txn) { return w.index.put(txn, "lost", "v"); });
        ASSERT_FALSE(done);
        ASSERT_EQ(done.error().code, ErrorCode::store_failed) << done.error().text();
    }

    std::vector<PublicCall> calls_;
    int pipe_[2], sockets_[2];
    int listener_ = -1;
    int clients_[kSituations] = {-1, -1, -1, -1, -1};
};

// Calls that do the same share a row. Rows are in the order of their first calls.
std::string table(const std::vector<PublicCall>& calls, const std::vector<Outcomes>& columns) {
    using Row = std::pair<std::string, std::string>;  // what the calls do, and the calls
    std::vector<Row> rows;
    for (const PublicCall& call : calls) {
        std::string does = call.waits == Waits::may ? "yes" : "no";
        for (const Outcomes& column : columns)
            does += " | " + (column.contains(call.name) ? column.at(call.name) : "nothing");
        auto row = std::ranges::find(rows, does, &Row::first);
        if (row == rows.end()) row = rows.emplace(row, does, "");
        row->second += (row->second.empty() ? "`" : ", `") + std::string(call.name) + "`";
    }
    std::string text =
        "| calls | may wait | user thread | foreign thread | after `close()` | after `fork()` | "
        "after a failure |\n|---|---|---|---|---|---|---|\n";
    for (const auto& [does, names] : rows) text += "| " + names + " | " + does + " |\n";
    return text;
}

TEST_F(PublicCalls, DoWhatTheTableSays) {
    const Outcomes user = from_user_thread();
    const std::string found = table(public_calls(), {user, from_foreign_thread(), behind_close(),
                                                     in_forked_child(), behind_failure(user)});
    std::stringstream whole;
    whole << std::ifstream(kDocument).rdbuf();
    std::string document = whole.str();
    const size_t begin = document.find(kBegin), end = document.find(kEnd);
    ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << "no place for the table";
    const size_t from = begin + std::string_view(kBegin).size();
    const std::string written = document.substr(from, end - from);
    if (getenv("LOCKSTEP_WRITE") != nullptr && !HasFailure() && written != found) {
        std::ofstream(kDocument) << document.replace(from, end - from, found);
        return;
    }
    EXPECT_EQ(written, found)
        << "if this is what the calls shall do: LOCKSTEP_WRITE=1 sm_public_calls_test";
}

}  // namespace lockstep::public_calls_test
