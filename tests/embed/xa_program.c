/* xa_program.c - a small transaction manager that moves money between two stores through the XA
 * switch. The first one dies between the two phases; its successor finds out and finishes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/c/xa.h>

enum { kStores = 2, kStart = 100, kAmount = 30 };

static char directories[kStores][MAXINFOSIZE];
static const struct xa_switch_t* const rm = &lockstep_xa_switch;

static void expect(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

/* One branch of a global transaction for each store. */
static XID branch_of(const char* global, int number) {
    XID xid;
    memset(&xid, 0, sizeof xid);
    xid.formatID = 1;
    xid.gtrid_length = (long)strlen(global);
    xid.bqual_length = 1;
    memcpy(xid.data, global, strlen(global));
    xid.data[xid.gtrid_length] = (char)('0' + number);
    return xid;
}

static void open_all(void) {
    int i;
    for (i = 0; i < kStores; ++i)
        expect(rm->xa_open_entry(directories[i], i, TMNOFLAGS) == XA_OK, "xa_open");
}

static void close_all(void) {
    int i;
    char none[1] = "";
    for (i = 0; i < kStores; ++i)
        expect(rm->xa_close_entry(none, i, TMNOFLAGS) == XA_OK, "xa_close");
}

/* The part of the application: what it does in the branch of this thread. */
static int64_t change_balance(int number, int64_t by) {
    lockstep_txn* txn;
    lockstep_index* accounts;
    int64_t balance = 0;
    bool found;
    expect(lockstep_xa_transaction(number, &txn) == XA_OK, "in a branch");
    expect(lockstep_find_index_in(txn, "accounts", &accounts, NULL) == LOCKSTEP_OK, "index");
    expect(lockstep_get(txn, accounts, lockstep_text("a"), LOCKSTEP_ACCESS_WRITE, &balance,
                        sizeof balance, NULL, &found, NULL) == LOCKSTEP_OK,
           "get");
    balance += by;
    expect(by == 0 || lockstep_put(txn, accounts, lockstep_text("a"),
                                   lockstep_bytes(&balance, sizeof balance), NULL) == LOCKSTEP_OK,
           "put");
    return balance;
}

/* The first phase in all stores; 1: all have voted. */
static int prepare_transfer(const char* global) {
    int i, prepared = 0;
    for (i = 0; i < kStores; ++i) {
        XID xid = branch_of(global, i);
        expect(rm->xa_start_entry(&xid, i, TMNOFLAGS) == XA_OK, "xa_start");
        change_balance(i, i == 0 ? -kAmount : kAmount);
        expect(rm->xa_end_entry(&xid, i, TMSUCCESS) == XA_OK, "xa_end");
    }
    for (i = 0; i < kStores; ++i) {
        XID xid = branch_of(global, i);
        prepared += rm->xa_prepare_entry(&xid, i, TMNOFLAGS) == XA_OK;
    }
    return prepared == kStores;
}

/* What a new transaction manager does first: its log says which global transactions commit. */
static int finish_all(int commits) {
    XID found[4];
    int i, n, finished = 0;
    for (i = 0; i < kStores; ++i) {
        n = rm->xa_recover_entry(found, 4, i, TMSTARTRSCAN | TMENDRSCAN);
        expect(n >= 0 && n < 4, "xa_recover");
        for (; n > 0; --n, ++finished)
            expect((commits ? rm->xa_commit_entry(&found[n - 1], i, TMNOFLAGS)
                            : rm->xa_rollback_entry(&found[n - 1], i, TMNOFLAGS)) == XA_OK,
                   "the second phase");
    }
    return finished;
}

static int64_t balance_of(int number) {
    XID xid = branch_of("read", number);
    int64_t balance;
    expect(rm->xa_start_entry(&xid, number, TMNOFLAGS) == XA_OK, "xa_start");
    balance = change_balance(number, 0);
    expect(rm->xa_end_entry(&xid, number, TMSUCCESS) == XA_OK, "xa_end");
    expect(rm->xa_prepare_entry(&xid, number, TMNOFLAGS) == XA_RDONLY, "nothing to decide");
    return balance;
}

/* Work outside of any branch: changes of the schema, which cannot be prepared. */
static void make_account(int number) {
    const int64_t start = kStart;
    lockstep_txn* txn;
    lockstep_index* accounts;
    expect(lockstep_xa_begin_outside(number, NULL, &txn, NULL) == XA_OK, "begin");
    expect(lockstep_create_index(txn, "accounts", NULL, &accounts, NULL) == LOCKSTEP_OK, "create");
    expect(lockstep_put(txn, accounts, lockstep_text("a"), lockstep_bytes(&start, sizeof start),
                        NULL) == LOCKSTEP_OK &&
               lockstep_commit(txn, NULL, NULL) == LOCKSTEP_OK,
           "account");
}

int main(int argc, char** argv) {
    int i, status, commits;
    if (argc != 2) return fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]), 1;
    for (i = 0; i < kStores; ++i)
        snprintf(directories[i], sizeof directories[i], "%.200s/store%d", argv[1], i);
    open_all();
    for (i = 0; i < kStores; ++i) make_account(i);
    close_all();
    for (commits = 0; commits < 2; ++commits) {
        const pid_t first = fork();
        expect(first >= 0, "fork");
        if (first == 0) {
            open_all();
            _exit(prepare_transfer("transfer") ? 0 : 1); /* dies before the second phase */
        }
        expect(waitpid(first, &status, 0) == first && status == 0, "the first one has prepared");
        open_all();
        expect(finish_all(commits) == kStores, "both branches were in doubt");
        expect(balance_of(0) == kStart - commits * kAmount, "the balance that gives");
        expect(balance_of(1) == kStart + commits * kAmount, "the balance that takes");
        close_all();
    }
    printf("1 transfer committed, 1 rolled back, in %d stores\n", kStores);
    return 0;
}
