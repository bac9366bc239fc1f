// labels: unit
// c_procedures_test.cc - the C interface of procedure objects: calls, many at once, and bodies
// within a session.
#include <atomic>
#include <thread>
#include <vector>

#include <lockstep/from_c.h>
#include "tests/sm/c/c_util.h"

namespace lockstep::c_procedures_test {

class CProcedures : public CStore {
public:
    void SetUp() override {
        CStore::SetUp();
        index = make_index("i");
    }
    std::string get(const char* key) {
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        const std::string value = value_of(txn, index, key);
        EXPECT_C(lockstep_commit(txn, nullptr, &error));
        return value;
    }
    static lockstep_call call_of(const char* procedure, const std::string& request) {
        lockstep_call call;
        lockstep_call_init(&call, sizeof call);
        call.procedure = procedure;
        call.request = lockstep_bytes(request.data(), request.size());
        return call;
    }
    static std::string reply_of(const lockstep_call& call) {
        return {static_cast<const char*>(call.reply.data), call.reply.size};
    }
    // Puts the request as a key; fails, in several ways, as the procedure's name says.
    static int put(void* arg, lockstep_txn* txn, lockstep_call* call) {
        auto& test = *static_cast<CProcedures*>(arg);
        const std::string procedure = call->procedure;
        lockstep_error error;
        if (lockstep_put(txn, test.index, call->request, lockstep_text("v"), &error) != LOCKSTEP_OK)
            return lockstep_call_refuse(call, error.code, error.text);
        EXPECT_EQ(lockstep_call_reply(call, call->request), LOCKSTEP_OK);
        if (procedure == "refuse") return lockstep_call_refuse(call, -3, "refused");
        if (procedure == "refuse and return 0") lockstep_call_refuse(call, -4, "refused");
        if (procedure == "negative") return -5;
        if (procedure == "code") return LOCKSTEP_NO_SUCH_RECORD;
        if (procedure == "victim" && test.attempts++ < 2) return LOCKSTEP_DEADLOCK;
        return LOCKSTEP_OK;
    }

    lockstep_index* index = nullptr;
    std::atomic<int> attempts{0};
};

TEST_F(CProcedures, EachCallIsATransactionOfItsOwn) {
    const char* const procedures[] = {"put",      "refuse", "refuse and return 0",
                                      "negative", "code",   "victim"};
    std::vector<std::string> keys;
    for (int i = 0; i < 6; ++i) keys.push_back("key" + std::to_string(i));
    std::vector<lockstep_call> calls;
    for (int i = 0; i < 6; ++i) calls.push_back(call_of(procedures[i], keys[i]));
    ASSERT_C(lockstep_run_calls(store, calls.data(), calls.size(), put, this, nullptr, &error));
    const int codes[] = {0, -3, -4, -5, LOCKSTEP_NO_SUCH_RECORD, 0};
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(calls[i].code, codes[i]) << procedures[i];
        EXPECT_EQ(reply_of(calls[i]), codes[i] == 0 ? keys[i] : "") << procedures[i];
        EXPECT_EQ(calls[i].text != nullptr, codes[i] != 0) << procedures[i];
        EXPECT_EQ(get(keys[i].c_str()), codes[i] == 0 ? "v" : "none") << procedures[i];
    }
    EXPECT_STREQ(calls[1].text, "refused");
    EXPECT_EQ(attempts.load(), 3);
    for (lockstep_call& call : calls) lockstep_call_clear(&call);
    EXPECT_EQ(calls[1].code, 0);
    EXPECT_STREQ(calls[1].procedure, "refuse");
}

