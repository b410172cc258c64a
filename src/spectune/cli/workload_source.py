"""Where `--workload` comes from: the built-in code, or a file of requests."""

import gzip
from importlib import resources
from pathlib import Path

from spectune.domain.text import shortened
from spectune.errors import ConfigError
from spectune.workloads.prompts import PromptPool, python_code_pool
from spectune.workloads.request_file import request_file_pool

DEFAULT_WORKLOAD = "python-code"


def load_pool(workload: str, seed: int) -> PromptPool:
    """The prompts of a workload.

    Args:
        workload: built-in name or file.
        seed: of the built-in one.

    Raises:
        ConfigError: neither of them, or a file that cannot be read as requests.
    """
    if workload == DEFAULT_WORKLOAD:
        return python_code_pool(_bundled_code(), seed=seed)
    shown = shortened(workload, 200)
    try:
        return request_file_pool(Path(workload).read_text(encoding="utf-8"), name=workload)
    except UnicodeDecodeError as exc:
        raise ConfigError(f"--workload {shown}: `the file is UTF-8 text` must hold, it is not.") from exc
    except OSError as exc:
        raise ConfigError(
            f"--workload {shown}: `a built-in name ({DEFAULT_WORKLOAD}) or a readable file` must be "
            f"given, got: {exc.strerror}."
        ) from exc


def _bundled_code() -> str:

    packed = resources.files("spectune.workloads") / "data" / "python_code.jsonl.gz"
    return gzip.decompress(packed.read_bytes()).decode("utf-8")
