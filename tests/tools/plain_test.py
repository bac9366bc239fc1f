#!/usr/bin/env python3
"""plain_test.py - `lockstep load --plain` and `dump --plain`: every value of every type comes in
from CSV, TSV and JSON lines as it is written, and out again; wrong lines are named, or kept.

Usage: plain_test.py LOCKSTEP

The bytes of records and the texts of tables are made and read here by code of Python's own.
"""

import datetime
import decimal
import gzip
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from cli_store import fail, make_rng, read_json, run, same

LOCKSTEP = os.path.abspath(sys.argv[1])
FORMATS = ("csv", "tsv", "jsonl")
EPOCH = datetime.datetime(1970, 1, 1)
UNITS = {"time_s": 1, "time_ms": 10**3, "time_us": 10**6, "time_ns": 10**9}
WIDTH = {"u8": 1, "u16": 2, "u24": 3, "u32": 4, "u64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
         "f32": 4, "f64": 8, "decimal32": 4, "decimal": 8, "date": 4, **dict.fromkeys(UNITS, 8)}

# Name, type, argument, place, what follows.
KEY = [("k_u8", "u8"), ("k_u16", "u16"), ("k_u24", "u24"), ("k_u32", "u32"), ("k_u64", "u64"),
       ("k_i32", "i32"), ("k_i64", "i64"), ("k_d32", "decimal32(2)"), ("k_d", "decimal(18)"),
       ("k_date", "date"), ("k_time", "time_us"), ("k_char", "char[5]"), ("k_bytes3", "bytes[3]"),
       ("k_text0", "text0"), ("k_text", "text"), ("k_rest", "bytes")]
FIXED = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "decimal32(0)",
         "decimal(2)", "date", "time_s", "time_ms", "time_us", "time_ns", "char[7]", "bytes[4]"]


def base(kind):
    return kind.split("(")[0].split("[")[0]


def argument(kind):
    return int(kind.rstrip(")]").replace("[", "(").partition("(")[2] or 0)


def describe_all():
    """The text of an index with all types, and its value's columns as (name, type, at, null)."""
    at, value = 0, []
    for i, kind in enumerate(FIXED):
        null = {"i32": -1, "u64": 7, "date": 0}.get(kind)
        value.append((f"v{i}", kind, at, null))
        at += WIDTH.get(base(kind)) or argument(kind)
    value.append(("v_text8", "text8", at, None))
    value.append(("v_text16", "text16", at + 40, None))
    value.append(("v_text", "text", at + 40 + 50, None))
    lines = [f"{name} {kind} key" for name, kind in KEY]
    lines += [f"{name} {kind} value {at}" + (f" null {null}" if null is not None else "")
              for name, kind, at, null in value]
    return "\n".join(lines), value


def number_range(kind):
    if base(kind)[0] == "u":
        return 0, 2 ** (8 * WIDTH[kind]) - 1
    bits = 8 * WIDTH[base(kind)] - 1
    return -(2**bits), 2**bits - 1


def random_text(rng, most, zero):
    letters = "ab \u00e9\u20ac\U0001f600,\"'\\\n\r\t;#N" + ("\0" if zero else "")
    text = "".join(rng.choice(letters) for _ in range(rng.choice([0, 0, 1, 2, 9])))
    while len(text.encode()) > most:
        text = text[:-1]
    return text


def random_value(rng, kind):
    """A number as it is stored, a text, or bytes."""
    of = base(kind)
    if of == "f32":
        numbers = [0.0, -0.0, 1e-45, math.inf, -math.inf, rng.uniform(-9, 9), 3.4e38]
        return struct.unpack("f", struct.pack("f", rng.choice(numbers)))[0]
    if of == "f64":
        return rng.choice([0.0, -0.0, 5e-324, math.inf, 1.7976931348623157e308, rng.gauss(0, 1)])
    if of in WIDTH:
        low, high = number_range(kind)
        some = rng.randint(low, high)
        if of == "date":
            some = rng.randint(-800000, 3000000)
        if of in UNITS:
            some = rng.randint(-9 * 10**9, 9 * 10**9) * min(UNITS[of], 10**6) + rng.randint(0, 999)
        return rng.choice([low, high, low + 1, 0, rng.randint(0, 100), some, some])
    if of == "char":
        return random_text(rng, argument(kind), False)
    if of == "bytes":
        return rng.randbytes(argument(kind) or rng.randrange(6))
    return random_text(rng, {"text8": 38, "text16": 48}.get(of, 100), of != "text0")


