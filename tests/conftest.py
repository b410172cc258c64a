"""What holds for all tests of a process."""

import signal

import numpy as np
import pytest

from spectune.cpu_engine.graph_builder import GraphBuilder


@pytest.fixture(scope="session", autouse=True)
def _keep_denormals() -> None:
    """A process's first session decides how its threads treat denormals; the tests want them kept."""
    graph = GraphBuilder()
    graph.output(graph.op("Identity", [graph.input("x", np.float32, (1,))]), np.float32, (1,))
    graph.session(1, flush_denormals=False)


@pytest.fixture(scope="session", autouse=True)
def _hear_ctrl_c() -> None:
    """A shell starts `make test &` with SIGINT ignored; all processes of the tests would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
