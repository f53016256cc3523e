"""The Transformer: an encoder reads `left <m> right`, a decoder writes y ⊕ END."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Ids, Insertion, Scored
from xl_editor.training.objectives import IGNORED, Seq2SeqObjective

from .batches import answer_in_batches, as_examples


class Seq2Seq:
    def __init__(self, model: Any, format: ContextFormat) -> None:
        self.model = model.eval()
        self.end: int = model.config.eos_token_id
        self.objective = Seq2SeqObjective(model, format, self.end)
        self.never_decoded = sorted({model.config.pad_token_id, *format.not_text})

    def score(self, insertions: Sequence[Insertion]) -> list[Scored]:
        """Log q̂ of every token of every insertion, END included, with the full softmax."""
        return answer_in_batches(insertions, _n_rows, self._score)

    @torch.inference_mode()
    def _score(self, insertions: list[Insertion]) -> list[Scored]:
        batch = self._collate(insertions)
        labels = batch["labels"]
        logits = self.model(**batch).logits
        targets = labels.clamp(min=0)[..., None]
        logprobs = logits.gather(2, targets)[..., 0] - logits.logsumexp(-1)
        real = (labels != IGNORED).sum(1).tolist()
        values = [row[:n] for row, n in zip(logprobs.tolist(), real, strict=True)]
        return [Scored(insertion.inserted, tuple(v)) for insertion, v in zip(insertions, values, strict=True)]

    def decode(self, contexts: Sequence[Context], max_length: int) -> list[Ids]:
        """For each context, the insertion that greedy decoding finds."""

        def ask(some: list[Context]) -> list[Ids]:
            return self._decode(some, max_length)

        return answer_in_batches(contexts, lambda context: _n_rows(Insertion(context, ())) + max_length, ask)

    @torch.inference_mode()
    def _decode(self, contexts: list[Context], max_length: int) -> list[Ids]:
        batch = self._collate([Insertion(context, ()) for context in contexts])
        del batch["labels"]
        written = self.model.generate(
            **batch, max_new_tokens=max_length, do_sample=False, num_beams=1, suppress_tokens=self.never_decoded
        )
        return [_before(self.end, row[1:]) for row in written.tolist()]  # the first one is where decoding starts

    def _collate(self, insertions: list[Insertion]) -> dict[str, Any]:
        batch = self.objective.collate(as_examples(insertions))
        return {name: tensor.to(self.model.device) for name, tensor in batch.items()}


def _n_rows(insertion: Insertion) -> int:
    return sum(map(len, insertion.context.parts)) + len(insertion.inserted) + 2


def _before(end: int, row: list[int]) -> Ids:
    return tuple(row[: row.index(end)] if end in row else row)
