"""What to run and what to fetch, as values: a dialect writes them, an edge executes them."""

import shlex
from dataclasses import dataclass

MASK = "****"
_SECRET_FLAGS = ("--api-key", "--hf-token", "--token", "--password", "--auth-token")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION", "CREDENTIAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to start: words, never shell text.

    Attributes:
        argv: program and arguments, at least one.
        env: variables set on top of the environment the server inherits, as (name, value).
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()

    @property
    def masked_argv(self) -> tuple[str, ...]:
        """The words with the values of secret flags masked, for logs, stores and reports."""
        return mask_argv(self.argv)

    @property
    def printable(self) -> str:
        """The masked command as one could paste it into a shell.

        >>> Command(argv=("serve", "--api-key", "s3cret", "--name=a b")).printable
        "serve --api-key '****' '--name=a b'"
        """
        env = [f"{name}={MASK if is_secret_name(name) else value}" for name, value in self.env]
        return shlex.join([*env, *self.masked_argv])


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request to make of a server, relative to its base URL.

    Attributes:
        method: "GET" or "POST".
        path: path with a leading slash.
        body: JSON text to send, or None.
    """

    method: str
    path: str
    body: str | None = None


def is_secret_name(name: str) -> bool:
    """Whether a variable or flag of this name holds a secret.

    >>> is_secret_name("HF_TOKEN"), is_secret_name("PATH"), is_secret_name("num-draft-tokens")
    (True, False, False)
    """
    words = name.upper().replace("-", "_").split("_")
    return any(word in _SECRET_WORDS for word in words)


def mask_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words with values of secret flags replaced, both `--api-key X` and `--api-key=X`."""
    masked: list[str] = []
    hide_next = False
    for word in argv:
        flag, equals, _ = word.partition("=")
        if hide_next:
            masked.append(MASK)
            hide_next = False
        elif equals and _is_secret_flag(flag):
            masked.append(f"{flag}={MASK}")
        else:
            masked.append(word)
            hide_next = _is_secret_flag(word)
    return tuple(masked)


def _is_secret_flag(word: str) -> bool:
    """A secret's flag (`--api-key`) or environment assignment (`HF_TOKEN`)."""
    return word in _SECRET_FLAGS or (not word.startswith("-") and word.isupper() and is_secret_name(word))
