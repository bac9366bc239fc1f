"""Work on threads that goes on until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable


class Background:
    """Threads, each of which calls its function again and again, from start() to stop()."""

    def __init__(self, works: Iterable[Callable[[], object]], name: str) -> None:
        self.stopped = threading.Event()
        self.failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name=f"{name} {number}")
            for number, work in enumerate(works)
        ]

    def start(self) -> None:
        """Starts the threads, once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Waits for what is under way. Raises what stopped a thread before."""
        self.stopped.set()
        for thread in self._threads:
            thread.join()
        if self.failure:
            raise self.failure

    def _run(self, work: Callable[[], object]) -> None:
        try:
            while not self.stopped.is_set():
                work()
        except BaseException as error:
            self.failure = error
