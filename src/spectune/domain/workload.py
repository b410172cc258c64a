"""What is sent: the question's prompts, lengths and sampling, and the decided list of requests."""

from dataclasses import dataclass
from typing import Literal

from spectune.errors import ConfigError

Part = Literal["search", "fresh", "ramp"]
"""Which prompts a plan sends: those every setting is searched with, fresh ones for confirmation, or the
load that goes up and down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """A named workload.

    Attributes:
        name: built-in name ("python-code") or the file it came from.
        kind: "builtin" or "file".
        digest: sha256 (hex) of everything that decides the requests.
        num_prompts: distinct prompts it can give; none is repeated within an arm.
        temperature: sampling temperature of built-in prompts; None where each request says its own.
        seed: seed of the generator that cut prompts and lengths.
    """

    name: str
    kind: str
    digest: str
    num_prompts: int
    temperature: float | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request, decided before the first is sent.

    Attributes:
        index: place in its level's list, from 0; equal indexes carry equal bodies in every setting.
        path: "/v1/completions" or "/v1/chat/completions".
        body: the OpenAI request body as JSON text, without `stream` and `stream_options`.
        max_tokens: upper limit of output tokens.
        start_after_s: earliest start after the level began; spreads the opening burst. It is given up once
            a request has ended for every slot at work: they are spread by then.
    """

    index: int
    path: str
    body: str
    max_tokens: int
    start_after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The requests of one concurrency level (closed loop), or of a load that goes up and down.

    Attributes:
        concurrency: requests kept in flight by the client; of a ramp, the most.
        warmup: sent first and not counted.
        requests: the counted requests, in order.
        part: which prompts they are.
        ramp: (index of a request, requests in flight from it on), indexes ascending from 0; empty: constant.
    """

    concurrency: int
    warmup: tuple[PlannedRequest, ...]
    requests: tuple[PlannedRequest, ...]
    part: Part = "search"
    ramp: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Checks the plan; raises ConfigError."""
        if self.concurrency < 1:
            raise ConfigError(f"level: `concurrency >= 1` must hold, got {self.concurrency}.")
        if len(self.requests) < self.concurrency:
            raise ConfigError(
                f"level {self.concurrency}: `requests >= concurrency` must hold, got {len(self.requests)}."
            )
        peak = max((size for _, size in self.ramp), default=self.concurrency)
        if peak != self.concurrency or (self.ramp and self.ramp[0][0] != 0):
            raise ConfigError(
                f"level {self.concurrency}: `its ramp begins with request 0 and peaks at the level` must "
                f"hold, got {self.ramp}."
            )
