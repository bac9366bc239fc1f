// labels: unit tsan
// control_test.cc - the control socket of an open store: each command, each refusal, and that a
// worker which is blocked does not silence it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <lockstep/store.h>
#include "tests/end_child.h"
#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"
#include "threads/io/local_socket.h"

namespace lockstep::control_test {

using Json = nlohmann::ordered_json;

class Client {
public:
    explicit Client(const std::string& directory) {
        auto fd = threads::connect_local(directory, "control");
        EXPECT_TRUE(fd) << fd.error().text();
        fd_ = fd ? *fd : -1;
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client() {
        if (fd_ >= 0) close(fd_);
    }
    void say(const std::string& line) const {
        EXPECT_GT(send(fd_, (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL), 0);
    }
    // null: no answer within the time.
    Json hear(int milliseconds = 60'000) {
        size_t end;
        while ((end = got_.find('\n')) == std::string::npos) {
            pollfd polled{fd_, POLLIN, 0};
            char bytes[65536];
            if (poll(&polled, 1, milliseconds) <= 0) return nullptr;
            const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
            if (n <= 0) return nullptr;
            got_.append(bytes, static_cast<size_t>(n));
        }
        Json json = Json::parse(got_.substr(0, end), nullptr, false);
        got_.erase(0, end + 1);
        return json;
    }
    Json ask(const std::string& line) {
        say(line);
        return hear();
    }
    Json result(const std::string& line) {
        Json answer = ask(line);
        EXPECT_TRUE(answer.contains("result")) << line << "\n" << answer.dump();
        return answer.value("result", Json());
    }
    std::string error(const std::string& line) {
        const Json answer = ask(line);
        if (!answer.contains("error")) return "none: " + answer.dump();
        const Json& e = answer["error"];
        for (const char* field : {"code", "thing", "reason", "remedy"})
            EXPECT_FALSE(e.value(field, "").empty()) << answer.dump();
        return e.value("code", "");
    }

private:
    int fd_;
    std::string got_;
};

class ControlTest : public ::testing::Test {
public:
    ~ControlTest() override {
        EXPECT_TRUE(store->close());
        std::filesystem::remove_all(directory_);
    }

protected:
    ControlTest() : directory_(make_own_directory("control")) { open(); }
    Options options() const {
        return {.workers = 2,
                .pool_bytes = 16ull << 20,
                .log_bytes = 64ull << 20,
                .log_segment_bytes = 4ull << 20,
                .log_ring_bytes = 4ull << 20,
                .sync = false,
                .lock_timeout = 600 * kSecond,
                .control = true,
                .steps = steps_of_run()};
    }
    void open() {
        auto opened = Store::open(directory_, options());
        ASSERT_OK(opened);
        store.emplace(std::move(*opened));
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            index = TRY(store->open_or_create_index(txn, "accounts"));
            heap = TRY(store->open_or_create_heap(txn, "audit"));
            TRY(index.put(txn, "alice", "0"));
            record = TRY(heap.insert(txn, "first"));
            return {};
        }));
    }
    std::string socket() const { return directory_ + "/control"; }
    // A transaction that calls `hold` and stays open until `release` or until it is ended.
    template <class Hold>
    Handle<void> holder(Hold hold) {
        held = false;
        auto handle = store->start([this, hold]() -> Result<void> {
            Txn txn = TRY(store->begin());
            id = txn.id().value;
            TRY(hold(txn));
            held = true;
            std::string value;
            while (!release) {
                sleep_for(kMillisecond);
                TRY(index.get(txn, "alice", value));
            }
            return txn.abort();
        });
        while (!held) std::this_thread::yield();
        return handle;
    }

    // Both workers are in a callback that blocks until `release`.
    void block_workers() {
        for (int worker = 0; worker < 2; ++worker)
            blockers.push_back(store->start(
                [this]() -> Result<void> {
                    ++blocked;
                    while (!release) std::this_thread::yield();  // the kernel's, on purpose
                    return {};
                },
                worker));
        while (blocked < 2) std::this_thread::yield();
    }

    std::string directory_;
    std::optional<Store> store;
    Index index;
    Heap heap;
    RecordId record{};
    std::atomic<bool> held{false}, release{false};
    std::atomic<int> blocked{0};
    std::vector<Handle<void>> blockers;
    std::atomic<uint64_t> id{0};
};

