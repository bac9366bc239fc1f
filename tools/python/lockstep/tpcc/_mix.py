"""The terminals of TPC-C on a store of this process."""

from __future__ import annotations

import json
import threading
from typing import Any

from .. import _core
from .._errors import make_error
from .._packed import PackedOutcomes, pack
from .._store import Store
from .._store import open as open_any
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
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._runs = 0

    def __enter__(self) -> Mix:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the terminals, with new statistics."""
        self._call("tpcc.begin")
        self._stopped.clear()
        self._runs += 1
        for number in range(self._settings.under_way):
            seed = (self._settings.seed * 1000 + self._runs) * 1000 + number
            thread = threading.Thread(target=self._run, args=(seed,), name=f"terminals {number}")
            thread.start()
            self._threads.append(thread)

    def stop(self) -> dict[str, Any]:
        """Stops the terminals; what they have done since start(). Raises what stopped one."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if failure := self._failure:
            self._failure = None
            raise failure
        found: dict[str, Any] = json.loads(self._call("tpcc.statistics"))
        return found

    def check(self) -> dict[str, Any]:
        """The consistency conditions of TPC-C. No terminal may run."""
        found: dict[str, Any] = json.loads(self._call("tpcc.check"))
        return found

    def close(self) -> None:
        """Stops the terminals, and frees the object."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._object.close()

    def _run(self, seed: int) -> None:
        inputs = Inputs(self._settings, 0, seed)
        try:
            while not self._stopped.is_set():
                local, _ = inputs.next(self._settings.batch)
                _check(PackedOutcomes(self._object.run("tpcc.run", local)))
        except BaseException as error:
            self._failure = error
        finally:
            inputs.close()

    def _call(self, procedure: str) -> bytes:
        outcomes = PackedOutcomes(self._object.run(procedure, pack([b""])))
        _check(outcomes)
        return outcomes.outcome(0)[1]


def _check(outcomes: PackedOutcomes) -> None:
    for place in outcomes.failed:
        code, text = outcomes.outcome(place)
        raise make_error(code, 0, 0, 0, 0, text.decode(errors="replace"))
