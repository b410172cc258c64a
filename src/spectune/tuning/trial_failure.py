"""A trial's failure on its way to becoming an outcome, and log tails fit to be kept."""

from spectune.domain.command import MASK, Command, secret_values
from spectune.domain.endpoint import Endpoint
from spectune.domain.text import printable
from spectune.domain.trial import FailureKind

LOG_TAIL_LINES = 30
LOG_LINE_CHARACTERS = 400


class TrialFailed(Exception):
    """Ends a trial from within; `TrialRunner` turns it into `Failed`."""

    def __init__(self, kind: FailureKind, detail: str) -> None:
        """A failure of this class; `detail` says what happened and what to do next."""
        super().__init__(detail)
        self.kind: FailureKind = kind
        self.detail = detail


class TrialVoid(Exception):
    """Ends a trial that does not run what was asked for; the text is the reason."""


def masked(text: str, command: Command, endpoint: Endpoint) -> str:
    """The text with the command's secrets masked: its API key, secret flags' values, secret variables."""
    secrets = {endpoint.api_key, *secret_values(command)}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def tail(log: str, num_lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log, each of bounded length and without colours."""
    lines = [printable(line) for line in log.splitlines()[-num_lines:]]
    return "\n".join(line if len(line) <= LOG_LINE_CHARACTERS else _beginning(line) for line in lines)


def _beginning(line: str) -> str:
    """The first words of a line; no word is cut where that can be avoided, for it may be a secret."""
    return f"{line[:LOG_LINE_CHARACTERS].rpartition(' ')[0] or line[:LOG_LINE_CHARACTERS]} …"
