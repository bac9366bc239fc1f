"""test_model - the whole package against dictionaries, with kill -9 of the process that uses it.

Hypothesis chooses the steps. LOCKSTEP_MODEL_EXAMPLES is the number of examples, 150 by default.
What a transaction has committed durably survives a kill. Of lazy commits behind the last durable
one the latest may be lost, and never one from the middle.
"""

import os
import shutil
import tempfile

import lockstep
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lockstep import I32, U8, pack_key
from model_child import Child, secondary_key

EXAMPLES = int(os.environ.get("LOCKSTEP_MODEL_EXAMPLES", "150"))
KEYS = st.sampled_from(
    [b"a", b"ab", b"b\0", b"\xff" * 3, "text", (1,), (1, "a"), (2, b"\0"), (I32(-1), U8(3)), (-9,)]
)
VALUES = st.binary(max_size=40) | st.integers(0, 9000).map(lambda size: b"x" * size)
RECORDS = VALUES.filter(lambda value: len(value) <= 4000)
DURABILITY = st.sampled_from(["durable", "lazy"])
ISOLATION = st.sampled_from(["serializable", "repeatable_read", "read_committed"])
WHERE = st.sampled_from(["run", "batch", "async"])


def packed(key):
    if isinstance(key, tuple):
        return pack_key(*key)
    return key.encode() if isinstance(key, str) else key


class State:
    """What the example's index and heap contain."""

    def __init__(self, records=(), rows=()):
        self.records = dict(records)
        self.rows = dict(rows)

    def copy(self):
        return State(self.records, self.rows)

    def apply(self, name, arguments):
        """What an operation on the index returns; it changes the state. DuplicateKey as there."""
        key, *rest = arguments
        key = packed(key)
        known = key in self.records
        if name == "get":
            return self.records.get(key)
        if name == "insert" and known:
            raise lockstep.DuplicateKey("model")
        if name in ("insert", "put"):
            self.records[key] = rest[0]
            return None
        if name == "erase":
            return self.records.pop(key, None) is not None
        if not known:
            return False
        if name == "update":
            self.records[key] = rest[0]
        else:
            offset, part = rest
            old = self.records[key]
            self.records[key] = old[:offset] + part + old[offset + len(part) :]
        return True

    def same(self, found):
        records, rows = found
        return records == self.records and {tuple(id): row for id, row in rows.items()} == self.rows


