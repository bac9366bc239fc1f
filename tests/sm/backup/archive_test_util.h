// archive_test_util.h - a store on a simulated disk that archives its log, a model of its commits,
// and restores to points of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sm/backup/archive_index.h"
#include "sm/backup/restore.h"
#include "tests/code_of.h"
#include "tests/sim_store.h"
#include "tests/sm/index_content.h"
#include "tests/sm/test_util.h"

namespace lockstep {

inline constexpr const char* kArchive = "/archive";
using Content = std::map<std::string, std::string>;

struct Committed {
    Content puts;
    Lsn point{};
    Nanos began = 0, ended = 0;  // of commit()
};

// Small segments, so that a test fills many.
inline void archive_options(Options& options) {
    options.log_bytes = 8 << 20;
    options.checkpoint_log_bytes = 1 << 20;
    options.archive = kArchive;
}

inline Content content_of(Store& store) { return index_content(store, "i"); }

class Commits {
public:
    static void make_index(Store& store) {
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(store.create_index(txn, "i"));
            return {};
        }));
    }
    // One durable transaction of random puts; the error of the put that failed.
    Result<void> transaction(Store& store, Rng& rng, uint64_t value_bytes = 700) {
        Txn txn = TRY(store.begin({.durability = Durability::durable}));
        const Index index = TRY(store.index("i"));
        Committed commit;
        for (uint64_t i = 0, n = 1 + rng.below(4); i < n; ++i) {
            const std::string key = "key" + std::to_string(rng.below(60));
            const std::string value = random_text(rng, 1 + rng.below(value_bytes));
            TRY(index.put(txn, key, value));
            commit.puts[key] = value;
        }
        commit.began = threads::now();
        commit.point = TRY(txn.commit());
        commit.ended = threads::now();
        all_.push_back(std::move(commit));
        return {};
    }
    void many(Store& store, Rng& rng, int count, uint64_t value_bytes = 700) {
        for (int i = 0; i < count; ++i) {
            const auto done = transaction(store, rng, value_bytes);
            ASSERT_OK(done);
        }
    }
    // Between so many transactions each, a backup in /full and an incremental one in /next.
    void with_two_backups(Store& store, Rng& rng, int count) {
        make_index(store);
        many(store, rng, count);
        const auto full = store.backup("/full");
        ASSERT_OK(full);
        many(store, rng, count);
        BackupOptions how;
        how.since = &*full;
        ASSERT_OK(store.backup("/next", how));
        many(store, rng, count);
    }
    Content at(Lsn point) const {
        std::vector<const Committed*> ordered;
        for (const Committed& commit : all_)
            if (commit.point <= point) ordered.push_back(&commit);
        std::ranges::sort(ordered, {}, [](const Committed* c) { return c->point.value; });
        Content state;
        for (const Committed* commit : ordered)
            for (const auto& [key, value] : commit->puts) state[key] = value;
        return state;
    }
    void add(const Committed& commit) { all_.push_back(commit); }
    const std::vector<Committed>& all() const { return all_; }
    Lsn newest() const { return all_.back().point; }

private:
    std::vector<Committed> all_;
};

inline std::vector<std::string> names_in(threads::SimDisk& disk, const std::string& directory) {
    auto names = disk.list(directory);
    return names ? std::move(*names) : std::vector<std::string>{};
}

inline void copy_file(threads::SimDisk& disk, const std::string& path, threads::SimDisk& other,
                      const std::string& other_path) {
    const auto from = disk.open(path, 0);
    const auto to = other.open(other_path, threads::Disk::kCreate);
    ASSERT_TRUE(from && to) << path;
    std::vector<char> bytes(*disk.size(*from));
    ASSERT_TRUE(disk.read_now(*from, 0, bytes.data(), bytes.size()));
    ASSERT_TRUE(other.write_now(*to, 0, bytes.data(), bytes.size()));
    disk.close(*from);
    other.close(*to);
}

inline void remove_directory(threads::SimDisk& disk, const std::string& directory) {
    for (const std::string& name : names_in(disk, directory))
        EXPECT_TRUE(disk.unlink(directory + "/" + name));
}

// Restores to a fresh directory, in as little memory as there may be.
inline Result<BackupInfo> restore_to(threads::SimDisk& disk, const std::string& backup,
                                     RestoreOptions options, const std::string& to = "/restored") {
    remove_directory(disk, to);
    const std::string from[] = {backup};
    if (!options.archive) options.archive = kArchive;
    options.memory_bytes = 64 << 10;
    return sm::restore_on(disk, from, to, options);
}

// What a store has after its recovery; it is left open if `store` is given.
inline Content opened(threads::SimDisk& disk, const std::string& directory, bool verify = true) {
    SimStore store(disk, 7);
    store.options().log_bytes = 8 << 20;
    const auto open = store.open(directory);
    EXPECT_TRUE(open) << open.error().text();
    if (!open) return {};
    Content content;
    store.on_thread([&] {
        content = content_of(*store);
        if (!verify) return;
        const auto faults = store->verify();
        EXPECT_TRUE(faults && faults->empty());
    });
    EXPECT_TRUE(store.close());
    return content;
}

inline std::string text_of(const auto& result) {
    return result ? std::string("no error") : result.error().text();
}
}  // namespace lockstep
