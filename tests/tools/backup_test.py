#!/usr/bin/env python3
"""backup_test.py - `lockstep backup`, `verify-backup`, `restore` and `update-backup` of a store
that no process has open, without and with a log archive; control_test.py makes a backup of one that
is open.

Usage: backup_test.py LOCKSTEP
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from cli_store import fail, make_rng, random_contents, read_json, run, same, write_json

LOCKSTEP = os.path.abspath(sys.argv[1])
NOBODY = 65534


def contents_of(path):
    return read_json(run(LOCKSTEP, "dump", path))


def damage(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"garbage")


def test_archive(place, rng):
    """Each point that the archive has comes back, by LSN and by time; others are refused."""
    store, archive, first = place("archived"), place("archive"), place("first")
    with_archive = ("--archive", archive)
    from_first = ("restore", "--backup", first)
    back = lambda to, *how: json.loads(  # noqa: E731
        run(LOCKSTEP, *from_first, "--to", place(to), *with_archive, "--json", *how)
    )
    run(LOCKSTEP, "load", store, *with_archive, stdin=write_json(random_contents(rng, 500), rng))
    made = json.loads(run(LOCKSTEP, "backup", store, first, *with_archive, "--json"))
    at_first = contents_of(store)
    points = []
    for part in range(3):
        rows = {b"part%d" % part: {b"key%d" % i: b"value%d" % i for i in range(200)}}
        run(LOCKSTEP, "load", store, *with_archive, stdin=write_json(rows))
        stat = json.loads(run(LOCKSTEP, "stat", store, "--json"))
        points.append((stat["log_end"], contents_of(store), time.time()))
        time.sleep(0.3)
    for i, (lsn, contents, _) in enumerate(points):
        done = back(f"lsn{i}", "--until", lsn)
        if not done["lsn"] <= lsn:
            fail(f"restored to {done['lsn']}, behind {lsn}")
        same(contents_of(place(f"lsn{i}")), contents, f"until {lsn}")
    for i, (_, contents, seconds) in enumerate(points[:-1]):
        hours, zone = ((0, "Z"), (5.5, "+05:30"), (-8, "-0800"))[i % 3]
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds + hours * 3600))
        back(f"time{i}", "--until-time", f"{text}.{int(seconds % 1 * 1000):03}{zone}")
        same(contents_of(place(f"time{i}")), contents, f"until {text}")
    back("end", "--memory", "1M")
    same(contents_of(place("end")), points[-1][1], "the archive's end")

    refused = lambda says, *how: run(  # noqa: E731
        LOCKSTEP, *from_first, "--to", place("refused"), *how, status=1, says=says
    )
    refused("is before the backup's point", *with_archive, "--until", made["lsn"] - 1)
    refused("is behind the archive's end", *with_archive, "--until", points[-1][0] + 10**6)
    for bad in ("yesterday", "2026-02-31T00:00:00Z", "2026-11-24.5 03:00:00",
                "2026-11-24T03:00:00+1:00", "2026-11-24T03:00:00+01:60", "@1764000000+01:00"):
        refused("is no time", *with_archive, "--until-time", bad)
    # As nanoseconds, this would wrap around to a time that the archive has.
    wrapped = f"@{int(points[1][2]) + (1 << 64) // 10**9}.8"
    refused("is behind the archive's end", *with_archive, "--until-time", wrapped)
    unset = lambda *how: run(  # noqa: E731
        LOCKSTEP, *from_first, "--to", place("refused"), *how, status=None, says=how[-2]
    )
    unset(*with_archive, "--until-time", "")
    for lsn in ("0", "x", str(1 << 64)):
        run(LOCKSTEP, *from_first, "--to", place("refused"), *with_archive, "--until", lsn,
            status=None, says=f"'{lsn}' is no LSN: an integer from 1 on")
    unset("--archive", "")
    check_times(place, archive, first)
    told = json.loads(run(LOCKSTEP, "verify-backup", first, *with_archive, "--json"))
    if told["faults"]:
        fail(f"verify of an archive: {told}")
    refused("bad_archive", "--archive", place("nowhere"))
    os.makedirs(place("empty"))
    refused("bad_archive", "--archive", place("empty"), "--until", points[0][0])
    os.rmdir(place("empty"))
    refused("2255-", *with_archive, "--until-time", "@99999999999")
    refused("2026-11-24T03:00:00.250000000Z is before the backup's end", *with_archive,
            "--until-time", "2026-11-24T03:00:00.25Z")
    refused("2026-11-24T03:00:00.250000000Z is before the backup's end", *with_archive,
            "--until-time", "2026-11-23 19:00:00.25-08")
    unset(*with_archive, "--memory", "1K")
    pieces = sorted(name for name in os.listdir(archive) if name.endswith(".log"))
    os.rename(os.path.join(archive, pieces[len(pieces) // 2]), place("taken"))
    refused("has a gap", *with_archive)
    run(LOCKSTEP, "verify-backup", first, *with_archive, status=2, says=["has a gap", "1 fault"])
    if os.path.exists(place("refused")):
        fail("a refused restore left something")


def without_rights():
    """As root nothing stops a deletion."""
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def check_kept_current(place):
    """`backup --update`, the first time, again, and behind commands that were cut off."""
    store, kept, rest = place("growing"), place("kept"), place("kept.next")
    for n in range(5):
        rows = {b"rows": {b"%d/%d" % (n, i): b"x" * 200 for i in range(1000)}}
        run(LOCKSTEP, "load", store, stdin=write_json(rows))
        if n == 2:  # cut off between the copy of the changes and the update
            run(LOCKSTEP, "backup", store, rest, "--since", kept)
        if n == 3:  # cut off in the copy of the changes
            os.makedirs(rest)
            open(os.path.join(rest, "backup"), "wb").close()
        if n == 4:  # cut off in the update
            run(LOCKSTEP, "backup", store, rest, "--since", kept)
            shutil.copy(os.path.join(kept, "backup"), os.path.join(kept, "backup.before"))
            run(LOCKSTEP, "verify-backup", kept, status=1, says="was cut off")
        told = json.loads(run(LOCKSTEP, "backup", store, kept + "/", "--update", "--json"))
        if n == 1 and not told["pages_copied"] < told["pages"]:
            fail(f"all was copied: {told}")
        if os.path.exists(rest):
            fail("the changes are left")
        run(LOCKSTEP, "verify-backup", kept, says=" 0 faults")
        run(LOCKSTEP, "restore", "--backup", kept, "--to", place(f"kept{n}"))
        same(contents_of(place(f"kept{n}")), contents_of(store), f"kept current, {n}")
    run(LOCKSTEP, "backup", store, kept, "--update", "--since", kept, status=108)
    check_deletion_cut_off(place, store, kept, rest)


def check_deletion_cut_off(place, store, kept, rest):
    """Whatever stops the deletion of the changes: the next run knows them and deletes the rest."""
    run(LOCKSTEP, "backup", store, rest, "--since", kept)
    # Another user's file in a folder of its own stops the deletion there. It is met last.
    for n in range(40):
        stuck = os.path.join(rest, f"stuck{n}")
        os.makedirs(stuck)
        names = os.listdir(rest)
        if names.index(f"stuck{n}") > names.index("backup"):
            break
        os.rmdir(stuck)
    os.makedirs(stuck, exist_ok=True)
    open(os.path.join(stuck, "file"), "wb").close()
    for folder, _, files in os.walk(place(".")):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            if os.geteuid() == 0 and not path.startswith(stuck):
                os.chown(path, NOBODY, NOBODY)
    os.chmod(stuck, 0o555)
    done = subprocess.run(
        [LOCKSTEP, "backup", store, kept, "--update"],
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=without_rights,
    )
    if done.returncode != 1 or "cannot be deleted" not in done.stderr or stuck not in done.stderr:
        fail(f"the deletion was not stopped: {done}")
    os.chmod(stuck, 0o755)
    run(LOCKSTEP, "backup", store, kept, "--update")
    if os.path.exists(rest):
        fail("the changes are left")
    # What is no backup belongs to somebody else.
    os.makedirs(rest)
    open(os.path.join(rest, "mine"), "wb").close()
    run(LOCKSTEP, "backup", store, kept, "--update", status=1, says=[rest, "Move it away"])
    if os.listdir(rest) != ["mine"]:
        fail("a file of somebody else is gone")
    os.unlink(os.path.join(rest, "mine"))  # an empty folder is no hindrance
    run(LOCKSTEP, "backup", store, kept, "--update")


def check_archive_of_opens(place):
    """Each command that opens a store gives its log to the archive, the compaction too: the archive
    has the state before it, and none behind it."""
    store, archive, first = place("opened"), place("opens"), place("opens.first")
    with_archive = ("--archive", archive)

    def rows(n):
        return write_json({b"rows": {b"%d/%d" % (n, i): b"x" for i in range(300)}})

    run(LOCKSTEP, "load", store, *with_archive, stdin=rows(0))
    run(LOCKSTEP, "backup", store, first, *with_archive)
    commands = (("verify",), ("dump",), ("prepared",), ("compact", "--end-only"), ("compact",))
    for n, (name, *options) in enumerate(commands):
        run(LOCKSTEP, "load", store, stdin=rows(n + 1))  # without the archive
        before = contents_of(store)
        run(LOCKSTEP, name, store, *options, *with_archive)
        back = place(f"opens.{n}")
        run(LOCKSTEP, "restore", "--backup", first, "--to", back, *with_archive)
        same(contents_of(back), before, f"archive of {name}")
        same(contents_of(store), before, name)
    # The compacted store is another one.
    run(LOCKSTEP, "verify", store, *with_archive, status=1, says="the log of another store")
    run(LOCKSTEP, "verify", store, "--archive", place("opens.new"))


def files_of(path):
    return {name: open(os.path.join(path, name), "rb").read() for name in os.listdir(path)}


def check_backup_stays(place, full, more):
    """No command that opens a store opens a backup. `stat` tells what it is."""
    before = files_of(full), files_of(more)
    for backup, says in (full, "a full backup"), (more, "an incremental backup"):
        for command in (
            ("verify", backup),
            ("dump", backup),
            ("compact", backup),
            ("compact", backup, "--into", place("c")),
            ("compact", backup, "--end-only"),
            ("backup", backup, place("c")),
            ("prepared", backup),
            ("commit", backup, "gid"),
            ("rollback", backup, "gid"),
        ):
            run(LOCKSTEP, *command, status=1, says=[says, "lockstep verify-backup"])
        rows = write_json({b"rows": {b"key": b"value"}})
        run(LOCKSTEP, "load", backup, status=1, says=[says, "restore"], stdin=rows)
        told = json.loads(run(LOCKSTEP, "stat", backup, "--json"))
        if (told["state"], told["lsn"] > 0) != ("backup", True) or told["kind"] not in says:
            fail(f"stat of a backup: {told}")
        run(LOCKSTEP, "stat", backup, says="backup")
    if (files_of(full), files_of(more)) != before:
        fail("a refused command changed a backup")
    run(LOCKSTEP, "verify-backup", full, more, says=" 0 faults")


def check_restored(place, full, more):
    """The result of a restore is a copy, which any command may open."""
    run(LOCKSTEP, "restore", full, more, place("by path"), says="the state at LSN")
    told = json.loads(run(LOCKSTEP, "stat", place("by path"), "--json"))
    if told["state"] != "restored":
        fail(f"stat of a restored backup: {told}")
    run(LOCKSTEP, "verify", place("by path"), says=" 0 faults")
    told = json.loads(run(LOCKSTEP, "stat", place("by path"), "--json"))
    if told["state"] != "closed":
        fail(f"stat of a restored store: {told}")
    run(LOCKSTEP, "restore", full, place("kept again"))
    run(LOCKSTEP, "update-backup", place("kept again"), more)
    run(LOCKSTEP, "verify", place("kept again"), status=1, says="a full backup")
    run(LOCKSTEP, "restore", full, status=105, says="the directory of the store")
    run(LOCKSTEP, "restore", full, place("c"), "--to", place("c"), status=None, says="excludes")


def check_rights(place, store, full):
    """Who may read and not write can look; who may not search a directory is told so."""
    lookers = dict(capture_output=True, text=True, timeout=100, preexec_fn=without_rights)
    if os.geteuid() != 0:
        return
    os.chmod(place("."), 0o755)
    closed, locked = place("looked at"), place("locked")
    shutil.copytree(store, closed)
    shutil.copytree(full, locked)
    os.chmod(closed, 0o755)
    for name in os.listdir(closed):
        os.chmod(os.path.join(closed, name), 0o644)
    before = files_of(closed)
    wanted = read_json(run(LOCKSTEP, "dump", store))
    done = subprocess.run([LOCKSTEP, "dump", closed], **lookers)
    if done.returncode != 0 or read_json(done.stdout.encode()) != wanted:
        fail(f"dump without the right to write: {done.stderr}")
    done = subprocess.run([LOCKSTEP, "verify", closed], **lookers)
    if done.returncode != 0 or " 0 faults" not in done.stdout:
        fail(f"verify without the right to write: {done}")
    if files_of(closed) != before:
        fail("who looks has changed a file")
    os.chmod(locked, 0o600)
    for command in ("verify-backup", locked), ("restore", locked, place("tmp/x")):
        done = subprocess.run([LOCKSTEP, *command], **lookers)
        if done.returncode != 1 or "missing" in done.stderr or "ermission" not in done.stderr:
            fail(f"{command[0]} of a directory that may not be searched: {done}")
    shutil.rmtree(locked)


def check_chain(place, store, full, more):
    """Backups that do not follow each other are named by verify, as restore refuses them."""
    run(LOCKSTEP, "backup", store, place("third"), "--since", more)
    run(LOCKSTEP, "verify-backup", full, more, place("third"), says=" 0 faults")
    run(LOCKSTEP, "verify-backup", full, place("third"), status=2, says="does not follow")
    run(LOCKSTEP, "restore", full, place("third"), place("c"), status=1, says="does not follow")


def check_times(place, archive, first):
    """Zero is a time, and a local time that clocks skip or have twice is refused."""
    def refused(time, says, zone="UTC0"):
        done = subprocess.run(
            [LOCKSTEP, "restore", "--backup", first, "--archive", archive, "--to",
             place("refused"), "--until-time", time],
            capture_output=True, text=True, timeout=100, env={**os.environ, "TZ": zone},
        )
        if done.returncode != 1 or says not in done.stderr:
            fail(f"--until-time {time}: {done}")

    berlin = "CET-1CEST,M3.5.0,M10.5.0/3"
    for zero in ("@0", "@0.0", "1970-01-01T00:00:00Z", "1970-01-01T01:00:00+01:00"):
        refused(zero, "1970-01-01T00:00:00.000000000Z is before the backup's end")
    refused("@-1", "is before 1970")
    refused("2026-03-29T02:30:00", "clocks were set forward", berlin)
    refused("2026-10-25T02:30:00", "clocks were set back", berlin)
    refused("2026-03-29T03:30:00", "2026-03-29T01:30:00.000000000Z is before", berlin)
    refused("2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00.000000000Z is before", berlin)
    refused("2026-10-25T03:30:00", "2026-10-25T02:30:00.000000000Z is before", berlin)


def main():
    rng = make_rng("backup_test")
    root = tempfile.mkdtemp(prefix="backup_test_", dir=os.getcwd())
    place = lambda name: os.path.join(root, name)  # noqa: E731
    store, full, more = place("store"), place("full"), place("more")
    try:
        before = random_contents(rng, 3000)
        run(LOCKSTEP, "load", store, stdin=write_json(before, rng))
        run(LOCKSTEP, "backup", store, full, says="the state at LSN")
        run(LOCKSTEP, "verify-backup", full, says=" 0 faults")
        at_full = contents_of(store)

        # A second part of the rows, and an incremental backup of it.
        later = {b"later": {b"key%d" % i: b"value%d" % i for i in range(500)}}
        run(LOCKSTEP, "load", store, stdin=write_json(later))
        done = run(LOCKSTEP, "backup", store, more, "--since", full, "--json", "--rate", "100M")
        told = json.loads(done)
        if not 0 < told["pages_copied"] < told["pages"]:
            fail(f"not incremental: {told}")
        run(LOCKSTEP, "verify-backup", full, more, says=" 0 faults")
        at_more = contents_of(store)

        run(LOCKSTEP, "restore", "--backup", full, "--to", place("a"), says="the state at LSN")
        same(contents_of(place("a")), at_full, "full")
        run(LOCKSTEP, "restore", "--backup", full, "--backup", more, "--to", place("b"))
        same(contents_of(place("b")), at_more, "full and incremental")
        run(LOCKSTEP, "verify", place("b"), says=" 0 faults")

        check_backup_stays(place, full, more)
        check_restored(place, full, more)

        shutil.copytree(full, place("current"))
        run(LOCKSTEP, "update-backup", place("current"), more, says="the state at LSN")
        run(LOCKSTEP, "verify-backup", place("current"), says=" 0 faults")
        run(LOCKSTEP, "restore", "--backup", place("current"), "--to", place("e"))
        same(contents_of(place("e")), at_more, "a full backup brought up to date")
        run(LOCKSTEP, "update-backup", more, full, status=1, says="only a full backup")

        check_kept_current(place)
        check_archive_of_opens(place)

        # What must be refused.
        run(LOCKSTEP, "backup", store, full, status=1, says="the directory is not empty")
        for target in (store, store + "/backup"):
            run(LOCKSTEP, "backup", store, target, status=1, says="lies in the store's directory")
        run(LOCKSTEP, "backup", place("none"), place("c"), status=1, says="bad_path")
        run(LOCKSTEP, "restore", "--backup", more, "--to", place("c"), status=1, says="full one")
        run(LOCKSTEP, "restore", "--backup", full, "--to", full, status=1, says="lies in what is")
        run(LOCKSTEP, "restore", full, full + "/inside", status=1, says="lies in what is")
        run(LOCKSTEP, "restore", full + "/", full + "/../full/a/b", status=1, says="lies in what")
        run(LOCKSTEP, "backup", store, place("c"), "--rate", "0", status=None, says="0 is not in")
        check_rights(place, store, full)
        check_chain(place, store, full, more)
        run(LOCKSTEP, "restore", "--backup", full, "--to", store, status=1, says="not empty")
        run(LOCKSTEP, "verify-backup", store, status=1, says="no backup in this directory")
        run(LOCKSTEP, "verify", more, status=1, says="an incremental backup")
        says = "an incremental backup, which has only what has changed since another backup; "
        says += f"`lockstep restore FULL {more} DIR` makes a store of both"
        run(LOCKSTEP, "salvage", more, "-o", place("saved"), status=1, says=says)
        if os.path.exists(place("c")):
            fail("a refused command left something")

        # One that cannot be checked hides no other.
        done = subprocess.run(
            [LOCKSTEP, "verify-backup", store, full, "--json"], capture_output=True, timeout=100
        )
        told = json.loads(done.stdout)
        if done.returncode != 1 or "no backup" not in told[0]["error"] or told[1]["faults"]:
            fail(f"verify-backup of two: {done}")

        # Damage is named, and an unfinished backup is not opened.
        damage(os.path.join(full, "data"), 9 * 8192 + 1000)
        run(LOCKSTEP, "verify-backup", full, status=2, says="page 9: has a wrong checksum")
        run(LOCKSTEP, "restore", "--backup", full, "--to", place("d"), status=1, says="page 9: has")
        run(LOCKSTEP, "verify", place("d"), status=1, says="was not finished")
        damage(os.path.join(more, "backup"), 100)
        run(LOCKSTEP, "verify-backup", more, status=1, says="file backup is damaged")
        os.truncate(os.path.join(more, "backup"), 0)
        run(LOCKSTEP, "backup", store, more, status=1, says="the unfinished or damaged backup")
        run(LOCKSTEP, "verify-backup", more, status=1, says="was not finished")
        test_archive(place, rng)
    finally:
        shutil.rmtree(root)


main()
