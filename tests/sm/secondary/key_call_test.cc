// labels: unit
// key_call_test.cc - KC-1: a call of the store in a key function is refused at once. A call that
// waited would wait for the change that waits for the function.
#include <functional>
#include <map>

#include "tests/sm/secondary/secondary_util.h"

namespace lockstep::key_call_test {

using Call = std::function<ErrorCode(Store&)>;

// Each may wait: for a transaction, a user thread, a page, the log, or the end of all transactions.
const std::map<std::string, Call> kCalls = {
    {"run", [](Store& s) { return code_of(s.run([](Txn&) -> Result<void> { return {}; })); }},
    {"begin", [](Store& s) { return code_of(s.begin()); }},
    {"checkpoint", [](Store& s) { return code_of(s.checkpoint()); }},
    {"verify", [](Store& s) { return code_of(s.verify()); }},
    {"backup",
     [](Store& s) { return code_of(s.backup([](auto&&...) { return Result<void>(); })); }},
    {"give_back_space", [](Store& s) { return code_of(s.give_back_space()); }},
    {"close", [](Store& s) { return code_of(s.close()); }},
};

class KeyCall : public SecondaryStore {
protected:
    // A store with a record, and a secondary index whose function makes the call.
    Store open_calling(const Call& call) {
        Store store = open("a");
        EXPECT_TRUE(store.run([&](Txn& txn) -> Result<void> {
            const Index i = LOCKSTEP_TRY(store.open_or_create_index(txn, "i"));
            return i.put(txn, "1", "a|");
        }));
        call_ = call;
        return store;
    }
    Result<void> make_index(Store& store) {
        return store.run([&](Txn& txn) -> Result<void> {
            const Index i = LOCKSTEP_TRY(store.index(txn, "i"));
            const auto calls = [this, &store](Slice key, Slice value, SecondaryKeys& keys) {
                code_ = call_(store);
                ++times_;
                first_field(key, value, keys);
            };
            (void)LOCKSTEP_TRY(
                store.create_index(txn, "s", SecondaryOptions{.of = i, .key = calls}));
            return {};
        });
    }
    Call call_;
    std::atomic<ErrorCode> code_{ErrorCode::none};
    std::atomic<int> times_{0};
};

TEST_F(KeyCall, IsRefusedInEveryKindOfThread) {
    for (const auto& [name, call] : kCalls) {
        SCOPED_TRACE(name);
        Store store = open_calling(call);
        ASSERT_OK(make_index(store));  // on the builder's kernel threads
        EXPECT_EQ(code_.exchange(ErrorCode::none), ErrorCode::wrong_thread);
        EXPECT_GT(times_.exchange(0), 0);
        const Index i = *store.index("i");
        ASSERT_OK(store.run([&](Txn& txn) { return i.put(txn, "2", "b|"); }));
        EXPECT_EQ(code_.exchange(ErrorCode::none), ErrorCode::wrong_thread);
        ASSERT_OK(store.run([&](Txn& txn) { return i.update(txn, "1", "c|"); }));
        EXPECT_EQ(code_.exchange(ErrorCode::none), ErrorCode::wrong_thread);
        EXPECT_EQ(pairs_of(store), (Pairs{{"b", "2"}, {"c", "1"}}));
        ASSERT_OK(store.close());
        std::filesystem::remove_all(path("a"));
    }
}

}  // namespace lockstep::key_call_test
