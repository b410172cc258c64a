"""What the HTTP front and the engine process say to each other."""

from dataclasses import dataclass, field

from spectune.cpu_engine.stats import Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Front → engine: generate.

    Attributes:
        request_id: unique among live requests.
        prompt: token ids, at least one; prompt and max_tokens fit the context.
        max_tokens: limit of output tokens, at least 1.
        temperature: 0 is greedy.
        top_p: share of probability kept, (0, 1].
        top_k: tokens kept, 0 for all.
        seed: of the request's random numbers.
        stops_at_eos: whether the end-of-text token ends it.
    """

    request_id: int
    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stops_at_eos: bool = True


@dataclass(frozen=True, slots=True)
class Cancel:
    """Front → engine: forget a request."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Front → engine: empty the prefix cache, if idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Engine → front: the models are loaded.

    Attributes:
        max_running_requests: sequences it runs at once.
        max_total_num_tokens: cache entries.
        context_length: longest prompt and output together.
    """

    max_running_requests: int
    max_total_num_tokens: int
    context_length: int


@dataclass(slots=True)
class StepOutput:
    """Engine → front: what one step emitted.

    Attributes:
        request_ids: requests that emitted.
        tokens: their new tokens.
        finish: "" while it goes on, else "stop" or "length".
        cached: prompt tokens found in the prefix cache.
        stats: counters after the step.
    """

    request_ids: list[int] = field(default_factory=list)
    tokens: list[list[int]] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)


@dataclass(frozen=True, slots=True)
class Flushed:
    """Engine → front: answer to Flush."""

    was_idle: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """Engine → front: it could not start."""

    reason: str
