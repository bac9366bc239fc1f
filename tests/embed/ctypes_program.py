#!/usr/bin/env python3
"""ctypes_program.py - a store from Python, through the C functions of c_shim.h.

Usage: ctypes_program.py SHIM DIRECTORY. Python's callbacks need more stack than a user thread has,
so no Python code runs on one: a transaction is a list of operations.
"""

import ctypes
import sys
import threading

GET, INSERT, PUT, ERASE = range(4)


class Operation(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("key", ctypes.c_char_p),
        ("key_bytes", ctypes.c_size_t),
        ("value", ctypes.c_void_p),
        ("value_bytes", ctypes.c_size_t),
        ("found", ctypes.c_int),
    ]


EACH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_char),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_char),
    ctypes.c_size_t,
)


class LockstepError(Exception):
    pass


class Store:
    """A store as a Python object; each call that fails raises LockstepError."""

    def __init__(self, shim, path):
        self.c = ctypes.CDLL(shim)
        self.c.lockstep_open.restype = ctypes.c_void_p
        self.c.lockstep_error_text.restype = ctypes.c_char_p
        self.c.lockstep_free.argtypes = [ctypes.c_void_p]
        self.handle = self.c.lockstep_open(path.encode())
        self._check(0 if self.handle else 1)
        self.handle = ctypes.c_void_p(self.handle)

    def _check(self, status):
        if status != 0:
            raise LockstepError(self.c.lockstep_error_text().decode())

    def apply(self, *operations):
        """Runs (kind, key) and (kind, key, value) as one transaction. The values that the gets have
        found, and whether each erased key existed.
        """
        rows = (Operation * len(operations))()
        for row, (kind, key, *value) in zip(rows, operations):
            row.kind, row.key, row.key_bytes = kind, key, len(key)
            if value:
                row.value = ctypes.cast(ctypes.c_char_p(value[0]), ctypes.c_void_p)
                row.value_bytes = len(value[0])
        self._check(self.c.lockstep_apply(self.handle, rows, ctypes.c_size_t(len(rows))))
        results = []
        for row in rows:
            if row.kind == GET:
                results.append(ctypes.string_at(row.value, row.value_bytes) if row.found else None)
                self.c.lockstep_free(row.value)
            elif row.kind == ERASE:
                results.append(bool(row.found))
        return results

    def scan(self, low=b""):
        rows = []

        def each(_, key, key_bytes, value, value_bytes):
            rows.append((key[:key_bytes], value[:value_bytes]))
            return 1

        length = ctypes.c_size_t(len(low))
        self._check(self.c.lockstep_scan(self.handle, low, length, EACH(each), None))
        return rows

    def close(self):
        self._check(self.c.lockstep_close(self.handle))


def expect(holds, what):
    if not holds:
        sys.exit(f"wrong: {what}")


def expect_error(code, call):
    try:
        call()
    except LockstepError as error:
        expect(code in str(error), f"{error} instead of {code}")
        return
    sys.exit(f"wrong: no error {code}")


def main():
    shim, directory = sys.argv[1:]
    store = Store(shim, directory + "/python.db")
    keys = [b"key %04d" % n for n in range(1000)]
    for begin in range(0, 1000, 100):
        store.apply(*((INSERT, key, b"value of " + key) for key in keys[begin : begin + 100]))
    binary = bytes(range(256))
    store.apply((PUT, binary, binary))
    expect(store.apply((GET, binary), (GET, b"none")) == [binary, None], "get")
    expect(store.apply((ERASE, binary), (ERASE, b"none")) == [True, False], "erase")
    rows = [(key, b"value of " + key) for key in keys]
    expect(store.scan() == rows, "a scan of all records")
    expect(store.scan(keys[500]) == rows[500:], "a scan of a range")

    # All or nothing, and errors say what was wrong.
    failing = ((PUT, keys[0], b"lost"), (INSERT, keys[1], b""))
    expect_error("duplicate_key", lambda: store.apply(*failing))
    expect(store.apply((GET, keys[0])) == [b"value of " + keys[0]], "a failed transaction")
    expect_error("key_too_long", lambda: store.apply((PUT, b"k" * 2000, b"")))
    expect_error("store_locked", lambda: Store(shim, directory + "/python.db"))

    # Calls release Python's lock, so threads wait for the log together.
    def put(n):
        for i in range(20):
            store.apply((PUT, b"thread %d %d" % (n, i), b"x"))

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(len(store.scan(b"thread")) == 160, "the records of all threads")
    store.close()
    store = Store(shim, directory + "/python.db")
    expect(len(store.scan()) == 1160, "the records after a second open")
    store.close()
    print("1160 records from Python")


main()
