// labels: script
// stat_test.cc - `lockstep stat` on a closed store, on one that was not closed, and on a damaged
// one: what it prints, its exit status, and that it changes nothing.
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::stat_test {

struct Outcome {
    int status = -1;
    std::string out;
};

// The program stands beside this test.
Outcome lockstep_stat(const std::string& arguments) {
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command =
        (self.parent_path() / "lockstep").string() + " stat " + arguments + " 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    Outcome run;
    std::array<char, 4096> piece;
    while (const size_t n = fread(piece.data(), 1, piece.size(), pipe))
        run.out.append(piece.data(), n);
    const int status = pclose(pipe);
    run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return run;
}

class Stat : public StoreCrash {
protected:
    static void fill(Store& store) {
        make(store, "accounts", "history");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store.index("accounts"));
            for (int i = 0; i < 3000; ++i)
                TRY(index.insert(txn, std::to_string(10'000 + i), std::string(100, 'v')));
            TRY(index.insert(txn, "large", std::string(30'000, 'v')));
            for (int i = 0; i < 700; ++i) TRY(TRY(store.heap("history")).insert(txn, "a record"));
            return {};
        }));
    }
    std::string state_of(const std::string& name) const {
        std::string state;
        for (const auto& entry : std::filesystem::directory_iterator(path(name))) {
            struct stat status {};
            EXPECT_EQ(::stat(entry.path().c_str(), &status), 0);
            std::ifstream file(entry.path(), std::ios::binary);
            const std::string bytes(std::istreambuf_iterator<char>(file), {});
            state += entry.path().string() + " " + std::to_string(std::hash<std::string>{}(bytes)) +
                     " " + std::to_string(status.st_mtim.tv_nsec) + "\n";
        }
        return state;
    }
};

TEST_F(Stat, ShowsAClosedStore) {
    {
        Store store = open("s");
        fill(store);
        ASSERT_OK(store.close());
    }
    const std::string before = state_of("s");
    const Outcome run = lockstep_stat("--json " + path("s"));
    ASSERT_EQ(run.status, 0) << run.out;
    const auto j = nlohmann::json::parse(run.out);
    EXPECT_EQ(j["state"], "closed");
    EXPECT_EQ(j["log_changes_since_checkpoint"], 0);
    EXPECT_EQ(j["log_end"], j["log_recorded_end"]);
    EXPECT_EQ(j["data_bytes"], std::filesystem::file_size(path("s") + "/data"));
    EXPECT_EQ(j["pages_total"].get<uint64_t>() * kPageBytes, j["data_bytes"]);
    EXPECT_EQ(j["pages_used"].get<uint64_t>() + j["pages_free"].get<uint64_t>(), j["pages_total"]);
    EXPECT_GT(j["disk_bytes"], j["data_bytes"]);
    ASSERT_EQ(j["objects"].size(), 3u);
    uint64_t pages = 3;  // two superblocks, one space map
    for (const auto& o : j["objects"]) {
        pages += o["pages_inner"].get<uint64_t>() + o["pages_leaf"].get<uint64_t>() +
                 o["pages_overflow"].get<uint64_t>();
        EXPECT_FALSE(o.contains("faults") || o.contains("error"));
    }
    EXPECT_EQ(pages, j["pages_used"]);
    const auto &accounts = j["objects"][1], &history = j["objects"][2];
    EXPECT_EQ(accounts["name"], "accounts");
    EXPECT_EQ(accounts["kind"], "index");
    EXPECT_EQ(accounts["records"], 3001);
    EXPECT_EQ(accounts["depth"], 2);
    EXPECT_EQ(accounts["pages_inner"], 1);
    EXPECT_GE(accounts["pages_overflow"], 4);
    EXPECT_GT(accounts["fill_percent"], 40);
    EXPECT_LE(accounts["fill_percent"], 100);
    EXPECT_EQ(history["kind"], "heap");
    EXPECT_EQ(history["records"], 700);
    EXPECT_EQ(state_of("s"), before);

    const Outcome text = lockstep_stat(path("s"));
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.out.find("accounts"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("3001"), std::string::npos) << text.out;
}

TEST_F(Stat, SaysThatAStoreWasNotClosed) {
    {
        Store store = open("s");
        fill(store);
        on_thread(store, [&] { copy("s", "killed"); });
    }
    const std::string before = state_of("killed");
    const Outcome run = lockstep_stat("--json " + path("killed"));
    EXPECT_EQ(run.status, 3) << run.out;
    const auto j = nlohmann::json::parse(
        run.out.substr(run.out.find('{'), run.out.rfind('}') + 1 - run.out.find('{')));
    EXPECT_EQ(j["state"], "not closed");
    EXPECT_GT(j["log_changes_since_checkpoint"], 0);
    EXPECT_FALSE(j.contains("objects"));
    EXPECT_EQ(state_of("killed"), before);
    EXPECT_NE(lockstep_stat(path("killed")).out.find("was not closed"), std::string::npos);
}

TEST_F(Stat, ErrorsHaveTheirStatus) {
    const Outcome none = lockstep_stat(path("none"));
    EXPECT_EQ(none.status, 1);
    EXPECT_NE(none.out.find("bad_path"), std::string::npos) << none.out;
    uint32_t root = 0;
    {
        Store store = open("s");
        fill(store);
        const Outcome busy = lockstep_stat(path("s"));
        EXPECT_EQ(busy.status, 2);
        EXPECT_NE(busy.out.find("no control socket"), std::string::npos) << busy.out;
        root = sm::engine_of(store).catalog->find(store.index("accounts")->id())->root.value;
        ASSERT_OK(store.close());
    }
    {
        std::fstream file(path("s") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(root) * kPageBytes + 5000);
        file.write("damage", 6);
    }
    const Outcome damaged = lockstep_stat(path("s"));
    EXPECT_EQ(damaged.status, 1);
    EXPECT_NE(damaged.out.find("corrupt_page"), std::string::npos) << damaged.out;
    EXPECT_NE(damaged.out.find("history"), std::string::npos) << damaged.out;
}

TEST_F(Stat, HelpNamesTheExitStatuses) {
    const Outcome help = lockstep_stat("--help");
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("Exit status: 0"), std::string::npos) << help.out;
}

}  // namespace lockstep::stat_test
