"""Log lines about checks that no policy decided. The logger is `tollgate`."""

from __future__ import annotations

import logging
import time

from tollgate.errors import Error

_LOGGER = logging.getLogger("tollgate")
_PERIOD = 10.0
"""Seconds between two lines about the same policy and effect."""
_KINDS_MAX = 100
"""Number of kinds of lines; all further kinds share one limit."""


class CheckLog:
    """Logs checks that were not decided: at most one line in 10 s for each policy and effect."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], float] = {}
        self._suppressed: dict[tuple[str, str], int] = {}

    def undecided(self, policy: str, effect: str, error: Error) -> None:
        """Logs a check, and what happens to its call."""
        kind = (policy, effect)
        if len(self._next) >= _KINDS_MAX and kind not in self._next:
            kind = ("", "")
        now = time.monotonic()
        if now < self._next.get(kind, 0.0):
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return
        self._next[kind] = now + _PERIOD
        suppressed = self._suppressed.pop(kind, 0)
        _LOGGER.warning(
            "rate of policy %a not checked, %s: %a (%d such checks not logged)",
            policy,
            effect,
            str(error),
            suppressed,
        )
