"""vLLM's `--speculative-config`: the JSON of a command, however it is spelt, and settings in it. Pure.

Spellings: `--speculative-config JSON`, `-sc JSON`, `--speculative-config.KEY VALUE`, and in 0.32 (source)
`--spec-method`, `--spec-model`, `--spec-tokens`. Keys: `config/speculative.py` of 0.32.0.
"""

import json
from collections.abc import Mapping

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.arguments import Flags
from spectune.errors import ConfigError

FLAG, SHORT = "--speculative-config", "-sc"
SHORTCUTS = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}
NEED_MODEL = frozenset({"eagle", "eagle3", "draft_model", "medusa", "mlp_speculator", "dflash", "dspark"})
METHODS = NEED_MODEL | {"ngram", "ngram_gpu", "suffix", "mtp", "auto"}
MAX_TOKENS = 128  # MAX_SPEC_LEN of v1/sample/rejection_sampler.py
PER_REQUEST = "--per-request-spec-decode-metrics"  # refuses to start without speculation

_TOKENS, _SCHEDULE = "num_speculative_tokens", "num_speculative_tokens_per_batch_size"
_KEPT_WITH_ANY_METHOD = frozenset({"rejection_sample_method", "draft_sample_method"})
_DEFAULT_TOKENS = 1


def asked(flags: Flags) -> dict[str, object]:
    """The speculative configuration of the command or its file, empty for off; raises ConfigError."""
    flags.refuse_abbreviations(frozenset({FLAG, *SHORTCUTS, "--spec"}))
    own = _asked_by(flags)
    return own or (_asked_by(flags.in_file()) if flags.file else {})


def config_of(flags: Flags) -> SpecConfig:
    """The setting asked for; the method is "auto" where vLLM is to find it out from the draft model."""
    found = asked(flags)
    if not found:
        return OFF
    tokens = found.get(_TOKENS, _DEFAULT_TOKENS)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise ConfigError(f"serve command: `{_TOKENS} >= 1` must hold in {FLAG}, got {tokens!r}.")
    return SpecConfig.chain(method_of(found), tokens)


def method_of(found: Mapping[str, object]) -> str:
    """The method by its present name."""
    method = found.get("method") or ("auto" if found.get("model") else "ngram")
    name = str(method)
    return "mtp" if name.endswith("_mtp") else name


def schedule_keys(most: int, rows: list[list[int]]) -> dict[str, object]:
    """The keys of a schedule: `rows` of lowest and highest batch size with their tokens, `most` at most."""
    return {_TOKENS: most, _SCHEDULE: rows}


def schedule_rows(flags: Flags) -> object:
    """The rows asked for, as they are; None where there are none."""
    return asked(flags).get(_SCHEDULE)


def setting_text(flags: Flags, config: SpecConfig, rows: list[list[int]] | None = None) -> str:
    """The JSON that asks for `config`, or for `rows` of a schedule with `config` as its most tokens.

    It is the command's own with the number of tokens (and method) changed.
    """
    own = asked(flags)
    if own and method_of(own) == config.method:
        values = {key: value for key, value in own.items() if key != _SCHEDULE}
    else:
        values = {key: value for key, value in own.items() if key in _KEPT_WITH_ANY_METHOD}
        values["method"] = config.method
        if config.method in NEED_MODEL and own.get("model"):
            values["model"] = own["model"]
    keys = {_TOKENS: config.num_steps} if rows is None else schedule_keys(config.num_steps, rows)
    return json.dumps({**values, **keys})


def setting_flags(flags: Flags, config: SpecConfig, rows: list[list[int]] | None = None) -> tuple[str, ...]:
    """The flags of a setting, or of a schedule; none for off."""
    return () if config.is_off else (FLAG, setting_text(flags, config, rows))


def changed(flags: Flags, config: SpecConfig, rows: list[list[int]] | None = None) -> Command:
    """The command with its speculative configuration changed to `config`, or a schedule's, nothing else.

    A file that has one is written out on the command line, where it can be changed.
    """
    removed = _places(flags)
    if config.is_off:
        removed |= flags.places(PER_REQUEST)
    added = setting_flags(flags, config, rows)
    if not any(_is_speculative(flags, words[0]) for words in flags.file):
        return flags.words.changed(removed, added)
    kept = tuple(word for words in flags.file if _stays(flags, words[0]) for word in words)
    return flags.words.changed(removed | flags.places("--config"), (*kept, *added))


def _stays(flags: Flags, flag: str) -> bool:
    written = {flags.split(word)[0] for word in flags.words.arguments}
    return not _is_speculative(flags, flag) and flags.split(flag)[0] not in written


def _is_speculative(flags: Flags, word: str) -> bool:
    name = flags.split(word)[0]
    return name in (FLAG, SHORT) or name in SHORTCUTS or name.startswith(f"{FLAG}.")


def _places(flags: Flags) -> frozenset[int]:
    dotted = {flags.split(word)[0] for word in flags.words.arguments if _is_speculative(flags, word)}
    return flags.places(*dotted)


def _asked_by(flags: Flags) -> dict[str, object]:
    text = flags.value(FLAG, SHORT)
    found = {} if text is None else _parsed(text)
    for word in flags.words.arguments:
        name = flags.split(word)[0]
        if name.startswith(f"{FLAG}."):
            _put(found, name.removeprefix(f"{FLAG}."), flags.value(name) or "")
    for flag, key in SHORTCUTS.items():
        value = flags.value(flag)
        if value is not None:
            found[key] = _scalar(value)
    return found


def _parsed(text: str) -> dict[str, object]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"serve command: `{FLAG} is JSON` must hold, got {text[:80]!r}.") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"serve command: `{FLAG} is a JSON object` must hold, got {text[:80]!r}.")
    return found


def _put(found: dict[str, object], dotted: str, value: str) -> None:
    """Sets a key; `a.b` is key b of the object a. vLLM's own spelling of keys has underscores."""
    first, dot, rest = dotted.replace("-", "_").partition(".")
    if not dot:
        found[first] = _scalar(value)
        return
    inner = found.setdefault(first, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"serve command: `{FLAG}.{first} is one thing` must hold, it is given as two.")
    _put(inner, rest, value)


def _scalar(value: str) -> object:
    try:
        found: object = json.loads(value)
    except ValueError:
        return value
    return found
