"""cli_store.py - what the tests of `lockstep` share: runs of the program, random contents, and
dumps written and read by other code than the program's."""

import csv
import json
import os
import random
import re
import subprocess
import sys


def fail(text):
    sys.exit("FAILED: " + text)


def run(program, *arguments, status=0, stdin=None, says=""):
    """Runs the program; its exit status and a part of its output, or several, must be as given.
    Status None: any but 0."""
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, timeout=250, input=stdin
    )
    text = (done.stdout + done.stderr).decode(errors="replace")
    missing = [part for part in ([says] if isinstance(says, str) else says) if part not in text]
    wrong = done.returncode == 0 if status is None else done.returncode != status
    if wrong or missing:
        said = f"status {done.returncode}, not {status}; lacks {missing}:\n{text[-3000:]}"
        fail(f"{arguments}: {said}")
    return done.stdout


def random_bytes(rng, shortest, longest):
    size = rng.randint(shortest, longest)
    style = rng.randrange(4)
    if style == 0:
        return rng.randbytes(size)
    if style == 1:
        letters = "abc\u00e9\u20ac\U0001f600 ,\"'\\{}"
        return "".join(rng.choice(letters) for _ in range(size // 4)).encode()
    if style == 2:
        return bytes(rng.choice(b'ab",\\\r\n\t\x00\x7f\xff') for _ in range(size))
    return b"%0*d" % (max(size, 1), rng.randrange(10**6))


def random_contents(rng, records, heaps=True):
    """{name: {key: value}} for indexes, {name: [record]} for heaps; names are bytes."""
    contents = {}
    for name in (b"cities", b'odd "name", \\ \xff\n', "\u00e9t\u00e9".encode(), b"empty"):
        contents[name] = {}
    for i in range(records):
        name = rng.choice([b"cities", *list(contents)[:3]])
        big = rng.random() < 0.01
        key = b"%08d" % rng.randrange(10**8) if name == b"cities" else random_bytes(rng, 0, 40)
        contents[name][key] = rng.randbytes(30000) if big else random_bytes(rng, 0, 300)
    if heaps:
        contents[b"log"] = [random_bytes(rng, 0, 400) for _ in range(records // 4)]
    return contents


def as_json(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def write_json(contents, rng=None):
    """A dump in which records are shuffled if `rng` is given."""
    rows = []
    for name, records in contents.items():
        if isinstance(records, dict):
            rows += [{"index": as_json(name), "key": as_json(k), "value": as_json(v)}
                     for k, v in records.items()]
        else:
            rows += [{"heap": as_json(name), "id": f"{i}.0", "value": as_json(r)}
                     for i, r in enumerate(records)]
    if rng:
        rng.shuffle(rows)
    head = [{"lockstep_dump": 1}]
    for name, records in contents.items():
        head.append({"index" if isinstance(records, dict) else "heap": as_json(name)})
    lines = [json.dumps(row, ensure_ascii=False) for row in [*head, *rows, {"end": len(rows)}]]
    return "".join(line + "\n" for line in lines).encode()


def from_json(value):
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def read_json(text):
    """Contents of a JSON dump."""
    contents, count, ended = {}, 0, None
    for line in text.decode().split("\n")[:-1]:
        row = json.loads(line)
        kind = "index" if "index" in row else "heap"
        if "end" in row:
            ended = row["end"]
        elif "value" in row:
            count += 1
            name = from_json(row[kind])
            if kind == "index":
                contents[name][from_json(row["key"])] = from_json(row["value"])
            else:
                contents[name].append(from_json(row["value"]))
        elif kind in row:
            contents[from_json(row[kind])] = {} if kind == "index" else []
    if ended != count:
        fail(f"the dump has {count} records, its end row says {ended}")
    return contents


def unescaped(text):
    """Bytes of a csv field."""
    out = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), text.encode())
    return out


def read_csv(text):
    contents = {}
    for kind, name, key, value in csv.reader(text.decode().split("\r\n")[:-1]):
        if kind == "index":
            contents[unescaped(name)] = {}
        elif kind == "heap":
            contents[unescaped(name)] = []
        elif kind == "record" and isinstance(contents[unescaped(name)], dict):
            contents[unescaped(name)][unescaped(key)] = unescaped(value)
        elif kind == "record":
            contents[unescaped(name)].append(unescaped(value))
    return contents


def read_hex(text):
    contents, names = {}, []
    for line in text.decode().split("\n")[:-1]:
        word = [w if w != "-" else "" for w in line.split(" ")]
        if word[0] in ("index", "heap"):
            names.append(bytes.fromhex(word[1]))
            contents[names[-1]] = {} if word[0] == "index" else []
        elif word[0] == "record":
            target = contents[names[int(word[1])]]
            value = bytes.fromhex(word[3])
            if isinstance(target, dict):
                target[bytes.fromhex(word[2])] = value
            else:
                target.append(value)
    return contents


READERS = {"json": read_json, "csv": read_csv, "hex": read_hex}


def same(found, wanted, what):
    """Heaps are compared without their order."""
    for name in {*found, *wanted}:
        a, b = found.get(name), wanted.get(name)
        if isinstance(b, list) and a is not None:
            a, b = sorted(a), sorted(b)
        if a != b:
            some = set(a.items() if isinstance(a, dict) else a or []) ^ set(
                b.items() if isinstance(b, dict) else b or [])
            fail(f"{what}: {name!r} differs in {len(some)} records: {str(sorted(some)[:2])[:300]}")


def readable(data):
    """As the program's messages have it."""
    return "".join(chr(c) if 0x20 <= c < 0x7F and c != 0x5C else f"\\x{c:02x}" for c in data)


def make_rng(name):
    seed = int(os.environ.get("LOCKSTEP_SEED", "0")) or random.randrange(1, 10**6)
    print(f"{name}: LOCKSTEP_SEED={seed}", flush=True)
    return random.Random(seed)
