"""native_shard - a shard without Ray, whose procedures are in the object of library.py."""

import lockstep
from lockstep.cluster import Outcomes, Procedures
from lockstep._packed import pack
from lockstep.cluster._messages import Age, Run, RunMany, Step
from lockstep.cluster._participant import Participant
from library import number, numbers

OLD, YOUNG = Age(1, 0), Age(3, 0)
SOON = 10.0


class Shard:
    """A participant with the bank's object."""

    def __init__(self, path, bank, options="", shard=0):
        self.path = path
        self.outcomes = {}
        self.ended = []  # what the store has logged of transactions that were ended
        self.procedures = Procedures()
        self.procedures.library(bank, options)

        @self.procedures.local
        def get(txn, objects, account):
            return txn.get(objects.index("accounts"), (account,))

        @self.procedures.local
        def put(txn, objects, account, value):
            txn.put(objects.index("accounts"), (account,), value)

        self.shard = shard
        self.open()

    def open(self):
        store = lockstep.open(
            self.path, workers=1, pool_bytes=8 << 20, lock_timeout=8.0, logger=self.log
        )
        self.participant = Participant(
            store, self.procedures, self.ask, threads=4, shard=self.shard
        )

    def log(self, level, text):
        if " is ended" in text:
            self.ended.append(text)

    def ask(self, gids):
        return {gid: self.outcomes.get(gid) for gid in gids}

    def do(self, message):
        return self.participant.submit(message).result(SOON)

    def call(self, procedure, *values):
        return number(self.do(Run(YOUNG, procedure, (numbers(*values),))))

    def many(self, procedure, requests):
        return Outcomes(self.do(RunMany(procedure, pack(requests))))

    def step(self, gid, procedure, *values, age=YOUNG, first=True):
        step = Step(gid, age, first, procedure, (numbers(*values),))
        return self.participant.submit(step)
