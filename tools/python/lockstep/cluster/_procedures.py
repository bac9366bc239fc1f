"""The functions that run inside shards and inside the coordinator."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ray import cloudpickle

from ._errors import NoSuchProcedure, answered, answering
from ._library import LibraryOptions, LibrarySource

if TYPE_CHECKING:
    from .._objects import Heap, Index
    from .._store import Store

#: fn(txn, objects, *arguments): runs within a transaction of one shard, on a thread.
Local = Callable[..., Any]
#: async fn(txn, *arguments): runs in the coordinator; `await txn.call(...)` works on a shard.
Global = Callable[..., Awaitable[Any]]
L = TypeVar("L", bound=Local)
G = TypeVar("G", bound=Global)


class Procedures:
    """A registry of functions. They travel to the shards by value, with the globals that they use.

    procedures = Procedures()

    @procedures.local
    def add(txn, objects, account, amount): ...

    @procedures.cross_shard
    async def transfer(txn, source, target, amount):
        await txn.call(source, "add", source, -amount)
        await txn.call(target, "add", target, amount)
    """

    def __init__(self) -> None:
        self._local: dict[str, Local] = {}
        self._cross_shard: dict[str, Global] = {}
        self.libraries: list[LibrarySource] = []

    def local(self, fn: L) -> L:
        """Registers a procedure of one shard under the function's name. May be repeated."""
        self._local[fn.__name__] = fn
        return fn

    def cross_shard(self, fn: G) -> G:
        """Registers a procedure that calls local ones of several shards. May be repeated."""
        self._cross_shard[fn.__name__] = fn
        return fn

    def library(self, path: str | os.PathLike[str], options: LibraryOptions = "") -> None:
        """Adds the procedures of a shared object (<lockstep/c/procedures.h>), by its names.

        The object lies at `path` on each node. A shard opens it on its store with `options`, or
        with options(number of the shard). call(), call_many() and the steps of cross-shard
        procedures name its procedures like those in Python, and give one argument: the bytes of
        the request. A shard does not start if the object cannot be opened.
        """
        self.libraries.append(LibrarySource(str(pathlib.Path(path).resolve()), options))

    def find_local(self, name: str) -> Local:
        """The function, which raises errors only. Raises NoSuchProcedure."""
        return answering(_find(self._local, name, "local"), f"the procedure {name!r}")

    def find_cross_shard(self, name: str) -> Global:
        """The same of a cross-shard procedure."""
        what = f"the procedure {name!r}"
        found = answering(_find(self._cross_shard, name, "cross-shard"), what)
        return lambda *arguments: answered(found(*arguments), what)

    def pickle(self) -> bytes:
        """The functions by value: the shards need no copy of their modules."""
        options: list[Callable[..., Any]] = [
            one.options for one in self.libraries if callable(one.options)
        ]
        modules = {
            sys.modules[fn.__module__]
            for fn in [*self._local.values(), *self._cross_shard.values(), *options]
            if fn.__module__ != "__main__" and fn.__module__ in sys.modules
        }
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            pickled: bytes = cloudpickle.dumps(self)
            return pickled
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)


def _find(registered: dict[str, Callable[..., Any]], name: str, kind: str) -> Callable[..., Any]:
    try:
        return registered[name]
    except KeyError:
        known = ", ".join(sorted(registered)) or "none"
        text = f"no {kind} procedure {name!r} is registered; registered: {known}"
        raise NoSuchProcedure(text) from None


class Objects:
    """The indexes and heaps of a shard by name. They are made at the first use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes: dict[str, Index] = {}
        self._heaps: dict[str, Heap] = {}

    def index(self, name: str) -> Index:
        """The index, made in a transaction of its own if there is none."""
        if name not in self._indexes:
            self._indexes[name] = self._store.index(name, create=True)
        return self._indexes[name]

    def heap(self, name: str) -> Heap:
        """The heap, as index()."""
        if name not in self._heaps:
            self._heaps[name] = self._store.heap(name, create=True)
        return self._heaps[name]
