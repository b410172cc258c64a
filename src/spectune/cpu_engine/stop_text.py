"""Ends a stream at a stop text, which may be spread over several pieces."""


class StopFinder:
    """Passes text on, except what is a stop text or could become one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False

    def feed(self, text: str, *, final: bool = False) -> str:
        """The text that may be shown now; after a stop text nothing more is.

        >>> finder = StopFinder(("END",))
        >>> finder.feed("one E"), finder.feed("ND two"), finder.found
        ('one ', '', True)
        """
        if self.found:
            return ""
        if not self._stops:
            return text
        self._held += text
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.found = True
            shown, self._held = self._held[: min(places)], ""
            return shown
        keep = 0 if final else self._longest_beginning()
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def _longest_beginning(self) -> int:
        """Length of the longest end of the held text that begins a stop text."""
        for size in range(min(len(self._held), max(map(len, self._stops)) - 1), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return size
        return 0
