"""A thin writer of ONNX graphs: names values, keeps constants, opens sessions.

Constant weights matter: ONNX Runtime packs them once, so a matmul of few rows is bound by reading
them, as on a GPU. Key/value caches are graph inputs and outputs bound to the same memory, and the
scatter that writes them then works in place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 24
_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
FusedDomain = "com.microsoft"


class GraphBuilder:
    """Collects nodes, constants, inputs and outputs of one graph."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def input(self, name: str, dtype: type[np.generic], shape: Sequence[int | str]) -> str:
        """Declares a graph input; strings in `shape` are symbolic."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[np.dtype(dtype)], list(shape)))
        return name

    def output(self, value: str, dtype: type[np.generic], shape: Sequence[int | str]) -> str:
        """Declares `value` as a graph output."""
        self._outputs.append(helper.make_tensor_value_info(value, _TYPES[np.dtype(dtype)], list(shape)))
        return value

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """A constant, stored once per name."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def ints(self, *values: int) -> str:
        """A constant int64 vector."""
        return self.constant("i_" + "_".join(map(str, values)), np.array(values, np.int64))

    def op(self, kind: str, inputs: Sequence[str], *, fused: bool = False, **attributes: Any) -> str:
        """Adds a node with one output and returns its name; `fused` takes ONNX Runtime's own operators."""
        return self.ops(kind, inputs, 1, fused=fused, **attributes)[0]

    def ops(
        self, kind: str, inputs: Sequence[str], outputs: int, *, fused: bool = False, **attributes: Any
    ) -> list[str]:
        """Adds a node with several outputs and returns their names."""
        self._count += 1
        names = [f"v{self._count}_{i}" for i in range(outputs)]
        domain = FusedDomain if fused else ""
        self._nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def named_op(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Adds a node whose output has a given name."""
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def session(self, num_threads: int, *, flush_denormals: bool = True) -> ort.InferenceSession:
        """Compiles the graph for `num_threads` compute threads that do not spin.

        `flush_denormals` makes softmax tails fast; it holds for the whole process, and only the first
        session's value counts.
        """
        graph = helper.make_graph(
            self._nodes, "spectune", self._inputs, self._outputs, list(self._constants.values())
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FusedDomain, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return ort.InferenceSession(
            model.SerializeToString(),
            session_options(num_threads, flush_denormals=flush_denormals),
            providers=["CPUExecutionProvider"],
        )


def session_options(num_threads: int, *, flush_denormals: bool) -> ort.SessionOptions:
    """Options of every session: threads that sleep when idle."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.set_denormal_as_zero", "1" if flush_denormals else "0")
    return options
