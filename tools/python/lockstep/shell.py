"""A shell for a store: `lockstep shell DIR`, or `python -m lockstep.shell DIR`.

It reads commands from a terminal, with history and completion if the extra `shell` is installed,
or from a pipe. A pipe ends with the first command that fails, and with exit status 1. Outside of
`begin` and `commit` each command is a transaction of its own, as in the methods of Index.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import _command
from ._errors import Error, NotClosed, StoreLocked
from ._keys import I32, U8, U16, U32, U64, Part, pack_key
from ._store import Store, open

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from ._objects import Index
    from ._options import Options
    from ._transaction import Transaction

#: What a scan prints on a terminal without --limit.
ROWS_SHOWN = 100
_TYPES: dict[str, type[int]] = {
    "u8": U8,
    "u16": U16,
    "u32": U32,
    "u64": U64,
    "i32": I32,
    "i64": int,
}
_SPELLING = """A key or value is a text, hex:00ff, or raw:text for a text that looks otherwise.
A key may also have typed parts, as u64:7 or u32:1,text:a (u8, u16, u32, u64, i32, i64, text).
Quotes keep blanks."""


class Refused(Exception):
    """A command that the shell cannot perform; the text says why, and what to do."""


class _Options(argparse.ArgumentParser):
    """The options of one command."""

    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message} ({' '.join(self.format_usage().split())})")


def key_bytes(spelled: str) -> bytes:
    """The bytes of a key as `lockstep get` takes it. Raises Refused."""
    if spelled.partition(":")[0] not in (*_TYPES, "text") or ":" not in spelled:
        return value_bytes(spelled)
    parts: list[Part] = []
    for part in spelled.split(","):
        kind, colon, text = part.partition(":")
        if kind == "text" and colon:
            parts.append(os.fsencode(text))
        elif kind not in _TYPES:
            raise Refused(f"{part!r} is no part of a key, as u32:7 or text:a")
        elif not re.fullmatch(r"-?[0-9]+", text, re.ASCII):
            raise Refused(f"{part!r}: {text!r} is no number")
        else:
            parts.append(_TYPES[kind](text))
    try:
        return pack_key(*parts)
    except OverflowError as error:
        raise Refused(f"{spelled!r}: {error}") from error


def value_bytes(spelled: str) -> bytes:
    """The bytes of a value as `lockstep put` takes it. Raises Refused."""
    if spelled.startswith("raw:"):
        return os.fsencode(spelled[4:])
    if not spelled.startswith("hex:"):
        return os.fsencode(spelled)
    if not re.fullmatch(r"([0-9a-fA-F]{2})*", spelled[4:]):
        raise Refused(f"{spelled!r}: hex: is followed by pairs of hexadecimal digits")
    return bytes.fromhex(spelled[4:])


def readable(data: bytes, in_hex: bool = False) -> str:
    """UTF-8 as it is, what is not printable as \\xNN."""
    if in_hex:
        return data.hex()
    text = data.decode(errors="surrogateescape").replace("\\", "\\x5c")
    return "".join(
        c if c.isprintable() else "".join(f"\\x{b:02x}" for b in c.encode(errors="surrogateescape"))
        for c in text
    )


class Shell:
    """The commands on one store.

    `interactive`: a person reads the answers. `read_only`: so the store was opened.
    """

    def __init__(self, store: Store, interactive: bool = False, read_only: bool = False) -> None:
        self.store = store
        self.interactive = interactive
        self.read_only = read_only
        self.txn: Transaction | None = None
        #: What has been entered can end the shell.
        self.ended = False

    # The commands. The first line of each docstring is its use, the second what it does.

    def do_get(self, words: Sequence[str]) -> None:
        """get INDEX KEY [--hex]
        Print the value of a key."""
        given = self._parse("get", words, "index", "key", "--hex")
        index, key = self._index(given.index), key_bytes(given.key)
        value = index.get(key) if self.txn is None else self.txn.get(index, key)
        print("(no such key)" if value is None else readable(value, given.hex))

    def do_put(self, words: Sequence[str]) -> None:
        """put INDEX KEY VALUE
        Add a record or replace its value."""
        self._require_writable("put")
        given = self._parse("put", words, "index", "key", "value")
        index, key, value = self._index(given.index), key_bytes(given.key), value_bytes(given.value)
        if self.txn is None:
            index.put(key, value)
        else:
            self.txn.put(index, key, value)

    def do_erase(self, words: Sequence[str]) -> None:
        """erase INDEX KEY
        Erase a record."""
        self._require_writable("erase")
        given = self._parse("erase", words, "index", "key")
        index, key = self._index(given.index), key_bytes(given.key)
        found = index.erase(key) if self.txn is None else self.txn.erase(index, key)
        if not found:
            print("(no such key)")

    def do_scan(self, words: Sequence[str]) -> None:
        """scan INDEX [--from KEY] [--to KEY] [--prefix KEY] [--limit N] [--hex]
        Print records: key, tabulator, value. --to is the key behind the last one."""
        options = ("--from", "--to", "--prefix", "--limit", "--hex")
        given = self._parse("scan", words, "index", *options)
        limit = self._limit(given.limit)
        bounds = [None if k is None else key_bytes(k) for k in (given.__dict__["from"], given.to)]
        prefix = None if given.prefix is None else key_bytes(given.prefix)
        if prefix is not None and bounds != [None, None]:
            raise Refused("--prefix stands alone: without --from and --to")
        index = self._index(given.index)
        with self._reading() as txn:
            rows = txn.scan(index, *bounds, prefix=prefix)
            for key, value in itertools.islice(rows, limit):
                print(readable(key, given.hex), readable(value, given.hex), sep="\t")
            if given.limit is None and limit is not None and next(rows, None) is not None:
                print(f"(the first {limit}; --limit N shows N)")

    def do_indexes(self, words: Sequence[str]) -> None:
        """indexes
        List indexes and heaps, with the names of their described columns."""
        self._parse("indexes", words)
        primaries = {one.id: one.name for one in self.store.objects()}
        for one in self.store.objects():
            kind = "index" if one.is_index else "heap"
            of = f" of {primaries[one.of]}" if one.of in primaries else ""
            columns = "" if of else self._columns(one.name)
            names = [line.split()[0] for line in columns.splitlines()]
            print(f"{one.name}\t{kind}{of}\t{', '.join(names)}".rstrip())

    def do_describe(self, words: Sequence[str]) -> None:
        """describe INDEX [TEXT]
        Show what the bytes of records mean, or say it: 'id u32 key, name text8 value 0'."""
        if len(words) == 2:
            self._require_writable("describe")
            self._require_no_transaction("describe")
            self.store.describe(words[0], words[1])
            return
        given = self._parse("describe", words, "index")
        print(self.store.columns(given.index), end="")

    def do_create(self, words: Sequence[str]) -> None:
        """create INDEX
        Make an index."""
        self._require_writable("create")
        given = self._parse("create", words, "index")
        if self.txn is None:
            with self.store.transaction() as txn:
                txn.create_index(given.index)
        else:
            self.txn.create_index(given.index)

    def do_begin(self, words: Sequence[str]) -> None:
        """begin [--snapshot]
        Begin a transaction; a snapshot only reads, the state of this moment."""
        given = self._parse("begin", words, "--snapshot")
        self._require_no_transaction("begin")
        if given.snapshot:
            self.txn = self.store.begin(isolation="snapshot", read_only=True)
        else:
            self.txn = self.store.begin(read_only=self.read_only)

    def do_commit(self, words: Sequence[str]) -> None:
        """commit
        Commit the transaction: it is on disk then."""
        self._parse("commit", words)
        self._end("commit").commit()

    def do_rollback(self, words: Sequence[str]) -> None:
        """rollback
        Undo what the transaction has changed."""
        self._parse("rollback", words)
        self._end("rollback").abort()

    def do_sql(self, query: str) -> None:
        """sql QUERY
        Ask DuckDB; described indexes are its tables. It sees what is committed."""
        if not query:
            raise Refused("a query follows, as: sql select count(*) from orders")
        try:
            _command.print_query(self.store, query)
        except ModuleNotFoundError as error:
            raise Refused(str(error)) from error
        except _command.QueryFailed as error:
            raise Refused(f"query: {error}") from error

    def do_help(self, words: Sequence[str]) -> None:
        """help [COMMAND]
        Say what commands there are, or how one is used."""
        if words:
            print(*_use(self._method(words[0])), sep="\n")
            return
        for name in COMMANDS:
            print("{:<34}{}".format(*_use(getattr(self, "do_" + name))))
        print(_SPELLING)

    def do_quit(self, words: Sequence[str]) -> None:
        """quit
        Leave the shell. A transaction that is open is rolled back."""
        self._parse("quit", words)
        self.ended = True

    do_exit = do_quit

    # What they share.

    def perform(self, line: str) -> None:
        """One line. Raises Refused, Error."""
        name, rest = [*line.split(None, 1), "", ""][:2]
        if not name or name.startswith("#"):
            return
        method = self._method(name)
        if name == "sql":
            self.do_sql(rest.strip())
            return
        try:
            words = shlex.split(rest)
        except ValueError as error:
            raise Refused(f"{error} (quotes keep blanks; \\' and \\\\ are themselves)") from error
        method(words)

    def close(self) -> bool:
        """Rolls back what is open. False: there was something."""
        txn, self.txn = self.txn, None
        if txn is None or not txn.active:
            return True
        txn.abort()
        return False

    @property
    def prompt(self) -> str:
        """What stands before a line; the star says that a transaction is open."""
        return "lockstep*> " if self.txn is not None else "lockstep> "

    def complete(self, line: str) -> list[str]:
        """Words that the last word of the line may become."""
        words = re.split(r"\s+", line.lstrip())
        if len(words) == 1 or (len(words) == 2 and words[0] == "help"):
            choices = [*COMMANDS]
        elif len(words) == 2:
            choices = [shlex.quote(one.name) for one in self.store.objects()]
        elif words[-1].startswith("-"):
            choices = re.findall(r"--\w+", self._method(words[0]).__doc__ or "")
        else:
            choices = [kind + ":" for kind in (*_TYPES, "text", "hex", "raw")]
        return [word for word in choices if word.startswith(words[-1])]

    def _method(self, name: str) -> Callable[[Any], None]:
        method: Callable[[Any], None] | None = getattr(self, f"do_{name}", None)
        if method is None:
            raise Refused(f"there is no command {name!r}; help lists them")
        return method

    def _parse(self, name: str, words: Sequence[str], *arguments: str) -> argparse.Namespace:
        options = _Options(prog=name, add_help=False, allow_abbrev=False)
        for one in arguments:
            switch = one in ("--hex", "--snapshot")
            options.add_argument(one, action="store_true" if switch else "store")
        return options.parse_args(list(words))

    def _index(self, name: str) -> Index:
        return self.store.index(name) if self.txn is None else self.txn.index(name)

    def _columns(self, name: str) -> str:
        try:
            return self.store.columns(name)
        except Error:  # it is not described
            return ""

    def _limit(self, given: str | None) -> int | None:
        if given is None:
            return ROWS_SHOWN if self.interactive else None
        if not given.isdecimal():
            raise Refused(f"--limit {given}: not a number")
        return int(given)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Transaction]:
        if self.txn is not None:
            yield self.txn
            return
        with self.store.snapshot() as txn:
            yield txn

    def _require_writable(self, name: str) -> None:
        if self.read_only:
            raise Refused(
                f"{name}: this shell only reads (--live, --read-only); change the store in the "
                "process that has it open, or in a shell without them when none has"
            )

    def _require_no_transaction(self, name: str) -> None:
        if self.txn is not None:
            raise Refused(f"{name}: a transaction is open; commit or rollback ends it")

    def _end(self, name: str) -> Transaction:
        txn, self.txn = self.txn, None
        if txn is None:
            raise Refused(f"{name}: no transaction is open; begin opens one")
        return txn


COMMANDS = tuple(name[3:] for name in vars(Shell) if name.startswith("do_") and name != "do_exit")


def _use(method: Callable[[Any], None]) -> list[str]:
    """How a command is used, and what it does."""
    return [line.strip() for line in (method.__doc__ or "").splitlines()]


# Lines.


def _session(shell: Shell) -> PromptSession[str] | None:
    """Nothing if the extra is not installed."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion
        from prompt_toolkit.document import Document
        from prompt_toolkit.history import FileHistory
    except ImportError:
        return None

    class Words(Completer):
        def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
            line = document.text_before_cursor
            begin = -len(re.split(r"\s+", line)[-1])
            try:
                return [Completion(word, begin) for word in shell.complete(line)]
            except (Refused, Error):  # of a command that there is not
                return []

    place = pathlib.Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    history = place / "lockstep/shell_history"
    history.parent.mkdir(parents=True, exist_ok=True)
    history.touch(mode=0o600)  # values may be for nobody else
    return PromptSession(
        history=FileHistory(str(history)), completer=Words(), complete_while_typing=False
    )


