"""A larger model out of a trained one, which goes on from what that one has learnt."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from xl_editor.model import Layer, XLEditorModel


def grown(model: XLEditorModel, n_layer: int, d_inner: int) -> XLEditorModel:
    """A deeper and wider model that answers nearly as this one does.

    The idea is Net2Net's (Chen, Goodfellow and Shlens, 2016). New units of the feed-forward networks write nothing as
    yet, so width changes no answer. A new layer follows the one it looks at things like, and writes nothing either;
    but it normalises once more what is normalised already, which is the same only on average over the rows.
    """
    before = model.config
    larger = XLEditorModel(replace(before, n_layer=n_layer, d_inner=d_inner))
    of_layers = "transformer.layer."
    kept = {name: weight for name, weight in model.state_dict().items() if not name.startswith(of_layers)}
    larger.load_state_dict(kept, strict=False)
    origins = [depth * before.n_layer // n_layer for depth in range(n_layer)]
    old_layers = list(model.transformer.layers())
    with torch.no_grad():
        for depth, layer in enumerate(larger.transformer.layers()):
            old = old_layers[origins[depth]]
            _copy(old, layer)
            if depth and origins[depth] == origins[depth - 1]:
                _write_nothing(layer, old.ff.layer_norm)
    return larger


def _copy(old: Layer, layer: Layer) -> None:
    layer.ff.layer_2.weight.zero_()  # what new units read is random; what they write, nothing
    for weight, before in zip(layer.parameters(), old.parameters(), strict=True):
        weight[tuple(slice(size) for size in before.shape)] = before


def _write_nothing(layer: Layer, previous: nn.LayerNorm) -> None:
    for weight in (layer.rel_attn.o, layer.ff.layer_2.weight, layer.ff.layer_2.bias):
        weight.zero_()
    scale, shift = _moments(previous)
    for norm in (layer.rel_attn.layer_norm, layer.ff.layer_norm):
        norm.weight.fill_(scale)
        norm.bias.fill_(shift)


def _moments(norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean within a row that this norm hands on, on average over the rows."""
    return (norm.weight.square().mean() + norm.bias.var(correction=0)).sqrt(), norm.bias.mean()
