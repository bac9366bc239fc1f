"""test_shell.py - `lockstep shell`: its commands, from a pipe and at a terminal."""

import fcntl
import io
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import termios
import time

import lockstep
import pytest
from conftest import SMALL
from lockstep import shell as shells
from lockstep.shell import Refused, Shell, key_bytes, main, readable, value_bytes
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

PACKAGE = pathlib.Path(lockstep.__file__).parents[1]
COLUMNS = "id u32 key, price decimal(2) value 0"


@pytest.fixture
def closed(tmp_path):
    """A store with five parts, at its path."""
    path = tmp_path / "store"
    with lockstep.open(path, **SMALL) as store:
        parts = store.index("parts", create=True)
        for number in range(5):
            parts[(lockstep.U32(number),)] = (25 * number).to_bytes(8, "little")
        store.describe("parts", COLUMNS)
        store.heap("rows", create=True)
    return path


def environ(tmp_path, **more):
    place = str(pathlib.Path(sys.executable).parent)
    paths = {"PYTHONPATH": str(PACKAGE), "XDG_STATE_HOME": str(tmp_path / "state")}
    return {**os.environ, "PATH": place, **paths, "TERM": "xterm", **more}


def process(path, lines, tmp_path, *options, program=(sys.executable, "-m", "lockstep.shell")):
    """A shell of another process."""
    done = subprocess.run(
        [*map(str, program), str(path), *options],
        input=lines, capture_output=True, text=True, env=environ(tmp_path), timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def pipe(monkeypatch, capsys):
    """Runs a shell on a store, in this process, with these lines as its input."""

    def run(path, lines, *options):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        status = main([str(path), *options])
        return status, *capsys.readouterr()

    return run


def test_keys_and_values_are_spelled_as_on_the_command_line():
    for spelled, key in {
        "plain": b"plain",
        "hex:00fF": b"\0\xff",
        "raw:u32:7": b"u32:7",
        "other:7": b"other:7",
        "text": b"text",
        "u32:7": lockstep.pack_key(lockstep.U32(7)),
        "i64:-1,text:a:b,u8:255": lockstep.pack_key(-1, "a:b", lockstep.U8(255)),
        "i32:-2": lockstep.pack_key(lockstep.I32(-2)),
        "\u20ac": "\u20ac".encode(),
        "\udcff": b"\xff",
    }.items():
        assert key_bytes(spelled) == key, spelled
    assert value_bytes("u32:7") == b"u32:7" and value_bytes("hex:") == b""
    for wrong in ("u8:256", "u32:", "u32:x", "u32:1,7", "hex:0", "u32:\u0667", "u8:1,u9:1"):
        with pytest.raises(Refused):
            key_bytes(wrong)
    assert readable(b"a\\\xff\n\xe2\x82\xac") == "a\\x5c\\xff\\x0a\u20ac"


def test_a_pipe(closed, tmp_path):
    script = """
        # Comments and empty lines do not count.

        get parts u32:3 --hex
        get parts u32:9
        put parts u32:9 hex:0900000000000000
        erase parts u32:0
        erase parts u32:0
        scan parts --from u32:3 --hex
        scan parts --limit 1 --hex
        create texts
        put texts 'a b' "x y"
        scan texts --prefix a
        indexes
        describe texts "name text key"
        describe texts
        help get
        quit
        get nothing
    """
    status, out, error = process(closed, script, tmp_path)
    assert (status, error) == (0, "")
    assert out.splitlines() == [
        "4b00000000000000",
        "(no such key)",
        "(no such key)",
        "00000003\t4b00000000000000",
        "00000004\t6400000000000000",
        "00000009\t0900000000000000",
        "00000001\t1900000000000000",
        "a b\tx y",
        "lockstep.columns\tindex",
        "parts\tindex\tid, price",
        "rows\theap",
        "texts\tindex",
        "name text key",
        "get INDEX KEY [--hex]",
        "Print the value of a key.",
    ]


def test_transactions(closed, pipe):
    script = """begin
put parts u32:1 hex:01
get parts u32:1
create more
erase parts u32:2
scan parts --hex --to u32:3
rollback
get parts u32:1 --hex
begin
put parts u32:7 seven
commit
begin --snapshot
get parts u32:7
"""
    status, out, error = pipe(closed, script)
    assert out.splitlines() == [
        "\\x01", "00000000\t0000000000000000", "00000001\t01", "1900000000000000", "seven",
    ]
    assert status == 1 and "the transaction that was open is rolled back" in error
    with lockstep.open(closed, create=False, **SMALL) as store:
        assert store.index("parts")[(lockstep.U32(7),)] == b"seven"
        assert "more" not in [one.name for one in store.objects()]


@pytest.mark.parametrize("line, says", [
    ("gett parts u32:1", "there is no command 'gett'; help lists them"),
    ("get parts", "the following arguments are required: key (usage: get [--hex] index key)"),
    ("get parts u32:x", "'x' is no number"),
    ("get nothing k", "no_such_object"),
    ("get 'parts u32:1", "No closing quotation (quotes keep blanks"),
    ("scan parts --limit -1", "--limit -1: not a number"),
    ("scan parts --limit", "argument --limit: expected one argument"),
    ("scan parts --limit x", "--limit x: not a number"),
    ("scan parts --prefix a --to b", "--prefix stands alone"),
    ("commit", "commit: no transaction is open; begin opens one"),
    ("describe rows", "no_such_record"),
    ("describe parts nonsense", "bad_argument"),
    ("sql", "a query follows"),
    ("sql select nothing from parts", "query: Binder Error"),
    ("help gett", "there is no command 'gett'"),
])  # fmt: skip
def test_a_pipe_ends_with_the_first_command_that_fails(closed, pipe, line, says):
    alone = line == "commit" or line.startswith("describe")
    begin = "" if alone else "begin\nput parts u32:1 x\n"
    script = f"{begin}{line}\ncommit\nput parts u32:2 x\n"
    status, out, error = pipe(closed, script)
    assert (status, out) == (1, "") and says in error
    assert f"lockstep: line {script.splitlines().index(line) + 1}: " in error
    with lockstep.open(closed, create=False, **SMALL) as store:
        assert store.index("parts")[(lockstep.U32(2),)] == (50).to_bytes(8, "little")


def test_begin_and_describe_in_a_transaction_are_refused(closed, pipe):
    for line in ("begin", "describe parts 'id u32 key'"):
        status, _, error = pipe(closed, f"begin\n{line}\n")
        assert status == 1 and "a transaction is open; commit or rollback ends it" in error


def test_sql(closed, pipe):
    status, out, error = pipe(closed, "sql select sum(price) as sum from parts;\n")
    assert (status, out, error) == (0, " sum\n2.50\n", "")


def test_sql_without_duckdb(closed, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with lockstep.open(closed, create=False, **SMALL) as store:
        with pytest.raises(Refused, match="pip install duckdb"):
            Shell(store).perform("sql select 1")


def test_stores_that_do_not_open(closed, tmp_path, capsys):
    assert main([str(tmp_path / "none")]) == 1
    assert "bad_path" in capsys.readouterr().err
    with lockstep.open(closed, create=False, **SMALL):
        assert main([str(closed)]) == 1
    assert "store_locked" in (said := capsys.readouterr().err) and "shell --live" in said


def test_the_program_starts_the_shell(closed, tmp_path):
    program = PACKAGE.parents[2] / "bin/lockstep"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    start = (program, "shell")
    assert process(closed, "put parts u32:8 x\nget parts u32:8\n", tmp_path, program=start) == (
        0, "x\n", "",
    )  # fmt: skip
    with lockstep.open(closed, create=False, control=True, **SMALL) as store:
        store.index("parts")[(lockstep.U32(8),)] = "y"
        read = "get parts u32:8\nbegin\nscan parts --from u32:8 --hex\ncommit\n"
        found = process(closed, read, tmp_path, "--live", program=start)
        assert found[:2] == (0, "y\n00000008\t79\n"), found[2]
        writes = ("put parts a b", "erase parts u32:8", "create c", "describe parts 'a u8 key'")
        for write in writes:
            status, _, error = process(closed, write, tmp_path, "--live", program=start)
            assert status == 1 and "this shell only reads" in error and "process that has" in error
        status, _, error = process(closed, "quit", tmp_path, program=start)
        assert status == 1 and "--live" in error


def test_completion(closed):
    with lockstep.open(closed, create=False, **SMALL) as store:
        complete = Shell(store).complete
        assert complete("de") == ["describe"] and "get" in complete("")
        assert complete("get pa") == ["parts"] and complete("help ro") == ["rollback"]
        assert complete("get parts u3") == ["u32:"]
        assert complete("scan parts --l") == ["--limit"]
        with pytest.raises(Refused):
            complete("gett parts --")


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, arguments, env):
        self.end, theirs = pty.openpty()
        self.process = subprocess.Popen(
            arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # for Ctrl-C
        )  # fmt: skip
        os.close(theirs)
        self.said = ""

    def until(self, text, repeated=""):
        """Reads until the text came, and gives what came before it.

        What is repeated is typed each second: input() may miss a Ctrl-C just before it waits.
        """
        deadline = time.monotonic() + 30
        while text not in self.said:
            assert time.monotonic() < deadline, self.said
            if not select.select([self.end], [], [], 1)[0]:
                self.type(repeated)
            else:
                try:
                    read = os.read(self.end, 4096).decode(errors="replace")
                    self.said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.said + read)
                except OSError:  # the other side has closed it
                    assert text in self.said, self.said
        before, _, self.said = self.said.partition(text)
        return before

    def type(self, text):
        os.write(self.end, text.encode())

    def close(self):
        status = self.process.wait(60)
        os.close(self.end)
        return status


