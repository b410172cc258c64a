"""A clock that moves only when told to."""


class FakeClock:
    """See `Clock`; both readings move together."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self.now_s = start_s

    def monotonic_s(self) -> float:
        """The fake time."""
        return self.now_s

    def unix_s(self) -> float:
        """The fake time as a date of 2026."""
        return 1_790_000_000.0 + self.now_s

    def sleep(self, duration_s: float) -> None:
        """Moves the time without waiting."""
        self.now_s += duration_s
