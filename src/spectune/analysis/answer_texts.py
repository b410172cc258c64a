"""Two answers to the same request side by side: where they part, and whether they are what was asked for.

An answer is its text and the calls of tools it makes, name and arguments, in order. Studies of older versions
kept no calls (`tool_calls` is None): beside such an answer only texts are compared.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spectune.analysis.tool_answers import Offered, ends_in_calls, offered_tools
from spectune.domain.measurement import RequestRecord
from spectune.domain.study import StudyHistory
from spectune.domain.workload import Part

CellKey = tuple[int, Part]
"""Concurrency and part: within one, equal indexes are equal requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first place where two answers differ.

    Attributes:
        concurrency: the level.
        index: the request.
        character: place in the text and, after it, the calls of tools, from 0.
        token: about the same place in tokens, by the answer's tokens per character.
    """

    concurrency: int
    index: int
    character: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Answers set side by side.

    Attributes:
        answers: pairs that were compared.
        tokens: output tokens of those answers.
        agreeing: tokens before the first difference of each pair.
        differing: pairs that differ.
        first: the earliest divergence by place in its answer; None where none differs.
    """

    answers: int = 0
    tokens: int = 0
    agreeing: int = 0
    differing: int = 0
    first: Divergence | None = None

    @property
    def agreement(self) -> float | None:
        """Share of the tokens that come before a difference; None where nothing was compared."""
        return self.agreeing / self.tokens if self.tokens else None

    def __add__(self, other: "Comparison") -> "Comparison":
        """Both together."""
        firsts = [first for first in (self.first, other.first) if first is not None]
        return Comparison(
            answers=self.answers + other.answers,
            tokens=self.tokens + other.tokens,
            agreeing=self.agreeing + other.agreeing,
            differing=self.differing + other.differing,
            first=min(firsts, key=lambda first: first.token, default=None),
        )


def compare_answers(
    concurrency: int, base: Iterable[RequestRecord], other: Iterable[RequestRecord]
) -> Comparison:
    """The answers of two cells that sent the same requests."""
    by_index = {record.index: record for record in other if record.is_ok}
    total = Comparison()
    for record in base:
        if record.is_ok and record.index in by_index:
            total += _compare(concurrency, record, by_index[record.index])
    return total


def _compare(concurrency: int, base: RequestRecord, other: RequestRecord) -> Comparison:
    tokens, (text, other_text) = base.output_tokens or 0, _texts(base, other)
    if text == other_text:
        return Comparison(answers=1, tokens=tokens, agreeing=tokens)
    character = _common_length(text, other_text)
    token = min(tokens * character // max(len(text), 1), max(tokens - 1, 0))
    place = Divergence(concurrency=concurrency, index=base.index, character=character, token=token)
    return Comparison(answers=1, tokens=tokens, agreeing=token, differing=1, first=place)


def _texts(base: RequestRecord, other: RequestRecord) -> tuple[str, str]:
    if base.tool_calls is None or other.tool_calls is None:
        return base.output_text, other.output_text
    return answer_text(base), answer_text(other)


def answer_text(record: RequestRecord) -> str:
    """Everything the answer says: its text, then each call as name and arguments on a line of its own."""
    calls = (f"\n{call.name}({call.arguments})" for call in record.tool_calls or ())
    return record.output_text + "".join(calls)


def _common_length(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """What requests of a cell ask for beside text, by index.

    Attributes:
        json: those whose answer must be JSON.
        tools: what those that offer tools allow.
        sampled: those that are not greedy.
    """

    json: frozenset[int]
    tools: Mapping[int, Offered]
    sampled: frozenset[int]


NO_FORMATS = Formats(json=frozenset(), tools={}, sampled=frozenset())


def formats_of(history: StudyHistory) -> Mapping[CellKey, Formats]:
    """What the planned requests ask for."""
    found = {}
    for plan in history.plans:
        bodies = {request.index: _body(request.body) for request in plan.requests}
        found[plan.concurrency, plan.part] = Formats(
            json=frozenset(index for index, body in bodies.items() if _wants_json(body)),
            tools={index: offered for index, body in bodies.items() if (offered := offered_tools(body))},
            sampled=frozenset(index for index, body in bodies.items() if body.get("temperature", 0) != 0),
        )
    return found


def count_valid(records: Iterable[RequestRecord], formats: Formats) -> tuple[int, int]:
    """Answers that are what was asked for, and how many were asked for something; cut answers aside.

    An answer to a request for JSON must parse. One to a request that offers tools is counted as valid when
    it makes valid calls: that it makes none may be right, but off's count is beside it.
    """
    checks = list(_checks(records, formats))
    return sum(checks), len(checks)


def _checks(records: Iterable[RequestRecord], formats: Formats) -> Iterator[bool]:
    for record in records:
        if not record.is_ok or record.finish_reason == "length":
            continue
        if record.index in formats.json:
            yield _is_json(record.output_text)
        elif record.index in formats.tools:
            yield ends_in_calls(record, formats.tools[record.index])


def _body(text: str) -> dict[str, object]:
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _wants_json(body: Mapping[str, object]) -> bool:
    wanted = body.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in {"json_object", "json_schema"}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
