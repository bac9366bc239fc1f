// labels: unit
// misuse_test.cc - every public call with a transaction or a handle that it may not
// have: an error that says which, and nothing has changed.
#include <gtest/gtest.h>

#include <filesystem>

#include "sm/api/operation.h"
#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::misuse_test {

struct Things {
    Store& store;
    Index index;
    Heap heap;
};

ByteRange no_change(std::span<std::byte>) { return {}; }
ByteRange no_change_many(size_t, std::span<std::byte>) { return {}; }

struct Call {
    const char* name;
    bool changes, on_handle;
    std::function<ErrorCode(Things&, Txn&)> run;
};

const Call kCalls[] = {
    {"get", false, true,
     [](Things& t, Txn& txn) {
         std::string v;
         return code_of(t.index.get(txn, "k", v));
     }},
    {"get into a buffer", false, true,
     [](Things& t, Txn& txn) {
         std::byte room[8];
         return code_of(t.index.get(txn, "k", std::span(room)));
     }},
    {"get_many", false, true,
     [](Things& t, Txn& txn) {
         Lookup rows[1] = {{.key = "k", .buffer = {}}};
         return code_of(t.index.get_many(txn, rows));
     }},
    {"scan up", false, true, [](Things& t, Txn& txn) { return code_of(t.index.scan(txn).next()); }},
    {"scan down", false, true,
     [](Things& t, Txn& txn) { return code_of(t.index.scan(txn).prev()); }},
    {"insert", true, true,
     [](Things& t, Txn& txn) { return code_of(t.index.insert(txn, "new", "v")); }},
    {"insert_many", true, true,
     [](Things& t, Txn& txn) {
         const NewRecord r[1] = {{"new", "v"}};
         return code_of(t.index.insert_many(txn, r));
     }},
    {"update", true, true,
     [](Things& t, Txn& txn) { return code_of(t.index.update(txn, "k", "w")); }},
    {"put", true, true, [](Things& t, Txn& txn) { return code_of(t.index.put(txn, "k", "w")); }},
    {"patch", true, true,
     [](Things& t, Txn& txn) { return code_of(t.index.patch(txn, "k", 0, "w")); }},
    {"patch at a place", true, true,
     [](Things& t, Txn& txn) { return code_of(t.index.patch(txn, "k", 0, "w", RecordHint{})); }},
    {"modify", true, true,
     [](Things& t, Txn& txn) { return code_of(t.index.modify(txn, "k", {}, no_change)); }},
    {"modify_many", true, true,
     [](Things& t, Txn& txn) {
         Lookup rows[2] = {{.key = "k", .buffer = {}}, {.key = "l", .buffer = {}}};
         return code_of(t.index.modify_many(txn, rows, no_change_many));
     }},
    {"erase", true, true, [](Things& t, Txn& txn) { return code_of(t.index.erase(txn, "k")); }},
    {"heap get", false, true,
     [](Things& t, Txn& txn) {
         std::string v;
         return code_of(t.heap.get(txn, RecordId{}, v));
     }},
    {"heap scan", false, true,
     [](Things& t, Txn& txn) {
         return code_of(t.heap.scan(txn, [](RecordId, Slice) { return true; }));
     }},
    {"heap insert", true, true,
     [](Things& t, Txn& txn) { return code_of(t.heap.insert(txn, "v")); }},
    {"heap update", true, true,
     [](Things& t, Txn& txn) { return code_of(t.heap.update(txn, RecordId{}, "v")); }},
    {"heap erase", true, true,
     [](Things& t, Txn& txn) { return code_of(t.heap.erase(txn, RecordId{})); }},
    {"create_index", true, false,
     [](Things& t, Txn& txn) { return code_of(t.store.create_index(txn, "new")); }},
    {"create_index of an index", true, false,
     [](Things& t, Txn& txn) {
         return code_of(t.store.create_index(
             txn, "new", {.of = t.index, .key = [](Slice, Slice, SecondaryKeys&) {}}));
     }},
    {"open_or_create_index of an index", true, false,
     [](Things& t, Txn& txn) {
         return code_of(t.store.open_or_create_index(
             txn, "new", {.of = t.index, .key = [](Slice, Slice, SecondaryKeys&) {}}));
     }},
    {"scan_by", false, true,
     [](Things& t, Txn& txn) { return code_of(scan_by(txn, t.index).next()); }},
    {"get_by", false, true,
     [](Things& t, Txn& txn) {
         SecondaryRecord record;
         return code_of(get_by(txn, t.index, "k", record));
     }},
    {"create_heap", true, false,
     [](Things& t, Txn& txn) { return code_of(t.store.create_heap(txn, "new")); }},
    {"open_or_create_index", true, false,
     [](Things& t, Txn& txn) { return code_of(t.store.open_or_create_index(txn, "new")); }},
    {"open_or_create_heap", true, false,
     [](Things& t, Txn& txn) { return code_of(t.store.open_or_create_heap(txn, "new")); }},
    {"index", false, false, [](Things& t, Txn& txn) { return code_of(t.store.index(txn, "i")); }},
    {"heap", false, false, [](Things& t, Txn& txn) { return code_of(t.store.heap(txn, "h")); }},
    {"drop", true, false, [](Things& t, Txn& txn) { return code_of(t.store.drop(txn, "i")); }},
    {"bulk_load", true, false,
     [](Things& t, Txn& txn) {
         return code_of(t.store.bulk_load(txn, t.index, [](Slice&, Slice&) { return false; }));
     }},
};

