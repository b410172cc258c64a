"""What to run and what to fetch, as values: a dialect writes them, an edge executes them."""

import re
import shlex
from dataclasses import dataclass

MASK = "****"
_SECRET_FLAGS = ("--api-key", "--hf-token", "--token", "--password", "--auth-token")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION", "CREDENTIAL")
_IN_TEXT = re.compile(
    rf"(?P<name>(?:{'|'.join(_SECRET_FLAGS)})(?:\s+|=)|\b[A-Z][A-Z0-9_]*="
    r"|://(?=[^/\s@]*:[^/\s@]*@)|[?&][\w-]+=|Bearer\s+)"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\";&|@]+)"
)
"""A secret inside a word: in a shell's text, an `--env=NAME=…`, a URL."""
_SHELL_OPTION = re.compile(r"-[a-z]*c")


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
    """The words with secrets replaced: values of `--api-key X` and `--api-key=X`, and those inside a word.

    >>> mask_argv(("bash", "-c", "HF_TOKEN=abc exec vllm serve m --api-key 'k' --port 1"))
    ('bash', '-c', 'HF_TOKEN=**** exec vllm serve m --api-key **** --port 1')
    """
    masked: list[str] = []
    hide_next = is_text = False
    for word in argv:
        if hide_next:
            masked.append(MASK)
            hide_next = is_text = False
            continue
        masked.append(_IN_TEXT.sub(_mask_match, word) if is_text else _mask_word(word))
        hide_next = not is_text and _is_secret_flag(word)
        is_text = bool(_SHELL_OPTION.fullmatch(word))
    return tuple(masked)


def secret_values(command: Command) -> frozenset[str]:
    """The secrets that the command carries, in its environment, as words or inside them."""
    found = {value for name, value in command.env if is_secret_name(name)}
    for word, shown in zip(command.argv, command.masked_argv, strict=True):
        if shown == MASK:
            found.add(word)
        elif word != shown and shown == f"{word.partition('=')[0]}={MASK}":
            found.add(word.partition("=")[2])
        elif word != shown:
            found |= {m["value"].strip("'\"") for m in _IN_TEXT.finditer(word) if _hides(m)}
    return frozenset(found - {""})


def _mask_word(word: str) -> str:
    flag, equals, _ = word.partition("=")
    if equals and _is_secret_flag(flag):
        return f"{flag}={MASK}"
    return _IN_TEXT.sub(_mask_match, word)


def _mask_match(found: re.Match[str]) -> str:
    return f"{found['name']}{MASK}" if _hides(found) else found[0]


def _hides(found: re.Match[str]) -> bool:
    name = found["name"].strip(" \t\n=?&")
    return name in _SECRET_FLAGS or name in ("://", "Bearer") or is_secret_name(name)


def _is_secret_flag(word: str) -> bool:
    """A secret's flag (`--api-key`) or environment assignment (`HF_TOKEN`)."""
    return word in _SECRET_FLAGS or (not word.startswith("-") and word.isupper() and is_secret_name(word))
