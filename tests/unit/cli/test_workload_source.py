from pathlib import Path

import pytest

from spectune.cli.workload_source import DEFAULT_WORKLOAD, load_pool
from spectune.errors import ConfigError


def test_the_built_in_code_is_drawn_by_its_seed() -> None:
    pools = [load_pool(DEFAULT_WORKLOAD, seed) for seed in (0, 0, 1)]
    assert pools[0] == pools[1]
    assert pools[0] != pools[2]


def test_a_file_of_requests_is_read(tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl"
    file.write_text('{"prompt": "def f():"}\n' * 2, encoding="utf-8")
    assert load_pool(str(file), 0).spec.name == str(file)


def test_what_is_no_workload_is_told_and_cut(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--workload missing.jsonl: .*a readable file"):
        load_pool("missing.jsonl", 0)
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_pool(str(tmp_path / "bad"), 0)
    with pytest.raises(ConfigError) as caught:
        load_pool("x" * 5000, 0)
    assert len(str(caught.value)) < 500
