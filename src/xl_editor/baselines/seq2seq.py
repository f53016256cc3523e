"""The Transformer: an encoder reads `left <m> right`, a decoder writes y ⊕ END."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Ids, Insertion, Scored
from xl_editor.training.objectives import Seq2SeqObjective

from .batches import answer_in_batches, as_examples, n_content_and_predicted, scored


class Seq2Seq:
    def __init__(self, model: Any, format: ContextFormat) -> None:
        self.model = model.eval()
        self.end: int = model.config.eos_token_id
        self.objective = Seq2SeqObjective(model, format, self.end)
        self.never_decoded = sorted({model.config.pad_token_id, *format.not_text})

    def score(self, insertions: Sequence[Insertion]) -> list[Scored]:
        """Log q̂ of every token of every insertion, END included, with the full softmax."""
        return answer_in_batches(insertions, n_content_and_predicted, self._score)

    @torch.inference_mode()
    def _score(self, insertions: list[Insertion]) -> list[Scored]:
        batch = self._collate(insertions)
        labels = batch.pop("labels")
        written = self.model.prepare_decoder_input_ids_from_labels(labels)
        states = self.model.model(**batch, decoder_input_ids=written).last_hidden_state
        return scored(insertions, labels, states, lambda rows: self.model.lm_head(rows) + self.model.final_logits_bias)

    def decode(self, contexts: Sequence[Context], max_length: int) -> list[Ids]:
        """For each context, the insertion that greedy decoding finds; nothing is none."""

        def ask(some: list[Context]) -> list[Ids]:
            return self._decode(some, max_length)

        return answer_in_batches(contexts, lambda context: (sum(map(len, context.parts)), max_length), ask)

    @torch.inference_mode()
    def _decode(self, contexts: list[Context], max_length: int) -> list[Ids]:
        batch = self._collate([Insertion(context, ()) for context in contexts])
        del batch["labels"]
        written = self.model.generate(
            **batch,
            max_new_tokens=max_length,
            do_sample=False,
            num_beams=1,
            suppress_tokens=self.never_decoded,
            begin_suppress_tokens=[self.end],
        )
        return [_before(self.end, row[1:]) for row in written.tolist()]  # the first one is where decoding starts

    def _collate(self, insertions: list[Insertion]) -> dict[str, Any]:
        batch = self.objective.collate(as_examples(insertions))
        return {name: tensor.to(self.model.device) for name, tensor in batch.items()}


def _before(end: int, row: list[int]) -> Ids:
    return tuple(row[: row.index(end)] if end in row else row)
