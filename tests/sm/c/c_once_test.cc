// labels: unit
// c_once_test.cc - the C interface of calls without a transaction that take rows or functions.
#include <cstring>
#include <thread>
#include <vector>

#include <lockstep/types.h>
#include "tests/sm/c/c_util.h"

namespace lockstep::c_once_test {

class COnce : public CStore {
protected:
    void SetUp() override {
        CStore::SetUp();
        index = make_index("i");
    }
    void put(const char* key, lockstep_slice value) {
        EXPECT_C(lockstep_put_once(store, index, lockstep_text(key), value, nullptr, &error));
    }
    lockstep_index* index = nullptr;
};

TEST_F(COnce, ManyKeysAreOfOneMoment) {
    put("a", lockstep_text("1"));
    put("b", lockstep_text("22"));
    char room[3][1];
    lockstep_lookup rows[3] = {};
    const char* const keys[] = {"b", "none", "a"};
    for (size_t n = 0; n < 3; ++n) {
        rows[n].key = lockstep_text(keys[n]);
        rows[n].buffer = room[n];
        rows[n].room = 1;
    }
    size_t found = 0;
    EXPECT_C(lockstep_get_many_once(store, index, rows, 3, &found, nullptr, &error));
    EXPECT_EQ(found, 2u);
    EXPECT_TRUE(rows[0].found && !rows[1].found && rows[2].found);
    EXPECT_EQ(rows[0].bytes, 2u);  // of the value, of which one byte has room
    EXPECT_EQ(room[0][0], '2');
    EXPECT_EQ(room[2][0], '1');
    EXPECT_C(lockstep_get_many_once(store, index, nullptr, 0, &found, nullptr, &error));
    EXPECT_EQ(found, 0u);
    rows[1].buffer = nullptr;
    EXPECT_EQ(lockstep_get_many_once(store, index, rows, 3, &found, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_get_many_once(store, index, rows, 65537, &found, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
}

// None of the changes of two threads is lost.
TEST_F(COnce, AModificationSeesWhatItChanges) {
    constexpr int kEach = 200;
    const uint64_t zero = 0;
    put("n", lockstep_bytes(&zero, sizeof zero));
    const auto add_one = [](void*, void* value, size_t bytes, size_t* offset, size_t* changed) {
        uint64_t n = 0;
        ASSERT_EQ(bytes, sizeof n);
        EXPECT_TRUE(*offset == 0 && *changed == 0);
        std::memcpy(&n, value, sizeof n);
        ++n;
        std::memcpy(value, &n, sizeof n);
        *offset = 0;
        *changed = sizeof n;
    };
    lockstep_txn_options lazy;
    lockstep_txn_options_init(&lazy, sizeof lazy);
    lazy.durability = LOCKSTEP_LAZY;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&] {
            for (int n = 0; n < kEach; ++n) {
                uint64_t room = 0;
                bool found = false;
                lockstep_error refused;
                EXPECT_EQ(lockstep_modify_once(store, index, lockstep_text("n"), &room, sizeof room,
                                               add_one, nullptr, &found, &lazy, &refused),
                          LOCKSTEP_OK)
                    << refused.text;
                EXPECT_TRUE(found);
            }
        });
    for (std::thread& thread : threads) thread.join();
    uint64_t sum = 0;
    EXPECT_C(lockstep_get_once(store, index, lockstep_text("n"), &sum, sizeof sum, nullptr, nullptr,
                               nullptr, &error));
    EXPECT_EQ(sum, uint64_t{2 * kEach});
    bool found = true;
    EXPECT_C(lockstep_modify_once(store, index, lockstep_text("none"), &sum, sizeof sum, add_one,
                                  nullptr, &found, nullptr, &error));
    EXPECT_FALSE(found);
    const auto too_much = [](void*, void*, size_t bytes, size_t*, size_t* changed) {
        *changed = bytes + 1;
    };
    EXPECT_EQ(lockstep_modify_once(store, index, lockstep_text("n"), &sum, sizeof sum, too_much,
                                   nullptr, &found, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
}

TEST_F(COnce, AScanGivesTheRecordsOfARangeInOrder) {
    for (const char* const key : {"a", "b", "c", "d"}) put(key, lockstep_text(key));
    std::string seen;
    const auto each = [](void* arg, lockstep_slice key, lockstep_slice value) {
        auto& keys = *static_cast<std::string*>(arg);
        keys.append(static_cast<const char*>(key.data), key.size);
        EXPECT_EQ(std::string(static_cast<const char*>(value.data), value.size),
                  std::string(static_cast<const char*>(key.data), key.size));
        return keys.size() < 3;
    };
    size_t count = 0;
    EXPECT_C(lockstep_scan_once(store, index, lockstep_text("b"), {}, each, &seen, &count, nullptr,
                                &error));
    EXPECT_EQ(seen, "bcd");
    EXPECT_EQ(count, 3u);
    seen.clear();
    EXPECT_C(lockstep_scan_once(store, index, {}, lockstep_text("c"), each, &seen, &count, nullptr,
                                &error));
    EXPECT_EQ(seen, "ab");
    seen.clear();
    EXPECT_C(lockstep_scan_once(store, index, {}, {}, each, &seen, nullptr, nullptr, &error));
    EXPECT_EQ(seen, "abc");  // `each` has ended it
}

}  // namespace lockstep::c_once_test
