"""model_child - a process that uses the package as the model test says, and that may be killed.

The test and the process talk over a socket: the name of a method of Session and its arguments go
there, a result or the name of an exception comes back. The process is a fork of the test, which
itself never opens a store.
"""

import asyncio
import contextlib
import os
import pathlib
import pickle
import signal
import socket
import struct
import traceback

import lockstep
from lockstep import Batch

OPTIONS: lockstep.Options = {
    "workers": 1,
    "pool_bytes": 4 << 20,
    "log_bytes": 16 << 20,
    "log_segment_bytes": 4 << 20,
    "log_ring_bytes": 4 << 20,
    "lazy_flush_interval": 0.002,
    "sync": False,  # a kill of the process loses nothing that was written
}


SECONDS = 60  # for a call


def secondary_key(_key, value):
    """The first two bytes; a value without has no entry."""
    return value[:2] or None


class Session:
    """What the child does. Each method is one step of the model."""

    def __init__(self, directory):
        self.directory = directory
        self.store = lockstep.open(directory, **OPTIONS)
        self.txn = None
        self.reader = None
        self.savepoint = None

    def use(self, name):
        """The index, its secondary index and the heap of an example."""
        self.index = self.store.index(f"{name}.index", create=True)
        self.by = self.store.secondary_index(f"{name}.by", self.index, secondary_key)
        self.heap = self.store.heap(f"{name}.heap", create=True)

    def forget(self, name):
        for txn in (self.txn, self.reader):
            if txn is not None:
                txn.abort()
        self.txn = self.reader = None
        with self.store.transaction() as txn:
            for part in ("by", "index", "heap"):
                txn.drop(f"{name}.{part}")

    def begin(self, options):
        self.txn = self.store.begin(**options)

    def commit(self, wait):
        lsn = self.txn.commit()
        self.txn = None
        if wait:
            self.store.wait_durable(lsn)

    def abort(self):
        self.txn.abort()
        self.txn = None

    def set_savepoint(self):
        self.savepoint = self.txn.savepoint()

    def rollback_to(self):
        self.txn.rollback_to(self.savepoint)

    def operation(self, name, where, arguments, durability):
        """One operation: in the open transaction, or in one of its own, in each of the forms."""
        target = self.heap if name.startswith("heap_") else self.index
        if self.txn is not None:
            return getattr(self.txn, name)(target, *arguments)
        if where == "run":
            return self.store.run(
                lambda txn: getattr(txn, name)(target, *arguments), durability=durability
            )
        if where == "batch":
            batch = getattr(Batch(room=8), name)(target, *arguments)
            return self.store.execute(batch, durability=durability)[0]
        return asyncio.run(self.asynchronous(name, target, arguments, durability))

    async def asynchronous(self, name, target, arguments, durability):
        async with self.store.transaction(durability=durability) as txn:
            return await getattr(txn, name)(target, *arguments)

    def batch(self, operations, durability):
        batch = Batch(room=16)
        for name, *arguments in operations:
            getattr(batch, name)(self.index, *arguments)
        if self.txn is not None:
            return self.txn.execute(batch)
        return self.store.execute(batch, durability=durability)

    @contextlib.contextmanager
    def reading(self):
        if self.txn is not None:
            yield self.txn
        else:
            with self.store.snapshot() as txn:
                yield txn

    def get_into(self, key, room):
        buffer = bytearray(room)
        with self.reading() as txn:
            return txn.get_into(self.index, key, buffer), bytes(buffer)

    def scan(self, low, high, reverse, form):
        with self.reading() as txn:
            if form == "cursor":
                cursor = txn.cursor(self.index, low, high)
                return list(iter(cursor.prev if reverse else cursor.next, None))
            scan = txn.scan_views if form == "views" else txn.scan
            rows = scan(self.index, low, high, reverse=reverse)
            return [(bytes(key), bytes(value)) for key, value in rows]

    def scan_by(self, key):
        with self.reading() as txn:
            return list(txn.scan_by(self.by, only=key))

    def everything(self):
        with self.reading() as txn:
            return dict(txn.scan(self.index)), dict(txn.heap_scan(self.heap))

    def open_reader(self):
        self.reader = self.store.begin(isolation="snapshot", read_only=True)

    def read(self):
        return dict(self.reader.scan(self.index)), dict(self.reader.heap_scan(self.heap))

    def close_reader(self):
        self.reader.commit()
        self.reader = None

    def checkpoint(self):
        self.store.checkpoint()

    def verify(self):
        return self.store.verify()

    def reopen(self):
        self.store.close()
        self.__init__(self.directory)

    def backup(self, name, copies):
        """A backup, restored: what the copy has."""
        backup = pathlib.Path(copies) / "backup"
        restored = pathlib.Path(copies) / "restored"
        self.store.backup(backup)
        assert lockstep.verify_backup(backup) == []
        lockstep.restore_backup([backup], restored)
        with lockstep.open(restored, **OPTIONS) as store, store.snapshot() as txn:
            return (
                dict(txn.scan(store.index(f"{name}.index"))),
                dict(txn.heap_scan(store.heap(f"{name}.heap"))),
            )


class Child:
    """The process, made again when it is killed."""

    def __init__(self, directory):
        self.directory = directory
        self.pid = 0

    def __getattr__(self, method):
        if not hasattr(Session, method):
            raise AttributeError(method)
        return lambda *arguments: self.call(method, *arguments)

    def call(self, method, *arguments):
        if self.pid == 0:
            self.start()
        send(self.socket, (method, arguments))
        try:
            kind, value = receive(self.socket)
        except TimeoutError:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler shows where it stands
            raise AssertionError(f"{method}{arguments} has not returned in {SECONDS} s") from None
        if kind == "result":
            return value
        if kind == "failed":
            raise AssertionError(f"the child failed:\n{value}")
        raise getattr(lockstep, kind)(value)

    def start(self):
        self.socket, other = socket.socketpair()
        self.socket.settimeout(SECONDS)
        self.pid = os.fork()
        if self.pid == 0:
            self.socket.close()
            serve(other, self.directory)
        other.close()

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.socket.close()
        self.pid = 0


def send(to, what):
    data = pickle.dumps(what)
    to.sendall(struct.pack("I", len(data)) + data)


def receive(source):
    def exactly(size):
        data = b""
        while len(data) < size:
            part = source.recv(size - len(data))
            if not part:
                raise EOFError("the child has ended")
            data += part
        return data

    return pickle.loads(exactly(struct.unpack("I", exactly(4))[0]))


def serve(connection, directory):
    """The child: carries out what comes, and never returns."""
    try:
        session = Session(directory)
        while True:
            method, arguments = receive(connection)
            try:
                answer = ("result", getattr(session, method)(*arguments))
            except lockstep.Error as error:
                answer = (type(error).__name__, str(error))
            except BaseException:
                answer = ("failed", traceback.format_exc())
            send(connection, answer)
    except EOFError:
        os._exit(0)
    except BaseException:
        send(connection, ("failed", traceback.format_exc()))
        os._exit(1)
