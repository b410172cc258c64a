"""Whether a measured level had the server to itself, by the engine's own count of tokens. Pure."""

from spectune.domain.measurement import LevelMeasurement

_SLACK_TOKENS, _SLACK_SHARE = 64, 0.02


def foreign_requests(level: LevelMeasurement) -> str:
    """What says that the server also served somebody else during the level, or "".

    The engine's count of generated tokens is held against the tokens of our own answers; requests of ours
    that failed may have generated any number, so then nothing is said.
    """
    if level.counters is None or any(record.error for record in level.records):
        return ""
    ours = sum(record.output_tokens or 0 for record in level.records)
    generated = level.counters.generated_tokens
    if generated is None or generated <= ours * (1 + _SLACK_SHARE) + _SLACK_TOKENS:
        return ""
    return f"the server generated {generated} tokens, our requests only {ours}: it served somebody else too"
