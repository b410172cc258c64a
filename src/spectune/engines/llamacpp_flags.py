"""llama-server's flags of speculation: which a build has, what a setting is in them, and back. Pure.

    method       --spec-type     num_steps is
    draft_model  draft-simple    --spec-draft-n-max, as for eagle3 and mtp
    ngram        ngram-simple    --spec-ngram-simple-size-m, as for the two maps
    ngram-mod    ngram-mod       --spec-ngram-mod-n-max

Builds before the `--spec-` flags have `--draft-max` for draft models only (source); `--help` tells which.
llama-server has no `--flag=value`. Flags set through LLAMA_ARG_… variables are not seen here.
"""

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.arguments import FlagRule, Flags
from spectune.errors import ConfigError

RULE = FlagRule(has_equals=False)
TYPES = {
    "draft_model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "ngram": "ngram-simple",
    "ngram-map-k": "ngram-map-k", "ngram-map-k4v": "ngram-map-k4v", "ngram-mod": "ngram-mod",
}  # fmt: skip
METHODS = {spec_type: method for method, spec_type in TYPES.items()}
NEED_DRAFT = frozenset({"draft_model", "eagle3"})
DRAFT_MODELS = ("-md", "--spec-draft-model", "--model-draft", "-hfd", "--spec-draft-hf", "--hf-repo-draft")

SPEC_TYPE = "--spec-type"
DRAFT_MAX, DRAFT_MIN = "--spec-draft-n-max", "--spec-draft-n-min"
OLD_DRAFT_MAX = ("--draft-max", "--draft-n", "--draft")
MOD_MAX, MOD_MIN = "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-min"
LOOKUP = 2
"""n-gram length looked up where the command names none: the build's own 12 finds nothing in short drafts."""

_SHORT = frozenset({"-md", "-hfd", "-ngld", "-devd", "-ctkd", "-ctvd", "-td", "-cd"})
_SWITCHES = frozenset({"--spec-default", "--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling"})
_DEFAULTS = {"draft": 3, "size-m": 48, "mod": 64}


def config_of(flags: Flags) -> SpecConfig:
    """The setting the flags ask for; raises ConfigError where it cannot be told."""
    if flags.has("--spec-default"):
        raise ConfigError(
            "serve command: `--spec-default is written out` must hold; name --spec-type and its flags "
            "instead."
        )
    spec_type = flags.value(SPEC_TYPE)
    if spec_type is None:
        spec_type = "draft-simple" if flags.has(*DRAFT_MODELS) else "none"
    if spec_type == "none":
        return OFF
    if spec_type not in METHODS:
        raise ConfigError(
            f"serve command: `{SPEC_TYPE}` must be one of {', '.join(METHODS)} to be tuned, got "
            f"{spec_type!r}."
        )
    method = METHODS[spec_type]
    num_steps = flags.number(*_length_flags(method))
    return SpecConfig.chain(method, _default_length(method) if num_steps is None else num_steps)


def setting_flags(flags: Flags, config: SpecConfig, *, is_old: bool = False) -> tuple[str, ...]:
    """The flags of a setting; none for off."""
    steps = str(config.num_steps)
    if config.is_off:
        return ()
    if is_old:
        return (OLD_DRAFT_MAX[0], steps)
    spec_type = TYPES[config.method]
    if spec_type.startswith("draft-"):
        return (SPEC_TYPE, spec_type, DRAFT_MAX, steps)
    if config.method == "ngram-mod":
        least = flags.number(MOD_MIN)
        return (SPEC_TYPE, spec_type, MOD_MIN, str(min(config.num_steps, least or 1)), MOD_MAX, steps)
    lookup = flags.number(_lookup_flag(config.method)) or min(LOOKUP, config.num_steps)
    return (
        SPEC_TYPE,
        spec_type,
        _lookup_flag(config.method),
        str(lookup),
        _length_flags(config.method)[0],
        steps,
    )


def changed(flags: Flags, config: SpecConfig, *, is_old: bool = False) -> Command:
    """The command with its speculative flags changed to `config` and nothing else.

    The draft model and its flags stay while the method stays, and where another that needs a draft model
    is asked for; off and n-grams lose them.
    """
    added = setting_flags(flags, config, is_old=is_old)
    is_same = not config.is_off and _stays(config_of(flags).method, config.method)
    replaced = {SPEC_TYPE, *(word for word in added if word.startswith("--"))}
    if is_same:
        replaced.update(_length_flags(config.method))
    removed: set[int] = set()
    for place, word in enumerate(flags.words.arguments):
        if word in replaced or (not is_same and is_speculative(word)):
            removed.add(place)
            if word not in _SWITCHES and place + 1 < len(flags.words.arguments):
                removed.add(place + 1)
    return flags.words.changed(frozenset(removed), added)


def obstacle(flags: Flags, config: SpecConfig) -> str:
    """Why these flags cannot run the setting, or ""."""
    if config.method not in TYPES:
        return f"llama.cpp is tuned here with {', '.join(TYPES)}, not with {config.method!r}."
    if config.topk > 1:
        return f"`topk = 1` must hold, got {config.topk}: llama.cpp drafts chains only."
    if config.method in NEED_DRAFT and not flags.has(*DRAFT_MODELS):
        return f"{config.method} needs --spec-draft-model; the serve command has none."
    if config.method.startswith("ngram") and config.method != "ngram-mod":
        lookup = flags.number(_lookup_flag(config.method))
        if lookup is not None and config.num_steps < lookup:
            name = _lookup_flag(config.method)
            return f"`num_steps >= {name} = {lookup}` must hold: shorter drafts are never made."
    least = flags.number(DRAFT_MIN)
    if TYPES[config.method].startswith("draft-") and least is not None and config.num_steps < least:
        return f"`num_steps >= {DRAFT_MIN} = {least}` must hold: shorter drafts are thrown away."
    return ""


def is_speculative(word: str) -> bool:
    """Whether a word is a flag of speculation, of whatever method."""
    return word.startswith(("--spec-", "--no-spec-", "--draft-", "--model-draft", "--hf-repo-draft")) or (
        word in _SHORT or word in OLD_DRAFT_MAX
    )


def _stays(own: str, asked: str) -> bool:
    """Whether the draft model of a command with the method `own` stays for the method `asked`."""
    return own in (asked, OFF.method) or {own, asked} == NEED_DRAFT


def _length_flags(method: str) -> tuple[str, ...]:
    """The flag of the draft length, and older names of it."""
    if TYPES[method].startswith("draft-"):
        return (DRAFT_MAX, *OLD_DRAFT_MAX)
    return (MOD_MAX,) if method == "ngram-mod" else (f"--spec-{TYPES[method]}-size-m",)


def _lookup_flag(method: str) -> str:
    return f"--spec-{TYPES[method]}-size-n"


def _default_length(method: str) -> int:
    if TYPES[method].startswith("draft-"):
        return _DEFAULTS["draft"]
    return _DEFAULTS["mod"] if method == "ngram-mod" else _DEFAULTS["size-m"]
