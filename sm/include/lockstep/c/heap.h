// heap.h - of the C interface: records of heaps. Errors: those of <lockstep/heap.h>.
#ifndef LOCKSTEP_C_HEAP_H
#define LOCKSTEP_C_HEAP_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// Stores a copy of `record`; *id names it until it is erased.
int lockstep_heap_insert(lockstep_txn* txn, lockstep_heap* heap, lockstep_slice record,
                         lockstep_record_id* id, lockstep_error* error);
// Reads a record, as lockstep_get() reads a value.
int lockstep_heap_get(lockstep_txn* txn, lockstep_heap* heap, lockstep_record_id id, int access,
                      void* buffer, size_t room, size_t* bytes, bool* found, lockstep_error* error);
// Replaces the whole record. *found, if not NULL, is false if there is no such record.
int lockstep_heap_update(lockstep_txn* txn, lockstep_heap* heap, lockstep_record_id id,
                         lockstep_slice record, bool* found, lockstep_error* error);
// Erases the record. *found as above.
int lockstep_heap_erase(lockstep_txn* txn, lockstep_heap* heap, lockstep_record_id id, bool* found,
                        lockstep_error* error);
// Calls each(arg, id, record) for all records in no particular order, until it returns false. It
// must not change this heap. In the session form it must not use this transaction.
int lockstep_heap_scan(lockstep_txn* txn, lockstep_heap* heap,
                       bool (*each)(void* arg, lockstep_record_id id, lockstep_slice record),
                       void* arg, lockstep_error* error);
// Number of a heap in the catalog; 0 for what is no heap. Never waits.
uint32_t lockstep_heap_id(lockstep_heap* heap);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
