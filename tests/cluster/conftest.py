"""What several tests use: the bank's procedure object, and a shard with it."""

import library
import pytest
from lockstep.cluster._messages import Decide
from native_shard import Shard


@pytest.fixture(scope="session")
def bank(tmp_path_factory):
    return library.build(tmp_path_factory.mktemp("objects"))


@pytest.fixture
def shard(tmp_path, bank):
    made = Shard(tmp_path / "store", bank)
    yield made
    for gid, _ in made.participant.in_doubt():
        made.do(Decide(gid, False))
    made.participant.close()