TEST_F(ControlTest, TheSocketBelongsToTheOwnerAlone) {
    struct stat file {};
    ASSERT_EQ(lstat(socket().c_str(), &file), 0);
    EXPECT_EQ(file.st_mode, S_IFSOCK | 0600u);
    ASSERT_OK(store->close());
    EXPECT_FALSE(std::filesystem::exists(socket()));
    open();
    EXPECT_TRUE(std::filesystem::exists(socket()));
}

TEST_F(ControlTest, WithoutTheOptionThereIsNone) {
    ASSERT_OK(store->close());
    Options off = options();
    off.control = false;
    auto opened = Store::open(directory_, off);
    ASSERT_OK(opened);
    EXPECT_FALSE(std::filesystem::exists(socket()));
    ASSERT_OK(opened->close());
    open();
}

TEST_F(ControlTest, Stat) {
    Client client(directory_);
    const Json before = client.result(R"({"command": "stat"})");
    EXPECT_EQ(before["pid"], getpid());
    EXPECT_EQ(before["directory"], directory_);
    EXPECT_EQ(before["options"]["workers"], 2);
    EXPECT_TRUE(before["failure"].is_null());
    ASSERT_OK(store->run([&](Txn& txn) { return index.put(txn, "bob", "1"); }));
    const Json after = client.result(R"({"command": "stat"})");
    EXPECT_GT(after["stats"]["commits"], before["stats"]["commits"]);
    EXPECT_GT(after["time_nanos"], before["time_nanos"]);
    EXPECT_EQ(after["stats"]["waits"].size(), kWaitCauses);
}

// The report of hot locks covers 5 to 10 s, but no time before the store was opened.
TEST_F(ControlTest, HotLocksLookBackToTheOpeningAtMost) {
    const Nanos before_open = now();
    ASSERT_OK(store->close());
    open();
    Client client(directory_);
    const Json stat = client.result(R"({"command": "stat"})");
    EXPECT_LE(stat["hot_locks"]["looks_back_nanos"], stat["open_for_nanos"]);
    const Json locks = client.result(R"({"command": "locks"})");
    EXPECT_GT(locks["hot_locks"]["looks_back_nanos"], 0);
    EXPECT_LE(locks["hot_locks"]["looks_back_nanos"].get<Nanos>(), now() - before_open);
}

TEST_F(ControlTest, Metrics) {
    Client client(directory_);
    const std::string text = client.result(R"({"command": "metrics"})")["text"];
    EXPECT_NE(text.find("\nlockstep_transactions_total{outcome=\"committed\"} "),
              std::string::npos);
}

// The key of a wait is known while it lasts, and afterwards.
TEST_F(ControlTest, LocksWithTheirKeys) {
    auto first = holder([&](Txn& txn) { return index.put(txn, "alice", "1"); });
    const std::string number = std::to_string(id);
    // A transaction began with its worker's turn, which may be a little older.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    auto second = store->spawn([&](Txn& txn) { return index.put(txn, "alice", "2"); });
    Client client(directory_);
    Json waits;
    while ((waits = client.result(R"({"command": "locks"})")["waits"]).empty()) {}
    EXPECT_EQ(waits.size(), 1u);
    const std::string text = waits[0]["waits_for"];
    EXPECT_TRUE(text.starts_with("X on index \"accounts\", key \"alice\"; held by txn " + number))
        << text;
    EXPECT_EQ(waits[0]["waits_for_transactions"], Json::array({id.load()}));
    EXPECT_EQ(waits[0]["state"], "lock_wait");
    const Json all = client.result(R"({"command": "transactions"})");
    EXPECT_EQ(all["count"], 2);
    EXPECT_EQ(all["transactions"][0]["id"], id.load());  // the oldest first
    EXPECT_EQ(client.result(R"({"command": "transactions", "limit": 1})")["transactions"].size(),
              1u);
    release = true;
    ASSERT_OK(first.join());
    ASSERT_OK(second.join());
    const Json hot = client.result(R"({"command": "locks"})")["hot_locks"];
    ASSERT_EQ(hot["locks"].size(), 1u) << hot.dump();
    EXPECT_EQ(hot["locks"][0]["lock"], "index \"accounts\", key \"alice\"");
    EXPECT_EQ(hot["locks"][0]["waits"], 1);
    EXPECT_GT(hot["locks"][0]["wait_nanos"], 0);
}

