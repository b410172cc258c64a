"""Do the embedded engine's greedy answers depend on what runs beside them? Counts answers that do.

Every prompt is answered alone by an engine of its own without speculation (the prefix cache emptied before
each), then by each setting with up to `--in-flight` others, arriving at random. Compared are the bits of
the logits its first token was chosen from, and all tokens. The gap between the two best logits of a first
token says how small a rounding error would have to be to go unseen.

    python -m benchmarks.engine_exactness [--requests 1000] [--in-flight 16] [--json FILE]
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine_speed import held_out_prompts
from spectune.cpu_engine.assembly import build_engine
from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.schedule import read_schedule

SETTINGS = {
    "off": EngineOptions(),
    "off, two threads": EngineOptions(num_threads=2),
    "eagle 1": EngineOptions(method="eagle", num_steps=1, num_draft_tokens=2),
    "eagle 4": EngineOptions(method="eagle", num_steps=4, num_draft_tokens=5),
    "eagle 3 topk 2 draft 7": EngineOptions(method="eagle", num_steps=3, topk=2, num_draft_tokens=7),
    "draft_model 2": EngineOptions(method="draft_model", num_steps=2, num_draft_tokens=3),
    "ngram 4": EngineOptions(method="ngram", num_steps=4, num_draft_tokens=5),
    "schedule 1-4:3,5-:0": EngineOptions(
        method="eagle", num_steps=3, num_draft_tokens=4, schedule=read_schedule("1-4:3,5-:0")
    ),
}
MAX_TOKENS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One greedy answer.

    Attributes:
        logits: of the first token [vocab].
        tokens: all of it.
    """

    logits: NDArray[np.float32]
    tokens: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What one setting's answers were beside those given alone.

    Attributes:
        setting: how it was launched.
        requests: answers compared.
        tokens: tokens compared.
        other_logits: first tokens whose logits had other bits.
        other_answers: answers that were not the same.
        first_differences: place of the first other token of each of them.
        cached_tokens: prompt tokens read from the prefix cache.
    """

    setting: str
    requests: int
    tokens: int
    other_logits: int
    other_answers: int
    first_differences: tuple[int, ...]
    cached_tokens: int


class Recorder:
    """Keeps the logits from which an engine chose the first token of each prompt."""

    def __init__(self, engine: Engine) -> None:
        self.logits: dict[tuple[int, ...], NDArray[np.float32]] = {}
        target = engine._target  # noqa: SLF001  (looks on, changes nothing)
        prefill = target.prefill

        def recording(
            slot: int, start: int, ids: NDArray[np.int64]
        ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
            logits, features = prefill(slot, start, ids)
            end = start + len(ids)
            self.logits[tuple(engine.table.tokens[slot, :end].tolist())] = logits[0].copy()
            return logits, features

        target.prefill = recording  # type: ignore[method-assign]


def alone(prompts: list[tuple[int, ...]]) -> list[Answer]:
    """Each prompt by itself, nothing remembered from the one before."""
    engine = build_engine(EngineOptions(max_running_requests=1))[0]
    recorder = Recorder(engine)
    answers = []
    for n, prompt in enumerate(prompts):
        engine.flush()
        recorder.logits.clear()
        engine.submit(Submit(request_id=n, prompt=prompt, max_tokens=MAX_TOKENS))
        tokens: list[int] = []
        while engine.has_work:
            for new in engine.step().tokens:
                tokens += new
        answers.append(Answer(logits=recorder.logits[prompt], tokens=tokens))
    return answers


def together(
    setting: str, prompts: list[tuple[int, ...]], expected: list[Answer], in_flight: int, seed: int
) -> Count:
    """All prompts through one engine, some arriving before each step, up to `in_flight` at once."""
    engine = build_engine(SETTINGS[setting])[0]
    recorder = Recorder(engine)
    rng = np.random.default_rng(seed)
    waiting = list(range(len(prompts)))[::-1]
    tokens: list[list[int]] = [[] for _ in prompts]
    live = 0
    while waiting or live:
        for _ in range(min(in_flight - live, int(rng.integers(0, 5)), len(waiting))):
            n = waiting.pop()
            engine.submit(Submit(request_id=n, prompt=prompts[n], max_tokens=MAX_TOKENS))
            live += 1
        output = engine.step()
        for n, new, end in zip(output.request_ids, output.tokens, output.finish, strict=True):
            tokens[n] += new
            live -= bool(end)
    return _count(setting, tokens, [recorder.logits[p] for p in prompts], expected, engine)


def _count(
    setting: str,
    tokens: list[list[int]],
    logits: list[NDArray[np.float32]],
    expected: list[Answer],
    engine: Engine,
) -> Count:
    pairs = list(zip(tokens, expected, strict=True))
    places = [_first_difference(got, right.tokens) for got, right in pairs]
    different = tuple(place for place in places if place is not None)
    return Count(
        setting=setting,
        requests=len(tokens),
        tokens=sum(len(right.tokens) for _, right in pairs),
        other_logits=sum(
            got.tobytes() != right.logits.tobytes() for got, right in zip(logits, expected, strict=True)
        ),
        other_answers=len(different),
        first_differences=different[:20],
        cached_tokens=engine.stats.cached_tokens,
    )


def _first_difference(one: list[int], other: list[int]) -> int | None:
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def gaps(answers: list[Answer]) -> dict[str, int]:
    """How many first tokens had a gap between their two best logits below each bound."""
    top = np.stack([np.sort(answer.logits)[-2:] for answer in answers])
    gap = top[:, 1] - top[:, 0]
    return {f"{bound:g}": int((gap < bound).sum()) for bound in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)}


def main() -> int:
    """Runs the settings and prints the counts; exit status 1 where an answer differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1000, help="of each setting")
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--longest", type=int, default=110, help="prompt tokens, from 20 on")
    parser.add_argument("--settings", default=";".join(SETTINGS), help="separated by semicolons")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lengths = np.random.default_rng(1).integers(20, args.longest + 1, args.requests)
    prompts = [p[:n] for p, n in zip(held_out_prompts(args.requests, args.longest), lengths, strict=True)]
    expected = alone(prompts)
    found = gaps(expected)
    print("first tokens by gap of the two best logits: " + json.dumps(found), flush=True)
    counts = []
    for seed, setting in enumerate(args.settings.split(";")):
        counts.append(together(setting, prompts, expected, args.in_flight, seed))
        print(json.dumps(asdict(counts[-1])), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"gaps": found, "counts": [asdict(c) for c in counts]}, indent=1))
    return int(any(count.other_answers or count.other_logits for count in counts))


if __name__ == "__main__":
    sys.exit(main())