class Machine(RuleBasedStateMachine):
    """One example. The store and its process live on from one to the next."""

    child: Child
    number = 0

    def __init__(self):
        super().__init__()
        Machine.number += 1
        self.name = f"e{Machine.number}"
        self.child.use(self.name)
        self.committed = [State()]  # the durable one, then those of lazy commits behind
        self.working = None
        self.saved = None
        self.reader = None
        self.durability = "durable"

    def teardown(self):
        if self.child.pid == 0:
            self.child.use(self.name)
        assert self.now.same(self.child.everything())
        self.child.forget(self.name)

    @property
    def now(self):
        return self.working if self.working is not None else self.committed[-1]

    def commit(self, state, durability):
        """A durable transaction that changed nothing waits only for what it has read."""
        if vars(state) == vars(self.committed[-1]):
            return
        if durability == "durable":
            self.committed = [state]
        else:
            self.committed.append(state)

    def change(self, durability, call, apply):
        """A step that both sides take, in the open transaction or in one of its own."""
        state = self.now.copy()
        try:
            expected = apply(state)
        except lockstep.DuplicateKey:
            with pytest.raises(lockstep.DuplicateKey):
                call()
            return
        assert call() == expected
        if self.working is not None:
            self.working = state
        else:
            self.commit(state, durability)

    # Operations on records.

    @rule(name=st.sampled_from(["put", "insert", "update"]), key=KEYS, value=VALUES, where=WHERE,
          durability=DURABILITY)  # fmt: skip
    def write(self, name, key, value, where, durability):
        self.change(
            durability,
            lambda: self.child.operation(name, where, (key, value), durability),
            lambda state: state.apply(name, (key, value)),
        )

    @rule(name=st.sampled_from(["get", "erase"]), key=KEYS, where=WHERE, durability=DURABILITY)
    def get_or_erase(self, name, key, where, durability):
        self.change(
            durability,
            lambda: self.child.operation(name, where, (key,), durability),
            lambda state: state.apply(name, (key,)),
        )

    @rule(key=KEYS, share=st.floats(0, 1), where=WHERE, durability=DURABILITY)
    def patch(self, key, share, where, durability):
        length = len(self.now.records.get(packed(key), b""))
        offset = int(share * length)
        part = b"P" * min(3, length - offset)
        self.change(
            durability,
            lambda: self.child.operation("patch", where, (key, offset, part), durability),
            lambda state: state.apply("patch", (key, offset, part)),
        )

    @rule(keys=st.lists(KEYS, max_size=5), form=st.sampled_from(["run", "async"]))
    def get_many(self, keys, form):
        found = self.child.operation("get_many", form, (keys,), "lazy")
        assert found == [self.now.records.get(packed(key)) for key in keys]

    @rule(records=st.dictionaries(KEYS, VALUES, max_size=4), form=st.sampled_from(["run", "async"]),
          durability=DURABILITY)  # fmt: skip
    def insert_many(self, records, form, durability):
        """After an error within an open transaction those before the refused one are in."""
        state = self.now.copy()
        refused = False
        for key, value in records.items():
            try:
                state.apply("insert", (key, value))
            except lockstep.DuplicateKey:
                refused = True
                break
        call = (list(records.items()),)
        if refused:
            with pytest.raises(lockstep.DuplicateKey):
                self.child.operation("insert_many", form, call, durability)
        else:
            self.child.operation("insert_many", form, call, durability)
        if self.working is not None:
            self.working = state
        elif not refused:
            self.commit(state, durability)

    @rule(operations=st.lists(
        st.tuples(st.sampled_from(["put", "update"]), KEYS, VALUES)
        | st.tuples(st.sampled_from(["get", "erase"]), KEYS), min_size=1, max_size=6,
    ), durability=DURABILITY)  # fmt: skip
    def batch(self, operations, durability):
        self.change(
            durability,
            lambda: self.child.batch(operations, durability),
            lambda state: [state.apply(name, rest) for name, *rest in operations],
        )

    @rule(key=KEYS, room=st.integers(0, 50))
    def get_into(self, key, room):
        length, buffer = self.child.get_into(key, room)
        value = self.now.records.get(packed(key))
        assert length == (None if value is None else len(value))
        assert buffer == (value or b"")[:room].ljust(room, b"\0")

    @rule(record=RECORDS, where=WHERE, durability=DURABILITY)
    def heap_insert(self, record, where, durability):
        state = self.now.copy()
        id = tuple(self.child.operation("heap_insert", where, (record,), durability))
        assert id not in state.rows
        state.rows[id] = record
        if self.working is not None:
            self.working = state
        else:
            self.commit(state, durability)

    # Which lazy commits survive a kill is chance. So what is drawn, and which rule may come, does
    # not depend on the content.
    @rule(name=st.sampled_from(["heap_get", "heap_update", "heap_erase"]), which=st.integers(0, 99),
          record=RECORDS, where=WHERE, durability=DURABILITY)  # fmt: skip
    def heap_change(self, name, which, record, where, durability):
        if not self.now.rows:
            return
        id = sorted(self.now.rows)[which % len(self.now.rows)]

        def apply(state):
            if name == "heap_get":
                return state.rows[id]
            if name == "heap_update":
                state.rows[id] = record
            else:
                del state.rows[id]
            return True

        arguments = (id, record) if name == "heap_update" else (id,)
        call = (name, where, arguments, durability)
        self.change(durability, lambda: self.child.operation(*call), apply)

    # Scans.

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, reverse=st.booleans(),
          form=st.sampled_from(["scan", "views", "cursor"]))  # fmt: skip
    def scan(self, low, high, reverse, form):
        rows = [
            (key, value)
            for key, value in sorted(self.now.records.items(), reverse=reverse)
            if (low is None or packed(low) <= key) and (high is None or key < packed(high))
        ]
        assert self.child.scan(low, high, reverse, form) == rows

    @rule(key=st.binary(min_size=1, max_size=2))
    def scan_by(self, key):
        rows = sorted(
            (k, v) for k, v in self.now.records.items() if secondary_key(k, v) == key
        )
        assert self.child.scan_by(key) == rows

    @rule()
    def everything(self):
        assert self.now.same(self.child.everything())

    # Transactions.

    @precondition(lambda self: self.working is None)
    @rule(durability=DURABILITY, isolation=ISOLATION)
    def begin(self, durability, isolation):
        self.child.begin({"durability": durability, "isolation": isolation})
        self.durability = durability
        self.working = self.committed[-1].copy()
        self.saved = None

    @precondition(lambda self: self.working is not None)
    @rule(wait=st.booleans())
    def commit_open(self, wait):
        self.child.commit(wait)
        state, self.working = self.working, None
        self.commit(state, "durable" if wait else self.durability)

    @precondition(lambda self: self.working is not None)
    @rule()
    def abort(self):
        self.child.abort()
        self.working = None

    @precondition(lambda self: self.working is not None)
    @rule()
    def set_savepoint(self):
        self.child.set_savepoint()
        self.saved = self.working.copy()

    @precondition(lambda self: self.working is not None and self.saved is not None)
    @rule()
    def rollback_to(self):
        self.child.rollback_to()
        self.working = self.saved.copy()

    @precondition(lambda self: self.reader is None)
    @rule()
    def open_reader(self):
        self.child.open_reader()
        self.reader = self.committed[-1]

    @precondition(lambda self: self.reader is not None)
    @rule(close=st.booleans())
    def read(self, close):
        assert self.reader.same(self.child.read())
        if close:
            self.child.close_reader()
            self.reader = None

    # The whole store.

    @rule()
    def checkpoint(self):
        self.child.checkpoint()

    @precondition(lambda self: self.working is None and self.reader is None)
    @rule()
    def reopen(self):
        self.child.reopen()
        self.child.use(self.name)
        self.committed = self.committed[-1:]
        assert self.child.verify() == []

    @rule()
    def kill(self):
        self.child.kill()
        self.working = self.reader = None
        self.child.use(self.name)
        found = self.child.everything()
        survived = [state for state in self.committed if state.same(found)]
        assert survived, f"{found} is none of {[vars(state) for state in self.committed]}"
        self.committed = survived[-1:]
        assert self.child.verify() == []

    @precondition(lambda self: self.working is None)
    @rule(chance=st.integers(0, 9))
    def backup(self, chance):
        if chance != 7:  # it takes long
            return
        with tempfile.TemporaryDirectory(prefix="lockstep-model-") as copies:
            assert self.committed[-1].same(self.child.backup(self.name, copies))
        self.committed = self.committed[-1:]


def test_the_package_is_a_dictionary_that_survives():
    directory = tempfile.mkdtemp(prefix="lockstep-model-")
    Machine.child = Child(f"{directory}/store")
    # A failure is not shrunk in CI: that would take minutes.
    phases = list(Phase) if EXAMPLES > 1000 else [Phase.explicit, Phase.generate]
    chosen = settings(max_examples=EXAMPLES, stateful_step_count=25, phases=phases)
    try:
        run_state_machine_as_test(Machine, settings=chosen)
    finally:
        Machine.child.kill()
        shutil.rmtree(directory)
