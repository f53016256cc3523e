"""The stream: an item is a function of its number, so nothing depends on processes, resuming or what was asked."""

import random
from collections import Counter

import numpy as np
import pytest

from xl_editor.training.corpus import Source, load_corpus
from xl_editor.training.stream import MicroBatches, StreamSettings
from xl_editor.training.vocabulary import train_tokenizer

N_SENTENCES = 300
PER_STEP = 3
SETTINGS = {
    "window": 1,
    "least_window": None,
    "whole_windows": False,
    "max_tokens": 16,
    "empty_rate": 0.2,
    "max_slots": 2,
    "unit": "token",
    "sentence_rate": 0.0,
    "whole_rate": 0.0,
    "style_dropout": 0.3,
    "classifier_share": 0.5,
    "tokens_per_batch": 200,
    "batches_per_step": PER_STEP,
    "seed": 7,
}


class AsTheyAre:
    """An objective whose batches are the examples themselves."""

    def collate(self, examples):
        return examples


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Sentences of 1 to 12 words, no two alike, in two styles."""
    directory = tmp_path_factory.mktemp("stream")
    draw = random.Random(0)
    sources = []
    for style in ("neg", "pos"):
        lines = [f"{style}{n} " + " ".join("w" * draw.randrange(12)) for n in range(N_SENTENCES // 2)]
        (directory / style).write_text("\n".join(lines))
        sources.append(Source(directory / style, style))
    words = [line for source in sources for line in source.path.read_text().splitlines()]
    tokenizer = train_tokenizer(words, "word", styles=["neg", "pos"])
    return load_corpus(sources, tokenizer, style_names=("neg", "pos"), cache=directory / "cache")


@pytest.fixture
def new_stream(corpus):
    def new_stream(**settings):
        return MicroBatches(corpus, AsTheyAre(), StreamSettings(**{**SETTINGS, **settings}), n_steps=100)

    return new_stream


def plain(examples) -> tuple:
    """What a batch holds, to be compared."""
    slots = [examples.slots.intervals(row) for row in range(len(examples.tokens))]
    labels = None if examples.labels is None else examples.labels.tolist()
    return [tokens.tolist() for tokens in examples.tokens], slots, examples.styles, labels


def items(stream, numbers) -> list[tuple]:
    return [plain(stream[number]) for number in numbers]


def n_items_an_epoch(stream) -> int:
    return len(stream.plan(0).batches)


def test_an_item_does_not_depend_on_what_was_asked_before(new_stream):
    stream = new_stream()
    n = 3 * n_items_an_epoch(stream) + 5  # into the fourth epoch
    in_order = items(stream, range(n))
    numbers = random.Random(1).sample(range(n), n)
    out_of_order = dict(zip(numbers, items(new_stream(), numbers), strict=True))
    assert [out_of_order[number] for number in range(n)] == in_order
    assert plain(new_stream()[n - 1]) == in_order[-1]  # as a resumed run asks


@pytest.mark.parametrize("n_processes", [2, 3])
def test_processes_share_the_items_of_every_step(new_stream, n_processes):
    n_steps = 20
    alone = items(new_stream(), range(n_steps * PER_STEP))
    shares = [items(new_stream(), range(rank, n_steps * PER_STEP, n_processes)) for rank in range(n_processes)]
    together = [shares[number % n_processes][number // n_processes] for number in range(n_steps * PER_STEP)]
    assert together == alone


def test_an_epoch_holds_every_sequence_once(new_stream, corpus):
    stream = new_stream()
    n = n_items_an_epoch(stream)
    sequences = corpus.sequences(window=1, max_tokens=16)
    every = Counter(
        tuple(corpus.tokens[start:end].tolist()) for start, end in zip(sequences.starts, sequences.ends, strict=True)
    )
    assert len(every) == N_SENTENCES
    epochs = [items(stream, range(epoch * n, (epoch + 1) * n)) for epoch in range(2)]
    for epoch in epochs:
        assert Counter(tuple(tokens) for batch in epoch for tokens in batch[0]) == every
    taken_out = [
        {tuple(tokens): slots for batch in epoch for tokens, slots in zip(batch[0], batch[1], strict=True)}
        for epoch in epochs
    ]
    moved = np.mean([taken_out[0][tokens] != taken_out[1][tokens] for tokens in every])
    assert moved > 0.8  # other intervals every time
    assert items(new_stream(seed=8), range(n)) != epochs[0]


def test_whole_sentences_are_taken_at_their_rate(new_stream):
    stream = new_stream(sentence_rate=1.0)  # a window is a sentence here
    batches = [stream[number] for number in range(n_items_an_epoch(stream))]
    taken = [(b.slots.intervals(i), len(b.tokens[i])) for b in batches for i in range(len(b.tokens))]
    assert all(slots in ([(0, 0)], [(size, size)], [(0, size)]) for slots, size in taken)
    assert len({tuple(slots) for slots, _ in taken}) > 3


def test_all_of_a_sequence_is_taken_at_its_rate(new_stream):
    def share(**settings: float) -> float:
        stream = new_stream(**settings)
        batches = [stream[number] for number in range(n_items_an_epoch(stream))]
        taken = [b.slots.intervals(i) == [(0, len(b.tokens[i]))] for b in batches for i in range(len(b.tokens))]
        return float(np.mean(taken))

    by_chance = share()
    assert share(whole_rate=1.0) == 1
    assert share(whole_rate=0.5) == pytest.approx(0.5 + by_chance / 2, abs=0.1)


def test_the_length_is_that_of_the_run(new_stream):
    assert len(new_stream()) == 100 * PER_STEP


def test_the_batches_of_a_step_train_the_classifier_together(new_stream):
    stream = new_stream()
    labelled = [stream[number].labels is not None for number in range(20 * PER_STEP)]
    steps = [set(labelled[first : first + PER_STEP]) for first in range(0, len(labelled), PER_STEP)]
    assert all(len(step) == 1 for step in steps)
    assert sum(step == {True} for step in steps) == 10
    assert not any(new_stream(classifier_share=0.0)[number].labels is not None for number in range(30))


def test_styles_are_told_but_for_those_dropped_and_labels_always(new_stream, corpus):
    stream = new_stream(classifier_share=1.0)
    told, dropped = Counter(), 0
    for number in range(n_items_an_epoch(stream)):
        examples = stream[number]
        for style, label in zip(examples.styles, examples.labels, strict=True):
            if style is None:
                dropped += 1
            else:
                told[style, corpus.style_names[label]] += 1
    assert set(told) == {("neg", "neg"), ("pos", "pos")}
    assert 0.2 < dropped / N_SENTENCES < 0.4


def test_development_batches_are_always_the_same(new_stream):
    stream = new_stream()
    first = [plain(batch) for batch in stream.evaluation_batches(10_000)]
    items(stream, range(2 * n_items_an_epoch(stream)))
    assert [plain(batch) for batch in stream.evaluation_batches(10_000)] == first
    assert [plain(batch) for batch in new_stream().evaluation_batches(10_000)] == first
    assert sum(len(batch[0]) for batch in first) == N_SENTENCES
    assert all(None not in styles and labels is not None for _, _, styles, labels in first)  # nothing is dropped


@pytest.mark.parametrize("limit", [1, 50, N_SENTENCES, N_SENTENCES + 1])
def test_development_stops_at_its_limit(new_stream, limit):
    batches = [plain(batch) for batch in new_stream().evaluation_batches(limit)]
    sizes = [len(batch[0]) for batch in batches]
    assert sum(sizes) == min(limit, N_SENTENCES)
    assert 0 not in sizes
    everything = [tokens for batch in new_stream().evaluation_batches(10_000) for tokens in plain(batch)[0]]
    assert [tokens for batch in batches for tokens in batch[0]] == everything[: sum(sizes)]