def key_part(kind, value):
    of = base(kind)
    if of in WIDTH:
        bias = 0 if of[0] == "u" else 2 ** (8 * WIDTH[of] - 1)
        return (value + bias).to_bytes(WIDTH[of], "big")
    if of == "bytes":
        return value
    data = value.encode()
    if of == "char":
        return data.ljust(argument(kind), b"\0")
    return data + b"\0" if of == "text0" else data.replace(b"\0", b"\0\xff") + b"\0\0"


def value_part(kind, value):
    of = base(kind)
    if of in ("f32", "f64"):
        return struct.pack("<f" if of == "f32" else "<d", value)
    if of in WIDTH:
        return value.to_bytes(WIDTH[of], "little", signed=of[0] != "u")
    if of == "bytes":
        return value
    data = value.encode()
    head = {"text8": 1, "text16": 2}.get(of, 0)
    return len(data).to_bytes(head or 4, "little")[:head] + data.ljust(argument(kind), b"\0")


def spelled(kind, value):
    """As a table has it."""
    of = base(kind)
    if of == "date" or of in UNITS:
        unit = UNITS.get(of, 1)
        days, rest = divmod(value, 86400 * unit) if of != "date" else (value, 0)
        if not -719162 <= days <= 2932896:
            return f"@{value}"
        day = (EPOCH + datetime.timedelta(days=days)).date().isoformat()
        if of == "date":
            return day
        second, part = divmod(rest, unit)
        clock = f"T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        return day + clock + (f".{part:0{len(str(unit)) - 1}}" if unit > 1 else "") + "Z"
    if of.startswith("decimal"):
        return f"{decimal.Decimal(value).scaleb(-argument(kind), CONTEXT):f}"
    if of == "bytes":
        return value.hex()
    return value if isinstance(value, str) else repr(value)


CONTEXT = decimal.Context(prec=40)


def value_of(kind, text):
    """The reverse of spelled(), for what the program writes."""
    of = base(kind)
    if text is None:
        return None
    if of == "date" or of in UNITS:
        unit = UNITS.get(of, 1)
        if text[0] == "@":
            return int(text[1:])
        whole, _, part = text.rstrip("Z").partition(".")
        seconds = (datetime.datetime.fromisoformat(whole) - EPOCH) // datetime.timedelta(seconds=1)
        return seconds // 86400 if of == "date" else seconds * unit + int(part or 0)
    if of.startswith("decimal"):
        return int(decimal.Decimal(text).scaleb(argument(kind), CONTEXT))
    if of == "bytes":
        return bytes.fromhex(text)
    if of in ("f32", "f64"):
        number = float(text)
        return struct.unpack("f", struct.pack("f", number))[0] if of == "f32" else number
    return int(text) if of in WIDTH else text


def write_table(form, names, kinds, rows, rng):
    """Rows as a table, in any of the ways that the format allows. None: no value."""
    order = list(range(len(names)))
    rng.shuffle(order)
    end = rng.choice(["\n", "\r\n"])
    lines = [] if form == "jsonl" else [(",\t"[form == "tsv"]).join(names[i] for i in order)]
    for row in rows:
        texts = [None if row[i] is None else spelled(kinds[i], row[i]) for i in order]
        if form == "jsonl":
            members = []
            for i, text in zip(order, texts):
                if text is None and rng.random() < 0.5:
                    continue
                number = base(kinds[i]) in WIDTH and "inf" not in (text or "")
                plain = number and text is not None and text[0] != "@" and "T" not in text
                plain = plain and base(kinds[i]) != "date" and rng.random() < 0.8
                shown = text if plain else json.dumps(text, ensure_ascii=rng.random() < 0.5)
                members.append(f"{json.dumps(names[i])}: {shown}")
            lines.append("{" + ", ".join(members) + "}")
        elif form == "csv":
            need = set(",\"\r\n")
            lines.append(",".join(
                "" if text is None else
                '"' + text.replace('"', '""') + '"'
                if not text or need & set(text) or rng.random() < 0.2 else text
                for text in texts))
        else:
            escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
            lines.append("\t".join("\\N" if text is None else text.translate(escapes)
                                   for text in texts))
    return (end.join(lines) + rng.choice(["", end])).encode()


