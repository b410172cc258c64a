"""Raw facts of a measured level: what was sent, what came back when, the engine's counters. Never rates."""

from dataclasses import dataclass

from spectune.domain.workload import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool, as the model wrote it.

    Attributes:
        name: of the function; "" where none came.
        arguments: their text, JSON if the model kept to it.
    """

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What happened to one request. All times are monotonic seconds since the level began.

    Attributes:
        index: the planned request's index.
        due_at_s: when the client was free to send it.
        sent_at_s: when it was sent.
        chunk_times_s: arrival of each chunk that carried content, ascending.
        chunk_tokens: output tokens known at each of those chunks, cumulative, from the engine's
            continuous usage; empty where the engine does not offer it.
        ended_at_s: when the stream ended or failed.
        prompt_tokens: from the engine's usage; None when it gave none.
        output_tokens: from the engine's usage; None when it gave none.
        finish_reason: the engine's word, or "" when the request failed.
        output_text: what was generated.
        error: "" when the request succeeded, else one line saying what went wrong.
        tool_calls: the calls of tools it made, in order; None where they were not kept (stores before
            schema 3).
    """

    index: int
    due_at_s: float
    sent_at_s: float
    chunk_times_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    ended_at_s: float
    prompt_tokens: int | None
    output_tokens: int | None
    finish_reason: str
    output_text: str
    error: str = ""
    tool_calls: tuple[ToolCall, ...] | None = ()

    @property
    def is_ok(self) -> bool:
        """Whether the request ended well and its token count is known."""
        return not self.error and self.output_tokens is not None and len(self.chunk_times_s) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecCounters:
    """An engine's cumulative counters of speculation. Root and bonus tokens are not in the token counts.

    Attributes:
        verify_steps: sequences × verification forwards that had a draft.
        undrafted_steps: sequences × decode forwards without a draft.
        drafted_tokens: draft tokens verified.
        accepted_tokens: draft tokens accepted.
        accepted_per_position: accepted tokens by position in the draft, first position first.
        generated_tokens: output tokens emitted in all.
    """

    verify_steps: int
    undrafted_steps: int
    drafted_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...] = ()
    generated_tokens: int | None = None

    def since(self, before: "SpecCounters") -> "SpecCounters":
        """What was counted after `before`.

        Positions missing in `before` count as 0 there.
        """
        padded = before.accepted_per_position + (0,) * len(self.accepted_per_position)
        per_position = tuple(
            now - then for now, then in zip(self.accepted_per_position, padded, strict=False)
        )
        return SpecCounters(
            verify_steps=self.verify_steps - before.verify_steps,
            undrafted_steps=self.undrafted_steps - before.undrafted_steps,
            drafted_tokens=self.drafted_tokens - before.drafted_tokens,
            accepted_tokens=self.accepted_tokens - before.accepted_tokens,
            accepted_per_position=per_position,
            generated_tokens=_difference(self.generated_tokens, before.generated_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMeasurement:
    """Everything raw about one concurrency level of one trial.

    Attributes:
        concurrency: requests the client kept in flight.
        attempt: 0 for the first measurement; 1 when it was measured again after a disturbance.
        records: one per planned request that was sent, in order of index.
        counters: the counters' difference over the level, or None where unreadable.
        foreign_cpu_share: CPU time of processes that are not ours, steal included, as a share of one core.
        wall_s: length of the level, warm-up excluded.
        started_unix_s: when the level began.
        part: which prompts were sent; measurements of two settings pair within one part.
    """

    concurrency: int
    attempt: int
    records: tuple[RequestRecord, ...]
    counters: SpecCounters | None
    foreign_cpu_share: float | None
    wall_s: float
    started_unix_s: float
    part: Part = "search"


def _difference(now: int | None, then: int | None) -> int | None:
    return None if now is None or then is None else now - then
