"""A policy as an ONNX graph: observations [batch, obs_size] in, greedy actions out."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl import images
from jaxrl.errors import UserError
from jaxrl.policy import Policy
from jaxrl.spaces import Box, Image

OPSET = 20  # the first with Gelu
INT64 = 7  # ONNX's number for the type
ZERO = np.array(0, np.float32)
DISCRETE = ("categorical", "multi_categorical", "bernoulli")
OPERATORS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu", "gelu": "Gelu"}


def save(policy: Policy, path: Path) -> None:
    """Writes the graph; its input is `obs` and its output `action`."""
    try:
        import onnx
    except ImportError:
        raise UserError(
            "an .onnx file needs the package onnx; install it with pip install "
            "'jaxrl[onnx]', or write an .npz file"
        ) from None
    graph = Graph(onnx.helper)
    output = _action(graph, policy, _features(graph, policy))
    onnx.save(graph.model(policy, output), path)


class Graph:
    """Operations in order; the name of an output is its operator and number."""

    def __init__(self, helper: Any) -> None:
        self._helper = helper
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: "str | np.ndarray", **settings: Any) -> str:
        """Applies `operator` to names and constants; returns its output's name."""
        names = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        output = f"{operator}_{len(self._nodes)}"
        node = self._helper.make_node(operator, names, [output], **settings)
        self._nodes.append(node)
        return output

    def _constant(self, value: np.ndarray) -> str:
        import onnx.numpy_helper

        name = f"constant_{len(self._constants)}"
        self._constants.append(onnx.numpy_helper.from_array(value, name))
        return name

    def model(self, policy: Policy, output: str) -> Any:
        """The ONNX model, with `output` as the action."""
        make, kinds = self._helper, self._helper.np_dtype_to_tensor_dtype
        discrete = policy.head in DISCRETE
        kind = kinds(np.dtype(np.int64 if discrete else np.float32))
        shape = ["batch"] if policy.head == "categorical" else ["batch", None]
        self._nodes.append(make.make_node("Identity", [output], ["action"]))
        real = kinds(np.dtype(np.float32))
        obs = make.make_tensor_value_info("obs", real, ["batch", policy.obs_size])
        action = make.make_tensor_value_info("action", kind, shape)
        parts = (self._nodes, "policy", [obs], [action], self._constants)
        opset = make.make_opsetid("", OPSET)
        return make.make_model_gen_version(
            make.make_graph(*parts), opset_imports=[opset], producer_name="jaxrl"
        )


def _features(graph: Graph, policy: Policy) -> str:
    """The last hidden layer's output for the normalized observation."""
    x = "obs"
    if policy.mean is not None and policy.std is not None:
        x = graph.add("Div", graph.add("Sub", x, policy.mean), policy.std)
        limit = np.float32(policy.clip)
        x = graph.add("Clip", x, np.array(-limit), np.array(limit))
    if policy.image:
        x = _convolved(graph, policy, policy.image, x)
    for weight, bias in policy.layers[:-1]:
        x = _activated(graph, policy.activation, graph.add("Gemm", x, weight, bias))
    return x


def _convolved(graph: Graph, policy: Policy, image: Image, x: str) -> str:
    """`images.encoded` as a graph; ONNX has the channels first."""
    x = graph.add("Reshape", x, np.array((-1, *image.shape), np.int64))
    x = graph.add("Div", x, np.array(image.high, np.float32))
    if not image.channels_first:
        x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    layers = zip(policy.filters, images.LAYERS, images.paddings(image), strict=True)
    for (kernel, bias), (_, side, stride), (rows, columns) in layers:
        kernel = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        pads = [rows[0], columns[0], rows[1], columns[1]]
        shape = {"kernel_shape": [side, side], "strides": [stride, stride]}
        x = graph.add("Relu", graph.add("Conv", x, kernel, bias, pads=pads, **shape))
    return graph.add("Flatten", graph.add("Transpose", x, perm=[0, 2, 3, 1]), axis=1)


def _activated(graph: Graph, activation: str, x: str) -> str:
    if activation == "silu":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    settings = {"approximate": "tanh"} if activation == "gelu" else {}
    return graph.add(OPERATORS[activation], x, **settings)


def _action(graph: Graph, policy: Policy, x: str) -> str:
    """The head's greedy action, at the scale of the environment."""
    weight, bias = policy.layers[-1]
    if policy.head == "categorical":
        best = graph.add(
            "ArgMax", graph.add("Gemm", x, weight, bias), axis=1, keepdims=0
        )
        start = getattr(policy.action, "start", 0)
        return graph.add("Add", best, np.array(start, np.int64))
    if policy.head == "multi_categorical":
        return _actions(graph, policy, x)
    if policy.head == "bernoulli":
        above = graph.add("Greater", graph.add("Gemm", x, weight, bias), ZERO)
        return graph.add("Cast", above, to=INT64)
    if policy.head == "tanh_gaussian":  # the second half is the log standard deviations
        half = weight.shape[1] // 2
        weight, bias = np.ascontiguousarray(weight[:, :half]), bias[:half]
    x = graph.add("Gemm", x, weight, bias)
    x = x if policy.head == "gaussian" else graph.add("Tanh", x)
    return _scaled(graph, policy.action, x) if isinstance(policy.action, Box) else x


def _actions(graph: Graph, policy: Policy, x: str) -> str:
    """Of several discrete actions the best of each."""
    weight, bias = policy.layers[-1]
    ends = list(itertools.accumulate(policy.nvec))[:-1]
    parts = zip(np.split(weight, ends, axis=1), np.split(bias, ends), strict=True)
    best = [
        graph.add("ArgMax", graph.add("Gemm", x, np.ascontiguousarray(w), b), axis=1)
        for w, b in parts
    ]
    start = getattr(policy.action, "start", (0,) * len(best))
    return graph.add("Add", graph.add("Concat", *best, axis=1), np.array(start))


def _scaled(graph: Graph, space: Box, x: str) -> str:
    """`Box.scale` as a graph: its values at 0 and 1 give offset and factor."""
    low, high = (np.array(bound, np.float32) for bound in (space.low, space.high))
    centre = space.scale(np.zeros(space.size, np.float32))
    reach = space.scale(np.ones(space.size, np.float32)) - centre
    x = graph.add("Add", graph.add("Mul", x, reach), centre)
    return graph.add("Min", graph.add("Max", x, low), high)
