/* c_program.c - a program that keeps accounts in a store through <lockstep/lockstep.h>: callbacks,
 * sessions of several threads, batches, cursors. C11, and C++17. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { kAccounts = 10, kThreads = 4, kTransfers = 50, kStart = 1000 };

static lockstep_store* store;
static lockstep_index* accounts;
static lockstep_error error;

static void expect(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "wrong: %s: %s\n", what, error.text);
    exit(1);
}

static lockstep_slice account(char* text, size_t room, int number) {
    snprintf(text, room, "account %02d", number);
    return lockstep_text(text);
}

/* Opens the accounts: the callback form, as a transaction on a user thread. */
static int make_accounts(lockstep_txn* txn, void* arg) {
    char key[32];
    int i, code;
    const int64_t start = *(const int*)arg;
    code = lockstep_open_or_create_index(txn, "accounts", NULL, &accounts, &error);
    for (i = 0; code == LOCKSTEP_OK && i < kAccounts; ++i)
        code = lockstep_insert(txn, accounts, account(key, sizeof key, i),
                               lockstep_bytes(&start, sizeof start), &error);
    return code;
}

/* Moves one unit between two accounts in the session form, on any thread. */
static int transfer(int from, int to) {
    lockstep_txn* txn = NULL;
    lockstep_error why;
    char keys[2][32];
    int64_t balance[2];
    bool found;
    int i, code = lockstep_begin(store, NULL, &txn, &why);
    for (i = 0; code == LOCKSTEP_OK && i < 2; ++i)
        code =
            lockstep_get(txn, accounts, account(keys[i], sizeof keys[i], i ? to : from),
                         LOCKSTEP_ACCESS_WRITE, &balance[i], sizeof balance[i], NULL, &found, &why);
    for (i = 0; code == LOCKSTEP_OK && i < 2; ++i) {
        balance[i] += i ? 1 : -1;
        code = lockstep_put(txn, accounts, lockstep_text(keys[i]),
                            lockstep_bytes(&balance[i], sizeof balance[i]), &why);
    }
    if (code == LOCKSTEP_OK) return lockstep_commit(txn, NULL, &why);
    if (txn != NULL) lockstep_abort(txn, NULL);
    return code;
}

static void* transfers(void* number) {
    const int n = *(const int*)number;
    int i, code;
    for (i = 0; i < kTransfers;) {
        code = transfer((n + i) % kAccounts, (n + i + 1 + i % 9) % kAccounts);
        if (code == LOCKSTEP_OK) ++i;
        else expect(code == LOCKSTEP_DEADLOCK, lockstep_strerror(code));
    }
    return NULL;
}

/* The sum of all balances by a cursor that copies many records at once. */
static int64_t sum_of_balances(void) {
    lockstep_txn* txn;
    lockstep_cursor* cursor;
    lockstep_record rows[4];
    char memory[4 * 32];
    size_t count, i;
    int64_t sum = 0, balance;
    const lockstep_slice all = {NULL, 0};
    expect(lockstep_begin(store, NULL, &txn, &error) == LOCKSTEP_OK, "begin");
    expect(lockstep_scan(txn, accounts, all, all, LOCKSTEP_ACCESS_READ, &cursor, &error) == 0,
           "scan");
    do {
        expect(lockstep_cursor_read(cursor, true, rows, 4, memory, sizeof memory, &count, NULL,
                                    &error) == LOCKSTEP_OK,
               "read");
        for (i = 0; i < count; ++i) {
            memcpy(&balance, rows[i].value.data, sizeof balance);
            sum += balance;
        }
    } while (count == 4);
    expect(lockstep_commit(txn, NULL, &error) == LOCKSTEP_OK, "commit");
    return sum;
}

/* A whole transaction in one hand-over. */
static int64_t balance_of(int number) {
    lockstep_operation get;
    lockstep_request request;
    int64_t balance = 0;
    char key[32];
    memset(&get, 0, sizeof get);
    get.kind = LOCKSTEP_OP_GET;
    get.index = accounts;
    get.key = account(key, sizeof key, number);
    get.buffer = &balance;
    get.room = sizeof balance;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = &get;
    request.count = 1;
    request.end = LOCKSTEP_END_COMMIT;
    request.error = &error;
    expect(lockstep_batch(&request) == LOCKSTEP_OK && get.found, "batch");
    return balance;
}

int main(int argc, char** argv) {
    pthread_t threads[kThreads];
    int numbers[kThreads], i;
    const int start = kStart, again = 1;
    char path[4096];
    lockstep_store* other = NULL;
    if (argc != 2) return fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]), 1;
    snprintf(path, sizeof path, "%s/c.db", argv[1]);
    expect(lockstep_open(path, NULL, &store, &error) == LOCKSTEP_OK, "open");
    expect(lockstep_open(path, NULL, &other, &error) == LOCKSTEP_STORE_LOCKED &&
               strstr(error.text, "store_locked") != NULL,
           "a second open of the same store");
    expect(lockstep_run(store, make_accounts, (void*)&start, NULL, &error) == 0, "accounts");
    /* The first record exists already, so nothing of it stays. */
    expect(
        lockstep_run(store, make_accounts, (void*)&again, NULL, &error) == LOCKSTEP_DUPLICATE_KEY,
        "an insert of a key that exists");
    expect(balance_of(0) == kStart, "a transaction that failed was undone");

    for (i = 0; i < kThreads; ++i) {
        numbers[i] = i;
        expect(pthread_create(&threads[i], NULL, transfers, &numbers[i]) == 0, "thread");
    }
    for (i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
    expect(sum_of_balances() == (int64_t)kAccounts * kStart, "the sum of all balances");
    other = store;
    expect(lockstep_close(store, &error) == LOCKSTEP_OK, "close");
    expect(lockstep_close(other, &error) == LOCKSTEP_STORE_CLOSED, "a second close");
    printf("%d transfers from C, sum %d\n", kThreads * kTransfers, kAccounts * kStart);
    return 0;
}
