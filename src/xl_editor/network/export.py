"""The graphs that ONNX Runtime runs, traced from the torch module itself. They hold no weights, and so are small."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper
from torch import Tensor, nn

from xl_editor.config import load_config
from xl_editor.files import write_whole
from xl_editor.model import Pairs, Parts, Positions, XLEditorModel
from xl_editor.network.graphs import (
    ADVANCE,
    DIRECTORY,
    FORMAT,
    KEYS,
    LABELS,
    LOGPROBS,
    POSITION_BIASES,
    POSITION_KEYS,
    POSITIONS,
    VALUES,
    WEIGHTS_OF_GRAPHS,
    WITH_INTEGERS,
    WantedWeights,
    form,
    integers_of,
    of_layer,
)
from xl_editor.network.runtime import GraphOptimizationLevel, InferenceSession, SessionOptions

OPSET = 20  # the first that knows Gelu
OURS, MICROSOFT = "xl_editor", "com.microsoft"  # domains of operators
PRODUCT = "IntegerProduct"
WEIGHT = "model."  # what the names of weights begin with, in a trace


def write_graphs(directory: str | Path) -> None:
    """Write the graphs of a model into its directory. Its settings decide what they are; its weights are not read."""
    directory = Path(directory)
    model = XLEditorModel(load_config(directory), initialise=False).requires_grad_(False).eval()
    for number, weight in enumerate(model.parameters()):
        weight.fill_(number)  # the exporter takes equal ones for one
    shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    traces = [_advance(model), _positions(model), _logprobs(model)]
    if model.config.n_labels:
        traces.append(_labels(model))
    (directory / DIRECTORY).mkdir(exist_ok=True)
    wanted = {}
    for trace in traces:
        for integers in (False, True) if trace.name in WITH_INTEGERS else (False,):
            name = form(trace.name, integers=integers)
            graph = _exported(trace)
            rounded = _use_integers(graph, shapes) if integers else {}
            wanted[name] = WantedWeights(_leave_weights_out(graph, shapes), rounded)
            write_whole(directory / DIRECTORY / f"{name}.onnx", graph.SerializeToString())
    index = {"format": FORMAT, "graphs": {name: weights.to_dict() for name, weights in wanted.items()}}
    write_whole(directory / DIRECTORY / WEIGHTS_OF_GRAPHS, json.dumps(index, indent=1) + "\n")


# --- what is traced --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trace:
    """A module, an example of what it takes, and the names of the dimensions that may vary."""

    name: str
    module: nn.Module
    example: tuple[Tensor | list[Tensor], ...]
    inputs: dict[str, tuple[str, ...]]  # "" for a dimension that does not vary
    outputs: dict[str, tuple[str, ...]]


class _Advance(nn.Module):
    def __init__(self, model: XLEditorModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        distinct: Tensor,
        which: Tensor,
        content: Tensor,
        read: Tensor,
        position: Tensor,
        visible: Tensor,
        position_keys: list[Tensor],
        position_biases: list[Tensor],
        keys: list[Tensor],
        values: list[Tensor],
    ) -> tuple[Tensor, ...]:
        new: list[tuple[Tensor, Tensor]] = []

        def extended(depth: int, key: Tensor, value: Tensor) -> tuple[Parts, Parts]:
            new.append((key.transpose(2, 3), value))
            return (keys[depth], new[-1][0]), (values[depth], value)

        positions = [Positions(*of_layer) for of_layer in zip(position_keys, position_biases, strict=True)]
        unseen = torch.where(visible, 0.0, -math.inf).unsqueeze(1)
        pairs = Pairs(position.unsqueeze(1).expand(-1, self.model.config.n_head, -1, -1), unseen)
        states = self.model.read_tokens(distinct, which, content, read, positions, pairs, extended)
        return states, *(key for key, _ in new), *(value for _, value in new)


class _Positions(nn.Module):
    def __init__(self, model: XLEditorModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, distances: Tensor, segments: Tensor) -> tuple[Tensor, ...]:
        sinusoids = self.model.sinusoids(distances)
        layers = [layer.rel_attn.positions(sinusoids, segments) for layer in self.model.transformer.layers()]
        return *(of_layer.keys for of_layer in layers), *(of_layer.biases for of_layer in layers)


class _Logprobs(nn.Module):
    def __init__(self, model: XLEditorModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, states: Tensor) -> Tensor:
        return self.model.logits(states).log_softmax(-1)


class _Labels(nn.Module):
    def __init__(self, model: XLEditorModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, states: Tensor) -> Tensor:
        return self.model.labels(states).softmax(-1)


def _advance(model: XLEditorModel) -> _Trace:
    config = model.config
    layers = range(config.n_layer)
    batch, n_content, n_queries, n_known, n_positions = 2, 3, 2, 4, 6

    def of_layers(*shape: int) -> list[Tensor]:
        return [torch.zeros(shape) for _ in layers]

    example = (
        torch.zeros(3, dtype=torch.long),
        torch.zeros(batch, n_content + n_queries, dtype=torch.long),
        torch.arange(n_content),
        torch.arange(n_content, n_content + n_queries),
        torch.zeros(batch, n_content + n_queries, n_known + n_content, dtype=torch.long),
        torch.ones(batch, n_content + n_queries, n_known + n_content, dtype=torch.bool),
        of_layers(config.n_head, config.d_head, n_positions),
        of_layers(config.n_head, 1, n_positions),
        of_layers(batch, config.n_head, config.d_head, n_known),
        of_layers(batch, config.n_head, n_known, config.d_head),
    )
    pairs = ("batch", "rows", "keys")
    inputs: dict[str, tuple[str, ...]] = {
        "distinct": ("distinct",),
        "which": ("batch", "rows"),
        "content": ("content",),
        "read": ("read",),
        "position": pairs,
        "visible": pairs,
    }
    for name in (POSITION_KEYS, POSITION_BIASES):
        inputs |= {of_layer(name, depth): ("", "", "positions") for depth in layers}
    inputs |= {of_layer(KEYS, depth): ("batch", "", "", "known") for depth in layers}
    inputs |= {of_layer(VALUES, depth): ("batch", "", "known", "") for depth in layers}
    outputs: dict[str, tuple[str, ...]] = {"states": ("batch", "read", "")}
    outputs |= {f"new_{of_layer(KEYS, depth)}": ("batch", "", "", "content") for depth in layers}
    outputs |= {f"new_{of_layer(VALUES, depth)}": ("batch", "", "content", "") for depth in layers}
    return _Trace(ADVANCE, _Advance(model), example, inputs, outputs)


def _positions(model: XLEditorModel) -> _Trace:
    inputs = {"distances": ("positions",), "segments": ("positions", "")}
    names = [
        of_layer(name, depth) for name in (POSITION_KEYS, POSITION_BIASES) for depth in range(model.config.n_layer)
    ]
    example = torch.zeros(3, dtype=torch.long), torch.zeros(3, 2)
    return _Trace(POSITIONS, _Positions(model), example, inputs, dict.fromkeys(names, ("", "", "positions")))


def _logprobs(model: XLEditorModel) -> _Trace:
    example = (torch.zeros(2, model.config.d_model),)
    return _Trace(LOGPROBS, _Logprobs(model), example, {"states": ("rows", "")}, {"logprobs": ("rows", "")})


def _labels(model: XLEditorModel) -> _Trace:
    example = (torch.zeros(2, model.config.d_model),)
    return _Trace(LABELS, _Labels(model), example, {"states": ("rows", "")}, {"labels": ("rows", "")})


# --- from a trace to a graph -----------------------------------------------------------------------------------


def _exported(trace: _Trace) -> ModelProto:
    """The graph, with the weights as inputs, so that nothing is made of them yet."""
    varying = {
        name: {axis: dimension for axis, dimension in enumerate(shape) if dimension}
        for name, shape in {**trace.inputs, **trace.outputs}.items()
    }
    with tempfile.TemporaryDirectory() as scratch:
        raw, simple = Path(scratch) / "raw.onnx", Path(scratch) / "simple.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that tracing has a successor, which takes half a minute a graph
            torch.onnx.export(
                trace.module,
                trace.example,
                raw,
                input_names=list(trace.inputs),
                output_names=list(trace.outputs),
                dynamic_axes=varying,
                opset_version=OPSET,
                export_params=False,
                do_constant_folding=False,
                dynamo=False,
            )
        options = SessionOptions()
        options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(simple)
        InferenceSession(raw, options, providers=["CPUExecutionProvider"])
        model = onnx.load(simple)
    others = [domain for domain in model.opset_import if domain.domain]  # all that this ONNX Runtime knows
    for domain in others:
        model.opset_import.remove(domain)
    return model


def _leave_weights_out(model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    """Turn those inputs that are weights into initialisers without content; their names, as in the weights' file."""
    graph = model.graph
    weights = [value for value in graph.input if value.name.startswith(WEIGHT)]
    for value in weights:
        graph.input.remove(value)
    for node in graph.node:
        node.input[:] = [_file_name(name) if name.startswith(WEIGHT) else name for name in node.input]
    names = sorted(_file_name(value.name) for value in weights)
    graph.initializer.extend(_to_be_given(name, TensorProto.FLOAT, shapes[name]) for name in names)
    return tuple(names)


