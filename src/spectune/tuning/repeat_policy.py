"""Whether measuring a disturbed level again is worth its time on this machine."""

MAX_FUTILE = 2


class RepeatPolicy:
    """Gives repeats up after two in a row were disturbed again: then the machine is busy throughout."""

    def __init__(self) -> None:
        """A policy that has seen nothing."""
        self._futile = 0

    @property
    def is_worthwhile(self) -> bool:
        """Whether a disturbed level should be measured again."""
        return self._futile < MAX_FUTILE

    def note(self, *, helped: bool) -> None:
        """Records a measurement that was undisturbed (`helped`), or a repeat that was disturbed again."""
        self._futile = 0 if helped else self._futile + 1
