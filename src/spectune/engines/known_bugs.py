"""A catalogue of engine bugs and traps that bear on speculation, as data, and which of them an arm may meet.

Shown before a launch where version and traits fit, and beside a failing arm where its log fits as well. A
range that is not known is left open: the entry is then a warning, not a verdict.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBug:
    """One entry.

    Attributes:
        engine: dialect name.
        since: first version that has it, "" when not known.
        until: first version that no longer has it, "" when not known.
        needs: traits of an arm without which it cannot happen.
        symptom: what one sees.
        advice: what to do.
        thread: where it is discussed, "" for what was measured or read in the source.
        log_pattern: what it leaves in a log, "" when nothing.
        is_handled: whether spectune itself keeps an arm from it, so that it need not be told before a launch.
    """

    engine: str
    symptom: str
    advice: str
    since: str = ""
    until: str = ""
    needs: frozenset[str] = frozenset()
    thread: str = ""
    log_pattern: str = ""
    is_handled: bool = False

    def may_hit(self, engine: str, version: str, traits: frozenset[str]) -> bool:
        """Whether an arm of these traits may meet it; an unknown version ("") may be any."""
        if engine != self.engine or not self.needs <= traits:
            return False
        if not version:
            return True
        is_before = bool(self.since) and version_key(version) < version_key(self.since)
        is_after = bool(self.until) and version_key(version) >= version_key(self.until)
        return not is_before and not is_after

    @property
    def line(self) -> str:
        """Versions, symptom, advice and thread in one line."""
        span = (
            f"{self.engine} {self.since or '…'} to {self.until or '…'}"
            if self.since or self.until
            else self.engine
        )
        where = f" ({self.thread})" if self.thread else ""
        return f"{span}: {self.symptom} {self.advice}{where}"


def version_key(version: str) -> tuple[int, ...]:
    """A version's numbers, for comparing.

    >>> version_key("0.5.12.post1") > version_key("0.5.12"), version_key("b11434-ab12")
    (True, (11434,))
    """
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0].partition("+")[0]))


def bugs_before_launch(engine: str, version: str, traits: frozenset[str]) -> tuple[KnownBug, ...]:
    """Those that an arm may meet, that depend on its traits and that are not handled here."""
    return tuple(
        bug for bug in KNOWN_BUGS if bug.needs and not bug.is_handled and bug.may_hit(engine, version, traits)
    )


def bugs_in_log(engine: str, version: str, traits: frozenset[str], log: str) -> tuple[KnownBug, ...]:
    """Those that an arm may meet and whose trace is in its log."""
    return tuple(
        bug
        for bug in KNOWN_BUGS
        if bug.log_pattern and bug.may_hit(engine, version, traits) and re.search(bug.log_pattern, log)
    )


KNOWN_BUGS = (
    KnownBug(
        engine="sglang",
        since="0.5.9",
        until="0.5.14",
        needs=frozenset({"speculation"}),
        symptom="a recurrent (hybrid) model with radix cache and speculation refuses to start.",
        advice="Set --mamba-scheduler-strategy extra_buffer and SGLANG_ENABLE_SPEC_V2=1.",
        log_pattern=r"mamba.scheduler.strategy|SGLANG_ENABLE_SPEC_V2",
    ),
    KnownBug(
        engine="sglang",
        needs=frozenset({"topk>1"}),
        symptom="trees (topk > 1) crash with illegal memory access under load.",
        advice="Prefer topk 1, or soak the winner before use.",
        thread="sgl-project/sglang#26972, #27338, #5491",
        log_pattern=r"illegal memory access|CUDA error",
    ),
    KnownBug(
        engine="sglang",
        symptom="CUDA errors that come at high concurrency only.",
        advice="Measure the top level first; report the log there.",
        thread="sgl-project/sglang#4188, #6309",
        log_pattern=r"illegal memory access|device-side assert",
    ),
    KnownBug(
        engine="sglang",
        needs=frozenset({"method:eagle", "speculation"}),
        symptom="an EAGLE-3 head started as EAGLE accepts nothing (acceptance length 1.0) without a word.",
        advice="Use --speculative-algorithm EAGLE3 for such a head.",
        thread="sgl-project/sglang#21272",
    ),
    KnownBug(
        engine="sglang",
        since="0.5.13",
        needs=frozenset({"schedule"}),
        symptom="step 0 of an adaptive schedule is not speculation off: 3 times its step time (0.5.17).",
        advice="Compare a schedule with a server without speculation.",
    ),
    KnownBug(
        engine="sglang",
        needs=frozenset({"schedule"}),
        symptom="start-up fails unless --speculative-num-steps is the largest candidate.",
        advice="Set it to the largest candidate.",
        log_pattern=r"shared logits buffer holds \d+ rows but caller needs",
        is_handled=True,
    ),
    KnownBug(
        engine="sglang",
        needs=frozenset({"schedule"}),
        symptom="a schedule is dropped with a warning only, as beside DP attention or multi-layer EAGLE.",
        advice="Leave those flags out, or use a fixed setting.",
        log_pattern=r"speculative_adaptive disabled",
        is_handled=True,
    ),
    KnownBug(
        engine="sglang",
        symptom="the scheduler hangs while /health answers 200.",
        advice="Only a real generation tells; spectune asks for one.",
        thread="sgl-project/sglang#35822",
        log_pattern=r"[Ww]atchdog (?:caught|timeout)",
    ),
    KnownBug(
        engine="vllm",
        needs=frozenset({"schedule", "data-parallel"}),
        symptom="num_speculative_tokens_per_batch_size is dropped under data parallelism.",
        advice="Use a fixed number of tokens there.",
        thread="vllm-project/vllm#45963",
        log_pattern=r"Disabling num_speculative_tokens_per_batch_size",
        is_handled=True,
    ),
    KnownBug(
        engine="vllm",
        needs=frozenset({"schedule"}),
        symptom="a schedule runs without full CUDA graphs under the V1 runner (14 % slower, one request).",
        advice="Try VLLM_USE_V2_MODEL_RUNNER=1, and compare with the best fixed setting.",
        thread="vllm-project/vllm#49548",
        log_pattern=r"Dynamic speculative decoding changes the target verification",
    ),
    KnownBug(
        engine="vllm",
        needs=frozenset({"schedule"}),
        symptom="a schedule's K = 0 still costs 7 to 22 % per token against no speculation.",
        advice="Compare a schedule with a server without speculation.",
        thread="vllm-project/vllm#49548, #49986",
    ),
    KnownBug(
        engine="vllm",
        needs=frozenset({"method:mtp"}),
        symptom="prefix-cache hits are lost with MTP on hybrid models.",
        advice="Compare TTFT with shared prefixes before applying.",
        thread="vllm-project/vllm#38182, #53670",
    ),
    KnownBug(
        engine="vllm",
        needs=frozenset({"pipeline-parallel", "speculation"}),
        symptom="pipeline parallelism adds a fixed cost to every verify step.",
        advice="Expect small gains, or none.",
        thread="vllm-project/vllm#44697",
    ),
    KnownBug(
        engine="vllm",
        needs=frozenset({"beyond-graphs"}),
        symptom="the largest batches verify more tokens (sequences × (num_steps + 1)) than CUDA graphs are "
        "captured for, 512 by default, and run without one: at half the speed (0.26.0, H200).",
        advice="Raise --max-cudagraph-capture-size to --max-num-seqs × (num_steps + 1).",
    ),
    KnownBug(
        engine="llamacpp",
        needs=frozenset({"method:ngram"}),
        symptom="ngram-simple never drafts when size_m is smaller than size_n, without a warning.",
        advice="Keep num_steps at or above --spec-ngram-simple-size-n.",
        is_handled=True,
    ),
    KnownBug(
        engine="llamacpp",
        needs=frozenset({"speculation"}),
        symptom="a draft that cannot be set up is only logged, and the server goes on without speculation.",
        advice="spectune checks /slots and the draft counter, and voids such a trial.",
        log_pattern=r"failed to initialize speculative decoding context",
        is_handled=True,
    ),
    KnownBug(
        engine="llamacpp",
        needs=frozenset({"speculation", "method:eagle3", "drafts-sampled-together"}),
        symptom="EAGLE-3 drafts of several sequences at once are mostly rejected: acceptance length 3.1 at "
        "1, 2.8 at 2, 1.7 at 4 of 4 slots (b11434, measured; the text is right).",
        advice="Add --no-spec-draft-backend-sampling: 3.1 at all three.",
    ),
    KnownBug(
        engine="llamacpp",
        needs=frozenset({"speculation", "many-slots"}),
        symptom="acceptance collapses with 16 and more slots.",
        advice="Look at the acceptance of each level.",
        thread="ggml-org/llama.cpp#27117",
    ),
)
