"""The network on ONNX Runtime: for editing, on a CPU. PyTorch is not needed, and not imported.

The graphs (see graphs.py) stand beside the weights, which are put into them when a session is made; in 8 bits, if so
asked: then they are rounded, with a scale for each output, and rows as they come, with a scale for each row. So an
answer does not depend on its neighbours.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from xl_editor.config import WEIGHTS_FILE, XLEditorConfig, load_config
from xl_editor.cores import n_usable_cores
from xl_editor.errors import ModelError
from xl_editor.network.graphs import (
    ADVANCE,
    DIRECTORY,
    KEYS,
    LABELS,
    LOGPROBS,
    POSITION_BIASES,
    POSITION_KEYS,
    POSITIONS,
    VALUES,
    WantedWeights,
    form,
    integers_of,
    of_layer,
    read_wanted_weights,
)
from xl_editor.network.protocol import Cache, Floats, Ints, Relation, check_request, own_cache, wanted_by_block
from xl_editor.network.runtime import GraphOptimizationLevel, InferenceSession, OrtValue, SessionOptions

DISTANCES_AT_ONCE = 64  # what positions are computed for, at least
DISTANCES_ROUNDED_TO = (
    16  # what positions are given for: so that a text that grows does not want others with each token
)
POSITIONS_KEPT = 32  # ranges of distances

Positions = dict[str, OrtValue]  # inputs of `advance`


class OnnxCache:
    """Of all content so far, a layer each, keys, (B, H, D, K), and then values, (B, H, K, D).

    They get room behind them, so that appending copies what is new and not what is there. What came last is appended
    only when somebody goes on from here.
    """

    ROOM = 24  # for more tokens: what is inserted is seldom longer

    def __init__(self, known: Sequence[OrtValue], n_known: int, new: Sequence[OrtValue] = ()) -> None:
        self._known, self._n_known, self._new = known, n_known, new
        self._rooms: Sequence[Floats] = ()  # the memory of what is known, if it may be written to

    @property
    def size(self) -> int:
        return self._n_known + (_n_tokens(self._new) if self._new else 0)

    def select(self, rows: Ints) -> OnnxCache:
        return self._in([part.numpy()[rows] for part in self.known()], self.size)

    def followed_by(self, new: Sequence[OrtValue]) -> OnnxCache:
        cache = OnnxCache(self._known, self._n_known, new)
        cache._rooms = self._rooms
        return cache

    def known(self) -> Sequence[OrtValue]:
        """All there is; behind it may be room, which nobody may see."""
        start, end = self._n_known, self.size
        if start == 0 and self._new:
            self._known = self._new
        elif end > start:
            if not self._rooms or end > _n_tokens(self._known):
                self._make_room(end + self.ROOM)
            for room, new in zip(_by_token(self._rooms), _by_token([n.numpy() for n in self._new]), strict=True):
                room[:, :, start:end] = new
        self._n_known, self._new = end, ()
        return self._known

    def _make_room(self, capacity: int) -> None:
        rooms = []
        for known in _by_token([part.numpy() for part in self._known]):
            room = np.zeros((*known.shape[:2], capacity, known.shape[3]), dtype=np.float32)
            room[:, :, : self._n_known] = known[:, :, : self._n_known]
            rooms.append(room)
        self._rooms = [np.ascontiguousarray(room) for room in _by_token(rooms)]
        self._known = [_value(room) for room in self._rooms]

    @staticmethod
    def _in(rooms: Sequence[Floats], size: int) -> OnnxCache:
        cache = OnnxCache([_value(room) for room in rooms], size)
        cache._rooms = rooms
        return cache


def _n_tokens(parts: Sequence[OrtValue]) -> int:
    return int(parts[-1].shape()[2])


def _by_token(parts: Sequence[Floats]) -> list[Floats]:
    """Keys and values with their tokens in the same dimension; or, once more, as they were. *Shape:* (B, H, K, D)."""
    n_layers = len(parts) // 2
    return [*(keys.swapaxes(2, 3) for keys in parts[:n_layers]), *parts[n_layers:]]


class OnnxNetwork:
    """See `protocol.Network`. Several threads may ask it at once; a forked process makes its own sessions."""

    def __init__(self, directory: str | Path, *, int8: bool = False, threads: int | None = None) -> None:
        """`threads` is how many a single question may occupy; as many as there are cores for us, if not given."""
        self.config: XLEditorConfig = load_config(Path(directory))
        self._directory, self._int8, self._threads = Path(directory), int8, threads
        self._sessions = _Sessions(Path(directory), int8, threads or n_usable_cores())
        self._sessions.get(ADVANCE)  # what is wrong with the files is said now
        self._positions = _Positions(self.config, self._sessions)
        self._names = [of_layer(name, depth) for name in (KEYS, VALUES) for depth in range(self.config.n_layer)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._directory, self._int8, self._threads)

    def advance(
        self, ids: Ints, relation: Relation, *, n_read: int, cache: Cache | None = None
    ) -> tuple[Floats, OnnxCache]:
        check_request(self.config, ids, relation, n_read, 0 if cache is None else cache.size)
        (batch, n_content), n_rows = ids.shape, relation.distance.shape[1]
        before = own_cache(cache, OnnxCache) or self._empty_cache(batch)
        known = before.known()
        distinct, which_content = np.unique(ids, return_inverse=True)
        which = np.full((batch, n_rows), len(distinct))  # query rows come after all tokens
        which[:, :n_content] = which_content.reshape(ids.shape)
        positions, position = self._positions.of(relation)
        visible = relation.visible
        if n_room := _n_tokens(known) - before.size:  # between what is known and what is new
            position = np.insert(position, [before.size] * n_room, 0, axis=2)
            visible = np.insert(visible, [before.size] * n_room, False, axis=2)
        numbers = np.arange(n_rows)
        given = {
            "distinct": distinct.astype(np.int64),
            "which": which,
            "content": numbers[:n_content],
            "read": numbers[n_rows - n_read :],
            "position": position,
            "visible": visible,
        }
        inputs = {name: _value(array) for name, array in given.items()} | positions
        inputs.update(zip(self._names, known, strict=True))
        states, *new = self._sessions.get(ADVANCE).run_with_ort_values(None, inputs)
        return states.numpy(), before.followed_by(new)

    def logprobs(self, states: Floats) -> Floats:
        return self._sessions.get(LOGPROBS).run(None, {"states": states})[0]

    def wanted_logprobs(self, states: Floats, rows: Ints, tokens: Ints) -> Floats:
        return wanted_by_block(self.logprobs, states, rows, tokens)

    def classify(self, states: Floats) -> Floats:
        if not self.config.n_labels:
            raise ModelError("This model has no classification head (its config has n_labels = 0).")
        return self._sessions.get(LABELS).run(None, {"states": states})[0]

    def _empty_cache(self, batch: int) -> OnnxCache:
        nothing = np.empty((batch, self.config.n_head, 0, self.config.d_head), dtype=np.float32)
        n_layers = self.config.n_layer
        return OnnxCache([_value(nothing.swapaxes(2, 3))] * n_layers + [_value(nothing)] * n_layers, 0)


def _opened(directory: Path, int8: bool, threads: int | None) -> OnnxNetwork:
    return OnnxNetwork(directory, int8=int8, threads=threads)


def _value(array: np.ndarray[Any, Any]) -> OrtValue:
    return OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))


# --- positions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Computed:
    """For distances from −reach to reach − 1, and where there are segments twice, (…, n_segments, 2 · reach)."""

    reach: int
    of_inputs: dict[str, Floats]


class _Positions:
    """What attention makes of distances: computed for more than is asked, given for about what is asked."""

    def __init__(self, config: XLEditorConfig, sessions: _Sessions) -> None:
        self._names = [of_layer(n, d) for n in (POSITION_KEYS, POSITION_BIASES) for d in range(config.n_layer)]
        self._sessions = sessions
        self._computed: dict[int, _Computed] = {}  # by the number of segments
        self._given: OrderedDict[tuple[int, int, int], Positions] = OrderedDict()

    def of(self, relation: Relation) -> tuple[Positions, Ints]:
        """Positions for all distances that occur, and each pair's index among them."""
        distance, other_segment = relation.distance, relation.other_segment
        low, high = (int(distance.min()), int(distance.max())) if distance.size else (0, 0)
        step = DISTANCES_ROUNDED_TO
        low, end = low // step * step, (high // step + 1) * step
        index = distance.astype(np.int64) - low
        if other_segment is not None:
            index += (end - low) * other_segment
        return self._between(low, end, 1 if other_segment is None else 2), index

    def _between(self, low: int, end: int, n_segments: int) -> Positions:
        key = low, end, n_segments
        known = self._given.get(key)
        if known is None:
            computed = self._reaching(max(-low, end), n_segments)
            some = slice(low + computed.reach, end + computed.reach)
            known = {name: _value(_side_by_side(whole[..., some])) for name, whole in computed.of_inputs.items()}
            self._given[key] = known
            while len(self._given) > POSITIONS_KEPT:
                self._given.popitem(last=False)
        return known

    def _reaching(self, reach: int, n_segments: int) -> _Computed:
        known = self._computed.get(n_segments)
        if known is None or known.reach < reach:
            reach = max(DISTANCES_AT_ONCE, 1 << (reach - 1).bit_length())
            known = self._computed[n_segments] = _Computed(reach, self._compute(reach, n_segments))
        return known

    def _compute(self, reach: int, n_segments: int) -> dict[str, Floats]:
        cases = np.eye(2, dtype=np.float32) if n_segments == 2 else np.zeros((1, 2), dtype=np.float32)
        distances = np.arange(-reach, reach)
        made = [
            self._sessions.get(POSITIONS).run(
                self._names, {"distances": distances, "segments": np.tile(case, (len(distances), 1))}
            )
            for case in cases
        ]
        return {name: np.stack(of_cases, axis=-2) for name, *of_cases in zip(self._names, *made, strict=True)}


