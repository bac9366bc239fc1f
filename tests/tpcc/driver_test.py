#!/usr/bin/env python3
"""driver_test.py - the TPC-C program as scripts use it: exit status, JSON names, reopening, dump,
errors that name the thing and the remedy, results of runs that end early.

Usage: driver_test.py DRIVER
"""

import csv
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

DRIVER = sys.argv[1]


def run(*arguments, status=0, says="", timeout=250):
    command = [DRIVER, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    text = done.stdout + done.stderr
    ok = done.returncode != 0 if status is None else done.returncode == status
    if not ok or says not in text:
        sys.exit(
            f"{arguments}: status {done.returncode}, expected {status}, text with '{says}':\n{text}"
        )
    return text


def check_json(path, warehouses, transactions):
    with open(path) as file:
        result = json.load(file)
    assert result["tx_per_s"] > 0 and result["nopm"] > 0, result
    assert result["ended"] == "complete" and not result["verdict"]["audited"], result
    assert result["build"]["commit"] and result["machine"]["processor"], result
    assert "--transactions" in result["settings"]["command_line"], result
    assert set(result["transactions"]) == {
        "NewOrder",
        "Payment",
        "OrderStatus",
        "Delivery",
        "StockLevel",
    }
    for stats in result["transactions"].values():
        assert {"count", "p50_us", "p90_us", "p99_us", "p999_us"} <= set(stats), stats
        assert stats["p50_us"] <= stats["p90_us"] <= stats["p99_us"] <= stats["p999_us"], stats
    assert sum(stats["count"] for stats in result["transactions"].values()) == transactions
    assert [c["id"] for c in result["conditions"]] == list(range(1, 13)) and all(
        c["ok"] for c in result["conditions"]
    )
    assert [c["ok"] for c in result["stock"]] == [True] * 4
    for name, buckets in result["histograms_us"].items():
        assert sum(n for _, n in buckets) == result["transactions"][name]["count"], name
    queued = result["delivery_interactive"]
    assert sum(n for _, n in queued["histogram_us"]) == queued["count"] > 0, queued
    orders = result["transactions"]["NewOrder"]["count"]
    assert 9 * orders < result["inputs"]["order_lines"] < 11 * orders, result["inputs"]
    rules = {rule["rule"]: rule for rule in result["verdict"]["rules"]}
    remote = rules["Payments of other warehouses"]
    assert remote["within"] is None and remote["standing"] == "does not apply", remote
    assert rules["90% of Delivery within, interactive"]["within"] is not None, rules
    # No later than the last transaction, whose response times the series has.
    last = result["series"][-1]
    assert abs(last["t_s"] + last["length_s"] - result["measured_s"]) < 0.001, result["measured_s"]
    in_series = sum(point["all"]["count"] for point in result["series"])
    assert in_series == transactions, (in_series, transactions)
    assert "deadlock" in result["aborts"] and result["settings"]["warehouses"] == warehouses


def load(path):
    with open(path) as file:
        return json.load(file)


def read(path):
    with open(path) as file:
        return file.read()


LOAD_HAS_BEGUN = 64 << 20  # bytes of the volume of eight warehouses, which grows to 800 MB


# Another number of warehouses, a load that was cut off, files of others: what to do is said.
def check_remedies(directory, db):
    run("--path", db, "-w", "2", status=2, says="leave --warehouses out")
    run("--path", db, "-w", "2", status=2, says="has 1 warehouse, and")
    foreign = os.path.join(directory, "foreign")
    os.mkdir(foreign)
    with open(os.path.join(foreign, "letter.txt"), "w") as file:
        file.write("dear reader")
    run("--path", foreign, status=2, says="choose an empty or new directory")
    assert os.listdir(foreign) == ["letter.txt"]
    cut = os.path.join(directory, "cut")
    child = subprocess.Popen([DRIVER, "--path", cut, "-w", "8"], stdout=subprocess.DEVNULL)
    data = os.path.join(cut, "data")
    until = time.monotonic() + 60
    while not os.path.exists(data) or os.path.getsize(data) < LOAD_HAS_BEGUN:
        assert time.monotonic() < until and child.poll() is None, "the load does not begin"
        time.sleep(0.01)
    child.kill()
    child.wait()
    run("--path", cut, "-w", "8", status=2, says="delete the directory")
    shutil.rmtree(cut)
    run("--rate", "10", "--think", "1", status=None, says="exclude each other")
    run("--arrivals", "constant", status=None, says="--arrivals needs --rate")
    run("--ramp", "5", "--transactions", "9", status=None, says="--ramp and --transactions exclude")
    run("--ramp", "5", "--think", "1", status=None, says="--ramp and --think exclude")
    run("--path", db, "--check-only", "--ramp", "5", status=None, says="needs a run")
    short = ("--duration", "0.2", "--warmup", "0", "--rate", "500")
    run("--path", db, "--ramp", "0.001", *short, says="Already 500 transactions a second are too")
    run("--weights", "1,2,3", status=None, says="five weights")
    run("--path", db, "--check-only", "--html", "x.html", status=None, says="needs a run")
    run("--path", db, "--check-only", "--audit-every", "1", status=None, says="needs a run")
    run("--path", db, "--dump", "x", "--json", "x.json", status=None, says="--dump has no --json")
    twice = ("--json", "out", "--html", "./out")
    run("--path", db, *twice, status=None, says="--json and --html name one file: out")
    assert not os.path.exists("x.json") and not os.path.exists("out")


def check_help():
    text = run("--help")
    for group in ("Database:", "Offered load:", "Transactions:", "Results:", "Examples:"):
        assert group in text, group
    assert "[COMMAND]" in text and "SUBCOMMAND" not in text, text
    # All commands of `lockstep` that ask an open store.
    control = " ".join(re.search(r"--control +((?:.*\n)+?) +--archive", text).group(1).split())
    for command in ("top stat locks transactions end checkpoint prepared commit rollback").split():
        assert re.search(rf"\b{command}\b", control), (command, control)
    assert "metrics and backup" in control, control
    assert re.match(r"lockstep-tpcc \d+\.\d+\.\d+ \(commit \w", run("--version"))


# At the pace of the specification there is less than a transaction a second.
def check_slow_run(db):
    slow = ["--path", db, "--think", "1", "--warmup", "0", "--duration", "1"]
    text = run(*slow, "--audit-every", "60", says="the run ended before the first check")
    assert re.search(r"^\d+ transactions in 1\.00 s: too little for a throughput", text, re.M), text
    assert "transactions a second" not in text and " NOPM:" not in text, text


def check_seeds(directory, db):
    out = os.path.join(directory, "seed.json")
    seeds = []
    for number in (1, 2):
        text = run("--path", db, "--transactions", "100", "--json", out)
        settings = load(out)["settings"]
        assert f"--seed {settings['seed']}" in text, text
        seeds.append((settings["run_number"], settings["seed"]))
    assert seeds[0][0] + 1 == seeds[1][0] and seeds[0][1] != seeds[1][1], seeds
    run("--path", db, "--transactions", "100", "--seed", "4711", "--json", out)
    assert load(out)["settings"]["seed"] == 4711


# Ctrl-C: what was measured is printed and written, and the conditions are checked.
def check_interrupt(directory, db):
    out, log = os.path.join(directory, "stopped.json"), os.path.join(directory, "deliveries.csv")
    child = subprocess.Popen(
        [DRIVER, "--path", db, "--duration", "60", "--warmup", "0", "--interval", "0.2"]
        + ["--json", out, "--delivery-log", log],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = [child.stdout.readline() for _ in range(6)]
    assert re.match(r"running \d+ of 60 s: [\d.]+ tx/s, .* p99 [\d.]+ ms, \d+ repeated", lines[-1])
    # The results of deliveries come while the run goes on.
    until = time.monotonic() + 60
    while len(read(log).splitlines()) < 11:
        assert time.monotonic() < until and child.poll() is None, "no results of deliveries come"
        time.sleep(0.1)
    # Of today, or of yesterday at midnight.
    days = [time.strftime("%Y-%m-%dT", time.gmtime(time.time() - ago)) for ago in (0, 3600)]
    for field in read(log).splitlines()[1].split(",")[:2]:
        assert any(field.startswith(day) for day in days), field
    child.send_signal(signal.SIGINT)
    text = child.communicate(timeout=120)[0]
    assert child.returncode == 130, child.returncode
    assert "The run was interrupted, after" in text and "holds" in text, text
    result = load(out)
    assert result["ended"] == "interrupted" and result["tx_per_s"] > 0
    assert len(result["series"]) >= 4 and all(c["ok"] for c in result["conditions"])


# The disk is full in the middle of a run: a limit on the size of files stands for it.
def check_full_disk(directory):
    db, out = os.path.join(directory, "full"), os.path.join(directory, "full.json")
    run("--path", db, "-w", "1", "--transactions", "10", "--pool", "64M")
    largest = max(os.path.getsize(os.path.join(db, name)) for name in os.listdir(db))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    done = subprocess.run(
        [DRIVER, "--path", db, "--pool", "64M", "--duration", "100", "--warmup", "0"]
        + ["--json", out],
        capture_output=True,
        text=True,
        timeout=200,
        preexec_fn=limit,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 2, text
    assert "The run was stopped by an error: " in text and "NOPM" in text, text
    result = load(out)
    assert result["ended"] == "failed" and result["failure"] and result["tx_per_s"] > 0, result
    shutil.rmtree(db)


# Runs the driver in a file system of its own with so many MB, after `prepare`, a shell command.
def run_on_small_disk(directory, megabytes, prepare, *arguments):
    disk = os.path.join(directory, "disk")
    os.makedirs(disk, exist_ok=True)
    script = f"mount -t tmpfs -o size={megabytes}M none {disk} && {prepare} && exec \"$@\""
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    return subprocess.run(
        [*namespace, DRIVER, "--path", disk + "/db", *arguments],
        capture_output=True,
        text=True,
        timeout=250,
    )


# The store finds no room to grow. The run ends soon after that, and says why.
def check_no_room(directory):
    out = os.path.join(directory, "no-room.json")
    load_and_fill = (
        f"{DRIVER} --path {directory}/disk/db -w 1 --transactions 10 --log-size 128M >&2 && "
        f"dd if=/dev/zero of={directory}/disk/fill bs=1M >&2; rm {directory}/disk/fill && "
        f"dd if=/dev/zero of={directory}/disk/fill bs=1M count=$(($(df -m --output=avail "
        f"{directory}/disk | tail -1) - 1)) >&2"
    )
    # Long enough for a busy machine; the full disk ends it.
    arguments = ["--txn", "neworder", "--log-size", "128M", "--pool", "200M", "--warmup", "0"]
    arguments += ["--duration", "1000", "--interval", "0.1"]
    done = run_on_small_disk(directory, 600, load_and_fill, *arguments, "--json", out)
    text = done.stdout + done.stderr
    if "unshare failed" in text or "mount: " in text:
        print("skipped: this system lets nobody mount a small disk")
        return
    assert done.returncode == 2 and "no space left" in text, text
    result = load(out)
    assert result["ended"] == "failed" and "no_space" in result["failure"], result["failure"]
    assert result["aborts"]["log_full"] == 0 and result["aborts"]["no_space"] > 0, result["aborts"]
    # The live lines of the stall name it.
    assert re.search(r"^running .* \d+ repeated \(\d+ no_space\)$", text, re.M), text
    stalled = 0
    for point in reversed(result["series"]):
        if point["all"]["count"] > 0:
            break
        stalled += point["length_s"]
    assert stalled < 5, f"{stalled} s without a transaction"


# A narrow terminal, and one that cannot clear a line.
def check_live_line(db):
    for kind, columns in (("xterm", 30), ("dumb", 30)):
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        child = subprocess.Popen(
            [DRIVER, "--path", db, "--warmup", "0", "--duration", "2", "--interval", "0.5"],
            stdout=writer,
            env={**os.environ, "TERM": kind},
        )
        os.close(writer)
        data = b""
        while True:
            try:
                more = os.read(reader, 65536)
            except OSError:  # the end of a terminal
                break
            if not more:
                break
            data += more
        os.close(reader)
        assert child.wait(timeout=60) == 0
        shown = [line.split(b"\r")[0] for line in data.split(b"\r\033[K")[1:]]
        if kind == "dumb":
            assert b"\033" not in data and b"running" in data, data
            continue
        running = [line for line in shown if line.startswith(b"running")]
        assert running and max(map(len, running)) == columns - 1, shown


# Several runs, each with files of its own; a verdict only of three of each.
def check_repetitions(directory, db):
    base = ["--path", db, "--pool", "300M", "--warmup", "0"]
    base += ["--duration", "1.5", "--interval", "0.7"]
    files = {}
    for side in "AB":
        copy, out = os.path.join(directory, "copy"), os.path.join(directory, f"side-{side}.json")
        shutil.copytree(db, copy)
        base[1] = copy
        run(*base, "--repeat", "3", "--json", out)
        shutil.rmtree(copy)
        files[side] = [out.replace(".json", f"-{number}.json") for number in (1, 2, 3)]
        assert not os.path.exists(out)
        for file in files[side]:
            result = load(file)
            counts = sum(p["all"]["count"] for p in result["series"] if p["measured"])
            lengths = sum(p["length_s"] for p in result["series"] if p["measured"])
            total = sum(t["count"] for t in result["transactions"].values())
            assert counts == total, (file, counts, total)
            assert abs(lengths - result["measured_s"]) < 1e-6, (file, lengths, result["measured_s"])
            assert result["cpu"]["ran_s"] > 0, result["cpu"]
            if os.path.exists("/proc/self/schedstat"):
                assert 0 <= result["cpu"]["wait_share"] <= 1, result["cpu"]
    one = run("compare", files["A"][0], files["B"][0])
    assert "differs within these runs" in one and "B is" not in one and "--repeat 3" in one, one
    columns = re.search(r"transactions a second +([\d.]+) +([\d.]+) +([\d.]+)", one)
    for column, side in ((1, "A"), (2, "B")):
        rate = load(files[side][0])["tx_per_s"]
        assert abs(float(columns[column]) - rate) < 0.06, (columns[0], rate)
    assert abs(float(columns[3]) - float(columns[2]) / float(columns[1])) < 0.0006, columns[0]
    all_runs = run("compare", *files["A"], "--against", *files["B"])
    # On a busy machine, a run may be too short for a throughput.
    judged = all(load(file)["enough"] for side in "AB" for file in files[side])
    words = r"^transactions a second .*(no difference shown|B is \w+|equal)$"
    verdict = re.search(words, all_runs, re.MULTILINE)
    assert "A1 to A3" in all_runs and (verdict is not None) == judged, all_runs


# A report that cannot be written is an error.
def check_lost_reports(directory, db):
    few = ["--path", db, "--transactions", "100"]
    run(*few, "--json", "/dev/full", status=2, says="--json /dev/full")
    run(*few, "--html", "/dev/full", status=2, says="--html /dev/full")
    out = os.path.join(directory, "lost.json")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [DRIVER, *few, "--json", out], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2, done
    assert "standard output: No space left on device" in done.stderr, done
    assert all(c["ok"] for c in load(out)["conditions"])


# As `| head -3` and `2>&1 | head -3`: the reader of the pipe ends before the program.
def check_closed_pipe(db):
    for errors_too in (False, True):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [DRIVER, "--path", db, "--transactions", "100"],
            stdout=writer,
            stderr=writer if errors_too else subprocess.PIPE,
            text=True,
        )
        os.close(writer)
        assert done.returncode == 2, done
        assert errors_too or "standard output: Broken pipe" in done.stderr, done


# Ctrl-C ends a dump, which may be long.
def check_interrupted_dump(directory, db):
    dump = os.path.join(directory, "cut-dump")
    child = subprocess.Popen([DRIVER, "--path", db, "--dump", dump], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not os.path.exists(os.path.join(dump, "customer.csv")):
        assert time.monotonic() < until and child.poll() is None, "the dump does not begin"
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 130, child.returncode


# Each is an error that is named, before a run or instead of an empty result.
def check_unusable_inputs(directory, db):
    for option in ("--duration", "--rate", "--think", "--interval"):
        run(option, "nan", status=None, says=f"{option}: nan is not a number")
    run("--seed", "-1", status=None, says="--seed: -1 is negative")
    run("--path", "", status=None, says="--path: must not be empty")
    # A load of hours that no disk can hold.
    empty = os.path.join(directory, "empty")
    most = ("-w", "65535", "--pool", "64M")
    text = run("--path", empty, *most, status=2, says="no_space", timeout=20)
    assert re.search(r"65535 warehouses take about [\d.]+ GB: .* has [\d.]+ [GM]B free", text), text
    run("--path", db, "--ctx-points", "auto:/", status=None, says="cannot read /")
    run("--path", db, "--check-only", "--check-acks", "/", status=2, says="acknowledgements")
    half = os.path.join(directory, "half.json")
    with open(half, "w") as file:
        file.write('{"settings": {}, "series": [{"measured": true}]}')
    run("compare", half, half, "--force", status=2, says="is no result of this program")
    out, tables = os.path.join(directory, "bytes.json"), os.fsencode(directory) + b"/\xff"
    run("--path", db, "--transactions", "100", "--json", out, "--csv", os.fsdecode(tables))
    assert "\ufffd" in load(out)["settings"]["command_line"] and os.path.isdir(tables)


def check_typing_errors():
    for words, says in (
        (["--warehouse", "1"], "no option --warehouse; did you mean --warehouses?"),
        (["--durabilty=lazy"], "no option --durabilty; did you mean --durability?"),
        (["--xyzzy"], "no option --xyzzy; --help lists them"),
        (["extra"], "unexpected argument 'extra'; --help shows what it takes"),
        (["-w", "0"], "--warehouses: Value 0 not in range 1 to 65535 (--help lists the options)"),
    ):
        text = run(*words, status=None)
        assert text == f"lockstep-tpcc: {says}\n", text


def check_results(directory, db):
    a, b, csvs = (os.path.join(directory, name) for name in ("a.json", "b.json", "tables"))
    base = ["--path", db, "--warmup", "0", "--duration", "2", "--interval", "0.2", "--pool", "300M"]
    run(*base, "--json", a, "--csv", csvs)
    run(*base, "--json", b)
    # The second run of a database works on more data than the first.
    run("compare", a, b, status=1, says="settings/run_number: ")
    text = run("compare", a, b, "--force", says="WARNING: the ratios")
    assert "settings/run_number" in text and "B is" not in text, text
    run(*base, "--rate", "500", "--weights", "45,43,4,4,4", "--json", b, says="offered 500")
    offered = load(b)["offered"]
    # A disturbed machine may leave a backlog, but nothing that was due is forgotten.
    assert offered["due"] > 700 and offered["due_in_warmup"] == 0, offered
    assert offered["started"] + offered["backlog"] == offered["due"], offered
    assert offered["completed"] <= offered["started"] and offered["late_starts"] > 0, offered
    run("compare", a, b, status=1, says="settings/rate: 0.0 against 500.0")
    run("compare", a, "/etc/passwd", status=2, says="is not a result")
    with open(os.path.join(csvs, "series.csv")) as file:
        rows = list(csv.DictReader(file))
    assert {row["type"] for row in rows} >= {"all", "NewOrder"} and len(rows) >= 48, len(rows)
    result = load(a)
    for name, stats in result["transactions"].items():
        lines = read(os.path.join(csvs, name + ".hgrm")).splitlines()
        values = [line.split() for line in lines[2:] if not line.startswith("#")]
        assert int(values[-1][2]) == stats["count"] and float(values[-1][1]) == 1.0, name
        # The percentile that the text form shows is that of the report, to a bucket.
        median = next(float(v[0]) for v in values if float(v[1]) >= 0.5)
        assert abs(median - stats["p50_us"]) <= 0.02 * median, (name, median, stats["p50_us"])


def check_runs(directory):
    db, out, dump = (os.path.join(directory, name) for name in ("db", "out.json", "csv"))
    run("--path", db, "-w", "1", "--transactions", "3000", "--json", out, says="Rules of")
    check_json(out, 1, 3000)
    run(
        "--path",
        db,
        "--transactions",
        "1000",
        "--workers",
        "2",
        "--durability",
        "durable",
        "--json",
        out,
        says="reopened",
    )
    check_json(out, 1, 1000)
    run("--path", db, "--check-only", says="holds")
    run("--path", db, "--dump", dump)
    with open(os.path.join(dump, "warehouse.csv")) as warehouses, open(
        os.path.join(dump, "district.csv")
    ) as districts:
        w_ytd = sum(float(row["w_ytd"]) for row in csv.DictReader(warehouses))
        d_ytd = sum(float(row["d_ytd"]) for row in csv.DictReader(districts))
    assert abs(w_ytd - d_ytd) < 0.01 and w_ytd > 300000, (w_ytd, d_ytd)

    check_slow_run(db)
    check_seeds(directory, db)
    check_interrupt(directory, db)
    check_live_line(db)
    check_repetitions(directory, db)


def check_limits(directory):
    db = os.path.join(directory, "db")
    run("--path", db, "-w", "1", "--transactions", "3000", says="Rules of")
    check_remedies(directory, db)
    check_help()
    check_full_disk(directory)
    check_no_room(directory)
    check_lost_reports(directory, db)
    check_closed_pipe(db)
    check_interrupted_dump(directory, db)
    check_unusable_inputs(directory, db)
    check_typing_errors()
    check_results(directory, db)
    run(
        "--path",
        os.path.join(directory, "none"),
        "--check-only",
        status=2,
        says=os.path.join(directory, "none"),
    )
    run("--path", "/proc/nothing/here", status=2, says="/proc/nothing/here")
    run("--json", "/proc/nothing/here", status=2, says="/proc/nothing/here")
    run("--pool", "3", status=None, says="--pool: is not in the range 4M to 1023G: 3")
    for bad in (
        ["--nonsense"],
        ["--txn", "all"],
        ["--pool", "many"],
        ["--check-only"],
        ["--workers", "0"],
    ):
        run(*bad, status=None, says=bad[0].lstrip("-"))


directory = tempfile.mkdtemp(prefix="lockstep-driver-")
try:
    {"runs": check_runs, "limits": check_limits}[sys.argv[2]](directory)
finally:
    shutil.rmtree(directory, ignore_errors=True)
print("the driver does as scripts rely on")
