"""What is trained: sequences with intervals taken out → a batch of tensors → a loss.

Three objectives share the data path. `InsertionObjective` is the paper's, from scratch or from XLNet, with or without
styles; with `plain` it is the baseline XLNet L2R (plain geometry, no END). `Seq2SeqObjective` is the Transformer:
`left <m> right` → y. A loss is a sum over targets divided by the number of targets of the whole optimiser step,
whatever the number of micro-batches and processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xl_editor.context import ContextFormat
from xl_editor.engine import classify, left_padded
from xl_editor.geometry import (
    END_OF_INSERTION,
    PADDING,
    Places,
    batched_insertion_places,
    correction_places,
    relate,
    stack,
)
from xl_editor.model import WEIGHTS_FILE, XLEditorModel
from xl_editor.training.sampling import Ints, Slots

IGNORED = -100  # the label of a row that is padding, as everywhere in torch and transformers

Batch = dict[str, Tensor]
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Examples:
    """Sequences of one batch, with what is taken out of them."""

    tokens: Sequence[NDArray[np.integer[Any]]]  # one array a sequence
    slots: Slots
    styles: list[str | None]  # what the right context tells; None where the style is dropped or there are none
    labels: Ints | None = None  # of the classifier, if this batch trains it

    @property
    def lengths(self) -> Ints:
        return np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))


@dataclass(frozen=True)
class Correction:
    """A text that is partly wrong, word by word, and what should stand in some of its slots (see `geometry`)."""

    words: list[Ids]  # of the old text
    slots: list[tuple[int, Ids]]  # the slots that are asked about, 0 being the one at the start, in order

    def changes(self, slot: int, inserted: Ids) -> bool:
        """Whether this is something else than what stands there."""
        return inserted != (self.words[slot - 1] if slot else ())


class Objective(Protocol):
    """What the trainer needs to know: it feeds a batch's tensors to the module, and gets a dict with a loss."""

    def collate(self, examples: Examples) -> Batch: ...
    def collate_corrections(self, corrections: Sequence[Correction]) -> Batch: ...
    def save(self, directory: Path) -> None: ...
    def load(self, directory: Path) -> None: ...


