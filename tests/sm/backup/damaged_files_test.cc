// labels: unit memory
// damaged_files_test.cc - every file of a backup, a chain, an archive and a store, damaged in every
// way: what verify accepts is restored, and what is refused names the file and what helps.
#include <chrono>
#include <thread>

#include "tests/seed_of_run.h"
#include "tests/sm/backup/backup_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::damaged_files_test {

namespace fs = std::filesystem;

enum class Damage : uint8_t {
    removed,
    emptied,
    cut_by_one,
    cut_in_a_block,
    cut_at_a_block,
    cut_anywhere,
    grown_by_one,
    grown_by_a_block,
    grown_far,
    bit_at_the_begin,
    bit_anywhere,
    bit_at_the_end,
    unreadable,
    a_directory,
};
constexpr int kDamages = static_cast<int>(Damage::a_directory) + 1;

void flip_bit(const std::string& path, uint64_t offset, uint32_t bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ (1 << bit));
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
    ASSERT_TRUE(file.good()) << path;
}

// False: the file is too short for this damage.
bool damage_file(const std::string& path, Damage damage, Rng& rng) {
    const uint64_t size = fs::file_size(path);
    const auto bit = [&](uint64_t offset) {
        if (size > 0) flip_bit(path, offset, static_cast<uint32_t>(rng.below(8)));
        return size > 0;
    };
    const auto length = [&](uint64_t bytes) {
        if (bytes != size) fs::resize_file(path, bytes);
        return bytes != size;
    };
    switch (damage) {
        case Damage::removed: return fs::remove(path);
        case Damage::emptied: return length(0);
        case Damage::cut_by_one: return size > 0 && length(size - 1);
        case Damage::cut_in_a_block: return size > 5000 && length(size / 4096 / 2 * 4096 + 100);
        case Damage::cut_at_a_block: return size > 8192 && length(size / 4096 / 2 * 4096);
        case Damage::cut_anywhere: return size > 0 && length(rng.below(size));
        case Damage::grown_by_one: return length(size + 1);
        case Damage::grown_by_a_block: return length(size + 4096);
        case Damage::grown_far: return length(size + (1 << 20));
        case Damage::bit_at_the_begin: return bit(0);
        case Damage::bit_anywhere: return bit(rng.below(std::max<uint64_t>(size, 1)));
        case Damage::bit_at_the_end: return bit(size - 1);
        case Damage::unreadable:  // also for root
            fs::remove(path);
            fs::create_symlink(path, path);
            return true;
        case Damage::a_directory: fs::remove(path); return fs::create_directory(path);
    }
    return false;
}

