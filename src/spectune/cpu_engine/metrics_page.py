"""The Prometheus page."""

from spectune.cpu_engine.stats import Stats

_COUNTERS = (
    ("verify_steps", "Sequences times verification forwards that had a draft."),
    ("undrafted_steps", "Sequences times decode forwards without a draft."),
    ("drafted_tokens", "Draft tokens verified, roots not counted."),
    ("accepted_tokens", "Draft tokens accepted, bonus tokens not counted."),
    ("generated_tokens", "Output tokens emitted."),
    ("prompt_tokens", "Prompt tokens taken in."),
    ("cached_tokens", "Prompt tokens found in the prefix cache."),
    ("requests", "Requests finished."),
)


def metrics_page(stats: Stats, max_total_num_tokens: int) -> str:
    """All counters and gauges in Prometheus' text format."""
    lines: list[str] = []
    gauges: tuple[tuple[str, str, float], ...] = (
        ("num_requests_running", "Sequences that hold a slot.", stats.running),
        ("num_requests_waiting", "Requests that wait for a slot.", stats.waiting),
        ("kv_cache_usage_ratio", "Cache entries in use.", stats.used_tokens / max_total_num_tokens),
    )
    for name, text, value in gauges:
        lines += [
            f"# HELP spectune:{name} {text}",
            f"# TYPE spectune:{name} gauge",
            f"spectune:{name} {value:g}",
        ]
    for name, text in _COUNTERS:
        full = f"spectune:{name}_total"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} counter", f"{full} {getattr(stats, name)}"]
    full = "spectune:accepted_tokens_per_position_total"
    lines += [f"# HELP {full} Draft tokens accepted by position.", f"# TYPE {full} counter"]
    lines += [f'{full}{{position="{n}"}} {count}' for n, count in enumerate(stats.accepted_per_position)]
    return "\n".join(lines) + "\n"
