#!/usr/bin/env python3
"""powercut.py - cuts the power of a machine that runs durable transactions, and checks that nothing
acknowledged is lost.

The machine is a User-Mode-Linux guest with ext4 or xfs on a disk whose writes are logged
(dm-log-writes). Acknowledgements are marks in the same log. Each boot of the guest yields several
cuts:

  paused  copies of the disk while the guest is paused, and the disk when the guest is killed: all
          writes are there in the order in which they were issued
  logged  states made from the write log: all that was flushed, and any part of the rest

Then another guest mounts each disk, opens the store and compares it with the acknowledged
transactions. The next boot goes on from one of these disks, so recovery and the repair of the file
system are cut, too. The exit status is 0; 1 if a store is wrong; 77 if this machine runs no guest,
with the reason."""

import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from cuts import copy_disk, draw_place, make_disk, surviving
from guest import Guest, missing
from write_log import acknowledged, read_log

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
CLIENTS = 6
DISK_BYTES = 320 << 20  # mkfs.xfs makes none below 300 MB
LOG_BYTES = 8 << 30  # sparse
DISKS_MAX = 12  # of one guest, which has 16 block devices
BOOT_SECONDS = 60
CHECK_SECONDS = 180
ROUNDS_OF_A_STORE = 5
# Marks reach the log a little later than the work goes on, and only the log is in their order.
AHEAD = {"paused": 1000, "logged": 2}
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}


@dataclass
class Cut:
    """A disk after a cut. `acked`: the newest acknowledged transaction of each client."""

    kind: str
    disk: pathlib.Path
    acked: list
    faults: list = field(default_factory=list)
    notes: list = field(default_factory=list)  # what else the check has said
    newest: list = field(default_factory=list)


@dataclass
class Chain:
    """The store that goes on from boot to boot of one type of file system."""

    type: str
    disk: pathlib.Path | None = None
    newest: list = field(default_factory=lambda: [0] * CLIENTS)
    rounds: int = 0


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


