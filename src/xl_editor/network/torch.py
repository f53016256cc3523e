"""The network on torch: for GPUs and research, and what others are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xl_editor import geometry, model
from xl_editor.config import XLEditorConfig
from xl_editor.model import XLEditorModel
from xl_editor.network.protocol import Cache, Floats, Ints, Relation, own_cache, wanted_by_block


@dataclass(frozen=True)
class TorchCache:
    of_model: model.Cache
    device: torch.device

    @property
    def size(self) -> int:
        return self.of_model.size

    def select(self, rows: Ints) -> TorchCache:
        return TorchCache(self.of_model.select(torch.as_tensor(rows, device=self.device)), self.device)


class TorchNetwork:
    """See `protocol.Network`."""

    def __init__(self, model: XLEditorModel) -> None:
        self.model = model.eval()
        self.device = model.transformer.mask_emb.device

    @property
    def config(self) -> XLEditorConfig:
        return self.model.config

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> TorchNetwork:
        return cls(XLEditorModel.from_pretrained(directory))

    @torch.inference_mode()
    def advance(
        self, ids: Ints, relation: Relation, *, n_read: int, cache: Cache | None = None
    ) -> tuple[Floats, TorchCache]:
        other = relation.other_segment
        of_torch = geometry.Relation(
            self._tensor(relation.distance),
            self._tensor(relation.visible),
            None if other is None else self._tensor(other),
        )
        known = own_cache(cache, TorchCache)
        states, grown = self.model.advance(
            self._tensor(ids), of_torch, n_read=n_read, cache=None if known is None else known.of_model
        )
        return _array(states), TorchCache(grown, self.device)

    @torch.inference_mode()
    def logprobs(self, states: Floats) -> Floats:
        return _array(self.model.logits(self._states(states)).log_softmax(-1))

    def wanted_logprobs(self, states: Floats, rows: Ints, tokens: Ints) -> Floats:
        return wanted_by_block(self.logprobs, states, rows, tokens)

    @torch.inference_mode()
    def classify(self, states: Floats) -> Floats:
        return _array(self.model.labels(self._states(states)).softmax(-1))

    def _tensor(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.as_tensor(array, device=self.device)

    def _states(self, states: Floats) -> Tensor:
        return self._tensor(states).to(self.model.transformer.mask_emb.dtype)


def _array(tensor: Tensor) -> Floats:
    return tensor.float().cpu().numpy()