def read_table(form, data):
    """Rows of a dump: a list of {name: text or None}."""
    text = data.decode()
    if form == "jsonl":
        return [json.loads(line, parse_float=str, parse_int=str)
                for line in text.split("\n")[:-1]]
    if form == "csv":
        # The csv module does not tell "" from nothing.
        rows, at = [[]], 0
        while at < len(text):
            found = re.compile(r'("(?:[^"]|"")*"|[^,\n]*)([,\n])').match(text, at)
            field, at = found[1], found.end()
            quoted = field.startswith('"')
            rows[-1].append(field[1:-1].replace('""', '"') if quoted else field or None)
            if found[2] == "\n":
                rows.append([])
        return [dict(zip(rows[0], row)) for row in rows[1:-1]]
    rows = [[None if f == "\\N" else f.replace("\\\\", "\1").replace("\\t", "\t")
             .replace("\\n", "\n").replace("\\r", "\r").replace("\1", "\\")
             for f in line.split("\t")] for line in text.split("\n")[:-1]]
    return [dict(zip(rows[0], row)) for row in rows[1:]]


def records_of(store, name):
    return read_json(run(LOCKSTEP, "dump", store, name))[name.encode()]


def check_all_types(folder, rng):
    text, value = describe_all()
    names = [n for n, _ in KEY] + [n for n, *_ in value]
    kinds = [k for _, k in KEY] + [k for _, k, *_ in value]
    nulls = [None] * len(KEY) + [null for *_, null in value]
    rows, wanted = [], {}
    for _ in range(400):
        row = [None if null is not None and rng.random() < 0.3 else random_value(rng, kind)
               for kind, null in zip(kinds, nulls)]
        row = [None if null is not None and one == null else one for one, null in zip(row, nulls)]
        key = b"".join(key_part(k, v) for (_, k), v in zip(KEY, row))
        record = b""
        for (_, kind, at, null), one in zip(value, row[len(KEY):]):
            record = record.ljust(at, b"\0") + value_part(kind, null if one is None else one)
        if key not in wanted:
            rows.append(row)
        wanted.setdefault(key, record)
    for form in FORMATS:
        path = os.path.join(folder, "all-" + form)
        table = os.path.join(folder, "all." + form)
        with open(table, "wb") as file:
            file.write(write_table(form, names, kinds, rows, rng))
        run(LOCKSTEP, "load", path, table, "--plain", "--object", "all", "--describe", text)
        same({b"all": records_of(path, "all")}, {b"all": wanted}, "loaded from " + form)
        shown = run(LOCKSTEP, "dump", path, "all", "--plain", "--format", form)
        sort = sorted(zip(wanted, rows)) if len(rows) == len(wanted) else fail("rows")
        for found, (_, row) in zip(read_table(form, shown), sort, strict=True):
            for name, kind, one in zip(names, kinds, row):
                got = value_of(kind, found[name])
                if got != one or str(got) != str(one):
                    fail(f"{form}: {name} {kind} shows {found[name]!r}, not {one!r}")
        again = os.path.join(folder, "again-" + form)
        run(LOCKSTEP, "load", again, "-", "--plain", "--object", "all", "--describe", text,
            "--format", form, stdin=shown)
        same({b"all": records_of(again, "all")}, {b"all": wanted}, "loaded again from " + form)


