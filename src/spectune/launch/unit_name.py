"""A service unit's name, checked so that it can stand in paths and commands."""

import hashlib
import re
from dataclasses import dataclass

from spectune.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9:_\\][A-Za-z0-9:_.\\-]*(?:@[A-Za-z0-9:_.\\-]*)?\.service")
_LONGEST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitName:
    """A service unit, an instance if it comes from a template.

    Attributes:
        full: with its suffix.

    >>> UnitName.parse("llm@8000").full, UnitName.parse("llm@8000").instance
    ('llm@8000.service', '8000')
    """

    full: str

    @classmethod
    def parse(cls, text: str) -> "UnitName":
        """The name, `.service` added where there is no suffix; raises ConfigError."""
        full = text if text.endswith(".service") else f"{text}.service"
        if len(full) > _LONGEST or not _NAME.fullmatch(full):
            raise ConfigError(
                f"--unit: `a service's name as systemd writes it` must be given, got {text!r}; "
                "`systemctl list-units --type=service` shows them."
            )
        if "@." in full:
            raise ConfigError(
                f"--unit: `an instance of the template` must be named, got {full!r}; "
                f"such as {full.replace('@.', '@NAME.')}."
            )
        return cls(full=full)

    @property
    def stem(self) -> str:
        """Without the suffix (`%N`)."""
        return self.full.removesuffix(".service")

    @property
    def prefix(self) -> str:
        """What stands before the `@`, all of it where there is none (`%p`)."""
        return self.stem.partition("@")[0]

    @property
    def instance(self) -> str:
        """What stands behind the `@`, as written (`%i`)."""
        return self.stem.partition("@")[2]

    @property
    def key(self) -> str:
        """A short name for files and units of ours, different for every unit."""
        readable = re.sub(r"[^A-Za-z0-9_-]", "_", self.stem)[:40]
        return f"{readable}-{hashlib.sha256(self.full.encode()).hexdigest()[:10]}"


def unescape(text: str) -> str:
    r"""A name with systemd's `\xNN` and `-` for `/` undone (`%I`, `%J`).

    >>> unescape(r"models-qwen\x2d3")
    'models/qwen-3'
    """
    plain = text.replace("-", "/").encode()
    return re.sub(rb"\\x([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), plain).decode(
        errors="replace"
    )