def _side_by_side(of_segments: Floats) -> Floats:
    return of_segments.reshape(*of_segments.shape[:-2], -1)


# --- sessions --------------------------------------------------------------------------------------------------


class _Sessions:
    """The sessions of a model's graphs, each made when it is first asked for."""

    def __init__(self, directory: Path, int8: bool, threads: int) -> None:
        self._directory, self._int8, self._threads = directory, int8, threads
        self._wanted = read_wanted_weights(directory)
        self._made: dict[str, InferenceSession] = {}
        self._making = threading.Lock()
        _alive.add(self)

    def get(self, graph: str) -> InferenceSession:
        made = self._made.get(graph)
        if made is None:
            with self._making:
                made = self._made.get(graph)
                if made is None:
                    made = self._made[graph] = self._make(form(graph, integers=self._int8))
        return made

    def forget(self) -> None:
        """In a forked process: make new ones, because the threads of the parent's are not here."""
        for session in self._made.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))  # never deleted, which would wait for those threads
        self._made, self._making = {}, threading.Lock()

    def _make(self, name: str) -> InferenceSession:
        options = SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a busy neighbour needs the core
        # More would fuse what runs faster apart.
        options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.enable_cpu_mem_arena = False  # memory is given back; speed is the same
        options.log_severity_level = 3
        weights = _weights(self._directory / WEIGHTS_FILE, self._wanted[name])
        values = {weight: _value(array) for weight, array in weights}  # must live until the session has its own copies
        options.add_external_initializers(list(values), list(values.values()))
        path = self._directory / DIRECTORY / f"{name}.onnx"
        try:
            return InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of many kinds, none of which ONNX Runtime makes public
            raise ModelError(
                f"{path} does not fit the model beside it, or is damaged: write it anew with `xl-editor export`."
            ) from error