def check_short_records(folder, rng):
    """A heap whose records end early, and a table of one column, in which an empty line counts."""
    text = "a u32 value 0 short null, b text8 value 4 short null"
    rows = [[rng.randrange(9), None], [None, None], [3, ""], [4, "x,y\n"], [5, None]]
    wanted = [b"", struct.pack("<I", 3) + b"\0", struct.pack("<I", 4) + b"\4x,y\n"]
    wanted += [struct.pack("<I", row[0]) for row in (rows[0], rows[4])]
    for form in FORMATS:
        path = os.path.join(folder, "short-" + form)
        table = write_table(form, ["a", "b"], ["u32", "text8"], rows, rng)
        run(LOCKSTEP, "load", path, "--plain", "--object", "h", "--describe", text,
            "--format", form, stdin=table)
        same({b"h": records_of(path, "h")}, {b"h": wanted}, "short records from " + form)
    one = os.path.join(folder, "one")
    run(LOCKSTEP, "load", one, "--plain", "--object", "h", "--describe", "a u8 value 0 short null",
        "--format", "csv", stdin=b"a\n1\n\n2\n")
    same({b"h": records_of(one, "h")}, {b"h": [b"\1", b"", b"\2"]}, "one column")
    shown = run(LOCKSTEP, "dump", one, "h", "--plain")
    if sorted(shown.split(b"\n")) != [b"", b"", b"1", b"2", b"a"]:
        fail(f"one column: {shown!r}")


COLUMNS = "id u32 key, pop decimal(2) value 0 null -1, name text8 value 8"


def load(store, table, *options, form="csv", status=0, says=""):
    return run(LOCKSTEP, "load", store, "--plain", "--object", "cities", "--format", form, *options,
               stdin=table, status=status, says=says)


def table_of(store):
    return run(LOCKSTEP, "dump", store, "cities", "--plain").decode()


def check_headers(folder):
    """BOM, CRLF, other orders, columns that are left out, compressed files."""
    good = "id,pop,name\n7,1.50,a\n8,,b\n"
    ways = [
        (b"\xef\xbb\xbfid,pop,name\r\n7,1.5,a\r\n\r\n8,,b\r\n", []),
        (b"name,junk, id ,pop\na,q,7,+1.500\nb,,8,\n", ["--ignore", "junk"]),
        (b"q,a,7,1.5\nr,b,8,\n", ["--columns", ",name,id,pop"]),
        (b'id,pop,name\n7,1.50,"a"\n8,,b', []),
    ]
    for i, (table, options) in enumerate(ways):
        store = os.path.join(folder, f"header{i}")
        load(store, table, "--describe", COLUMNS, *options)
        if table_of(store) != good:
            fail(f"header {i}: {table_of(store)}")
    packed = os.path.join(folder, "cities.csv.gz")
    with gzip.open(packed, "wb") as file:
        file.write(good.encode())
    store = os.path.join(folder, "packed")
    options = ["--plain", "--object", "cities", "--describe", COLUMNS]
    run(LOCKSTEP, "load", store, packed, *options, status=1, says="zcat")
    piped = f'zcat "{packed}" | "$0" load "{store}" - "$@"'
    subprocess.run(["bash", "-ec", piped, LOCKSTEP, *options], check=True, capture_output=True)
    if table_of(store) != good:
        fail("a compressed table through a pipe")


# Wrong rows behind a good one, with what is said of them.
WRONG = {
    b"x,2,a\n": 'column id: "x" is no u32, which takes a whole number from 0 to 4294967295',
    b"4294967296,2,a\n": 'column id: "4294967296" is no u32',
    b"2,1.234,a\n": 'column pop: "1.234" is no decimal(2), which takes a decimal number with at',
    b"2,-0.01,a\n": 'column pop: "-0.01" means that there is no value',
    b",1,a\n": "column id has no value, and a part of a key needs one",
    b"2,1\n": "2 fields; line 1 or --columns names 3",
    b'2,1,"a"b\n': "text behind the end of a quoted field",
    b'"x\n\n",1,a\n': "column id",
    b"2,1,\xfc\n": 'column name: "\\xfc" is no text8, which takes UTF-8; `iconv',
    b"2,1," + b"n" * 256 + b"\n": "is no text8, which takes at most 255 bytes",
    b'2,1,"a\n': "a quoted field does not end",
}