class Misuse : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a"));
        make(*store_, "i", "h");
        things_.emplace(Things{*store_, *store_->index("i"), *store_->heap("h")});
        ASSERT_OK(store_->run([&](Txn& txn) { return things_->index.insert(txn, "k", "v"); }));
    }
    void TearDown() override {
        if (store_) {
            EXPECT_EQ(index_content(*store_, "i"),
                      (std::map<std::string, std::string>{{"k", "v"}}));
            EXPECT_TRUE(heap_content(*store_, "h").empty());
            EXPECT_EQ(store_->list().size(), 2u);
            expect_sound(*store_);
        }
        things_.reset();
        store_.reset();
        StoreCrash::TearDown();
    }

    std::optional<Store> store_;
    std::optional<Things> things_;
};

TEST_F(Misuse, OfATransactionThatHasEnded) {
    on_thread(*store_, [&] {
        auto txn = store_->begin();
        ASSERT_OK(txn);
        ASSERT_OK(txn->abort());
        for (const Call& call : kCalls)
            EXPECT_EQ(call.run(*things_, *txn), ErrorCode::txn_ended) << call.name;
        EXPECT_FALSE(txn->live());
    });
}

TEST_F(Misuse, OfATransactionOfAnotherStore) {
    Store other = open("b");
    on_thread(other, [&] {
        auto txn = other.begin();
        ASSERT_OK(txn);
        for (const Call& call : kCalls)
            EXPECT_EQ(call.run(*things_, *txn), ErrorCode::bad_argument) << call.name;
        const auto foreign =
            other.bulk_load(*txn, things_->index, [](Slice&, Slice&) { return false; });
        EXPECT_TRUE(!foreign && std::string_view(foreign.error().what) == "index of another store");
        EXPECT_TRUE(txn->abort());
    });
}

TEST_F(Misuse, OfATransactionThatOnlyReads) {
    on_thread(*store_, [&] {
        auto txn = store_->begin({.read_only = true});
        ASSERT_OK(txn);
        for (const Call& call : kCalls) {
            if (!call.changes) continue;
            EXPECT_EQ(call.run(*things_, *txn), ErrorCode::read_only) << call.name;
        }
        EXPECT_TRUE(txn->commit());
    });
}

TEST_F(Misuse, OfATransactionOnAnotherThread) {
    std::optional<Txn> txn;
    bool tried = false;
    auto owner = store_->start(
        [&]() -> Result<void> {
            txn.emplace(TRY(store_->begin()));
            while (!tried) yield();
            return txn->abort();
        },
        0);
    on_thread(*store_, [&] {
        while (!txn) yield();
        for (const Call& call : kCalls)
            EXPECT_EQ(call.run(*things_, *txn), ErrorCode::wrong_thread) << call.name;
        tried = true;
    });
    ASSERT_OK(owner.join());
    EXPECT_EQ(code_of(owner.join()), ErrorCode::bad_argument);  // joined already
    EXPECT_EQ(code_of(Handle<void>().join()), ErrorCode::bad_argument);
}

