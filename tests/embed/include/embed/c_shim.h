/* c_shim.h - Lockstep's stores for C and every language that calls C: the pattern of a binding.
 *
 * Strings are bytes with a length. Each function returns 0, or the number of an ErrorCode; the text
 * of the calling thread's last error is lockstep_error_text(). No C++ type and no exception passes
 * through this interface, and no callback runs on a user thread. */
#ifndef LOCKSTEP_C_SHIM_H
#define LOCKSTEP_C_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lockstep_store lockstep_store;

enum lockstep_kind { LOCKSTEP_GET, LOCKSTEP_INSERT, LOCKSTEP_PUT, LOCKSTEP_ERASE };

/* One operation of a transaction. get sets `value` to memory that lockstep_free() takes back. */
typedef struct lockstep_operation {
    enum lockstep_kind kind;
    const char* key;
    size_t key_bytes;
    char* value;
    size_t value_bytes;
    int found; /* get, erase: whether the key existed */
} lockstep_operation;

/* Opens the store in a directory, and its one table. Blocks. NULL: an error. */
lockstep_store* lockstep_open(const char* path);
/* Closes it and releases the handle, also after an error. Blocks. */
int lockstep_close(lockstep_store* store);
/* Runs the operations as one transaction: all or none. Blocks the calling kernel thread. Safe from
 * any number of threads. */
int lockstep_apply(lockstep_store* store, lockstep_operation* operations, size_t count);
/* Calls `each` for the records from `low` on, on the calling thread, until it returns 0. */
int lockstep_scan(lockstep_store* store, const char* low, size_t low_bytes,
                  int (*each)(void* context, const char* key, size_t key_bytes, const char* value,
                              size_t value_bytes),
                  void* context);
/* The text of the last error of the calling thread; valid until its next call. */
const char* lockstep_error_text(void);
void lockstep_free(char* value);

#ifdef __cplusplus
}
#endif
#endif
