"""What a model's graphs are called, what they take and give, and which weights they want.

    advance      rows through all layers, against keys and values that are known and those of new tokens
    positions    what attention makes of distances, which is the same for all texts and so is computed once
    logprobs     states → log-probabilities of the whole vocabulary
    labels       states of `<cls>` → probabilities of the labels

They stand in a directory of their own beside `model.safetensors`; `weights.json` there says which weights each wants.
Those with large products have a second form, in which these are made with integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xl_editor.errors import ModelError

DIRECTORY = "onnx"
WEIGHTS_OF_GRAPHS = "weights.json"
FORMAT = 1  # of the graphs' inputs and outputs; another one cannot be run

ADVANCE, POSITIONS, LOGPROBS, LABELS = "advance", "positions", "logprobs", "labels"
WITH_INTEGERS = (ADVANCE, LOGPROBS)  # have a second form

# For `advance`, of each layer: what attention makes of distances, and of the content before.
POSITION_KEYS, POSITION_BIASES, KEYS, VALUES = "position_keys", "position_biases", "keys", "values"


def of_layer(name: str, depth: int) -> str:
    return f"{name}.{depth}"


def form(graph: str, *, integers: bool) -> str:
    return f"{graph}.int8" if integers and graph in WITH_INTEGERS else graph


def integers_of(weight: str) -> tuple[str, str]:
    """What a rounded weight is called, and the scales of its columns."""
    return f"{weight}.int8", f"{weight}.scale"


@dataclass(frozen=True)
class WantedWeights:
    """What must be put into a graph, under the names that the weights' file has."""

    exact: tuple[str, ...]
    rounded: Mapping[
        str, int
    ]  # to 8 bits; and which axis of the matrix (its first dimension by all others) is the output

    def to_dict(self) -> dict[str, Any]:
        return {"exact": list(self.exact), "rounded": dict(self.rounded)}


def read_wanted_weights(directory: Path) -> dict[str, WantedWeights]:
    """Of all graphs of a model's directory."""
    path = directory / DIRECTORY / WEIGHTS_OF_GRAPHS
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        if index["format"] != FORMAT:
            raise ModelError(
                f"{path.parent} was written by another version: write it anew with `xl-editor export {directory}`."
            )
        return {name: WantedWeights(tuple(w["exact"]), dict(w["rounded"])) for name, w in index["graphs"].items()}
    except FileNotFoundError:
        raise ModelError(
            f"{directory} has no graphs for ONNX Runtime: `xl-editor export {directory}` writes them, "
            "which needs torch (pip install 'xl-editor[torch]')."
        ) from None
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError):
        raise ModelError(f"{path} is damaged: write it anew with `xl-editor export {directory}`.") from None