class Rig:
    """Boots, cuts and checks."""

    def __init__(self, args, place):
        self.args, self.place = args, place
        self.rng = random.Random(args.seed)
        self.words = {"program": args.program.resolve(), "seed": args.seed, "clients": CLIENTS}
        self.done = {}  # {(type, kind): cuts}
        self.acked = self.boots = self.broken = 0

    def must_boot(self):
        """Ends with the skip status unless a guest comes up."""
        guest = Guest(self.place / "uml", [], mode="hello")
        answer = guest.wait_for(["ready"], BOOT_SECONDS)[-1]
        guest.cut_power()
        if answer != "ready":
            skip(f"no guest comes up: {answer}; its console: {' | '.join(guest.console[-5:])}")

    def make_file_system(self, chain):
        chain.disk, chain.newest, chain.rounds = self.place / f"base.{chain.type}", [0] * CLIENTS, 0
        chain.disk.unlink(missing_ok=True)
        with open(chain.disk, "wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run([*MKFS[chain.type], chain.disk], check=True)

    def work_and_cut(self, chain, number):
        """The cuts of one boot, at most `number`."""
        disk, log = self.place / "disk", self.place / "log"
        copy_disk(chain.disk, disk)
        log.unlink(missing_ok=True)
        with open(log, "wb") as file:
            file.truncate(LOG_BYTES)
        began = time.monotonic()
        guest = Guest(
            self.place / "uml", [disk, log], mode="work", type=chain.type, **self.words
        )
        cuts = []

        def take(kind, name):
            acked = acknowledged(read_log(log), CLIENTS)
            cut = Cut(kind, self.place / f"cut.{name}", merged(chain.newest, acked))
            copy_disk(disk, cut.disk)
            cuts.append(cut)

        try:
            answer = guest.wait_for(["works"], BOOT_SECONDS)[-1]
            if answer != "works":
                raise RuntimeError(f"{answer}; console: {' | '.join(guest.console[-12:])}")
            pauses = min(2, number - 1)
            for i in range(pauses + 1):
                time.sleep(self.rng.uniform(0.3, self.args.seconds))
                if not guest.answers.empty():
                    raise RuntimeError(f"{guest.answers.get()}; console: {guest.console[-12:]}")
                if i < pauses:
                    guest.pause()
                    take("paused", str(i))
                    guest.go_on()
        finally:
            guest.cut_power()
        take("paused", "end")
        self.boots += 1
        entries = read_log(log)
        while len(cuts) < number and entries:
            place = draw_place(entries, self.rng)
            acked = merged(chain.newest, acknowledged(entries[:place], CLIENTS))
            cut = Cut("logged", self.place / f"cut.{len(cuts)}l", acked)
            make_disk(chain.disk, log, surviving(entries, place, self.rng), cut.disk)
            cuts.append(cut)
        self.told = f"{len(entries)} log entries, {time.monotonic() - began:.1f} s"
        return cuts

    def check(self, chain, cuts):
        """One guest mounts all disks, one after the other."""
        acked = self.place / "acked"
        acked.mkdir(exist_ok=True)
        letters = [chr(ord("b") + i) for i in range(len(cuts))]
        for letter, cut in zip(letters, cuts):
            lines = [f"{client} {number}\n" for client, number in enumerate(cut.acked)]
            (acked / f"{letter}.acked").write_text("".join(lines))
        guest = Guest(
            self.place / "uml",
            [cut.disk for cut in cuts],
            mode="check",
            type=chain.type,
            letters=",".join(f"{letter}:{AHEAD[cut.kind]}" for letter, cut in zip(letters, cuts)),
            acked=acked,
            **self.words,
        )
        try:
            for letter, cut in zip(letters, cuts):
                answers = guest.wait_for([f"ends {letter}"], CHECK_SECONDS)
                self.judge(cut, answers)
                if answers[-1].startswith("failed:"):
                    break
            guest.wait_for(["done"], 10)
        finally:
            guest.cut_power()

    @staticmethod
    def judge(cut, answers):
        for answer in answers:
            if answer.startswith("newest: "):
                cut.newest.append(int(answer.split()[2]))
            elif answer.startswith(("fault:", "failed:")):
                cut.faults.append(answer)
            elif not answer.startswith(("begins", "ends")):
                cut.notes.append(answer)
        if len(cut.newest) != CLIENTS:
            cut.faults.append("fault: the check did not come to its end")

    def keep(self, chain, cut):
        """Puts a wrong store aside."""
        kept = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-powercut-fault-"))
        copy_disk(cut.disk, kept / "disk-after-the-check")
        copy_disk(chain.disk, kept / "disk-before-the-work")
        copy_disk(self.place / "log", kept / "log")
        return kept

    def round(self, chain, number):
        if chain.disk is None or chain.rounds == ROUNDS_OF_A_STORE:
            self.make_file_system(chain)
        chain.rounds += 1
        cuts = self.work_and_cut(chain, number)
        # A store that is not closed: the next work begins with its recovery.
        chosen = self.rng.choice(cuts)
        untouched = self.place / "untouched"
        copy_disk(chosen.disk, untouched)
        self.check(chain, cuts)
        gained = sum(max(cut.acked[c] for cut in cuts) - chain.newest[c] for c in range(CLIENTS))
        self.acked += gained
        wrong = 0
        for cut in cuts:
            key = (chain.type, cut.kind)
            self.done[key] = self.done.get(key, 0) + 1
            if cut.faults:
                wrong += 1
                print(f"FAULT: {chain.type}, {cut.kind}, kept in {self.keep(chain, cut)}")
                print("".join(f"  {fault}\n" for fault in (cut.faults + cut.notes)[:20]), end="")
        self.broken += wrong
        print(
            f"{sum(self.done.values()):5} cuts: {chain.type:4} {len(cuts)} of boot {chain.rounds}:"
            f" {gained} commits acknowledged, {self.told}; {wrong} wrong",
            flush=True,
        )
        if wrong:
            chain.disk = None
            return
        copy_disk(untouched if self.rng.random() < 0.7 else chosen.disk, chain.disk)
        chain.newest = chosen.newest

    def run(self):
        chains = [Chain(name) for name in self.args.types]
        while sum(self.done.values()) < self.args.cuts:
            left = self.args.cuts - sum(self.done.values())
            self.round(chains[0], min(left, self.args.cuts_of_a_boot, DISKS_MAX))
            chains.append(chains.pop(0))
        for (name, kind), count in sorted(self.done.items()):
            print(f"{name:4} {kind}: {count} cuts")
        print(
            f"{sum(self.done.values())} cuts in {self.boots} boots, {self.acked} acknowledged"
            f" commits, {self.broken} wrong stores"
        )
        if self.acked == 0:
            print("nothing was acknowledged: the run shows nothing")
        return 1 if self.broken or self.acked == 0 else 0


def merged(one, other):
    return [max(a, b) for a, b in zip(one, other)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=pathlib.Path, help="lockstep-acked")
    parser.add_argument("--cuts", type=int, default=100, help="default: 100")
    parser.add_argument("--cuts-of-a-boot", type=int, default=8, help="default: 8")
    parser.add_argument("--seconds", type=float, default=3, help="longest work between cuts")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--types", nargs="+", choices=sorted(MKFS), default=sorted(MKFS))
    args = parser.parse_args()
    if why := missing():
        skip(why)
    print(f"seed {args.seed}", flush=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-powercut-"))
    try:
        rig = Rig(args, place)
        rig.must_boot()
        return rig.run()
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
