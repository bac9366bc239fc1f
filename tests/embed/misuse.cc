// misuse.cc - the mistakes of a new user: each must give the documented error, and leave the store
// sound.
#include <lockstep/fd.h>
#include <lockstep/offload.h>
#include <lockstep/sync.h>
#include <lockstep/timer.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

#include <embed/expect.h>

using namespace lockstep;
using embed::expect, embed::expect_value;

namespace {

template <class T>
void refused(ErrorCode code, const Result<T>& result, const std::string& mistake) {
    expect(!result.has_value(), mistake + " is accepted");
    expect(result.error().code == code,
           mistake + " gives " + result.error().text() + ", not " + error_name(code));
}

// What the child of a fork() writes to stderr, and how it ends.
struct Ended {
    int status = 0;
    std::string said;
};
Ended in_child(const std::function<void()>& body) {
    int pipes[2];
    expect(pipe(pipes) == 0, "pipe");
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);  // a child that waits for ever ends with SIGALRM
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]), close(pipes[1]);
        body();
        _exit(0);
    }
    close(pipes[1]);
    Ended ended;
    char bytes[4096];
    for (ssize_t n; (n = read(pipes[0], bytes, sizeof bytes)) != 0;) {
        if (n > 0) ended.said.append(bytes, static_cast<size_t>(n));
        else expect(errno == EINTR, "read");
    }
    close(pipes[0]);
    while (waitpid(child, &ended.status, 0) != child) expect(errno == EINTR, "waitpid");
    return ended;
}
void stops(const std::string& mistake, const std::string& said, const std::function<void()>& body) {
    const Ended ended = in_child(body);
    expect(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGABRT,
           mistake + " does not abort");
    expect(ended.said.find(said) != std::string::npos, mistake + " says: " + ended.said);
}