PLAIN = "import sys; sys.modules['prompt_toolkit'] = None; from lockstep.shell import main; main()"


@pytest.mark.parametrize("plain", [True, False])
def test_a_terminal(closed, tmp_path, plain):
    words = [sys.executable, "-c", PLAIN] if plain else [sys.executable, "-m", "lockstep.shell"]
    env = environ(tmp_path, PROMPT_TOOLKIT_NO_CPR="1")
    terminal = Terminal([*words, str(closed)], env)
    terminal.until("lockstep>")
    terminal.type("get nothing k\r")
    terminal.until("no_such_object")
    terminal.until("lockstep>")
    terminal.type("begin\r")
    terminal.until("lockstep*>")
    terminal.type("put parts u32:1 first\r")
    terminal.until("lockstep*>")
    terminal.type("commit\r")
    terminal.until("lockstep>")
    terminal.type("get parts u32:\x03")  # gives the line up
    terminal.until("lockstep>", repeated="\x03")
    terminal.type("get parts u32:1\r")
    terminal.until("first\r\n")
    terminal.type("begin\r")
    terminal.until("lockstep*>")
    terminal.type("\x04")
    terminal.until("is rolled back")
    assert terminal.close() == 0


def test_history_and_completion_at_a_terminal(closed, tmp_path):
    env = environ(tmp_path, PROMPT_TOOLKIT_NO_CPR="1")
    arguments = [sys.executable, "-m", "lockstep.shell", str(closed)]
    first = Terminal(arguments, env)
    first.until("lockstep>")
    first.type("descr\t")
    first.until("ibe")  # or all of it
    first.type(" parts\r")
    first.until("price decimal(2) value 0\r\n")
    first.until("lockstep>")
    first.type("\x04")
    assert first.close() == 0
    history = tmp_path / "state/lockstep/shell_history"
    assert history.stat().st_mode & 0o77 == 0
    second = Terminal(arguments, env)
    second.until("lockstep>")
    second.type("\x1b[A\r")
    second.until("price decimal(2) value 0\r\n")
    second.type("quit\r")
    assert second.close() == 0