TEST_F(ControlTest, LocksOfEveryKindSayTheirPlace) {
    struct Case {
        std::function<Result<void>(Txn&)> hold, ask;
        std::string text;
    };
    const auto scan_all = [&](Txn& txn) -> Result<void> {
        Cursor c = index.scan(txn);
        while (TRY(c.next())) {}
        return {};
    };
    const std::string place = "record " + std::to_string(record.slot.value) + " of page " +
                              std::to_string(record.page.value);
    const Case cases[] = {
        {[&](Txn& txn) -> Result<void> {
             return TRY(heap.update(txn, record, "x")), Result<void>();
         },
         [&](Txn& txn) -> Result<void> { return TRY(heap.erase(txn, record)), Result<void>(); },
         "heap \"audit\", " + place},
        {scan_all, [&](Txn& txn) { return index.insert(txn, "zoe", "1"); },
         R"(index "accounts", the gap above key "zoe")"},
        {[&](Txn& txn) { return index.insert(txn, "carl", "1"); }, scan_all,
         R"(index "accounts", key "carl")"},
        {[&](Txn& txn) { return store->drop(txn, "accounts"); },
         [&](Txn& txn) { return index.put(txn, "alice", "1"); }, "index \"accounts\""},
    };
    for (const Case& c : cases) {
        release = false;
        held = false;
        auto first = store->start([&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(c.hold(txn));
            held = true;
            while (!release) sleep_for(kMillisecond);
            return txn.abort();
        });
        while (!held) std::this_thread::yield();
        auto second = store->start([&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(c.ask(txn));
            return txn.abort();
        });
        Client client(directory_);
        Json waits;
        while ((waits = client.result(R"({"command": "locks"})")["waits"]).empty()) {}
        const std::string text = waits[0]["waits_for"];
        EXPECT_NE(text.find(" on " + c.text + "; held by"), std::string::npos) << text << "\n"
                                                                               << c.text;
        release = true;
        EXPECT_TRUE(first.join());
        EXPECT_TRUE(second.join());
        const Json hot = client.result(R"({"command": "locks"})")["hot_locks"]["locks"];
        EXPECT_TRUE(std::ranges::any_of(hot, [&](const Json& of) { return of["lock"] == c.text; }))
            << hot.dump() << "\n"
            << c.text;
    }
}

TEST_F(ControlTest, EndOfATransaction) {
    auto handle = holder([&](Txn& txn) { return index.put(txn, "alice", "1"); });
    Client client(directory_);
    const std::string request = R"({"command": "end", "transaction": )" + std::to_string(id) + "}";
    EXPECT_EQ(client.result(request)["transaction"], id.load());
    const auto ended = handle.join();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::ended_by_operator);
    EXPECT_EQ(client.error(request), "txn_ended");
    std::string value;
    ASSERT_OK(store->run([&](Txn& txn) { return index.get(txn, "alice", value); }));
    EXPECT_EQ(value, "0");
}

TEST_F(ControlTest, Checkpoint) {
    Client client(directory_);
    const uint64_t before = store->stats().checkpoints;
    EXPECT_GT(client.result(R"({"command": "checkpoint"})")["checkpoints"], before);
    EXPECT_GT(store->stats().checkpoints, before);
}

// At this pace the backup would take hours.
TEST_F(ControlTest, ABackupEndsWithItsClient) {
    const std::string to = directory_ + ".backup";
    std::optional<Client> client(std::in_place, directory_);
    client->say(R"({"command": "backup", "bytes_per_second": 100, "to": ")" + to + "\"}");
    while (!std::filesystem::exists(to + "/backup")) std::this_thread::yield();
    EXPECT_TRUE(client->hear(20).is_null());
    client.reset();
    while (store->stats().backup_failures == 0) std::this_thread::yield();
    EXPECT_TRUE(std::filesystem::is_empty(to));
    std::filesystem::remove_all(to);
}

