"""Procedure objects: shared objects with procedures that run inside a shard, without Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .. import _core
from .._errors import make_error
from .._packed import Packed, PackedOutcomes, pack
from .._store import Store
from ._errors import NoSuchProcedure, ProcedureError, answering

#: What an object gets when it is opened: the same text for all shards, or one for each number.
LibraryOptions = str | Callable[[int], str]


class LibrarySource(NamedTuple):
    """A procedure object that each shard opens."""

    path: str
    options: LibraryOptions

    def options_of(self, shard: int) -> str:
        """The text that a shard's object gets."""
        if isinstance(self.options, str):
            return self.options
        return answering(self.options, f"the options of {self.path}")(shard)


class Outcomes(PackedOutcomes, Sequence[bytes | Exception]):
    """The outcomes of many calls in their order: of each the reply, or its error.

    The errors are not raised, since each call is a transaction of its own.
    """

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        code, content = self.outcome(range(len(self))[at])
        return error_of(code, content.decode(errors="replace")) if code else content

    def replies(self) -> Iterator[bytes]:
        """The replies. The first error of a call is raised in its place."""
        for n in range(len(self)):
            outcome = self[n]
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome


def error_of(code: int, text: str) -> Exception:
    """The exception of a call's code: one of the engine, or ProcedureError."""
    if code > 0:
        return make_error(code, 0, 0, 0, 0, text)
    return ProcedureError(code, text)


class Libraries:
    """The procedure objects of a shard, open on its store. close() before the store is closed."""

    def __init__(self, store: Store, sources: Sequence[LibrarySource], shard: int) -> None:
        self._objects: list[_core.ProcedureObject] = []
        self._by_name: dict[str, _core.ProcedureObject] = {}
        try:
            for source in sources:
                self._open(store, source, shard)
        except BaseException:
            self.close()
            raise

    def _open(self, store: Store, source: LibrarySource, shard: int) -> None:
        opened = _core.ProcedureObject(source.path, store._handle, source.options_of(shard))
        self._objects.append(opened)
        for name in opened.names():
            if name in self._by_name:
                raise ValueError(f"{source.path}: another object has a procedure {name!r} too")
            self._by_name[name] = opened

    def close(self) -> None:
        """Closes the objects. Nothing may run in them."""
        while self._objects:
            self._objects.pop().close()

    @property
    def names(self) -> list[str]:
        """All procedures."""
        return list(self._by_name)

    def __contains__(self, procedure: object) -> bool:
        return procedure in self._by_name

    def run(self, procedure: str, requests: Packed) -> bytes:
        """Runs each request as a transaction; the packed outcomes. Blocks without the GIL.

        Raises NoSuchProcedure.
        """
        return self._find(procedure).run(procedure, requests)

    def call(self, procedure: str, arguments: tuple[object, ...]) -> bytes:
        """run() for one request. Raises its error."""
        (reply,) = Outcomes(self.run(procedure, pack([_request(procedure, arguments)]))).replies()
        return reply

    def step(self, txn: int, procedure: str, arguments: tuple[object, ...]) -> bytes:
        """Runs one request within a transaction, whose handle this is; the reply.

        Raises its error, also if the transaction was ended meanwhile.
        """
        request = _request(procedure, arguments)
        code, content = self._find(procedure).step(txn, procedure, request)
        if code:
            raise error_of(code, content.decode(errors="replace"))
        return content

    def add_step(
        self, request: _core.Request, procedure: str, arguments: tuple[object, ...]
    ) -> None:
        """Adds step() to a request of the engine. Raises NoSuchProcedure."""
        request.step(self._find(procedure), procedure, _request(procedure, arguments))

    def _find(self, procedure: str) -> _core.ProcedureObject:
        try:
            return self._by_name[procedure]
        except KeyError:
            known = ", ".join(sorted(self._by_name)) or "none"
            text = f"no procedure object has {procedure!r}; they have: {known}"
            raise NoSuchProcedure(text) from None


def _request(procedure: str, arguments: tuple[object, ...]) -> bytes:
    if len(arguments) != 1 or not isinstance(arguments[0], bytes | bytearray | memoryview):
        raise TypeError(f"{procedure} takes one argument, the bytes of the request")
    return bytes(arguments[0])
