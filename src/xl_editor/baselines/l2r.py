"""XLNet L2R: p(y | left, right, |y|), left to right, in XLNet's own geometry and without END.

The positions of the right context tell the model how long y is. So it must be asked for one length after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Insertion, Scored
from xl_editor.geometry import CONTEXT, PADDING, Places, concatenate, relate
from xl_editor.model import FrozenModel, XLEditorModel
from xl_editor.training.objectives import InsertionObjective

from .batches import answer_in_batches, as_examples, n_content_and_predicted, scored


class LeftToRight:
    def __init__(self, model: XLEditorModel, format: ContextFormat) -> None:
        self.model = model
        self.frozen = FrozenModel(model)
        self.format = format
        self.objective = InsertionObjective(model, format, plain=True)
        self.device = model.lm_loss.weight.device
        # END is in the vocabulary that all models share, and this one has never seen it.
        end = model.config.end_token_id
        self.never_decoded = sorted({model.config.pad_token_id, *format.not_text, *([] if end is None else [end])})

    def score(self, insertions: Sequence[Insertion]) -> list[Scored]:
        """Log p of every token of every insertion, given its length; an empty one has none."""
        return answer_in_batches(insertions, n_content_and_predicted, self._score)

    @torch.inference_mode()
    def _score(self, insertions: list[Insertion]) -> list[Scored]:
        batch = {
            name: tensor.to(self.device) for name, tensor in self.objective.collate(as_examples(insertions)).items()
        }
        return scored(insertions, batch["labels"], self.objective.predicted_states(batch), self.model.logits)

    def decode(self, asked: Sequence[tuple[Context, int]]) -> list[Scored]:
        """For each context and length, the insertion that greedy decoding finds."""

        def size(question: tuple[Context, int]) -> tuple[int, int]:
            context, length = question
            return sum(map(len, context.parts)) + length, length

        return answer_in_batches(asked, size, self._decode)

    @torch.inference_mode()
    def _decode(self, asked: list[tuple[Context, int]]) -> list[Scored]:
        ids, keys = self._context(asked)
        relation = self.format.with_segments(relate(keys, keys[:, :0], plain=True), ids)
        _, cache = self.frozen.advance(ids, relation, n_read=0)
        starts = torch.tensor([len(context.parts[0]) for context, _ in asked], device=self.device)
        found: list[list[int]] = [[] for _ in asked]
        logprobs_found: list[list[float]] = [[] for _ in asked]
        active = list(range(len(asked)))
        tokens = ids[:, :0]
        for k in range(max(length for _, length in asked)):
            going_on = [row for row, index in enumerate(active) if asked[index][1] > k]
            if len(going_on) < len(active):
                rows = torch.tensor(going_on, device=self.device)
                ids, keys, cache, starts = ids[rows], keys[rows], cache.select(rows), starts[rows]
                tokens, active = tokens[rows], [active[row] for row in going_on]
            new, query = _inserted(starts, k - 1)[:, : tokens.shape[1]], _inserted(starts, k)
            ids, keys = torch.cat([ids, tokens], dim=1), concatenate([keys, new])
            relation = self.format.with_segments(relate(new, query, keys, plain=True), ids, whole=False)
            states, cache = self.frozen.advance(tokens, relation, n_read=1, cache=cache)
            logits = self.model.logits(states[:, 0])
            total = logits.logsumexp(-1)
            logits[:, self.never_decoded] = -torch.inf
            best = logits.max(-1, keepdim=True)
            tokens = best.indices
            logprobs = best.values[:, 0] - total
            for index, token, logprob in zip(active, tokens[:, 0].tolist(), logprobs.tolist(), strict=True):
                found[index].append(token)
                logprobs_found[index].append(logprob)
        return [Scored(tuple(y), tuple(v)) for y, v in zip(found, logprobs_found, strict=True)]

    def _context(self, asked: list[tuple[Context, int]]) -> tuple[Tensor, Places]:
        """What is around each y, whose length moves what is to its right. *Shape:* (B, N)."""
        texts = [[*c.parts[0], *c.parts[1], *self.format.right_end(c.style)] for c, _ in asked]
        size = max(map(len, texts))
        ids, position = torch.zeros(2, len(asked), size, dtype=torch.long)
        slot = torch.full_like(ids, PADDING)
        for row, (text, (context, length)) in enumerate(zip(texts, asked, strict=True)):
            start = len(context.parts[0])
            ids[row, : len(text)] = torch.tensor(text)
            position[row] = torch.arange(size)
            position[row, start:] += length
            slot[row, : len(text)] = CONTEXT
        places = Places(position.to(self.device), slot.to(self.device), torch.zeros_like(slot, device=self.device))
        return ids.to(self.device), places


def _inserted(starts: Tensor, k: int) -> Places:
    """The place of y_k. *Shape:* (B,) → (B, 1)."""
    offset = torch.full_like(starts, k)[:, None]
    return Places(starts[:, None] + k, torch.zeros_like(offset), offset)