TEST_F(ControlTest, WhatIsNoRequestIsRefused) {
    Client client(directory_);
    for (const char* line :
         {"", "garbage", "[]", "7", "null", "{", "{}", R"({"command": 7})", R"("stat")",
          R"({"command": "format"})", "\xff\xfe", "{\"command\": \"\xff\"}", "\x01\x02"})
        EXPECT_EQ(client.error(line), "bad_request") << line;
    for (const char* line :
         {R"({"command": "end"})", R"({"command": "end", "transaction": "7"})",
          R"({"command": "end", "transaction": -1})", R"({"command": "end", "transaction": 1.5})",
          R"({"command": "end", "transaction": 0})",
          R"({"command": "transactions", "limit": "all"})"})
        EXPECT_EQ(client.error(line), "bad_argument") << line;
    EXPECT_EQ(client.error(R"({"command": "end", "transaction": 18446744073709551615})"),
              "txn_ended");
    std::string deep(60'000, '[');
    EXPECT_EQ(client.error(deep), "bad_request");
    deep = std::string(30'000, '[') + std::string(30'000, ']');
    EXPECT_EQ(client.error(deep), "bad_request");
    EXPECT_EQ(client.error(R"({"command": "end", "transaction": )" + deep + "}"), "bad_argument");
    EXPECT_EQ(client.error(std::string(70'000, ' ')), "bad_request");
    EXPECT_TRUE(client.hear().is_null());  // it was disconnected
    EXPECT_TRUE(Client(directory_).ask(R"({"command": "stat"})").contains("result"));
}

// A callback that blocks its kernel thread stops the lists, but not the counters.
TEST_F(ControlTest, ABlockedWorkerDoesNotSilenceIt) {
    block_workers();
    Client lists(directory_), counters(directory_);
    lists.say(R"({"command": "transactions"})");
    EXPECT_TRUE(counters.ask(R"({"command": "stat"})").contains("result"));
    EXPECT_TRUE(counters.ask(R"({"command": "metrics"})").contains("result"));
    EXPECT_TRUE(lists.hear(20).is_null());
    release = true;
    EXPECT_TRUE(lists.hear().contains("result"));
    for (auto& handle : blockers) EXPECT_TRUE(handle.join());
}

// As when the application closes the store as soon as the transaction is ended that it waits for.
TEST_F(ControlTest, CloseLetsTheAnswersUnderWayOut) {
    block_workers();
    Client lists(directory_), idle(directory_);
    lists.say(R"({"command": "transactions"})");
    Client counters(directory_);  // connects later, so what was said before is taken before
    EXPECT_TRUE(counters.ask(R"({"command": "stat"})").contains("result"));
    std::thread closes([&] { EXPECT_TRUE(store->close()); });
    while (std::filesystem::exists(socket())) std::this_thread::yield();
    EXPECT_TRUE(idle.hear().is_null());
    EXPECT_TRUE(lists.hear(20).is_null());
    release = true;
    const Json answer = lists.hear();
    EXPECT_TRUE(answer.is_object() && answer.contains("result")) << answer.dump();
    closes.join();
}

TEST_F(ControlTest, AHundredClientsAtOnce) {
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 100; ++i)
        threads.emplace_back([&] {
            Client client(directory_);
            right += client.ask(R"({"command": "stat"})").contains("result");
            right += client.ask(R"({"command": "transactions"})").contains("result");
            right += client.ask("?").contains("error");
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 300);
}

// close() does not wait for clients, and leaves nothing of a command behind.
TEST_F(ControlTest, CloseWhileClientsAsk) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            while (!stop) {
                auto fd = threads::connect_local(directory_, "control");
                if (!fd) continue;
                const std::string text = "{\"command\": \"locks\"}\n{\"command\": \"stat\"}\n";
                (void)send(*fd, text.data(), text.size(), MSG_NOSIGNAL);
                std::this_thread::yield();
                close(*fd);
            }
        });
    Client silent(directory_);
    for (int i = 0; i < 5; ++i) {
        ASSERT_OK(store->close());
        open();
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(silent.hear().is_null());
}

TEST_F(ControlTest, ASocketThatACrashLeftIsReplaced) {
    ASSERT_OK(store->close());
    const pid_t child = fork();
    if (child == 0) {
        auto opened = Store::open(directory_, options());
        end_child(opened ? 7 : 8);  // without close()
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_TRUE(std::filesystem::exists(socket()));
    open();
    EXPECT_TRUE(Client(directory_).ask(R"({"command": "stat"})").contains("result"));
}

TEST_F(ControlTest, OpenSaysWhatStandsInTheWay) {
    ASSERT_OK(store->close());
    std::ofstream(socket()) << "precious";
    const auto opened = Store::open(directory_, options());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::bad_path);
    EXPECT_NE(opened.error().text().find(socket()), std::string::npos) << opened.error().text();
    std::filesystem::remove(socket());
    open();
}

}  // namespace lockstep::control_test
