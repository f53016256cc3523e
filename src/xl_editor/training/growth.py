"""A larger model, or one of another vocabulary, out of a trained one: it goes on from what that one has learnt."""

from __future__ import annotations

from dataclasses import replace

import torch
from tokenizers import Tokenizer
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


def with_vocabulary(model: XLEditorModel, old: Tokenizer, new: Tokenizer) -> XLEditorModel:
    """The same network with another vocabulary.

    A piece that both have keeps its embedding and its bias; another one starts from the mean of those that spelt it
    before, a control token that is new from chance.
    """
    other = XLEditorModel(replace(model.config, vocab_size=new.get_vocab_size()))
    tied = ("transformer.word_embedding.weight", "lm_loss.weight", "lm_loss.bias")
    other.load_state_dict({name: w for name, w in model.state_dict().items() if name not in tied}, strict=False)
    embedding, bias = model.transformer.word_embedding.weight, model.lm_loss.bias
    special = {token.content for token in new.get_added_tokens_decoder().values()}
    with torch.no_grad():
        for piece, id in new.get_vocab().items():
            known = old.token_to_id(piece)
            if known is None and piece in special:
                continue
            spelt = [known] if known is not None else [token.id for token in old.model.tokenize(piece)]
            other.transformer.word_embedding.weight[id] = embedding[spelt].mean(0)
            other.lm_loss.bias[id] = bias[spelt].mean()
    return other


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