class InsertionObjective(nn.Module):
    """−log q(y | left ↓ right, style), and −log p(style | x) where the batch carries labels.

    A batch of corrections is the same with other contexts: all of the old text, and many slots at once.
    """

    def __init__(
        self,
        model: XLEditorModel,
        context: ContextFormat,
        *,
        plain: bool = False,
        classifier_weight: float = 0.0,
        hidden_rate: float = 0.0,
        change_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self.plain = plain
        self.classifier_weight = classifier_weight
        self.hidden_rate = hidden_rate
        self.change_weight = change_weight

    def collate(self, examples: Examples) -> Batch:
        ends = [self.context.right_end(style) for style in examples.styles]
        batch = places_and_labels(examples, ends, self.model.config.end_token_id, plain=self.plain)
        if examples.labels is not None:
            whole = [[*tokens.tolist(), *self.context.classifying_end] for tokens in examples.tokens]
            batch["classified_ids"] = left_padded(whole, self.model)
            batch["classified_labels"] = torch.from_numpy(examples.labels)
        return batch

    def collate_corrections(self, corrections: Sequence[Correction]) -> Batch:
        """The texts, their right ends and what goes into their slots; targets that change something weigh more."""
        end = self.context.correcting_end
        end_token_id = self.model.config.end_token_id
        assert end_token_id is not None  # a model that learns insertion has END
        ids, labels, weights, content, queries = [], [], [], [], []
        for correction in corrections:
            words, slots = correction.words, correction.slots
            places, predicted = correction_places(
                [len(word) for word in words], [(slot, len(inserted)) for slot, inserted in slots], len(end)
            )
            content.append(places)
            queries.append(predicted)
            of_slots = [token for _, inserted in slots for token in inserted]
            ids.append([*(token for word in words for token in word), *end, *of_slots])
            labels.append([token for _, inserted in slots for token in (*inserted, end_token_id)])
            weights.append(
                [
                    self.change_weight if correction.changes(slot, inserted) else 1.0
                    for slot, inserted in slots
                    for _ in range(len(inserted) + 1)
                ]
            )
        batch = batch_of_places(stack(content), stack(queries))
        return {
            **batch,
            "ids": _padded(ids, 0),
            "labels": _padded(labels, IGNORED),
            "weights": _padded(weights, 0.0),
        }

    def forward(
        self, labels: Tensor, num_items_in_batch: Tensor | int | None = None, **batch: Tensor
    ) -> dict[str, Tensor]:
        n_targets = (labels != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        nll = self._insertion_loss(labels, batch)
        output = {"nll": nll.detach()}
        loss = nll
        if "classified_ids" in batch:
            scores = classify(self.model, self.context, self._some_hidden(batch["classified_ids"]))
            of_labels = nn.functional.cross_entropy(scores, batch["classified_labels"], reduction="sum")
            loss = loss + self.classifier_weight * of_labels
            output["n_correct"] = (scores.argmax(-1) == batch["classified_labels"]).sum()
        return {"loss": loss / n_targets, **output}

    def _some_hidden(self, ids: Tensor) -> Tensor:
        """In training, texts with some of their words unknown."""
        if not self.training or not self.hidden_rate:
            return ids
        others = torch.tensor([self.model.config.pad_token_id, *self.context.not_text], device=ids.device)
        hidden = torch.rand(ids.shape, device=ids.device) < self.hidden_rate
        return ids.masked_fill(hidden & ~torch.isin(ids, others), self.context.unk)

    def _insertion_loss(self, labels: Tensor, batch: Batch) -> Tensor:
        real = labels != IGNORED
        weights = batch["weights"][real] if "weights" in batch else None
        return summed_cross_entropy(self.predicted_states(batch)[real], self.model.lm_loss, labels[real], weights)

    def predicted_states(self, batch: Batch) -> Tensor:
        """The final states of a batch's predicted rows. *Shape:* (B, Q, d_model)."""
        content = Places(batch["position"], batch["slot"], batch["offset"])
        queries = Places(batch["query_position"], batch["query_slot"], batch["query_offset"])
        relation = self.context.with_segments(relate(content, queries, plain=self.plain), batch["ids"])
        states, _ = self.model.advance(batch["ids"], relation, n_read=len(queries))
        return states

    def save(self, directory: Path) -> None:
        self.model.save_pretrained(directory)

    def load(self, directory: Path) -> None:
        self.model.load_weights(directory / WEIGHTS_FILE)


class Seq2SeqObjective(nn.Module):
    """The paper's Transformer baseline: a stock encoder-decoder of `transformers`, `left <m> right` → y ⊕ END."""

    def __init__(self, model: Any, context: ContextFormat, end_token_id: int) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self.end_token_id = end_token_id

    def collate(self, examples: Examples) -> Batch:
        pad = self.model.config.pad_token_id
        sources, targets = [], []
        for row, array in enumerate(examples.tokens):
            tokens = array.tolist()
            ((start, end),) = examples.slots.intervals(row)
            sources.append([*tokens[:start], self.context.mask, *tokens[end:]])
            targets.append([*tokens[start:end], self.end_token_id])
        input_ids, labels = _padded(sources, pad), _padded(targets, IGNORED)
        return {"input_ids": input_ids, "attention_mask": (input_ids != pad).long(), "labels": labels}

    def collate_corrections(self, corrections: Sequence[Correction]) -> Batch:
        raise ValueError("The Transformer is a baseline for insertions, and learns no corrections.")

    def forward(
        self, labels: Tensor, num_items_in_batch: Tensor | int | None = None, **batch: Tensor
    ) -> dict[str, Tensor]:
        # With `labels`, the model would compute a loss of its own.
        given = self.model.prepare_decoder_input_ids_from_labels(labels)
        logits = self.model(**batch, decoder_input_ids=given).logits
        nll = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        n_targets = (labels != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        return {"loss": nll / n_targets, "nll": nll.detach()}

    def save(self, directory: Path) -> None:
        self.model.save_pretrained(directory)

    def load(self, directory: Path) -> None:
        self.model.load_state_dict(type(self.model).from_pretrained(directory).state_dict())


def summed_cross_entropy(states: Tensor, head: nn.Linear, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ −weight · log softmax(head(states))[target]. *Shape:* (N, d), (N,), (N,) → ()."""
    return SummedCrossEntropy.apply(states, head.weight, head.bias, targets, torch.is_grad_enabled(), weights)


class SummedCrossEntropy(torch.autograd.Function):
    """`summed_cross_entropy` and its gradients, without ever holding all the logits.

    The gradient of a sum is known before anybody asks for it, so it is computed while a chunk of logits is still in
    the cache, and its memory is free again before the next one.
    """

    ROWS_AT_ONCE = 512

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        with_gradients: bool = True,
        of_targets: Tensor | None = None,
    ) -> Tensor:
        # Under autocast the factors of products are rounded; sums over the vocabulary are not.
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        with torch.autocast(device, enabled=False):
            factors, weights, biases = states.to(dtype), weight.to(dtype), bias.to(dtype)
            total = bias.new_zeros(())
            of_states = torch.empty_like(factors)
            of_weight, of_bias = torch.zeros_like(weight), torch.zeros_like(bias)
            for first in range(0, len(states), SummedCrossEntropy.ROWS_AT_ONCE):
                rows = slice(first, first + SummedCrossEntropy.ROWS_AT_ONCE)
                logits = torch.addmm(biases, factors[rows], weights.t())
                # Not log_softmax: from bfloat16 it is seven times as slow, and the slope needs the exponentials.
                slope = torch.softmax(logits, dim=-1, dtype=weight.dtype)
                target = targets[rows, None]
                logprobs = slope.gather(1, target).clamp_(min=torch.finfo(weight.dtype).tiny).log_()
                total -= (logprobs if of_targets is None else logprobs * of_targets[rows, None]).sum()
                if with_gradients:  # d loss / d logits = softmax − one-hot
                    slope.scatter_add_(1, target, slope.new_full(target.shape, -1.0))
                    if of_targets is not None:
                        slope *= of_targets[rows, None]
                    of_bias += slope.sum(0)
                    slope = slope.to(dtype)
                    torch.mm(slope, weights, out=of_states[rows])
                    if dtype == weight.dtype:
                        of_weight.addmm_(slope.t(), factors[rows])
                    else:  # what is rounded is added to sums that are not
                        of_weight += torch.mm(slope.t(), factors[rows])
        ctx.save_for_backward(of_states, of_weight, of_bias)
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        of_states, of_weight, of_bias = ctx.saved_tensors
        return of_states.to(of_weight.dtype) * slope, of_weight * slope, of_bias * slope, None, None, None


def places_and_labels(
    examples: Examples, ends: list[tuple[int, ...]], end_token_id: int | None, *, plain: bool
) -> Batch:
    """A batch's ids, the text in its order and then its right end, with the places of all rows and their labels."""
    texts = [np.concatenate([tokens, end]) for tokens, end in zip(examples.tokens, ends, strict=True)]
    sizes = torch.tensor([len(text) for text in texts])
    ids = torch.zeros(len(texts), int(sizes.max()), dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.from_numpy(text.astype(np.int64))
    slots = examples.slots
    starts, stops, counts = (torch.from_numpy(a.astype(np.int64)) for a in (slots.starts, slots.ends, slots.counts))
    content, queries, target = batched_insertion_places(sizes, starts, stops, counts, plain=plain)
    labels = ids.gather(1, target.clamp(min=0))
    labels = labels.masked_fill(target == PADDING, IGNORED)
    if not plain:
        assert end_token_id is not None  # a model that learns insertion has END
        labels = labels.masked_fill(target == END_OF_INSERTION, end_token_id)
    return {**batch_of_places(content, queries), "ids": ids, "labels": labels}


def batch_of_places(content: Places, queries: Places) -> Batch:
    return {
        "position": content.position,
        "slot": content.slot,
        "offset": content.offset,
        "query_position": queries.position,
        "query_slot": queries.slot,
        "query_offset": queries.offset,
    }


def _padded(rows: Sequence[Sequence[float]], pad: float) -> Tensor:
    size = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (size - len(row))] for row in rows])