def _file_name(weight: str) -> str:
    """What the weights' file calls a weight of a trace."""
    name = weight.removeprefix(WEIGHT)
    return "transformer.word_embedding.weight" if name == "lm_loss.weight" else name  # which are one


def _to_be_given(name: str, type: int, shape: Iterable[int]) -> TensorProto:
    place = onnx.StringStringEntryProto(key="location", value="model.safetensors")  # is not looked at
    return TensorProto(name=name, data_type=type, dims=shape, data_location=TensorProto.EXTERNAL, external_data=[place])


# --- integers in the large products ----------------------------------------------------------------------------


def _use_integers(model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Replace products with weights by products of integers; these weights, and which of their axes is the output."""
    graph = model.graph
    made_by = {output: node for node in graph.node for output in node.output}
    rounded: dict[str, int] = {}
    nodes: list[NodeProto] = []
    for node in graph.node:
        found = _weight_of_product(node, made_by)
        if found is None:
            nodes.append(node)
            continue
        weight, axis = found
        rounded[weight] = axis
        product = f"{node.output[0]}/product" if len(node.input) > 2 else node.output[0]
        nodes.append(helper.make_node(PRODUCT, [node.input[0], *integers_of(weight)], [product], domain=OURS))
        if len(node.input) > 2:
            nodes.append(helper.make_node("Add", [product, node.input[2]], node.output))
    del graph.node[:]
    graph.node.extend(_used(nodes, {output.name for output in graph.output}))
    read = {name for node in graph.node for name in node.input}
    for unused in [v for v in graph.input if v.name.startswith(WEIGHT) and v.name not in read]:
        graph.input.remove(unused)
    for weight, axis in rounded.items():
        integers, scale = integers_of(weight)
        matrix = shapes[weight][0], math.prod(shapes[weight][1:])
        n_outputs, n_inputs = matrix[axis], matrix[1 - axis]
        graph.initializer.append(_to_be_given(integers, TensorProto.INT8, (n_inputs, n_outputs)))
        graph.initializer.append(_to_be_given(scale, TensorProto.FLOAT, (n_outputs,)))
    model.functions.append(_product())
    model.opset_import.extend([helper.make_opsetid(OURS, 1), helper.make_opsetid(MICROSOFT, 1)])
    return rounded


def _weight_of_product(node: NodeProto, made_by: dict[str, NodeProto]) -> tuple[str, int] | None:
    """The weight that rows are multiplied with, if they are, and which axis of its matrix is the output."""
    if node.op_type not in ("MatMul", "Gemm"):
        return None
    name, axis = node.input[1], 1
    if any(attribute.name == "transB" and attribute.i for attribute in node.attribute):
        axis = 0
    while name in made_by and made_by[name].op_type in ("Flatten", "Transpose"):
        if made_by[name].op_type == "Transpose":
            axis = 1 - axis
        name = made_by[name].input[0]
    return (_file_name(name), axis) if name.startswith(WEIGHT) else None


def _used(nodes: Sequence[NodeProto], outputs: set[str]) -> list[NodeProto]:
    """Those that something is made of, in their order."""
    used = []
    read = set(outputs)
    for node in reversed(nodes):
        if read.intersection(node.output):
            used.append(node)
            read.update(node.input)
    return used[::-1]


def _product() -> FunctionProto:
    """Rows are rounded each with a scale of its own, so that none depends on its neighbours."""
    constants = {
        "zero": helper.make_tensor("zero", TensorProto.UINT8, [], [128]),
        "one": helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        "highest": helper.make_tensor("highest", TensorProto.FLOAT, [], [127.0]),
        "tiny": helper.make_tensor("tiny", TensorProto.FLOAT, [], [1e-12]),
    }
    nodes = [
        *(helper.make_node("Constant", [], [name], value=value) for name, value in constants.items()),
        *(
            helper.make_node("Constant", [], [name], value_ints=[value])
            for name, value in {"first": 0, "second": 1, "last": -1}.items()
        ),
        helper.make_node("Abs", ["rows"], ["sizes"]),
        helper.make_node("ReduceMax", ["sizes", "last"], ["largest"], keepdims=1),
        # Where there are no rows, ONNX Runtime's ReduceMax leaves the shape as it is.
        helper.make_node("Slice", ["largest", "first", "second", "last"], ["largest_of_row"]),
        helper.make_node("Max", ["largest_of_row", "tiny"], ["above_0"]),
        helper.make_node("Div", ["above_0", "highest"], ["row_scale"]),
        helper.make_node("Div", ["rows", "row_scale"], ["scaled"]),
        helper.make_node("QuantizeLinear", ["scaled", "one", "zero"], ["rounded"]),
        helper.make_node(
            "MatMulIntegerToFloat", ["rounded", "weight", "one", "scale", "zero"], ["of_rounded"], domain=MICROSOFT
        ),
        helper.make_node("Mul", ["of_rounded", "row_scale"], ["product"]),
    ]
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_function(OURS, PRODUCT, ["rows", "weight", "scale"], ["product"], nodes, domains)
