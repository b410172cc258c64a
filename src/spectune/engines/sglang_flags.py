"""SGLang's flags of speculation: which there are, what a setting is in them, and back. Pure.

Names and defaults: `arg_groups/fields/spec.py` of 0.5.23 and `server_args.py` of 0.5.9.
"""

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.arguments import Flags
from spectune.engines.words import EngineWords, find_engine, is_module, program
from spectune.errors import ConfigError

ALGORITHMS = {"eagle": "EAGLE", "eagle3": "EAGLE3", "draft_model": "STANDALONE", "ngram": "NGRAM"}
METHODS = {algorithm: method for method, algorithm in ALGORITHMS.items()} | {"NEXTN": "eagle"}

ALGORITHM = "--speculative-algorithm"
NUM_STEPS = "--speculative-num-steps"
TOPK = "--speculative-eagle-topk"
NUM_DRAFT_TOKENS = "--speculative-num-draft-tokens"
DRAFT_PATHS = ("--speculative-draft-model-path", "--speculative-draft-model")
NGRAM_BREADTHS = ("--speculative-ngram-min-bfs-breadth", "--speculative-ngram-max-bfs-breadth")
ADAPTIVE = ("--speculative-adaptive", "--speculative-adaptive-config")
FAMILY = "--speculative-"
SWITCHES = frozenset(
    {
        "--speculative-adaptive",
        "--speculative-use-rejection-sampling",
        "--speculative-use-block-verification",
        "--speculative-dspark-align-verify-tokens-to-graph-tier",
    }
)
_REPLACED = frozenset({ALGORITHM, NUM_STEPS, TOPK, NUM_DRAFT_TOKENS, *NGRAM_BREADTHS, *ADAPTIVE})
_WRITTEN_OUT = frozenset({*_REPLACED, *DRAFT_PATHS})
_DEFAULT_NUM_STEPS = 3  # its own choice for all but Llama and Grok targets, which get 5


def starts(words: tuple[str, ...]) -> int:
    """`python -m sglang.launch_server`, `sglang serve`."""
    if is_module(words, "sglang.launch_server"):
        return 2
    return 2 if program(words) == "sglang" and words[1:2] == ("serve",) else 0


def recognises(command: Command) -> bool:
    """Whether the command starts SGLang."""
    return find_engine(command, starts) is not None


def config_of(flags: Flags) -> SpecConfig:
    """The setting the flags ask for; raises ConfigError.

    What they leave open is SGLang's own choice; 3 steps are assumed where it is not known here.
    """
    flags.refuse_abbreviations(_WRITTEN_OUT)
    algorithm = flags.value(ALGORITHM)
    if algorithm is None:
        return OFF
    if algorithm.upper() not in METHODS:
        raise ConfigError(
            f"serve command: `{ALGORITHM}` must be one of {', '.join(METHODS)} to be tuned, got "
            f"{algorithm!r}."
        )
    method = METHODS[algorithm.upper()]
    draft_tokens = flags.number(NUM_DRAFT_TOKENS)
    if method == "ngram":
        topk = flags.number(NGRAM_BREADTHS[1]) or 10
        draft_tokens = 12 if draft_tokens is None else draft_tokens
        num_steps = draft_tokens - 1 if topk == 1 else draft_tokens // topk
    else:
        topk = flags.number(TOPK) or 1
        num_steps = flags.number(NUM_STEPS) or _DEFAULT_NUM_STEPS
    if topk == 1 or draft_tokens is None:  # SGLang resets it to num_steps + 1 with a warning only
        draft_tokens = num_steps + 1
    return SpecConfig(method=method, num_steps=num_steps, topk=topk, num_draft_tokens=draft_tokens)


def setting_flags(config: SpecConfig) -> tuple[str, ...]:
    """The flags of a setting, all written out; none for off."""
    if config.is_off:
        return ()
    if config.method == "ngram":
        return (
            ALGORITHM, "NGRAM",
            NUM_DRAFT_TOKENS, str(config.num_draft_tokens),
            NGRAM_BREADTHS[0], "1",
            NGRAM_BREADTHS[1], str(config.topk),
        )  # fmt: skip
    return (
        ALGORITHM, ALGORITHMS[config.method],
        NUM_STEPS, str(config.num_steps),
        TOPK, str(config.topk),
        NUM_DRAFT_TOKENS, str(config.num_draft_tokens),
    )  # fmt: skip


def adaptive_flags(config: SpecConfig, file: str) -> tuple[str, ...]:
    """The flags of a schedule in a file; `config` is the largest step, with which SGLang must start."""
    return (*setting_flags(config), ADAPTIVE[0], ADAPTIVE[1], file)


def changed(flags: Flags, config: SpecConfig, *, file: str = "") -> Command:
    """The command with its speculative flags changed to `config`, or a schedule's, and nothing else.

    Flags of the method's own (draft path, token map, attention mode) stay while the method stays or where
    the command had none; off and another method lose them. A file of flags that has speculative ones is
    written out, for a flag in a file cannot be taken back on the command line.
    """
    is_same = not config.is_off and config_of(flags).method in (config.method, OFF.method)
    removed = _speculative_places(flags.words, whole_family=not is_same, flags=flags)
    added = adaptive_flags(config, file) if file else setting_flags(config)
    if not any(flags.split(words[0])[0].startswith(FAMILY) for words in flags.file):
        return flags.words.changed(removed, added)
    kept = tuple(word for words in flags.file if _stays(flags, words[0], is_same=is_same) for word in words)
    return flags.words.changed(removed | flags.places("--config"), (*kept, *added))


def _stays(flags: Flags, flag: str, *, is_same: bool) -> bool:
    """Whether a flag of the file goes onto the command line: not there yet, and not replaced."""
    if flag.startswith(FAMILY) and (not is_same or flag in _REPLACED):
        return False
    return not any(flags.split(word)[0] == flag for word in flags.words.arguments)


def _speculative_places(words: EngineWords, *, whole_family: bool, flags: Flags) -> frozenset[int]:
    places: set[int] = set()
    for place, word in enumerate(words.arguments):
        name, is_glued, _ = flags.split(word)
        if not (name in _REPLACED or (whole_family and name.startswith(FAMILY))):
            continue
        places.add(place)
        has_value = not is_glued and name not in SWITCHES and place + 1 < len(words.arguments)
        if has_value and not words.arguments[place + 1].startswith("--"):
            places.add(place + 1)
    return frozenset(places)