class DamagedFiles : public BackupFixture {
protected:
    DamagedFiles() : rng_(seed_of_run()) {}
    static Options options(const std::string& archive) {
        Options o = small_options();
        o.log_bytes = 8 << 20;
        o.log_segment_bytes = 1 << 20;
        o.log_ring_bytes = 1 << 20;
        o.sync = false;
        o.logger = nullptr;
        if (!archive.empty()) o.archive = archive;
        return o;
    }
    void note(Store& store, char letter) {
        Lsn point{};
        auto done = store.start([&]() -> Result<void> {
            Txn txn = TRY(store.begin());
            const Index index = TRY(store.index("i"));
            for (int i = 0; i < 400; ++i) TRY(index.put(txn, key(i), std::string(300, letter)));
            point = TRY(txn.commit());
            return {};
        });
        ASSERT_OK(done.join());
        states_[point] = index_content(store, "i");
    }
    // s, and of it full, next and archive.
    void make_all() {
        Store store = open("s", options(path("archive")));
        make(store, "i", "h");
        note(store, 'a');
        ASSERT_OK(store.checkpoint());
        const auto full = store.backup(path("full"));
        ASSERT_OK(full);
        for (char letter = 'b'; letter < 'f'; ++letter) note(store, letter);
        BackupOptions how;
        how.since = &*full;
        ASSERT_OK(store.backup(path("next"), how));
        for (char letter = 'f'; letter < 'p'; ++letter) note(store, letter);
        ASSERT_OK(store.close());
    }
    const Content& state_at(Lsn point) const {
        return std::prev(states_.upper_bound(point))->second;
    }
    Content content(const std::string& name) {
        Content found;
        auto store = Store::open(path(name), options(""));
        EXPECT_TRUE(store) << store.error().text();
        if (!store) return found;
        found = index_content(*store, "i");
        EXPECT_TRUE(store->close());
        return found;
    }
    void fresh(const std::vector<std::string>& names) {
        for (const std::string& name : names) {
            fs::remove_all(path("d-" + name));
            fs::copy(path(name), path("d-" + name), fs::copy_options::recursive);
        }
        fs::remove_all(path("new"));
    }
    std::vector<std::string> files_of(const std::string& name) const {
        std::vector<std::string> files;
        for (const auto& entry : fs::directory_iterator(path(name)))
            files.push_back(entry.path().filename());
        std::ranges::sort(files);
        return files;
    }
    static bool helps(const std::string& text) {
        for (const char* word : {"bring", "use", "delete", "restore", "name", "repeat", "make"})
            if (text.find(word) != std::string::npos) return true;
        return false;
    }
    // Verify and restore of `names`, of which one has a damaged file.
    void judge(const std::vector<std::string>& names, bool archive, const std::string& file) {
        std::vector<std::string> backups;
        for (const std::string& name : names) backups.push_back(path("d-" + name));
        if (archive) backups = {path("full")};
        RestoreOptions how;
        const std::string from = path("d-archive");
        if (archive) how.archive = from;
        const auto faults = verify_restore(backups, how);
        ASSERT_OK(faults);
        const auto made = restore_backup(backups, path("new"), how);
        std::string named;
        for (const std::string& fault : *faults) {
            named += fault + "\n";
            EXPECT_TRUE(helps(fault)) << fault;
        }
        if (!made) {
            ++refused_;
            const std::string text = made.error().text();
            EXPECT_NE(made.error().code, ErrorCode::bad_argument) << text;
            EXPECT_FALSE(faults->empty()) << "restore refuses what verify accepts: " << text;
            // A missing piece has no name: its LSNs are told.
            EXPECT_TRUE(text.find(file) != std::string::npos ||
                        text.find("gap") != std::string::npos ||
                        text.find("verify_restore() ") != std::string::npos)
                << text;
            EXPECT_TRUE(helps(text)) << text;
            EXPECT_TRUE(named.find(file) != std::string::npos ||
                        named.find("gap") != std::string::npos)
                << named;
            return;
        }
        ++restored_;
        EXPECT_EQ(content("new"), state_at(made->lsn)) << named;
    }
    void judge_each(const std::vector<std::string>& names, bool archive) {
        for (const std::string& name : names)
            for (const std::string& file : files_of(name))
                for (int damage = 0; damage < kDamages && !HasFailure(); ++damage) {
                    SCOPED_TRACE(name + "/" + file + ", damage " + std::to_string(damage));
                    fresh(names);
                    if (damage_file(path("d-" + name) + "/" + file, Damage{uint8_t(damage)}, rng_))
                        judge(names, archive, file);
                }
    }

    Rng rng_;
    std::map<Lsn, Content> states_;
    int refused_ = 0, restored_ = 0;
};

TEST_F(DamagedFiles, OfABackup) {
    make_all();
    judge_each({"full"}, false);
    EXPECT_GT(refused_, 20);
}

TEST_F(DamagedFiles, OfAChain) {
    make_all();
    judge_each({"full", "next"}, false);
    EXPECT_GT(refused_, 40);
}

TEST_F(DamagedFiles, OfAnArchive) {
    make_all();
    judge_each({"archive"}, true);
}

// A closed store, and one whose process was killed: it opens with all that was committed, or is
// refused with the name of a file. No open finds an older state, or another one.
TEST_F(DamagedFiles, OfAStore) {
    {
        Store store = open("killed", options(""));
        make(store, "i", "h");
        note(store, 'a');
        ASSERT_OK(store.checkpoint());
        note(store, 'b');
        // Until the log's durable end is recorded: damage behind that end is a torn write.
        std::this_thread::sleep_for(std::chrono::milliseconds(400));
        on_thread(store, [&] { copy("killed", "open"); });
        ASSERT_OK(store.close());
    }
    const Content whole = states_.rbegin()->second;
    for (const std::string name : {"killed", "open"})
        for (const std::string& file : files_of(name))
            for (int damage = 0; damage < kDamages && !HasFailure(); ++damage) {
                SCOPED_TRACE(name + "/" + file + ", damage " + std::to_string(damage));
                fresh({name});
                if (!damage_file(path("d-" + name) + "/" + file, Damage{uint8_t(damage)}, rng_))
                    continue;
                Result<Store> store = Store::open(path("d-" + name), options(""));
                if (!store) {
                    const std::string text = store.error().text();
                    EXPECT_NE(store.error().code, ErrorCode::bad_argument) << text;
                    ++refused_;
                    continue;
                }
                ++restored_;
                Content found;
                const auto read = store->run([&](Txn& txn) -> Result<void> {
                    const Index index = TRY(store->index("i"));
                    for (Cursor c = index.scan(txn); TRY(c.next());)
                        found[std::string(c.key())] = std::string(c.value());
                    return {};
                });
                if (read) EXPECT_EQ(found, whole);
                else
                    EXPECT_TRUE(read.error().code == ErrorCode::corrupt_page ||
                                read.error().code == ErrorCode::lost_write)
                        << read.error().text();
                (void)store->close();
            }
    EXPECT_GT(refused_, 10);
    EXPECT_GT(restored_, 20);
}

}  // namespace lockstep::damaged_files_test
