// backup_test_util.h - a store with one index and one heap, and what its backups are asked for.
#pragma once

#include <lockstep/backup.h>

#include <map>
#include <string>

#include "tests/sm/store_crash_util.h"

namespace lockstep {

class BackupFixture : public StoreCrash {
protected:
    using Content = std::map<std::string, std::string>;

    static std::string key(int i) { return "key" + std::to_string(100000 + i); }
    static Result<void> put(Store& store, int from, int to, char letter, size_t size = 300) {
        return store.run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store.index("i"));
            for (int i = from; i < to; ++i) TRY(index.put(txn, key(i), std::string(size, letter)));
            return {};
        });
    }
    Store filled(const std::string& name, int rows = 500) {
        Store store = open(name);
        make(store, "i", "h");
        EXPECT_TRUE(put(store, 0, rows, 'a'));
        EXPECT_TRUE(store.checkpoint());
        return store;
    }
    // A full backup, named `full`, whose copies of many pages a checkpoint made too old. The store
    // is idle from its end on.
    BackupInfo full_with_early_copies(Store& store) {
        make(store, "i", "h");
        EXPECT_TRUE(put(store, 0, 4000, 'a'));
        EXPECT_TRUE(store.checkpoint());
        BackupOptions how;
        bool changed = false;
        how.progress = [&](const BackupProgress& p) {
            if (changed || p.pages < p.pages_total / 2) return;
            changed = true;  // pages that were copied, and pages that were not
            EXPECT_TRUE(put(store, 0, 4000, 'b'));
            EXPECT_TRUE(store.checkpoint());
        };
        const auto full = store.backup(path("full"), how);
        EXPECT_TRUE(full && changed);
        return *full;
    }
    // Opens a copy, so that the backup stays one.
    Content restored(const std::string& backup) {
        const std::string name = backup + ".opened";
        std::filesystem::remove_all(path(name));
        copy(backup, name);
        Store store = open(name);
        expect_sound(store);
        Content content = index_content(store, "i");
        EXPECT_TRUE(store.close());
        return content;
    }
    void expect_whole(const std::string& backup) {
        const auto faults = verify_backup(path(backup));
        ASSERT_OK(faults);
        for (const std::string& fault : *faults) ADD_FAILURE() << fault;
    }
};

}  // namespace lockstep