def check_errors(folder):
    """Each says where, what, and what to do; the corrected table comes in by one command."""
    row = b"id,pop,name\n1,2,a\n"
    wrong = {
        row + b'"x\n\n",1,a\n': ["input: line 3: column id", "--rejects FILE keeps"],
        b'id,pop,name\n1,2,"a\n\nb"\nx,2,a\n': "line 5: column id",
        row + b"1,2,b\n": "occurs twice, on lines 2 and 3 (with --replace",
        b"id,popp,name\n": "line 1: no column 'popp' is described, but id, pop, name; did you mean",
        b"id,pop\n1,2\n": "the column name is missing",
        b"id,id,name\n": "a second column id",
        b"\xff\xfei\0": "is UTF-16 (iconv",
    }
    store = os.path.join(folder, "errors")
    load(store, row, status=1, says=["no index or heap cities", "--describe 'id"])
    for table, says in wrong.items():
        load(store, table, "--describe", COLUMNS, status=1, says=says)
    load(store, row, "--describe", COLUMNS)
    if table_of(store) != "id,pop,name\n1,2.00,a\n":
        fail(f"corrected table: {table_of(store)}")
    load(store, row, "--describe", "id u32 key", status=1, says="is described otherwise")
    run(LOCKSTEP, "load", store, "--plain", stdin=row, status=1, says="needs --object")
    run(LOCKSTEP, "load", store, "--object", "cities", stdin=row, status=1, says="for --plain")
    run(LOCKSTEP, "dump", store, "--plain", status=1, says="name it")
    run(LOCKSTEP, "dump", store, "--format", "tsv", status=1, says="for --plain")


def check_reasons(folder):
    """All that is wrong in a table comes out by one command."""
    cases = [
        ("csv", b"id,pop,name\n1,2,a\n", WRONG),
        ("jsonl", b"", {b'{"id":[1]}\n': "column id: an object or an array",
                       b'{"id":1,"nam":"b"}\n': "did you mean name?",
                       b'{"id":1,\n': "not a JSON text", b"[1]\n": "not a JSON object",
                       b'{"id":1,"pop":null}\n': "column name has no value"}),
        ("tsv", b"id\tpop\tname\n", {b"2\t1\ta\\b\n": "a backslash that is neither"}),
    ]
    for form, head, wrong in cases:
        store, kept = os.path.join(folder, "why-" + form), os.path.join(folder, "kept." + form)
        load(store, head + b"".join(wrong), "--describe", COLUMNS, "--rejects", kept, form=form,
             status=2)
        reasons, line = open(kept + ".why").read().splitlines(), head.count(b"\n") + 1
        for reason, (text, says) in zip(reasons, wrong.items(), strict=True):
            if not reason.startswith(f"line {line}: ") or says not in reason:
                fail(f"{text} on line {line}, which should be {says!r}: {reason}")
            line += text.count(b"\n")
        if not open(kept, "rb").read().endswith(b"".join(wrong)):
            fail("refused lines are not as they were")


def check_rejects(folder):
    """Wrong lines are kept with their reasons; corrected, their file is a table as well."""
    store, kept = os.path.join(folder, "kept"), os.path.join(folder, "kept.csv")
    table = b'id,pop,name\n1,2,a\nx,3,"b\nb"\n3,4,"c"d\n4,5,d\n5,6,e,f\n'
    load(store, table, "--describe", COLUMNS, "--rejects", kept, status=2, says="3 rows were ref")
    if table_of(store) != "id,pop,name\n1,2.00,a\n4,5.00,d\n":
        fail(f"what --rejects has left: {table_of(store)}")
    lines = open(kept, "rb").read()
    if lines != b'id,pop,name\nx,3,"b\nb"\n3,4,"c"d\n5,6,e,f\n':
        fail(f"refused lines: {lines}")
    if os.stat(kept).st_mode & 0o77:
        fail("refused lines are for others to read")
    with open(kept, "wb") as file:
        file.write(lines.replace(b"x", b"2").replace(b'"c"d', b'"c""d"').replace(b",f", b""))
    options = ["--plain", "--object", "cities"]
    run(LOCKSTEP, "load", store, kept, *options, "--rejects", kept, status=1, says="is the input")
    run(LOCKSTEP, "load", store, kept, *options)
    all_rows = '1,2.00,a\n2,3.00,"b\nb"\n3,4.00,"c""d"\n4,5.00,d\n5,6.00,e\n'
    if table_of(store) != "id,pop,name\n" + all_rows:
        fail(f"corrected lines: {table_of(store)}")
    run(LOCKSTEP, "load", store, kept, *options, "--rejects", store + "/kept", status=1,
        says="lies in the store's directory")
    none = os.path.join(folder, "none.csv")
    load(store, b"id,pop,name\n9,1,z\n", "--rejects", none)
    if os.path.exists(none) or os.path.exists(none + ".why"):
        fail("files of refused lines, and none was refused")


