"""The figures of a process in Ray's own metrics, which every node serves to Prometheus."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from ray.util.metrics import Gauge

SECONDS = 2.0


class Gauges:
    """Shows figures() every few seconds, as `lockstep_cluster_<name>` by cluster and process."""

    def __init__(
        self, cluster: str, process: str, figures: Callable[[], dict[str, float]]
    ) -> None:
        self._tags = {"cluster": cluster, "process": process}
        self._figures = figures
        self._gauges: dict[str, Gauge] = {}
        thread = threading.Thread(target=self._run, name="gauges", daemon=True)
        self._stop = threading.Event()
        thread.start()

    def close(self) -> None:
        """Ends it; the last figures stay."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            with contextlib.suppress(Exception):  # the store may be closed
                for name, value in self._figures().items():
                    self._gauge(name).set(value, tags=self._tags)

    def _gauge(self, name: str) -> Gauge:
        if name not in self._gauges:
            self._gauges[name] = Gauge(
                f"lockstep_cluster_{name}",
                description=f"{name.replace('_', ' ')}, of a process of a sharded store",
                tag_keys=tuple(self._tags),
            )
        return self._gauges[name]
