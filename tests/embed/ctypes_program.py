#!/usr/bin/env python3
"""ctypes_program.py - a store from Python through the C interface, <lockstep/lockstep.h>.

Usage: ctypes_program.py LIBRARY DIRECTORY. Python code needs more stack than a user thread has, so
it uses the session form: its own threads begin, use and commit transactions.
"""

import ctypes
import sys
import threading

OK, STORE_LOCKED, STORE_CLOSED, DUPLICATE_KEY, KEY_TOO_LONG = 0, 13, 12, 20, 22


class Error(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int),
        ("os", ctypes.c_int),
        ("numbers", ctypes.c_uint64 * 3),
        ("text", ctypes.c_char * 1000),
    ]


class Slice(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]

    def bytes(self):
        return ctypes.string_at(self.data, self.size) if self.size else b""


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def bytes(self):
        return ctypes.string_at(self.data, self.size)


class LockstepError(Exception):
    pass


class Library:
    """The shared library; a call that fails raises LockstepError with the error's text."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def __getattr__(self, name):
        function = getattr(self.library, "lockstep_" + name)

        def call(*arguments):
            error = Error()
            if function(*arguments, ctypes.byref(error)) != OK:
                raise LockstepError(error.text.decode())

        return call


def slice_of(text):
    return Slice(text, len(text))


class Store:
    def __init__(self, library, path):
        self.c, self.handle, self.index = library, ctypes.c_void_p(), ctypes.c_void_p()
        self.c.open(path.encode(), None, ctypes.byref(self.handle))
        with Transaction(self) as txn:
            self.c.open_or_create_index(txn.handle, b"table", None, ctypes.byref(self.index))

    def close(self):
        self.c.close(self.handle)


class Transaction:
    """Commits at the end of the block, or rolls back after an exception."""

    def __init__(self, store):
        self.store, self.c, self.handle = store, store.c, ctypes.c_void_p()

    def __enter__(self):
        self.c.begin(self.store.handle, None, ctypes.byref(self.handle))
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.c.commit(self.handle, None)
        else:
            self.c.abort(self.handle)

    def put(self, key, value):
        self.c.put(self.handle, self.store.index, slice_of(key), slice_of(value))

    def insert(self, key, value):
        self.c.insert(self.handle, self.store.index, slice_of(key), slice_of(value))

    def erase(self, key):
        found = ctypes.c_bool()
        self.c.erase(self.handle, self.store.index, slice_of(key), ctypes.byref(found))
        return found.value

    def get(self, key):
        room, size, found = ctypes.create_string_buffer(4096), ctypes.c_size_t(), ctypes.c_bool()
        size_of_room = ctypes.c_size_t(len(room))
        self.c.get(
            self.handle,
            self.store.index,
            slice_of(key),
            0,
            room,
            size_of_room,
            ctypes.byref(size),
            ctypes.byref(found),
        )
        return room.raw[: size.value] if found.value else None

    def scan(self, low=b""):
        cursor, key, value, found = ctypes.c_void_p(), View(), View(), ctypes.c_bool()
        ends = slice_of(low), Slice(None, 0)
        self.c.scan(self.handle, self.store.index, *ends, 0, ctypes.byref(cursor))
        seen = [ctypes.byref(key), ctypes.byref(value), None, ctypes.byref(found)]
        while True:
            self.c.cursor_next(cursor, *seen)
            if not found.value:
                break
            yield key.bytes(), value.bytes()
        self.c.cursor_close(cursor)


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
    library, directory = Library(sys.argv[1]), sys.argv[2]
    store = Store(library, directory + "/python.db")
    keys = [b"key %04d" % n for n in range(1000)]
    with Transaction(store) as txn:
        for key in keys:
            txn.insert(key, b"value of " + key)
    binary = bytes(range(256))
    with Transaction(store) as txn:
        txn.put(binary, binary)
        expect(txn.get(binary) == binary and txn.get(b"none") is None, "get")
        expect(txn.erase(binary) and not txn.erase(b"none"), "erase")
    rows = [(key, b"value of " + key) for key in keys]
    with Transaction(store) as txn:
        expect(list(txn.scan()) == rows, "a scan of all records")
        expect(list(txn.scan(keys[500])) == rows[500:], "a scan of a range")

    # All or nothing, and errors say what was wrong.
    def failing():
        with Transaction(store) as txn:
            txn.put(keys[0], b"lost")
            txn.insert(keys[1], b"")

    def too_long():
        with Transaction(store) as txn:
            txn.put(b"k" * 2000, b"")

    expect_error("duplicate_key", failing)
    with Transaction(store) as txn:
        expect(txn.get(keys[0]) == b"value of " + keys[0], "a failed transaction")
    expect_error("key_too_long", too_long)
    expect_error("store_locked", lambda: Store(library, directory + "/python.db"))

    # Calls release Python's lock, so threads wait for the log together.
    def put(n):
        for i in range(20):
            with Transaction(store) as txn:
                txn.put(b"thread %d %d" % (n, i), b"x")

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Transaction(store) as txn:
        expect(len(list(txn.scan(b"thread"))) == 160, "records of all threads")
    store.close()
    expect_error("store_closed", store.close)
    print("a store from Python: sound")


if __name__ == "__main__":
    main()