def rows_of_heap(store):
    shown = run(LOCKSTEP, "dump", store, "h", "--plain")
    return sorted(int(row["id"]) for row in read_table("csv", shown))


def check_resume(folder):
    """A load that stops behind a cut goes on there. Nothing but LO-1 keeps a heap's rows apart."""
    rows = [b"%d,%s\n" % (i, b"v" * 300) for i in range(20000)]
    table = b"id,text\n" + b"".join(rows[:15000]) + b"x,y\n" + b"".join(rows[15000:])
    store = os.path.join(folder, "resume")
    command = ["load", store, "--plain", "--object", "h", "--format", "csv"]
    text = "id u32 value 0, text text value 4"
    run(LOCKSTEP, *command, "--memory", "1M", "--describe", text, stdin=table, status=1,
        says=["line 15002", "correct it, and --resume goes on"])
    run(LOCKSTEP, *command, "--resume", stdin=table.replace(b"x,y", b"20000,y"))
    if rows_of_heap(store) != list(range(20001)):
        fail(f"{len(rows_of_heap(store))} rows after a line was corrected")


def check_kill(folder):
    """A load that is killed and goes on has each refused line once."""
    rows = [b"%s%d,%s\n" % (b"x" * (i % 2), i, b"v" * 300) for i in range(80000)]
    head = b"id,text\n"
    store, kept = os.path.join(folder, "killed"), os.path.join(folder, "killed.csv")
    command = [LOCKSTEP, "load", store, "--plain", "--object", "h", "--format", "csv",
               "--memory", "4M", "--rejects", kept]
    text = "id u32 value 0, text text value 4"
    load = subprocess.Popen([*command, "--describe", text], stdin=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    load.stdin.write(head + b"".join(rows[:64000]))
    load.stdin.flush()
    state = os.path.join(store, "load.tmp", "state.json")
    deadline = time.monotonic() + 60
    written = lambda: json.load(open(state))["rejects"][1]  # noqa: E731
    while not os.path.exists(state) or os.path.getsize(kept) <= written():
        if time.monotonic() > deadline or load.poll() is not None:
            fail("refused lines behind a cut")
        time.sleep(0.01)
    load.kill()
    load.wait()
    load.stdin.close()
    run(*command, "--resume", status=2, stdin=head + b"".join(rows), says="40000 rows were refused")
    if rows_of_heap(store) != list(range(0, 80000, 2)):
        fail("rows of a load that was killed")
    if open(kept, "rb").read() != head + b"".join(rows[1::2]):
        fail("refused lines of a load that was killed")
    if len(open(kept + ".why").read().splitlines()) != 40000:
        fail("reasons of a load that was killed")


def check_loss(folder):
    """What the columns do not describe is told, and a record that does not fit them is named."""
    store = os.path.join(folder, "loss")
    load(store, b"id,pop,name\n1,2,a\n2,3,b\n", "--describe", COLUMNS)
    run(LOCKSTEP, "put", store, "cities", "u32:2", "hex:" + "00" * 8 + "0161" + "77")
    run(LOCKSTEP, "dump", store, "cities", "--plain",
        says=["1 record is not whole in the table", "\\x00\\x00\\x00\\x02"])
    run(LOCKSTEP, "put", store, "cities", "u32:3", "short")
    run(LOCKSTEP, "dump", store, "cities", "--plain", status=1,
        says=["the key \\x00\\x00\\x00\\x03", 'column "pop"'])


def main():
    rng = make_rng("plain_test")
    folder = tempfile.mkdtemp(prefix="lockstep-plain-")
    try:
        check_all_types(folder, rng)
        check_short_records(folder, rng)
        check_headers(folder)
        check_errors(folder)
        check_reasons(folder)
        check_rejects(folder)
        check_resume(folder)
        check_kill(folder)
        check_loss(folder)
        print("9 passed, 0 failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
