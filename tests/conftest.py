"""What holds for all tests of a process."""

import numpy as np
import pytest

from spectune.cpu_engine.graph_builder import GraphBuilder


@pytest.fixture(scope="session", autouse=True)
def _keep_denormals() -> None:
    """A process's first session decides how its threads treat denormals; the tests want them kept."""
    graph = GraphBuilder()
    graph.output(graph.op("Identity", [graph.input("x", np.float32, (1,))]), np.float32, (1,))
    graph.session(1, flush_denormals=False)
