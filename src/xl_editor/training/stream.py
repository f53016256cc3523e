"""The micro-batches of a whole run, all epochs, as one long sequence that any process can enter anywhere.

Item i is a function of the recipe, the corpus and i alone. So resuming is skipping, and with W processes that take
every W-th item, an optimiser step sees the same items as with one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from torch.utils.data import Dataset

from xl_editor.training.corpus import Corpus, Sequences
from xl_editor.training.objectives import Batch, Examples, Objective
from xl_editor.training.sampling import (
    Batches,
    Ints,
    Slots,
    all_of_it,
    carries_classifier,
    make_batches,
    mix,
    sample_sentences,
    sample_slots,
    style_dropped,
)

EVALUATION = -1  # the epoch that development data is sampled in: always the same intervals


@dataclass(frozen=True)
class StreamSettings:
    """How sequences are drawn from a corpus and put into batches; see `recipe` for what each means."""

    window: int
    least_window: int | None
    max_tokens: int
    empty_rate: float
    max_slots: int
    unit: Literal["token", "word"]
    sentence_rate: float
    whole_rate: float
    style_dropout: float
    classifier_share: float
    tokens_per_batch: int
    batches_per_step: int
    seed: int


@dataclass(frozen=True)
class EpochPlan:
    sequences: Sequences
    slots: Slots
    dropped: np.ndarray  # (N,) bool: shown without its style
    batches: Batches


class MicroBatches(Dataset[Batch]):
    def __init__(self, corpus: Corpus, objective: Objective, settings: StreamSettings, n_steps: int = 0) -> None:
        self.corpus = corpus
        self.objective = objective
        self.settings = settings
        self.n_steps = n_steps
        self._first_of_epoch = [0]  # items before each epoch, as far as known
        self.plan = lru_cache(maxsize=2)(self._plan)

    def __len__(self) -> int:
        return self.n_steps * self.settings.batches_per_step

    def __getitem__(self, item: int) -> Batch:
        while self._first_of_epoch[-1] <= item:
            known = len(self._first_of_epoch) - 1
            self._first_of_epoch.append(self._first_of_epoch[-1] + len(self.plan(known).batches))
        epoch = bisect_right(self._first_of_epoch, item) - 1
        plan = self.plan(epoch)
        chosen = plan.batches[item - self._first_of_epoch[epoch]]
        classified = carries_classifier(item // self.settings.batches_per_step, self.settings.classifier_share)
        return self.objective.collate(self._examples(plan, chosen, with_labels=classified))

    def evaluation_batches(self, most_sequences: int) -> Iterator[Batch]:
        """Development data, always the same sequences and intervals; the classifier's labels with every batch."""
        plan = self.plan(EVALUATION)
        left = most_sequences
        for batch in range(len(plan.batches)):
            chosen = plan.batches[batch][:left]
            left -= len(chosen)
            if len(chosen):
                labelled = self.settings.classifier_share > 0
                yield self.objective.collate(self._examples(plan, chosen, with_labels=labelled))

    def _plan(self, epoch: int) -> EpochPlan:
        s = self.settings
        evaluating = epoch == EVALUATION
        sequences = self.corpus.sequences(
            window=s.window,
            least_window=s.least_window,
            max_tokens=s.max_tokens,
            seed=s.seed,
            epoch=None if evaluating else epoch,
        )
        starts, ends = sequences.starts, sequences.ends
        slots = sample_slots(
            self.corpus.tokens,
            starts,
            ends,
            seed=s.seed,
            epoch=epoch,
            empty_rate=s.empty_rate,
            max_slots=s.max_slots,
            unit=s.unit,
            starts_word=self.corpus.starts_word,
        )
        if s.sentence_rate:
            sentences = sample_sentences(starts, ends, self.corpus.sentence_offsets, seed=s.seed, epoch=epoch)
            choice = "are whole sentences taken"
            slots = mix(slots, sentences, starts, s.sentence_rate, choice, seed=s.seed, epoch=epoch)
        if s.whole_rate:
            whole, choice = all_of_it(sequences.lengths), "is all of it taken"
            slots = mix(slots, whole, starts, s.whole_rate, choice, seed=s.seed, epoch=epoch)
        batches = make_batches(
            sequences.lengths + 1,
            slots.n_targets,
            tokens_per_batch=s.tokens_per_batch,
            per_step=1 if evaluating else s.batches_per_step,
            seed=s.seed,
            epoch=epoch,
        )
        rate = 0.0 if evaluating else s.style_dropout
        dropped = style_dropped(starts, rate, seed=s.seed, epoch=epoch)
        return EpochPlan(sequences, slots, dropped, batches)

    def _examples(self, plan: EpochPlan, chosen: Ints, *, with_labels: bool) -> Examples:
        sequences, slots = plan.sequences, plan.slots
        tokens = [self.corpus.tokens[sequences.starts[i] : sequences.ends[i]] for i in chosen]
        styles = [
            None if style < 0 or dropped else self.corpus.style_names[style]
            for style, dropped in zip(sequences.styles[chosen], plan.dropped[chosen], strict=True)
        ]
        labels = sequences.styles[chosen].astype(np.int64) if with_labels else None
        taken_out = Slots(slots.starts[chosen], slots.ends[chosen], slots.counts[chosen])
        return Examples(tokens, taken_out, styles, labels)
