// bank.cc - a procedure object: accounts, as tests/cluster/bank.py has them in Python.
//
// Requests and replies are arrays of int64: take_part(account, amount, receipt) and
// deposit(account, amount) reply with the new balance, balance(account) with the balance.
#include <lockstep/c/index.h>
#include <lockstep/c/procedures.h>
#include <lockstep/c/transaction.h>

#include <cstdlib>
#include <cstring>
#include <string>

#ifndef BANK_VERSION
#define BANK_VERSION LOCKSTEP_PROCEDURES_VERSION
#endif
#ifndef BANK_NAME
#define BANK_NAME lockstep_procedure_object
#endif

namespace {

struct Bank {
    lockstep_store* store;
    lockstep_index *accounts, *receipts;
    int64_t limit;  // of an amount
};

constexpr int kNoMoney = -7;

int pass(lockstep_call* call, const lockstep_error& error) {
    return lockstep_call_refuse(call, error.code, error.text);
}

int balance_of(const Bank& bank, lockstep_txn* txn, const lockstep_key& key, int access,
               int64_t* balance, lockstep_error* error) {
    char text[32];
    size_t size = 0;
    bool found = false;
    const int code = lockstep_get(txn, bank.accounts, lockstep_key_slice(&key), access, text,
                                  sizeof text - 1, &size, &found, error);
    if (code != LOCKSTEP_OK) return code;
    text[found ? size : 0] = '\0';
    *balance = std::atoll(text);
    return LOCKSTEP_OK;
}

int reply(lockstep_call* call, int64_t balance) {
    return lockstep_call_reply(call, lockstep_bytes(&balance, sizeof balance));
}

int deposit(const Bank& bank, lockstep_txn* txn, lockstep_call* call, int64_t account,
            int64_t amount) {
    lockstep_error error;
    lockstep_key key;
    lockstep_key_init(&key);
    lockstep_key_i64(&key, account);
    int64_t balance = 0;
    if (balance_of(bank, txn, key, LOCKSTEP_ACCESS_WRITE, &balance, &error) != LOCKSTEP_OK)
        return pass(call, error);
    balance += amount;
    if (balance < 0 || amount > bank.limit)
        return lockstep_call_refuse(call, kNoMoney, "not enough money");
    const std::string text = std::to_string(balance);
    if (lockstep_put(txn, bank.accounts, lockstep_key_slice(&key), lockstep_text(text.c_str()),
                     &error) != LOCKSTEP_OK)
        return pass(call, error);
    return reply(call, balance);
}

int take_part(const Bank& bank, lockstep_txn* txn, lockstep_call* call, const int64_t* n) {
    lockstep_error error;
    lockstep_key key;
    lockstep_key_init(&key);
    lockstep_key_i64(&key, n[0]);
    lockstep_key_i64(&key, n[2]);
    const std::string text = std::to_string(n[1]);
    if (lockstep_insert(txn, bank.receipts, lockstep_key_slice(&key), lockstep_text(text.c_str()),
                        &error) != LOCKSTEP_OK)
        return pass(call, error);
    return deposit(bank, txn, call, n[0], n[1]);
}

int perform(void* self, lockstep_txn* txn, lockstep_call* call) {
    const Bank& bank = *static_cast<Bank*>(self);
    int64_t n[3] = {};
    if (call->request.size > sizeof n)
        return lockstep_call_refuse(call, LOCKSTEP_BAD_ARGUMENT, "too many numbers");
    std::memcpy(n, call->request.data, call->request.size);
    const std::string procedure = call->procedure;
    if (procedure == "native_take_part") return take_part(bank, txn, call, n);
    if (procedure == "native_deposit") return deposit(bank, txn, call, n[0], n[1]);
    if (procedure == "native_sleep") {
        lockstep_sleep_for(static_cast<uint64_t>(n[0]));
        return LOCKSTEP_OK;
    }
    lockstep_error error;
    lockstep_key key;
    lockstep_key_init(&key);
    lockstep_key_i64(&key, n[0]);
    int64_t balance = 0;
    if (balance_of(bank, txn, key, LOCKSTEP_ACCESS_READ, &balance, &error) != LOCKSTEP_OK)
        return pass(call, error);
    return reply(call, balance);
}

int make_tables(lockstep_txn* txn, void* arg) {
    auto* const bank = static_cast<Bank*>(arg);
    const int code =
        lockstep_open_or_create_index(txn, "accounts", nullptr, &bank->accounts, nullptr);
    if (code != LOCKSTEP_OK) return code;
    return lockstep_open_or_create_index(txn, "receipts", nullptr, &bank->receipts, nullptr);
}

int open(lockstep_store* store, const char* options, void** self, lockstep_error* error) {
    auto* const bank = new Bank{store, nullptr, nullptr, INT64_MAX};
    const std::string given = options;
    if (given.rfind("limit=", 0) == 0) bank->limit = std::atoll(options + 6);
    else if (!given.empty()) {
        error->code = LOCKSTEP_BAD_OPTION;
        std::strcpy(error->text, "the bank's option is limit=NUMBER");
        delete bank;
        return LOCKSTEP_BAD_OPTION;
    }
    const int code = lockstep_run(store, make_tables, bank, nullptr, error);
    if (code == LOCKSTEP_OK) *self = bank;
    else delete bank;
    return code;
}

void close(void* self) { delete static_cast<Bank*>(self); }

void run(void* self, lockstep_call* calls, size_t count) {
    lockstep_error error;
    if (lockstep_run_calls(static_cast<Bank*>(self)->store, calls, count, perform, self, nullptr,
                           &error) == LOCKSTEP_OK)
        return;
    for (size_t i = 0; i < count; ++i) pass(calls + i, error);
}

void step(void* self, lockstep_txn* txn, lockstep_call* call) { perform(self, txn, call); }

const char* const kNames[] = {"native_deposit", "native_take_part", "native_balance",
                              "native_sleep", nullptr};

}  // namespace

extern "C" const lockstep_procedures BANK_NAME = {
    BANK_VERSION, sizeof(lockstep_procedures), kNames, open, close, run, step};
