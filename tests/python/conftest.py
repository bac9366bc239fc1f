"""conftest - a store for each test of the Python package."""

import pathlib
from collections.abc import Iterator

import lockstep
import pytest
from hypothesis import HealthCheck, settings

# The machine may be busy.
settings.register_profile(
    "tests",
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.load_profile("tests")
SMALL: lockstep.Options = {
    "workers": 1,
    "pool_bytes": 16 << 20,
    "log_bytes": 64 << 20,
    "log_segment_bytes": 8 << 20,
    "log_ring_bytes": 4 << 20,
}


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[lockstep.Store]:
    with lockstep.open(tmp_path / "store", **SMALL) as opened:
        yield opened


@pytest.fixture
def index(store: lockstep.Store) -> lockstep.Index:
    return store.index("records", create=True)


@pytest.fixture
def heap(store: lockstep.Store) -> lockstep.Heap:
    return store.heap("rows", create=True)
