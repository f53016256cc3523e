"""What one would write with `transformers` instead: XLNet with `perm_mask` and `target_mapping`.

The text holds y ⊕ END in its place; the mask hides it from the context, and y_k from what comes before it. A pass a
question, or a batch of questions; greedy decoding runs the whole text through for every token. Same weights, same rows.
XLNet's own distances cannot express the insertion geometry, so the numbers that come out are not the editor's: `check`
compares both models in the geometry that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from transformers import XLNetLMHeadModel

from xl_editor.engine import Context, Decoding, Engine, Ids, Insertion, Scored
from xl_editor.geometry import batched_insertion_places, relate


class Naive:
    """An estimator for Algorithm 1, as `Engine` is."""

    def __init__(self, directory: Path, engine: Engine, at_once: int = 1) -> None:
        self.model = XLNetLMHeadModel.from_pretrained(directory, dtype=torch.float32).eval()
        self.engine = engine
        self.at_once = at_once
        self.end, self.not_text = engine.end, engine.not_text

    def score(self, insertions: Sequence[Insertion]) -> list[Scored]:
        return [scored for batch in self._batches(insertions) for scored in self._score(batch)]

    def first_logprobs(self, contexts: Sequence[Context]) -> list[NDArray[np.float32]]:
        with torch.inference_mode():
            logits = [self._logits([Insertion(context, ())])[0, 0] for context in contexts]
            return [of_context.log_softmax(-1).numpy() for of_context in logits]

    def decode(self, contexts: Sequence[Context], decoding: Decoding) -> list[list[Scored]]:
        return [[self._decode(context, decoding)] for context in contexts]

    def classify(self, texts: Sequence[Ids]) -> list[dict[str, float]]:
        """Not what is compared: the editor's own."""
        return self.engine.classify(texts)

    def check(self, insertions: Sequence[Insertion]) -> float:
        """The largest difference between both models' log-probabilities of y ⊕ END, in XLNet's own geometry."""
        worst = 0.0
        for batch in self._batches(insertions):
            ids, starts, ends = self._problem(batch)
            sizes, counts = torch.full((len(batch),), ids.shape[1]), torch.ones(len(batch), dtype=torch.long)
            content, queries, target = batched_insertion_places(sizes, starts, ends, counts, plain=True)
            with torch.inference_mode():
                states, _ = self.engine.model.advance(ids, relate(content, queries, plain=True), n_read=len(queries))
                ours = self.engine.model.logits(states).log_softmax(-1)
            chosen = ids.gather(1, target.clamp(min=0))
            for row, theirs in enumerate(self._score(batch)):
                n = len(theirs.token_logprobs)
                mine = ours[row, torch.arange(n), chosen[row, :n]]
                worst = max(worst, float((mine - torch.tensor(theirs.token_logprobs)).abs().max()))
        return worst

    def _batches(self, insertions: Sequence[Insertion]) -> Iterator[list[Insertion]]:
        """Texts of one length and style; all questions about a sentence are such."""

        def alike(insertion: Insertion) -> tuple[str | None, int]:
            return insertion.context.style, sum(map(len, insertion.context.parts)) + len(insertion.inserted)

        for _, group in groupby(sorted(insertions, key=alike) if self.at_once > 1 else insertions, alike):
            members = list(group)
            yield from (members[i : i + self.at_once] for i in range(0, len(members), self.at_once))

    def _problem(self, insertions: Sequence[Insertion]) -> tuple[Tensor, Tensor, Tensor]:
        """The texts, and where y ⊕ END begins and ends. *Shape:* (B, T), (B, 1), (B, 1)."""
        texts, starts, ends = [], [], []
        for insertion in insertions:
            left, right = insertion.context.parts
            right_end = self.engine.format.right_end(insertion.context.style)
            texts.append([*left, *insertion.inserted, self.end, *right, *right_end])
            starts.append([len(left)])
            ends.append([len(left) + len(insertion.inserted) + 1])
        return torch.tensor(texts), torch.tensor(starts), torch.tensor(ends)

    def _logits(self, insertions: Sequence[Insertion], *, last_only: bool = False) -> Tensor:
        """*Shape:* (B, most rows of y ⊕ END, vocabulary)."""
        ids, starts, ends = self._problem(insertions)
        column = torch.arange(ids.shape[1])
        hidden = (column >= starts) & (column < ends)
        # The context sees nothing of y ⊕ END; a token of it sees those before it.
        perm_mask = hidden[:, None, :] & (~hidden[:, :, None] | (column >= column[:, None]))
        first = ends - 1 if last_only else starts
        target = (first + torch.arange(int((ends - first).max()))).clamp(max=ids.shape[1] - 1)
        output = self.model(
            input_ids=ids,
            perm_mask=perm_mask.float(),
            target_mapping=F.one_hot(target, ids.shape[1]).float(),
            use_mems=False,
        )
        return output.logits

    @torch.inference_mode()
    def _score(self, insertions: Sequence[Insertion]) -> list[Scored]:
        logprobs = self._logits(insertions).log_softmax(-1)
        found = []
        for of_one, insertion in zip(logprobs, insertions, strict=True):
            target = torch.tensor([*insertion.inserted, self.end])
            found.append(Scored(insertion.inserted, tuple(of_one[torch.arange(len(target)), target].tolist())))
        return found

    @torch.inference_mode()
    def _decode(self, context: Context, decoding: Decoding) -> Scored:
        y: Ids = decoding.first
        logprobs = [0.0] * len(y)
        while True:
            scores = self._logits([Insertion(context, y)], last_only=True)[0, -1].log_softmax(-1)
            scores[list(self.not_text)] = -torch.inf
            if len(y) < decoding.min_length:
                scores[self.end] = -torch.inf
            token = int(scores.argmax()) if len(y) < decoding.max_length else self.end
            logprobs.append(float(scores[token]))
            if token == self.end:
                return Scored(y, tuple(logprobs))
            y = (*y, token)