// Before its next call the transaction has to wait for log. That is not for others to do.
TEST_F(Misuse, OfATransactionOnAnotherThreadWhileTheLogIsScarce) {
    std::optional<Txn> txn;
    bool scarce = false, tried = false;
    const std::string value(100'000, 'w');
    auto owner = store_->start(
        [&]() -> Result<void> {
            txn.emplace(TRY(store_->begin()));
            for (int n = 0; n < 2000 && sm::TxnAccess::usable(*txn); ++n)
                TRY(things_->index.put(*txn, "k", value));
            scarce = true;
            EXPECT_FALSE(sm::TxnAccess::usable(*txn));
            while (!tried) yield();
            EXPECT_FALSE(sm::TxnAccess::usable(*txn));
            // The oldest writer goes on.
            EXPECT_TRUE(things_->index.put(*txn, "k", "w"));
            return txn->abort();
        },
        0);
    on_thread(*store_, [&] {
        while (!scarce) yield();
        for (const Call& call : kCalls) {
            EXPECT_EQ(call.run(*things_, *txn), ErrorCode::wrong_thread) << call.name;
        }
        EXPECT_EQ(code_of(txn->savepoint()), ErrorCode::wrong_thread);
        EXPECT_EQ(code_of(txn->prepare("gid")), ErrorCode::wrong_thread);
        EXPECT_EQ(code_of(txn->commit()), ErrorCode::wrong_thread);
        tried = true;
    });
    ASSERT_OK(owner.join());
}

TEST_F(Misuse, OfAnEmptyHandle) {
    Things empty{*store_, Index{}, Heap{}};
    EXPECT_FALSE(empty.index);
    EXPECT_FALSE(empty.heap);
    EXPECT_EQ(empty.index.id(), ObjectId{});
    EXPECT_EQ(empty.heap.id(), ObjectId{});
    on_thread(*store_, [&] {
        auto txn = store_->begin();
        ASSERT_OK(txn);
        for (const Call& call : kCalls) {
            if (!call.on_handle && call.name != std::string_view("bulk_load")) continue;
            EXPECT_EQ(call.run(empty, *txn), ErrorCode::no_such_object) << call.name;
        }
        const Cursor cursor = empty.index.scan(*txn);
        EXPECT_TRUE(cursor.key().empty() && cursor.value().empty());
        EXPECT_TRUE(txn->abort());
    });
}

// A transaction that was refused for good answers every call with the reason, or that it must be
// rolled back; abort() frees its locks, and the next transaction works.
TEST_F(Misuse, OfATransactionThatWasRefused) {
    using Refuse = std::function<ErrorCode(Txn&, Txn & other)>;
    const auto meet = [&](Txn& txn) {
        std::string value;
        return code_of(things_->index.get(txn, "k", value, Access::write));
    };
    struct State {
        const char* name;
        Refuse refuse;
        ErrorCode at_once, then;
    };
    const State kStates[] = {
        {"self_deadlock", [&](Txn& txn, Txn&) { return meet(txn); }, ErrorCode::self_deadlock,
         ErrorCode::txn_aborting},
        {"ended_by_operator",
         [&](Txn& txn, Txn&) {
             EXPECT_TRUE(store_->end_transaction(txn.id()));
             return meet(txn);
         },
         ErrorCode::ended_by_operator, ErrorCode::ended_by_operator},
        {"prepared",
         [&](Txn& txn, Txn& other) {
             EXPECT_TRUE(other.abort());  // it holds the record
             EXPECT_TRUE(things_->index.put(txn, "k", "v"));
             EXPECT_TRUE(txn.prepare("gid"));
             return meet(txn);
         },
         ErrorCode::txn_ended, ErrorCode::txn_ended},
    };
    on_thread(*store_, [&] {
        for (const State& state : kStates)
            for (const Call& call : kCalls) {
                SCOPED_TRACE(std::string(state.name) + ", " + call.name);
                auto other = store_->begin();
                ASSERT_OK(other);
                ASSERT_EQ(meet(*other), ErrorCode::none);
                auto txn = store_->begin();
                ASSERT_OK(txn);
                Cursor cursor = things_->index.scan(*txn);
                EXPECT_EQ(state.refuse(*txn, *other), state.at_once);
                for (int twice = 0; twice < 2; ++twice)
                    EXPECT_EQ(call.run(*things_, *txn), state.then);
                EXPECT_EQ(code_of(cursor.next()), state.then);
                EXPECT_EQ(code_of(cursor.prev()), state.then);
                EXPECT_EQ(code_of(cursor.patch(0, "w")), state.then);
                EXPECT_EQ(code_of(txn->savepoint()), state.then);
                EXPECT_EQ(code_of(txn->prepare("other")), state.then);
                EXPECT_EQ(code_of(txn->commit()), state.then);
                EXPECT_EQ(code_of(txn->abort()),
                          state.then == ErrorCode::txn_ended ? state.then : ErrorCode::none);
                if (other->live()) {
                    EXPECT_TRUE(other->abort());
                }
                for (const PreparedInfo& info : store_->prepared())
                    EXPECT_TRUE(store_->commit_prepared(info.gid).has_value());
                EXPECT_EQ(code_of(store_->run([&](Txn& next) -> Result<void> {
                              return things_->index.put(next, "k", "v");
                          })),
                          ErrorCode::none);
            }
    });
}

TEST_F(Misuse, OfTheStore) {
    on_thread(*store_, [&] {
        EXPECT_EQ(code_of(store_->close()), ErrorCode::wrong_thread);
        EXPECT_EQ(code_of(store_->set_steps({})), ErrorCode::wrong_thread);
        auto txn = store_->begin();
        ASSERT_OK(txn);
        for (const uint32_t fill : {49u, 101u})
            EXPECT_EQ(code_of(store_->bulk_load(
                          *txn, things_->index, [](Slice&, Slice&) { return false; }, fill)),
                      ErrorCode::bad_argument);
        EXPECT_EQ(code_of(store_->create_index(*txn, std::string_view("a\0b", 3))),
                  ErrorCode::bad_argument);
        EXPECT_EQ(code_of(store_->drop(*txn, "")), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(store_->drop(*txn, "none")), ErrorCode::no_such_object);
        EXPECT_TRUE(txn->abort());
    });
    EXPECT_EQ(code_of(store_->index("h")), ErrorCode::wrong_kind);
    EXPECT_EQ(code_of(store_->heap("i")), ErrorCode::wrong_kind);
    EXPECT_TRUE(store_->wait_durable(kLsnNone));
    // The texts name what was asked for.
    const auto text_of = [](const auto& refused) { return refused.error().text(); };
    EXPECT_NE(text_of(store_->index("none")).find("\"none\""), std::string::npos);
    EXPECT_NE(text_of(store_->index("h")).find("\"h\" is a heap"), std::string::npos);
    EXPECT_NE(text_of(store_->heap("i")).find("\"i\" is an index"), std::string::npos);
    const auto again = store_->run([&](Txn& txn) { return store_->create_index(txn, "i"); });
    ASSERT_EQ(code_of(again), ErrorCode::already_exists);
    EXPECT_NE(text_of(again).find("\"i\""), std::string::npos);
    const auto twice = store_->run([&](Txn& txn) -> Result<void> {
        TRY(things_->index.put(txn, "key", ""));
        return things_->index.insert(txn, "key", "");
    });
    ASSERT_EQ(code_of(twice), ErrorCode::duplicate_key);
    EXPECT_NE(text_of(twice).find("\"key\""), std::string::npos) << text_of(twice);
    // The body may end its transaction itself.
    ASSERT_OK(
        store_->run([&](Txn& txn) -> Result<void> { return TRY(txn.commit()), Result<void>{}; }));
    EXPECT_EQ(code_of(store_->run([&](Txn& txn) -> Result<void> {
                  TRY(txn.abort());
                  return fail(ErrorCode::cancelled);
              })),
              ErrorCode::cancelled);
    EXPECT_TRUE(store_->run([&](Txn& txn) { return txn.abort(); }));
}

TEST_F(Misuse, OfAClosedStore) {
    ASSERT_OK(store_->close());
    Store& closed = *store_;
    EXPECT_TRUE(closed.list().empty());
    EXPECT_EQ(code_of(closed.begin()), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.index("i")), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.heap("h")), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.checkpoint()), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.wait_durable(Lsn{1})), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.verify()), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.run([](Txn&) -> Result<int> { return 1; })), ErrorCode::store_closed);
    EXPECT_EQ(code_of(closed.start([]() -> Result<int> { return 1; }).join()),
              ErrorCode::store_closed);
    Store other = open("b");
    on_thread(other, [&] {
        auto txn = other.begin();
        ASSERT_OK(txn);
        EXPECT_EQ(code_of(closed.create_index(*txn, "new")), ErrorCode::store_closed);
        EXPECT_TRUE(txn->abort());
    });
    *store_ = open("a");
}

}  // namespace lockstep::misuse_test
