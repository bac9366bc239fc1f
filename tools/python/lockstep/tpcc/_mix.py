"""The terminals of TPC-C on a store of this process."""

from __future__ import annotations

import contextlib
import functools
import json
from typing import Any

from .. import _core
from .._errors import make_error
from .._packed import PackedOutcomes, pack
from .._store import Store
from .._store import open as open_any
from ._background import Background
from ._inputs import Inputs
from ._settings import Settings


def open_store(path: str, settings: Settings) -> Store:
    """A store whose pool takes all tables, its log the load, and its versions long reports."""
    options = settings.store_options()
    options["version_bytes"] = 1 << 30
    return open_any(path, **options)


class Mix:
    """Terminals in threads: each runs batches of transactions, one behind the other.

    The first use of a store loads its tables. close() before the store is closed.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._settings = settings
        path, options = settings.object_path(), settings.object_options(0)
        self._object = _core.ProcedureObject(path, store._handle, options)
        self._terminals: Background | None = None
        self._inputs: list[Inputs] = []
        self._runs = 0

    def __enter__(self) -> Mix:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the terminals, with new statistics."""
        self._call("tpcc.begin")
        self._runs += 1
        seed = (self._settings.seed * 1000 + self._runs) * 1000
        numbers = range(self._settings.under_way)
        self._inputs = [Inputs(self._settings, 0, seed + number) for number in numbers]
        batches = [functools.partial(self._run_batch, inputs) for inputs in self._inputs]
        self._terminals = Background(batches, "terminals")
        self._terminals.start()

    def stop(self) -> dict[str, Any]:
        """Stops the terminals; what they have done since start(). Raises what stopped one."""
        self._end()
        found: dict[str, Any] = json.loads(self._call("tpcc.statistics"))
        return found

    def check(self) -> dict[str, Any]:
        """The consistency conditions of TPC-C. No terminal may run."""
        found: dict[str, Any] = json.loads(self._call("tpcc.check"))
        return found

    def close(self) -> None:
        """Stops the terminals, and frees the object."""
        with contextlib.suppress(Exception):  # stop() raises it
            self._end()
        self._object.close()

    def _end(self) -> None:
        terminals, self._terminals = self._terminals, None
        try:
            if terminals:
                terminals.stop()
        finally:
            while self._inputs:
                self._inputs.pop().close()

    def _run_batch(self, inputs: Inputs) -> None:
        local, _ = inputs.next(self._settings.batch)
        _check(PackedOutcomes(self._object.run("tpcc.run", local)))

    def _call(self, procedure: str) -> bytes:
        outcomes = PackedOutcomes(self._object.run(procedure, pack([b""])))
        _check(outcomes)
        return outcomes.outcome(0)[1]


def _check(outcomes: PackedOutcomes) -> None:
    for place in outcomes.failed:
        code, text = outcomes.outcome(place)
        raise make_error(code, 0, 0, 0, 0, text.decode(errors="replace"))
