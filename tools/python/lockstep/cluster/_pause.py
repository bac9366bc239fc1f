"""A pause: nothing new begins for a bounded time, so that every store shows one point."""

from __future__ import annotations

import time


class Pause:
    """Ends by itself, so a caller that dies stops nobody for long. Any thread may use it."""

    def __init__(self) -> None:
        self._token = ""
        self._until = 0.0

    def begin(self, token: str, seconds: float) -> None:
        """Begins a pause of at most so many seconds, which takes the place of an earlier one."""
        self._token, self._until = token, time.monotonic() + seconds

    def end(self, token: str) -> bool:
        """Ends the pause. False: it did not last until now, or another one took its place.

        A process that was restarted meanwhile does not know the token either.
        """
        if self._token != token:
            return False
        lasted = self.active
        self._token, self._until = "", 0.0
        return lasted

    @property
    def active(self) -> bool:
        """Whether nothing may begin."""
        return time.monotonic() < self._until