def test_a_scan_at_a_terminal_is_bounded(closed, capsys, monkeypatch):
    monkeypatch.setattr(shells, "ROWS_SHOWN", 2)
    with lockstep.open(closed, create=False, **SMALL) as store:
        shell = Shell(store, interactive=True)
        shell.perform("scan parts")
        assert capsys.readouterr().out.endswith("(the first 2; --limit N shows N)\n")
        shell.perform("scan parts --from u32:3")
        assert "first" not in capsys.readouterr().out
        shell.perform("help")
        said = capsys.readouterr().out
        assert all(name in said for name in shells.COMMANDS) and "hex:00ff" in said


def test_what_ends_a_transaction_at_a_terminal(closed, capsys, monkeypatch):
    """An operator ends it, and a Ctrl-C within a command is told."""
    with lockstep.open(closed, create=False, **SMALL) as store:
        shell = Shell(store, interactive=True)

        def lines(_):
            yield "begin"
            store.end_transaction(shell.txn.id)
            yield "put parts u32:1 x"
            yield "rollback"
            monkeypatch.setattr(shell, "do_get", interrupt)
            yield "get parts u32:1"
            yield "begin"
            monkeypatch.setattr(shell, "do_get", abandon)
            yield "get parts u32:1"
            assert shell.prompt == "lockstep> "
            yield "exit"
            yield "nonsense"

        def interrupt(_):
            raise KeyboardInterrupt

        def abandon(_):  # as a call that waits does when Ctrl-C comes
            shell.txn.abort()
            raise KeyboardInterrupt

        monkeypatch.setattr(shells, "_terminal_lines", lines)
        assert shells.converse(shell) == 0
    said = capsys.readouterr().err
    assert "ended_by_operator" in said and said.count("interrupted") == 2
    assert said.endswith("the transaction has ended; its changes are undone\n")


def test_a_prompt_of_this_process(closed, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with (
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
        lockstep.open(closed, create=False, **SMALL) as store,
    ):
        keys.send_text("get parts u32:1 --hex\rgettt x\r\x04")
        assert shells.converse(Shell(store, interactive=True)) == 0
    out, error = capsys.readouterr()
    assert out.strip() == "1900000000000000" and "no command 'gettt'" in error