// All of them wait at the same time: one by one they would take 20 s.
TEST_F(CProcedures, ManyCallsRunSideBySide) {
    struct Shared {
        std::atomic<int> inside{0}, most{0};
    } shared;
    const auto wait = [](void* arg, lockstep_txn* txn, lockstep_call*) {
        auto& s = *static_cast<Shared*>(arg);
        EXPECT_NE(transaction_of(txn), nullptr);
        const int now = ++s.inside;
        for (int most = s.most; most < now && !s.most.compare_exchange_weak(most, now);) continue;
        lockstep_sleep_for(200'000'000);
        --s.inside;
        return 0;
    };
    std::vector<lockstep_call> calls(100, call_of("wait", ""));
    const uint64_t began = lockstep_now();
    ASSERT_C(lockstep_run_calls(store, calls.data(), calls.size(), wait, &shared, nullptr, &error));
    EXPECT_LT(lockstep_now() - began, 10'000'000'000u);
    EXPECT_GT(shared.most.load(), 10);
}

TEST_F(CProcedures, ABodyRunsInASession) {
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    const auto body = [](lockstep_txn* of, void* arg) {
        auto& test = *static_cast<CProcedures*>(arg);
        EXPECT_NE(transaction_of(of), nullptr);
        EXPECT_EQ(transaction_of(of)->id().value, lockstep_txn_id(of));
        return lockstep_put(of, test.index, lockstep_text("k"), lockstep_text("w"), nullptr);
    };
    EXPECT_EQ(transaction_of(txn), nullptr);  // not on its user thread
    EXPECT_C(lockstep_run_in(txn, body, this, &error));
    const auto refuse = [](lockstep_txn*, void*) { return -9; };
    EXPECT_EQ(lockstep_run_in(txn, refuse, nullptr, &error), -9);
    const auto fail = [](lockstep_txn* of, void* arg) {
        auto& test = *static_cast<CProcedures*>(arg);
        return lockstep_insert(of, test.index, lockstep_text("k"), lockstep_text("w"), nullptr);
    };
    EXPECT_EQ(lockstep_run_in(txn, fail, this, &error), LOCKSTEP_DUPLICATE_KEY);
    // The transaction goes on, and calls of kernel threads are handed over again.
    EXPECT_EQ(value_of(txn, index, "k"), "w");
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
    EXPECT_EQ(get("k"), "w");
    EXPECT_EQ(lockstep_run_in(txn, body, this, &error), LOCKSTEP_TXN_ENDED);
}

TEST_F(CProcedures, AnErrorOfTheEngineIsTheCallsError) {
    lockstep_txn_options options;
    lockstep_txn_options_init(&options, sizeof options);
    options.read_only = true;
    lockstep_call call = call_of("put", "k");
    ASSERT_C(lockstep_run_calls(store, &call, 1, put, this, &options, &error));
    EXPECT_EQ(call.code, LOCKSTEP_READ_ONLY);
    EXPECT_NE(std::string(call.text).find("read_only"), std::string::npos);
    lockstep_call_clear(&call);
}

TEST_F(CProcedures, WhatACallHasMayRefuseIt) {
    lockstep_call call;
    lockstep_call_init(&call, sizeof call);
    const std::string why(100, 'w');
    ASSERT_EQ(lockstep_call_refuse(&call, -3, why.c_str()), -3);
    EXPECT_EQ(lockstep_call_refuse(&call, -4, call.text), -4);
    EXPECT_EQ(call.text, why);
    ASSERT_EQ(lockstep_call_reply(&call, lockstep_text(call.text)), 0);
    EXPECT_EQ(lockstep_call_refuse(&call, -5, static_cast<const char*>(call.reply.data)), -5);
    EXPECT_EQ(call.text, why);
    lockstep_call_clear(&call);
}

TEST_F(CProcedures, WrongArguments) {
    lockstep_call call = call_of("put", "k");
    EXPECT_EQ(lockstep_run_calls(store, &call, 1, nullptr, this, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_run_calls(store, nullptr, 1, put, this, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_run_calls(nullptr, &call, 1, put, this, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_C(lockstep_run_calls(store, nullptr, 0, put, this, nullptr, &error));
    EXPECT_EQ(lockstep_call_refuse(&call, 0, "x"), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(call.code, LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_call_reply(&call, lockstep_bytes(nullptr, 3)), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_call_reply(nullptr, lockstep_text("")), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_call_refuse(nullptr, -1, ""), LOCKSTEP_BAD_ARGUMENT);
    lockstep_call_clear(&call);
    lockstep_call_clear(nullptr);
    lockstep_call_init(nullptr, sizeof call);
    EXPECT_EQ(lockstep_run_in(nullptr, nullptr, nullptr, &error), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_NE(store_of(store), nullptr);
    EXPECT_EQ(store_of(nullptr), nullptr);
    EXPECT_EQ(transaction_of(nullptr), nullptr);
}

// A function as an operation of a request, in each form of a request.
struct Function {
    explicit Function(lockstep_index* of) : index(of) {}
    static int run(lockstep_txn* txn, void* arg) {
        auto& self = *static_cast<Function*>(arg);
        self.id = lockstep_txn_id(txn);
        ++self.calls;
        lockstep_error error;
        if (lockstep_put(txn, self.index, lockstep_text("f"), lockstep_text("v"), &error) != 0)
            return error.code;
        return self.calls <= self.victim ? LOCKSTEP_DEADLOCK : self.result;
    }

    lockstep_index* index;
    lockstep_function function{run, this};
    int result = 0, calls = 0, victim = 0;
    uint64_t id = 0;
};

class CFunctions : public CProcedures {
public:
    // The function, then a put of "k".
    lockstep_request request_of(Function& function, int end) {
        operations[0] = {};
        operations[0].kind = LOCKSTEP_OP_CALL;
        operations[0].buffer = &function.function;
        operations[1] = {};
        operations[1].kind = LOCKSTEP_OP_PUT;
        operations[1].index = index;
        operations[1].key = lockstep_text("k");
        operations[1].value = lockstep_text("w");
        lockstep_request r;
        lockstep_request_init(&r, sizeof r);
        r.store = store;
        r.operations = operations;
        r.count = 2;
        r.end = end;
        r.error = &error;
        return r;
    }
    int submit_and_wait(lockstep_request& r) {
        if (lockstep_submit(&r) == LOCKSTEP_OK)
            while (!lockstep_request_done(&r)) lockstep_sleep_for(1'000'000);
        return r.code;
    }

    lockstep_operation operations[2];
};

TEST_F(CFunctions, OfAWholeTransaction) {
    Function function(index);
    function.victim = 2;
    lockstep_request r = request_of(function, LOCKSTEP_END_COMMIT);
    EXPECT_EQ(submit_and_wait(r), LOCKSTEP_OK);
    EXPECT_EQ(function.calls, 3);
    EXPECT_EQ(r.performed, 2u);
    EXPECT_NE(function.id, 0u);
    EXPECT_EQ(get("f") + get("k"), "vw");
    function.victim = 0;
    ASSERT_C(lockstep_batch(&r));
    EXPECT_EQ(function.calls, 4);
}

TEST_F(CFunctions, OfASession) {
    Function function(index);
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    for (const bool submit : {false, true}) {
        lockstep_request r = request_of(function, LOCKSTEP_END_KEEP);
        r.txn = txn;
        EXPECT_EQ(submit ? submit_and_wait(r) : lockstep_batch(&r), LOCKSTEP_OK);
        EXPECT_EQ(function.id, lockstep_txn_id(txn));
    }
    // The handle is this thread's again.
    EXPECT_EQ(value_of(txn, index, "f"), "v");
    EXPECT_C(lockstep_abort(txn, &error));
    EXPECT_EQ(get("f"), "none");
}

TEST_F(CFunctions, OfATransactionThatARequestBegins) {
    Function function(index);
    lockstep_request r = request_of(function, LOCKSTEP_END_KEEP);
    EXPECT_EQ(submit_and_wait(r), LOCKSTEP_OK);
    ASSERT_NE(r.txn, nullptr);
    EXPECT_EQ(function.id, lockstep_txn_id(r.txn));
    EXPECT_C(lockstep_commit(r.txn, nullptr, &error));
    EXPECT_EQ(get("f") + get("k"), "vw");
}

// An error of the function stops the request, and is its error.
TEST_F(CFunctions, Errors) {
    Function function(index);
    for (const auto& [result, code] :
         {std::pair{int{LOCKSTEP_NO_SUCH_RECORD}, int{LOCKSTEP_NO_SUCH_RECORD}},
          {-7, int{LOCKSTEP_ROLLED_BACK}},
          {100000, int{LOCKSTEP_BAD_ARGUMENT}}}) {
        function.result = result;
        lockstep_request r = request_of(function, LOCKSTEP_END_COMMIT);
        EXPECT_EQ(submit_and_wait(r), code);
        EXPECT_EQ(operations[0].code, code);
        EXPECT_EQ(r.performed, 0u);
    }
    function.result = 0;
    lockstep_request r = request_of(function, LOCKSTEP_END_COMMIT);
    operations[0].buffer = nullptr;
    EXPECT_EQ(submit_and_wait(r), LOCKSTEP_BAD_ARGUMENT);
    const lockstep_function without_body{nullptr, nullptr};
    operations[0].buffer = const_cast<lockstep_function*>(&without_body);
    EXPECT_EQ(submit_and_wait(r), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(get("f") + get("k"), "nonenone");
}

// Whole transactions of a higher priority wait less for a thread.
TEST_F(CFunctions, PriorityOfWholeTransactions) {
    struct Order {
        std::vector<int>* seen;
        int number;
        std::atomic<bool>*began, *go;
    };
    std::vector<int> seen;
    std::atomic<bool> began{false}, go{false};
    const auto body = [](lockstep_txn*, void* arg) {
        const auto& self = *static_cast<Order*>(arg);
        // The first one keeps the worker, so the others wait for admission.
        self.began->store(true);
        while (!self.go->load()) std::this_thread::yield();
        self.seen->push_back(self.number);
        return 0;
    };
    constexpr int kHeld = 1, kCalls = kHeld + 6;
    Order orders[kCalls];
    lockstep_function functions[kCalls];
    lockstep_operation calls[kCalls] = {};
    lockstep_request requests[kCalls];
    lockstep_txn_options options[kCalls];
    ASSERT_C(lockstep_close(store, &error));
    lockstep_steps_options steps;
    lockstep_options of_store = small_options(steps);
    of_store.workers = 1;
    of_store.executors = 1;
    ASSERT_C(lockstep_open((root + "/db").c_str(), &of_store, &store, &error));
    for (int i = 0; i < kCalls; ++i) {
        orders[i] = {&seen, i, &began, &go};
        functions[i] = {body, &orders[i]};
        calls[i].kind = LOCKSTEP_OP_CALL;
        calls[i].buffer = &functions[i];
        lockstep_txn_options_init(&options[i], sizeof options[i]);
        options[i].priority = i % 2 == 0 ? 100 : 0;
        lockstep_request_init(&requests[i], sizeof requests[i]);
        requests[i].store = store;
        requests[i].options = &options[i];
        requests[i].operations = &calls[i];
        requests[i].count = 1;
        requests[i].end = LOCKSTEP_END_COMMIT;
        ASSERT_C(lockstep_submit(&requests[i]));
        while (!began.load()) std::this_thread::yield();
    }
    go = true;
    for (lockstep_request& r : requests)
        while (!lockstep_request_done(&r)) lockstep_sleep_for(1'000'000);
    ASSERT_EQ(seen.size(), size_t{kCalls});
    EXPECT_EQ(seen, (std::vector<int>{0, 2, 4, 6, 1, 3, 5}));
}

}  // namespace lockstep::c_procedures_test
