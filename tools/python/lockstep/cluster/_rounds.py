"""Rounds of changes before a pause, so that the pause has only the last ones to copy.

A full copy of a store is taken while transactions run. Each round then copies what has changed
since, and brings the copy up to date with that. A round takes as long as the changes during the one
before need, so each is shorter, until the rate of the changes is all that counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: A round that is shorter is the last one: the pause will be about as long.
ROUND_SECONDS = 1.0
ROUNDS_MAX = 8
#: A round that is not shorter than this share of the one before is the last one too.
SHRINKS_TO = 0.7


def run(one: Callable[[], None]) -> int:
    """Calls `one` until another round would not make the pause shorter. The result: how often."""
    before = float("inf")
    for number in range(1, ROUNDS_MAX + 1):
        began = time.monotonic()
        one()
        took = time.monotonic() - began
        if took < ROUND_SECONDS or took > SHRINKS_TO * before:
            return number
        before = took
    return ROUNDS_MAX