class Mistakes {
public:
    explicit Mistakes(const std::string& directory)
        : directory_(directory),
          store_(expect_value(Store::open(directory + "/misuse.db"), "open")),
          other_(expect_value(Store::open(directory + "/other.db"), "open")) {
        expect_value(store_.run([&](Txn& txn) -> Result<void> {
            index_ = LOCKSTEP_TRY(store_.create_index(txn, "i"));
            heap_ = LOCKSTEP_TRY(store_.create_heap(txn, "h"));
            return index_.insert(txn, "k", "value");
        }),
                     "create");
    }
    void make_all() {
        open_wrongly();
        on_thread(store_, [&] { return use_ended_transactions(); });
        on_thread(store_, [&] { return use_wrong_threads(); });
        on_thread(store_, [&] { return give_wrong_arguments(); });
        on_thread(store_, [&] { return nest_transactions(); });
        on_thread(store_, [&] { return break_locks(); });
        on_thread(store_, [&] { return wait_wrongly(); });
        misuse_handles();
        fork_with_a_store();
        break_the_program();
        expect(expect_value(store_.verify(), "verify").empty(), "the store is sound");
        use_closed_store();
    }

private:
    static void on_thread(Store& store, const std::function<Result<void>()>& body) {
        expect_value(store.start([&] { return body(); }).join(), "user thread");
    }
    void open_wrongly() {
        const std::string file = directory_ + "/a file";
        std::fclose(std::fopen(file.c_str(), "w"));
        refused(ErrorCode::bad_path, Store::open(""), "an empty path");
        refused(ErrorCode::bad_path, Store::open(file), "a file instead of a directory");
        refused(ErrorCode::store_locked, Store::open(directory_ + "/misuse.db"), "a second open");
        refused(ErrorCode::bad_path, Store::open(directory_ + "/none", {.create = false}),
                "no store where none may be made");
        const std::pair<const char*, Options> wrong[] = {
            {"workers", {.workers = 0}},
            {"pool_bytes", {.pool_bytes = 1}},
            {"stack_bytes", {.stack_bytes = 1000}},
            {"log_segment_bytes", {.log_segment_bytes = (4 << 20) + 1}},
            {"log_ring_bytes", {.log_ring_bytes = 3 << 20}}};
        for (const auto& [name, options] : wrong) {
            const Result<Store> opened = Store::open(directory_ + "/none", options);
            refused(ErrorCode::bad_option, opened, std::string("option ") + name);
            expect(opened.error().text().find(name) != std::string::npos,
                   "the error does not name the option: " + opened.error().text());
        }
    }
    Result<void> use_ended_transactions() {
        std::string value;
        Txn txn = LOCKSTEP_TRY(store_.begin());
        LOCKSTEP_TRY(txn.commit());
        refused(ErrorCode::txn_ended, txn.commit(), "a second commit");
        refused(ErrorCode::txn_ended, txn.abort(), "an abort behind a commit");
        refused(ErrorCode::txn_ended, index_.get(txn, "k", value), "a get behind a commit");
        refused(ErrorCode::txn_ended, index_.scan(txn).next(), "a scan behind a commit");
        refused(ErrorCode::txn_ended, store_.drop(txn, "i"), "a drop behind a commit");
        Txn first = LOCKSTEP_TRY(store_.begin()), second = LOCKSTEP_TRY(store_.begin());
        LOCKSTEP_TRY(first.savepoint());
        const Savepoint savepoint = LOCKSTEP_TRY(first.savepoint());
        refused(ErrorCode::bad_argument, second.rollback_to(savepoint), "another's savepoint");
        LOCKSTEP_TRY(first.abort());
        // A transaction that is only dropped is rolled back.
        {
            Txn dropped = LOCKSTEP_TRY(store_.begin());
            LOCKSTEP_TRY(index_.insert(dropped, "dropped", "v"));
        }
        expect(!LOCKSTEP_TRY(index_.get(second, "dropped", value)), "a dropped transaction stays");
        return second.abort();
    }
    Result<void> use_wrong_threads() {
        Txn txn = LOCKSTEP_TRY(store_.begin());
        std::string value;
        LOCKSTEP_TRY(store_
                         .start([&]() -> Result<void> {
                             refused(ErrorCode::wrong_thread, index_.get(txn, "k", value),
                                     "a transaction on another user thread");
                             refused(ErrorCode::wrong_thread, txn.commit(), "its commit there");
                             return {};
                         })
                         .join());
        LOCKSTEP_TRY(offload([&]() -> Result<void> {
            refused(ErrorCode::wrong_thread, index_.get(txn, "k", value),
                    "a transaction on a kernel thread of offload()");
            refused(ErrorCode::wrong_thread, store_.begin(), "begin() outside a user thread");
            return {};
        }));
        refused(ErrorCode::wrong_thread, store_.close(), "close() on a user thread");
        refused(ErrorCode::wrong_thread, store_.set_steps({}), "set_steps() on a user thread");
        return txn.abort();
    }
    Result<void> give_wrong_arguments() {
        const std::string key(kKeyBytesMax + 1, 'k'), large(kValueBytesMax + 1, 'v');
        std::string value;
        Txn txn = LOCKSTEP_TRY(store_.begin());
        refused(ErrorCode::key_too_long, index_.put(txn, key, "v"), "a long key");
        refused(ErrorCode::key_too_long, index_.get(txn, key, value), "a get of a long key");
        refused(ErrorCode::key_too_long, index_.scan(txn, key).next(), "a long bound");
        refused(ErrorCode::key_too_long, index_.put(txn, Key().text(key), "v"), "a full Key");
        refused(ErrorCode::value_too_long, index_.put(txn, "l", large), "a long value");
        refused(ErrorCode::duplicate_key, index_.insert(txn, "k", "v"), "a second insert");
        refused(ErrorCode::bad_argument, index_.patch(txn, "k", 5, "v"), "a patch behind the end");
        refused(ErrorCode::no_such_object, Index().get(txn, "k", value), "an empty handle");
        refused(ErrorCode::already_exists, store_.create_index(txn, "i"), "a name that is taken");
        refused(ErrorCode::already_exists, store_.create_heap(txn, "i"), "an index's name");
        refused(ErrorCode::wrong_kind, store_.index(txn, "h"), "a heap as an index");
        refused(ErrorCode::wrong_kind, store_.open_or_create_heap(txn, "i"), "an index as a heap");
        refused(ErrorCode::no_such_object, store_.drop(txn, "none"), "a name that nothing has");
        refused(ErrorCode::bad_argument, store_.create_index(txn, ""), "an empty name");
        refused(ErrorCode::bad_argument, store_.create_index(txn, std::string(129, 'n')),
                "a long name");
        refused(ErrorCode::bad_argument, other_.drop(txn, "i"), "another store's transaction");
        refused(ErrorCode::bad_argument,
                store_.bulk_load(txn, index_, [](Slice&, Slice&) { return false; }),
                "a bulk load of an index with records");
        expect(!LOCKSTEP_TRY(heap_.get(txn, RecordId{}, value)), "a record id that no record has");
        // None of these mistakes ended the transaction.
        LOCKSTEP_TRY(index_.put(txn, "k", "value"));
        LOCKSTEP_TRY(txn.commit());
        Txn reader = LOCKSTEP_TRY(store_.begin({.read_only = true}));
        refused(ErrorCode::read_only, index_.put(reader, "k", "v"), "a change by a reader");
        refused(ErrorCode::read_only, store_.create_index(reader, "n"), "its new index");
        LOCKSTEP_TRY(reader.commit());
        return {};
    }
    Result<void> nest_transactions() {
        const Result<void> outer = store_.run([&](Txn& txn) -> Result<void> {
            LOCKSTEP_TRY(index_.put(txn, "k", "outer"));
            refused(ErrorCode::self_deadlock,
                    store_.run([&](Txn& inner) { return index_.put(inner, "k", "inner"); }),
                    "a nested run() that needs the outer lock");
            LOCKSTEP_TRY(store_.run([&](Txn& inner) { return index_.put(inner, "n", "inner"); }));
            return fail(ErrorCode::cancelled);
        });
        refused(ErrorCode::cancelled, outer, "an error of the body");
        return store_.run([&](Txn& txn) -> Result<void> {
            std::string value;
            expect(LOCKSTEP_TRY(index_.get(txn, "n", value)), "the inner transaction committed");
            expect(LOCKSTEP_TRY(index_.get(txn, "k", value)) && value == "value",
                   "the outer transaction was rolled back");
            return {};
        });
    }
    Result<void> break_locks() {
        Txn txn = LOCKSTEP_TRY(store_.begin());
        LOCKSTEP_TRY(index_.put(txn, "k", "locked"));
        LOCKSTEP_TRY(store_
                         .start([&]() -> Result<void> {
                             std::string value;
                             Txn late =
                                 LOCKSTEP_TRY(store_.begin({.lock_timeout = 5 * kMillisecond}));
                             refused(ErrorCode::lock_timeout, index_.get(late, "k", value),
                                     "a lock that is not granted in time");
                             refused(ErrorCode::txn_aborting, index_.get(late, "n", value),
                                     "going on behind an error that demands a rollback");
                             refused(ErrorCode::txn_aborting, late.commit(), "its commit");
                             return late.abort();
                         })
                         .join());
        return txn.abort();
    }
    Result<void> wait_wrongly() {
        int pipes[2];
        expect(pipe(pipes) == 0, "pipe");
        close(pipes[0]), close(pipes[1]);
        refused(ErrorCode::bad_argument, wait_fd(pipes[0], POLLIN, 0), "a closed descriptor");
        Semaphore semaphore(1);
        refused(ErrorCode::bad_argument, semaphore.acquire(0), "no unit of a semaphore");
        refused(ErrorCode::timeout, semaphore.acquire(2, 0), "more units than there are");
        refused(ErrorCode::cancelled, Timer().wait(), "a timer that was not started");
        Channel<int> channel(1);
        channel.close();
        refused(ErrorCode::cancelled, channel.send(1), "a send to a closed channel");
        return {};
    }
    void misuse_handles() {
        auto handle = store_.start([]() -> Result<int> { return 1; });
        expect(expect_value(handle.join(), "join") == 1, "the value of a handle");
        refused(ErrorCode::bad_argument, handle.join(), "a second join()");
        refused(ErrorCode::bad_argument, Handle<int>().join(), "a handle of nothing");
        for (const int worker : {1, -2}) {
            auto none = store_.start([]() -> Result<int> { return 1; }, worker);
            refused(ErrorCode::bad_argument, none.started(), "a worker that does not exist");
            refused(ErrorCode::bad_argument, none.join(), "its join()");
        }
        refused(ErrorCode::wrong_thread, store_.begin(), "begin() on a foreign thread");
    }
    void fork_with_a_store() {
        const Ended ended = in_child([&] {
            refused(ErrorCode::forked, store_.begin(), "begin() in the child");
            refused(ErrorCode::forked, store_.run([](Txn&) -> Result<int> { return 1; }), "run()");
            refused(ErrorCode::forked, store_.checkpoint(), "checkpoint()");
            refused(ErrorCode::forked, store_.close(), "close()");
            refused(ErrorCode::store_locked, Store::open(directory_ + "/misuse.db"), "open()");
            // Its own stores work.
            Store own = expect_value(Store::open(directory_ + "/child.db"), "the child's store");
            expect_value(own.close(), "its close");
        });
        expect(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0, "fork: " + ended.said);
        expect_value(store_.run([&](Txn& txn) { return index_.put(txn, "k", "value"); }),
                     "the parent goes on");
    }
    // These end the process: the program is wrong, and going on would damage it.
    void break_the_program() {
        stops("value() of an error", "txn_ended",
              [] { (void)Result<int>(fail(ErrorCode::txn_ended)).value(); });
        stops("a Mutex that another thread unlocks", "", [] {
            Mutex mutex;
            mutex.lock();
            std::thread([&] { mutex.unlock(); }).join();
        });
        stops("an exception that leaves a callback", "terminate", [&] {
            Store own = expect_value(Store::open(directory_ + "/thrown.db"), "open");
            (void)own.run([](Txn&) -> Result<void> { throw std::runtime_error("thrown"); });
        });
    }
    void use_closed_store() {
        std::optional<Txn> kept;
        on_thread(store_, [&]() -> Result<void> {
            kept.emplace(LOCKSTEP_TRY(store_.begin()));
            LOCKSTEP_TRY(kept->commit());
            return {};
        });
        expect_value(store_.close(), "close");
        expect_value(store_.close(), "a second close");
        refused(ErrorCode::store_closed, store_.begin(), "begin() behind close()");
        refused(ErrorCode::store_closed, store_.run([](Txn&) -> Result<int> { return 1; }),
                "run()");
        refused(ErrorCode::store_closed, store_.start([]() -> Result<int> { return 1; }).join(),
                "start()");
        refused(ErrorCode::store_closed, store_.index("i"), "index()");
        refused(ErrorCode::store_closed, store_.checkpoint(), "checkpoint()");
        refused(ErrorCode::store_closed, store_.verify(), "verify()");
        refused(ErrorCode::store_closed, store_.wait_durable(Lsn{1}), "wait_durable()");
        expect(store_.list().empty() && !store_.failure(), "list() and failure()");
        std::string value;
        refused(ErrorCode::txn_ended, kept->commit(), "a transaction behind close()");
        refused(ErrorCode::txn_ended, index_.get(*kept, "k", value), "a handle behind close()");
    }

    const std::string directory_;
    Store store_, other_;
    Index index_;
    Heap heap_;
};

}  // namespace

int main(int argc, char** argv) {
    Mistakes(embed::directory(argc, argv)).make_all();
    std::puts("each mistake has its error");
    return 0;
}
