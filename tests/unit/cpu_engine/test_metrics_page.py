"""The Prometheus page says what the counters say."""

import numpy as np

from spectune.cpu_engine.metrics_page import metrics_page
from spectune.cpu_engine.stats import Stats


def test_every_counter_and_position_is_on_the_page() -> None:
    stats = Stats(generated_tokens=7, used_tokens=50, running=2)
    stats.count_step(drafted=np.array([3, 3, 0]), accepted=np.array([2, 0, 0]))
    lines = metrics_page(stats, 100).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["spectune:verify_steps_total"] == "2"
    assert values["spectune:undrafted_steps_total"] == "1"
    assert values["spectune:drafted_tokens_total"] == "6"
    assert values["spectune:accepted_tokens_total"] == "2"
    assert values['spectune:accepted_tokens_per_position_total{position="0"}'] == "1"
    assert values['spectune:accepted_tokens_per_position_total{position="1"}'] == "1"
    assert values["spectune:kv_cache_usage_ratio"] == "0.5"
    assert values["spectune:num_requests_running"] == "2"


def test_every_metric_has_help_and_a_type() -> None:
    lines = metrics_page(Stats(), 1).splitlines()
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert names <= typed
    assert typed == {line.split()[2] for line in lines if line.startswith("# HELP")}
