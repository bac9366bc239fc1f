/* c_program.c - a C program that keeps accounts in a store, through c_shim.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <embed/c_shim.h>

enum { kAccounts = 10, kThreads = 4, kTransfers = 50, kStart = 1000 };

static lockstep_store* store;

static void expect(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "wrong: %s: %s\n", what, lockstep_error_text());
    exit(1);
}

static lockstep_operation operation(enum lockstep_kind kind, const char* key, char* value) {
    lockstep_operation o = {kind, key, strlen(key), value, value ? strlen(value) : 0, 0};
    return o;
}

static int balance_of(const char* key) {
    lockstep_operation get = operation(LOCKSTEP_GET, key, NULL);
    int balance;
    expect(lockstep_apply(store, &get, 1) == 0 && get.found, "get");
    balance = atoi(get.value);
    lockstep_free(get.value);
    return balance;
}

/* Each thread moves money between two accounts of its own. */
static void* transfers(void* number) {
    const int n = *(const int*)number;
    char from[32], to[32], less[16], more[16];
    int i;
    snprintf(from, sizeof from, "account %d", 2 * n);
    snprintf(to, sizeof to, "account %d", 2 * n + 1);
    for (i = 0; i < kTransfers; ++i) {
        lockstep_operation both[2];
        snprintf(less, sizeof less, "%d", balance_of(from) - 1);
        snprintf(more, sizeof more, "%d", balance_of(to) + 1);
        both[0] = operation(LOCKSTEP_PUT, from, less);
        both[1] = operation(LOCKSTEP_PUT, to, more);
        expect(lockstep_apply(store, both, 2) == 0, "transfer");
    }
    return NULL;
}

static int add(void* sum, const char* key, size_t key_bytes, const char* value,
               size_t value_bytes) {
    char text[16] = "";
    (void)key, (void)key_bytes;
    memcpy(text, value, value_bytes < sizeof text ? value_bytes : sizeof text - 1);
    *(int*)sum += atoi(text);
    return 1;
}

int main(int argc, char** argv) {
    pthread_t threads[kThreads];
    int numbers[kThreads], i, sum = 0;
    char key[32], start[16], path[4096];
    lockstep_operation two[2];
    if (argc != 2) return fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]), 1;
    snprintf(path, sizeof path, "%s/c.db", argv[1]);
    store = lockstep_open(path);
    expect(store != NULL, "open");
    expect(lockstep_open(path) == NULL && strstr(lockstep_error_text(), "store_locked") != NULL,
           "a second open of the same store");
    snprintf(start, sizeof start, "%d", kStart);
    for (i = 0; i < kAccounts; ++i) {
        snprintf(key, sizeof key, "account %d", i);
        two[0] = operation(LOCKSTEP_INSERT, key, start);
        expect(lockstep_apply(store, two, 1) == 0, "insert");
    }
    /* The second operation fails, so the first one is undone. */
    two[0] = operation(LOCKSTEP_PUT, "account 0", "0");
    two[1] = operation(LOCKSTEP_INSERT, "account 1", start);
    expect(lockstep_apply(store, two, 2) != 0, "an insert of a key that exists");
    expect(strstr(lockstep_error_text(), "duplicate_key") != NULL, "its error");
    expect(balance_of("account 0") == kStart, "a transaction that failed was undone");

    for (i = 0; i < kThreads; ++i) {
        numbers[i] = i;
        expect(pthread_create(&threads[i], NULL, transfers, &numbers[i]) == 0, "thread");
    }
    for (i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
    expect(lockstep_scan(store, "account", 7, add, &sum) == 0, "scan");
    expect(sum == kAccounts * kStart, "the sum of all balances");
    expect(balance_of("account 0") == kStart - kTransfers, "a balance");
    expect(lockstep_close(store) == 0, "close");
    printf("%d transfers from C, sum %d\n", kThreads * kTransfers, sum);
    return 0;
}
