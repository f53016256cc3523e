"""The micro-batches of a whole run, all epochs, as one long sequence that any process can enter anywhere.

Item i is a function of the recipe, the corpus and i alone. So resuming is skipping, and with W processes that take
every W-th item, an optimiser step sees the same items as with one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from xl_editor.training.corpus import Corpus, Sequences
from xl_editor.training.corrections import CorrectionMaker, Reader, VariationSettings, varied
from xl_editor.training.objectives import Batch, Correction, Examples, Objective
from xl_editor.training.pairs import NO_PAIRS, Pairs
from xl_editor.training.sampling import (
    Batches,
    Bools,
    Ints,
    Slots,
    all_of_it,
    carries_classifier,
    make_batches,
    mix,
    random_bits,
    sample_sentences,
    sample_slots,
    style_dropped,
    uniform,
)

EVALUATION = -1  # the epoch that development data is sampled in: always the same intervals
# What a correction costs, for each token of its text: its rows are not known before it is made.
CORRECTION_CONTENT, CORRECTION_QUERIES = 1.4, 0.7


@dataclass(frozen=True)
class StreamSettings:
    """How sequences are drawn from a corpus and put into batches; see `recipe` for what each means."""

    window: int
    least_window: int | None
    whole_windows: bool
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
class Rewriting:
    """What is made of a corpus beyond taking intervals out: its texts written in other ways, and corrected."""

    reader: Reader
    variation: VariationSettings
    corrections: CorrectionMaker | None = None
    pairs: Pairs = NO_PAIRS  # all of them in every epoch, beside the corpus

    @property
    def correction_share(self) -> float:
        return self.corrections.settings.share if self.corrections else 0.0


@dataclass(frozen=True)
class EpochPlan:
    epoch: int
    sequences: Sequences
    slots: Slots
    dropped: Bools  # (N,) shown without its style
    corrected: Bools  # (N + number of pairs,) corrected, instead of having intervals taken out
    varied: Bools  # (N,) written in another way
    batches: Batches


class MicroBatches(Dataset[Batch]):
    def __init__(
        self,
        corpus: Corpus,
        objective: Objective,
        settings: StreamSettings,
        rewriting: Rewriting | None = None,
        n_steps: int = 0,
    ) -> None:
        self.corpus = corpus
        self.objective = objective
        self.settings = settings
        self.rewriting = rewriting
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
        return self._batch(plan, chosen, with_labels=classified)

    def evaluation_batches(self, most_sequences: int) -> Iterator[Batch]:
        """Development data, always the same sequences and intervals; the classifier's labels with every batch."""
        plan = self.plan(EVALUATION)
        left = most_sequences
        for batch in range(len(plan.batches)):
            chosen = plan.batches[batch][:left]
            left -= len(chosen)
            if len(chosen):
                labelled = self.settings.classifier_share > 0
                yield self._batch(plan, chosen, with_labels=labelled)

    def _plan(self, epoch: int) -> EpochPlan:
        s = self.settings
        evaluating = epoch == EVALUATION
        sequences = self.corpus.sequences(
            window=s.window,
            least_window=s.least_window,
            whole_windows=s.whole_windows,
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
        share = self.rewriting.correction_share if self.rewriting else 0.0
        corrected = uniform(starts, "is it corrected", seed=s.seed, epoch=epoch) < share
        pairs = self.rewriting.pairs if self.rewriting else NO_PAIRS
        rate = self.rewriting.variation.any_rate if self.rewriting else 0.0
        is_varied = uniform(starts, "is it written in another way", seed=s.seed, epoch=epoch) < rate
        # Pairs come after all sequences.
        sizes = np.concatenate([sequences.lengths, pairs.lengths])
        n_targets = np.concatenate([slots.n_targets, pairs.lengths])
        is_correction = np.concatenate([corrected, np.ones(len(pairs), np.bool_)])
        batches = make_batches(
            np.where(is_correction, (CORRECTION_CONTENT * sizes).astype(np.int64), sizes) + 1,
            np.where(is_correction, (CORRECTION_QUERIES * sizes).astype(np.int64), n_targets),
            kinds=is_correction,
            tokens_per_batch=s.tokens_per_batch,
            per_step=1 if evaluating else s.batches_per_step,
            seed=s.seed,
            epoch=epoch,
        )
        rate = 0.0 if evaluating else s.style_dropout
        dropped = style_dropped(starts, rate, seed=s.seed, epoch=epoch)
        return EpochPlan(epoch, sequences, slots, dropped, is_correction, is_varied, batches)

    def _batch(self, plan: EpochPlan, chosen: Ints, *, with_labels: bool) -> Batch:
        if plan.corrected[chosen[0]]:  # kinds do not share a batch
            return self.objective.collate_corrections([self._correction(plan, i) for i in chosen.tolist()])
        return self.objective.collate(self._examples(plan, chosen, with_labels=with_labels))

    def _correction(self, plan: EpochPlan, example: int) -> Correction:
        assert self.rewriting is not None
        assert self.rewriting.corrections is not None  # or nothing would be corrected
        number = example - len(plan.sequences)
        if number >= 0:
            return self.rewriting.corrections.paired(*self.rewriting.pairs.texts[number], self._random(plan, ~number))
        text, random = self._rewritten(plan, example)
        return self.rewriting.corrections.made(text, random)

    def _random(self, plan: EpochPlan, identity: int) -> Random:
        """What decides all that is left to chance about an example; sequences are known by where they start."""
        bits = random_bits(np.array([identity]), "how it is rewritten", seed=self.settings.seed, epoch=plan.epoch)
        return Random(int(bits[0]))

    def _rewritten(self, plan: EpochPlan, example: int) -> tuple[str, Random]:
        """The text of a sequence, maybe written in another way, and what decides all else about it."""
        assert self.rewriting is not None
        start, end = int(plan.sequences.starts[example]), int(plan.sequences.ends[example])
        random = self._random(plan, start)
        text = self.rewriting.reader.text(self.corpus.tokens[start:end].tolist())
        if plan.varied[example]:
            text = varied(text, self.rewriting.variation, random)
        return text, random

    def _examples(self, plan: EpochPlan, chosen: Ints, *, with_labels: bool) -> Examples:
        sequences, slots = plan.sequences, plan.slots
        tokens: list[NDArray[np.integer[Any]]] = [
            self.corpus.tokens[sequences.starts[i] : sequences.ends[i]] for i in chosen
        ]
        styles = [
            None if style < 0 or dropped else self.corpus.style_names[style]
            for style, dropped in zip(sequences.styles[chosen], plan.dropped[chosen], strict=True)
        ]
        labels = sequences.styles[chosen].astype(np.int64) if with_labels else None
        taken_out = Slots(slots.starts[chosen], slots.ends[chosen], slots.counts[chosen])
        for row in np.flatnonzero(plan.varied[chosen]).tolist():
            tokens[row] = self._vary(plan, int(chosen[row]), taken_out, row)
        return Examples(tokens, taken_out, styles, labels)

    def _vary(self, plan: EpochPlan, example: int, slots: Slots, row: int) -> NDArray[np.integer[Any]]:
        """The tokens of a sequence that is written in another way; its slots, a row of these, are chosen anew."""
        assert self.rewriting is not None
        text, _ = self._rewritten(plan, example)
        ids = [token for word in self.rewriting.reader.words(text) for token in word]
        tokens = np.array(ids[: self.settings.max_tokens], self.corpus.tokens.dtype)
        s = self.settings
        start = plan.sequences.starts[example : example + 1]
        chosen = sample_slots(
            tokens,
            np.zeros(1, np.int64),
            np.array([len(tokens)]),
            examples=start,
            seed=s.seed,
            epoch=plan.epoch,
            empty_rate=s.empty_rate,
            max_slots=s.max_slots,
            unit=s.unit,
            starts_word=self.corpus.starts_word,
        )
        slots.starts[row], slots.ends[row], slots.counts[row] = chosen.starts[0], chosen.ends[0], chosen.counts[0]
        return tokens