def _terminal_lines(shell: Shell) -> Iterator[str]:
    """Up to the end of the input. Ctrl-C gives a line up."""
    session = _session(shell)
    ask: Callable[[str], str] = input if session is None else session.prompt
    while True:
        try:
            yield ask(shell.prompt)
        except KeyboardInterrupt:
            print()
        except EOFError:
            print()
            return


def _complain(what: str, error: BaseException | str) -> None:
    print(f"lockstep: {what}: {error}", file=sys.stderr)


def converse(shell: Shell) -> int:
    """Performs line after line. The result: an exit status."""
    lines = _terminal_lines(shell) if shell.interactive else iter(sys.stdin)
    for number, line in enumerate(lines, 1):
        where = "shell" if shell.interactive else f"line {number}"
        try:
            shell.perform(line)
        except (Refused, Error) as error:
            _complain(where, error)
        except KeyboardInterrupt:
            _complain(where, "interrupted")
        else:
            if shell.ended:
                break
            continue
        if not shell.interactive:
            shell.close()
            return 1
        if shell.txn is not None and not shell.txn.active:
            shell.txn = None
            _complain(where, "the transaction has ended; its changes are undone")
    sys.stdout.flush()
    if not shell.close():
        _complain("shell", "the transaction that was open is rolled back")
        return 0 if shell.interactive else 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The program. The result: an exit status."""
    parser = argparse.ArgumentParser(prog="lockstep shell", description=__doc__)
    parser.add_argument("path", help="store directory")
    parser.add_argument("--archive", help="the store's log archive")
    parser.add_argument("--read-only", action="store_true", help="change no file")
    given = parser.parse_args(arguments)
    options: Options = {"create": False, "read_only": given.read_only}
    if given.archive is not None:
        options["archive"] = given.archive
    try:
        with open(given.path, **options) as store:
            interactive = sys.stdin.isatty() and sys.stdout.isatty()
            return converse(Shell(store, interactive, given.read_only))
    except StoreLocked as error:
        _complain(given.path, f"{error}; a copy that only reads: lockstep shell --live")
    except NotClosed as error:
        _complain(given.path, f"{error}; without --read-only it is recovered")
    except Error as error:
        _complain(given.path, error)
    return 1


if __name__ == "__main__":
    sys.exit(main())
