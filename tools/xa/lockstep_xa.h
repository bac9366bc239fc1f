// lockstep_xa.h - a store as a resource manager of X/Open XA: the switch that a transaction manager
// calls, and the calls by which an application gets at its data.
//
// Concepts   A *transaction manager* opens the store with the directory as the open string, starts
//            and ends a *branch* on each thread of the application, and commits it with two phases
//            or one. The application asks lockstep_xa_transaction() for the transaction of its
//            thread's branch, and uses it with the calls of <lockstep/lockstep.h>. It never commits
//            or rolls back that transaction itself.
//            A thread of control is a kernel thread, and no user thread of a store. Each thread
//            opens the resource manager for itself; threads of one process share the open store.
// States     Of a branch: S0 unknown, S1 active, S2 idle, S3 prepared, S4 rollback only,
//            S5 completed heuristically. Of a thread and a branch: T0 not associated, T1
//            associated, T2 suspended.
// Source     X/Open CAE Specification, "Distributed Transaction Processing: The XA Specification",
//            December 1991: types, flags and codes of section 4, state tables of section 6.
#ifndef LOCKSTEP_XA_H
#define LOCKSTEP_XA_H

#include <lockstep/lockstep.h>  // keep: what an application uses in a branch

// NOLINTBEGIN
// What the standard calls <xa.h>. That of a transaction manager may come before this header.
#ifndef XA_H
#define XA_H
#ifdef __cplusplus
extern "C" {
#endif
// Sizes of a branch's name.
#define XIDDATASIZE 128
#define MAXGTRIDSIZE 64
#define MAXBQUALSIZE 64
// A branch's name: format, global part and branch qualifier. formatID -1: none.
struct xid_t {
    long formatID;
    long gtrid_length;       // 1 to 64
    long bqual_length;       // 1 to 64
    char data[XIDDATASIZE];  // the two parts, one behind the other
};
// As transaction managers spell it.
typedef struct xid_t XID;
// Sizes of the name of a resource manager, and of its open and close strings, with the NUL.
#define RMNAMESZ 32
#define MAXINFOSIZE 256
// The entries of a resource manager.
struct xa_switch_t {
    char name[RMNAMESZ];
    long flags;
    long version;  // 0
    int (*xa_open_entry)(char*, int, long);
    int (*xa_close_entry)(char*, int, long);
    int (*xa_start_entry)(XID*, int, long);
    int (*xa_end_entry)(XID*, int, long);
    int (*xa_rollback_entry)(XID*, int, long);
    int (*xa_prepare_entry)(XID*, int, long);
    int (*xa_commit_entry)(XID*, int, long);
    int (*xa_recover_entry)(XID*, long, int, long);
    int (*xa_forget_entry)(XID*, int, long);
    int (*xa_complete_entry)(int*, int*, int, long);
};
// Flags of a switch.
#define TMNOFLAGS 0x00000000L
#define TMREGISTER 0x00000001L
#define TMNOMIGRATE 0x00000002L
#define TMUSEASYNC 0x00000004L
// Flags of calls.
#define TMASYNC 0x80000000L
#define TMONEPHASE 0x40000000L
#define TMFAIL 0x20000000L
#define TMNOWAIT 0x10000000L
#define TMRESUME 0x08000000L
#define TMSUCCESS 0x04000000L
#define TMSUSPEND 0x02000000L
#define TMSTARTRSCAN 0x01000000L
#define TMENDRSCAN 0x00800000L
#define TMMULTIPLE 0x00400000L
#define TMJOIN 0x00200000L
#define TMMIGRATE 0x00100000L
// Results: the branch was rolled back, or can only be rolled back.
#define XA_RBBASE 100
#define XA_RBROLLBACK XA_RBBASE
#define XA_RBCOMMFAIL (XA_RBBASE + 1)
#define XA_RBDEADLOCK (XA_RBBASE + 2)
#define XA_RBINTEGRITY (XA_RBBASE + 3)
#define XA_RBOTHER (XA_RBBASE + 4)
#define XA_RBPROTO (XA_RBBASE + 5)
#define XA_RBTIMEOUT (XA_RBBASE + 6)
#define XA_RBTRANSIENT (XA_RBBASE + 7)
#define XA_RBEND XA_RBTRANSIENT
// Results: other outcomes.
#define XA_NOMIGRATE 9
#define XA_HEURHAZ 8
#define XA_HEURCOM 7
#define XA_HEURRB 6
#define XA_HEURMIX 5
#define XA_RETRY 4
#define XA_RDONLY 3
#define XA_OK 0
// Results: errors.
#define XAER_ASYNC (-2)
#define XAER_RMERR (-3)
#define XAER_NOTA (-4)
#define XAER_INVAL (-5)
#define XAER_PROTO (-6)
#define XAER_RMFAIL (-7)
#define XAER_DUPID (-8)
#define XAER_OUTSIDE (-9)
#ifdef __cplusplus
}
#endif
#endif  // XA_H

#ifdef __cplusplus
extern "C" {
#endif
// The switch. Its open string is the store's directory, which is made if it does not exist; the
// close string is ignored. Calls are synchronous (TMASYNC: XAER_ASYNC). Branches may migrate.
extern struct xa_switch_t lockstep_xa_switch;

// The open store, to find and make indexes and heaps. It belongs to the switch: do not close it.
// XAER_PROTO: this thread has not opened `rmid`. XAER_INVAL: `store` is NULL. Never waits.
int lockstep_xa_store(int rmid, lockstep_store** store);
// The transaction of the branch with which this thread is associated. It is valid until xa_end().
// Do not commit, roll back or prepare it: then xa_end() returns XA_RBPROTO. XAER_PROTO: this thread
// has not opened `rmid`, or is not in a branch. XAER_INVAL: `txn` is NULL. Never waits.
int lockstep_xa_transaction(int rmid, lockstep_txn** txn);
// Begins a transaction outside of any branch, which the application commits or rolls back. Until
// then xa_start() on this thread returns XAER_OUTSIDE. `options` and `error` may be NULL.
// XAER_PROTO: not opened, in a branch, or the last such transaction is still open. XAER_RMERR: see
// *error.
int lockstep_xa_begin_outside(int rmid, const lockstep_txn_options* options, lockstep_txn** txn,
                              lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