def _weights(path: Path, wanted: WantedWeights) -> Iterable[tuple[str, np.ndarray[Any, Any]]]:
    if not path.is_file():
        raise ModelError(f"{path.parent} holds no {path.name} (weights are read from safetensors only).")
    try:
        with safe_open(path, framework="numpy") as file:
            held = file.keys()
            missing = [name for name in (*wanted.exact, *wanted.rounded) if name not in held]
            if missing:
                raise ModelError(
                    f"{path} lacks {missing[0]}, which its graphs want: write them anew with `xl-editor export`."
                )
            for name in wanted.exact:
                yield name, file.get_tensor(name).astype(np.float32)
            for name, output_axis in wanted.rounded.items():
                yield from zip(integers_of(name), rounded(file.get_tensor(name), output_axis), strict=True)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is not a readable safetensors file: {error}.") from None


def rounded(weight: np.ndarray[Any, Any], output_axis: int) -> tuple[np.ndarray[Any, Any], Floats]:
    """A weight's matrix in 8 bits, with its outputs as columns, and the scale of each."""
    matrix = weight.astype(np.float32).reshape(len(weight), -1)
    matrix = matrix.T if output_axis == 0 else matrix  # (inputs, outputs)
    highest = 127 if _sums_integers_exactly() else 63
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-12) / highest
    return np.rint(matrix / scale).astype(np.int8), scale.astype(np.float32)


def _sums_integers_exactly() -> bool:
    """Whether the processor has VNNI. Without, sums of two products saturate, unless weights keep to seven bits."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "avx512_vnni" in flags or "avx_vnni" in flags


_alive: weakref.WeakSet[_Sessions] = weakref.WeakSet()


def _forget_all() -> None:
    for sessions in _alive:
        sessions.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
