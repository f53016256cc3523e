"""How many multiply-adds an answer takes, and how few would do: seconds depend on the machine, these do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Ids, Insertion
from xl_editor.model import XLEditorConfig


def count_multiply_adds(work: Callable[[], Any]) -> int:
    """Of all matrix products that some work makes, those of attention included; once what is remembered is known."""
    work()
    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused_attention}
    with FlopCounterMode(display=False, custom_mapping=fused) as counter:
        work()
    return int(counter.get_total_flops()) // 2


def _fused_attention(query: Any, keys: Any, *_: Any, **__: Any) -> int:
    batch, heads, rows, size = query
    return 2 * 2 * batch * heads * rows * keys[-2] * size


def least_to_score(config: XLEditorConfig, format: ContextFormat, insertions: Sequence[Insertion]) -> int:
    """What the method itself asks for when each context is encoded, and each question answered, once.

    Rows of y ⊕ END against all that they see; no padding, no row whose output nobody reads, first-layer products once
    a distinct token, position products for nothing (they are the same for every text).
    """
    d, vocabulary = config.d_model, config.vocab_size
    total = 0
    distinct: set[int] = set()
    of_context: dict[Context, set[Ids]] = defaultdict(set)
    for insertion in insertions:
        of_context[insertion.context].add(insertion.inserted)
    for context, asked in of_context.items():
        tokens = [*(token for part in context.parts for token in part), *format.right_end(context.style)]
        n = len(tokens)
        total += _content(config, n) + (config.n_layer - 1) * _attention(d, n * n)
        distinct |= {*tokens, *(token for y in asked for token in y)}
        for y in asked:
            m = len(y)
            content_pairs, query_pairs = m * n + m * (m + 1) // 2, (m + 1) * n + m * (m + 1) // 2
            total += _content(config, m) + (config.n_layer - 1) * _attention(d, content_pairs)
            total += _read(config, m + 1) + config.n_layer * _attention(d, query_pairs)
            total += (m + 1) * d * vocabulary
    return total + (3 * len(distinct) + 1) * d * d


def least_to_classify(config: XLEditorConfig, format: ContextFormat, texts: Sequence[Ids]) -> int:
    """The same for the styles of texts: of the last layer, one row is read."""
    d = config.d_model
    total = 0
    for text in set(texts):
        n = len(text) + len(format.classifying_end)
        total += _content(config, n) + (config.n_layer - 1) * _attention(d, n * n)
        total += d * d + 2 * d * config.d_inner + d * d + _attention(d, n) + d * d + d * config.n_labels
    distinct = {*(token for text in texts for token in text), *format.classifying_end}
    return total + 3 * len(distinct) * d * d


def _content(config: XLEditorConfig, n: int) -> int:
    """Products of n content rows: o and feed-forward in the first layer, all in the middle, k and v in the last."""
    d, feed_forward = config.d_model, 2 * config.d_model * config.d_inner
    middle = (config.n_layer - 2) * (4 * d * d + feed_forward)
    return n * (d * d + feed_forward + middle + 2 * d * d)


def _read(config: XLEditorConfig, n: int) -> int:
    """Products of n query rows: q, o and feed-forward, but for the first layer's q, which is the same for all."""
    d, feed_forward = config.d_model, 2 * config.d_model * config.d_inner
    return n * (config.n_layer * (2 * d * d + feed_forward) - d * d)


def _attention(d: int, n_pairs: int) -> int:
    """Of each pair, in a layer: query · key, query · position, weight · value."""
    return 3 * n_pairs * d
