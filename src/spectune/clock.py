"""Clock protocol and the one real clock. Logic never reads the time itself: it is handed a clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Monotonic seconds for intervals, Unix seconds for stamps."""

    def monotonic_s(self) -> float:
        """Seconds that never run backwards; the origin is arbitrary."""

    def unix_s(self) -> float:
        """Seconds since 1970 (UTC)."""

    def sleep(self, duration_s: float) -> None:
        """Waits at least `duration_s`."""


class SystemClock:
    """The machine's clock."""

    def monotonic_s(self) -> float:
        """Seconds of the system's monotonic clock."""
        return time.monotonic()

    def unix_s(self) -> float:
        """Seconds since 1970 (UTC)."""
        return time.time()

    def sleep(self, duration_s: float) -> None:
        """Sleeps in the calling thread."""
        time.sleep(duration_s)
