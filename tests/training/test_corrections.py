"""Corrections: read as the editor reads, aligned into slots, made wrong the same way every time; and learnt."""

import json
import random
from collections import Counter

import numpy as np
import pytest
import toy
from tokenizers import Tokenizer

from xl_editor.text import Codec, TextFormat
from xl_editor.training.corpus import CorpusError, Source, load_corpus
from xl_editor.training.corrections import (
    CorrectionMaker,
    CorrectionSettings,
    Reader,
    VariationSettings,
    correct_slots,
    varied,
)
from xl_editor.training.pairs import load_pairs
from xl_editor.training.stream import MicroBatches, Rewriting, StreamSettings
from xl_editor.training.vocabulary import is_special, train_tokenizer

SENTENCES = [
    "I don't think that it's a lot of money, but she paid $159 for it.",
    "He lives in the U.S. and works for Example Inc. in Boston.",
    'They said: "We have been waiting (for hours) since 3.5 o\'clock."',
    "Dr. Smith, who wasn't there, wrote to us on Monday.",
    "The well-known company's offices are in London, Paris and Rome.",
    "It's raining again… we'll stay at home, won't we?",
]
MODES = CorrectionSettings(share=0.5, unchanged_share=0.3, clean_share=0.2, errors_per_word=0.15)
ASK_ALL = CorrectionSettings(share=1, unchanged_share=1, clean_share=0, errors_per_word=0.2)
VARIATION = VariationSettings(lowercase=0.1, without_final_mark=0.1, typographic=0.1)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(SENTENCES * 5, "bpe", size=420, correcting=True)


@pytest.fixture(scope="module")
def reader(tokenizer):
    return new_reader(tokenizer)


def new_reader(tokenizer, **format) -> Reader:
    own = Tokenizer.from_str(tokenizer.to_str())
    return Reader(Codec(own, TextFormat(**format), np.flatnonzero(is_special(tokenizer)).tolist()))


def shown(reader, slots) -> list[str]:
    return ["".join(reader.key((token,)) for token in slot).strip() for slot in slots]


@pytest.mark.parametrize("curly", [False, True])
def test_words_are_those_of_the_editor(reader, curly):
    for first, second in zip(SENTENCES, reversed(SENTENCES), strict=True):
        text = f"{first} {second}"
        text = varied(text, VariationSettings(0, 0, 1), random.Random(0)) if curly else text
        encoded = reader.codec.encode(text)
        expected = [encoded.ids[a:b] for a, b in reader.codec.written_words(encoded)]
        assert reader.words(text) == expected
        assert tuple(token for word in expected for token in word) == encoded.ids


@pytest.mark.parametrize(
    ("wrong", "right", "slots"),
    [
        ("I dont know.", "I don't know.", ["", "I", "don't", "know", "."]),
        ("She paid alot.", "She paid a lot.", ["", "She", "paid", "a lot", "."]),
        ("Its raining", "It's raining.", ["", "It's", "raining."]),
        ("However he left.", "However, he left.", ["", "However,", "he", "left", "."]),
        ("went home.", "He went home.", ["He", "went", "home", "."]),
        ("he he left .", "He left.", ["", "He", "", "left", "."]),
    ],
)
def test_pairs_are_aligned_into_slots(reader, wrong, right, slots):
    words, found = correct_slots(reader, wrong, right)
    assert shown(reader, found) == slots
    assert len(found) == len(words) + 1


def test_slots_written_one_after_the_other_are_the_right_text(reader):
    maker = CorrectionMaker(reader, ASK_ALL)
    for seed in range(200):
        text = " ".join(random.Random(seed).sample(SENTENCES, 2))
        correction = maker.made(text, random.Random(seed))
        assert [slot for slot, _ in correction.slots] == list(range(len(correction.words) + 1))
        written = [token for _, inserted in correction.slots for token in inserted]
        assert reader.text(written) == text


def test_different_texts_are_no_correction(reader):
    assert correct_slots(reader, "one", " ".join(SENTENCES)) is None


def test_only_a_share_of_what_changes_nothing_is_asked_about(reader):
    maker = CorrectionMaker(reader, MODES)
    n_unchanged = n_words = 0
    for seed in range(300):
        correction = maker.made(SENTENCES[seed % 6], random.Random(seed))
        n_words += len(correction.words)
        n_unchanged += sum(not correction.changes(*pair) for pair in correction.slots)
    assert 0.2 < n_unchanged / n_words < 0.35


def test_variations_come_at_their_rates():
    found = Counter()
    for seed in range(900):
        text = varied('He said "It\'s me" to Anna.', VARIATION, random.Random(seed))
        found[text] += 1
    assert set(found) == {'he said "it\'s me" to anna.', 'He said "It\'s me" to Anna', "He said “It’s me” to Anna."}
    assert all(count > 240 for count in found.values())


# --- the stream ------------------------------------------------------------------------------------------------


class AsTheyAre:
    """An objective whose batches are the examples themselves."""

    def collate(self, examples):
        slots = [examples.slots.intervals(row) for row in range(len(examples.tokens))]
        return [tokens.tolist() for tokens in examples.tokens], slots

    def collate_corrections(self, corrections):
        return list(corrections)


@pytest.fixture
def new_stream(tmp_path, tokenizer, reader):
    path = tmp_path / "text.jsonl"
    articles = [random.Random(seed).sample(SENTENCES, 4) for seed in range(60)]
    path.write_text("".join(json.dumps({"sents": article}) + "\n" for article in articles))
    corpus = load_corpus([Source(path)], tokenizer, cache=tmp_path / "cache")
    pairs_path = tmp_path / "pairs.jsonl"
    pairs_path.write_text(json.dumps({"source": "He go home.", "target": "He goes home."}) + "\n")
    pairs = load_pairs([Source(pairs_path, holds_pairs=True)], reader, 100)

    def new_stream():
        settings = StreamSettings(
            window=2,
            least_window=1,
            whole_windows=False,
            max_tokens=200,
            empty_rate=0.1,
            max_slots=2,
            unit="word",
            sentence_rate=0.0,
            whole_rate=0.1,
            style_dropout=0.0,
            classifier_share=0.0,
            tokens_per_batch=1200,
            batches_per_step=2,
            seed=3,
        )
        rewriting = Rewriting(reader, VARIATION, CorrectionMaker(reader, MODES), pairs)
        return MicroBatches(corpus, AsTheyAre(), settings, rewriting, n_steps=50)

    return new_stream


def test_an_item_does_not_depend_on_what_was_asked_before(new_stream):
    n = 2 * len(new_stream().plan(0).batches) + 3
    stream = new_stream()
    in_order = [stream[number] for number in range(n)]
    numbers = random.Random(1).sample(range(n), n)
    stream = new_stream()
    out_of_order = {number: stream[number] for number in numbers}
    assert [out_of_order[number] for number in range(n)] == in_order


def test_every_epoch_has_both_objectives_and_all_pairs(new_stream, reader):
    stream = new_stream()
    n = len(stream.plan(0).batches)
    for epoch in range(2):
        items = [stream[number] for number in range(epoch * n, (epoch + 1) * n)]
        corrections = [correction for item in items if isinstance(item, list) for correction in item]
        n_insertions = sum(len(item[0]) for item in items if isinstance(item, tuple))
        assert 0.35 < len(corrections) / (len(corrections) + n_insertions) < 0.65
        texts = [shown(reader, correction.words) for correction in corrections]
        assert texts.count(["He", "go", "home", "."]) == 1


# --- pairs -----------------------------------------------------------------------------------------------------


def write_lines(path, lines) -> Source:
    path.write_text("".join(f"{line}\n" for line in lines))
    return Source(path)


def test_pairs_of_two_files(tmp_path, reader):
    wrong = Source(write_lines(tmp_path / "wrong.txt", ["He go home.", "", "Fine."]).path, "source")
    right = Source(write_lines(tmp_path / "right.txt", ["He goes home.", "", "Fine."]).path, "target")
    assert load_pairs([wrong, right], reader, 100).texts == [("He go home.", "He goes home."), ("Fine.", "Fine.")]
    short = Source(write_lines(tmp_path / "short.txt", ["He goes home."]).path, "target")
    with pytest.raises(CorpusError, match=r"short\.txt ends before line 2"):
        load_pairs([wrong, short], reader, 100)


def test_pairs_that_cannot_be_aligned_are_counted(tmp_path, reader):
    lines = [
        json.dumps({"source": "He go.", "target": "He goes."}),
        json.dumps({"source": "No.", "target": " ".join(SENTENCES)}),
    ]
    pairs = load_pairs([write_lines(tmp_path / "p.jsonl", lines)], reader, 100)
    assert (len(pairs), pairs.n_skipped) == (1, 1)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("{", "line 1: not valid JSON"), ('{"source": "x"}', "`source` and `target`"), ("[1]", "`source` and `target`")],
)
def test_what_is_no_pair_is_refused(tmp_path, reader, line, complaint):
    with pytest.raises(CorpusError, match=complaint):
        load_pairs([write_lines(tmp_path / "p.jsonl", [line])], reader, 100)


# --- the command -----------------------------------------------------------------------------------------------


def spoilt(words: list[str], draw: random.Random) -> list[str]:
    """The second word of a pair must go with the first; a wrong one has another number."""
    at = draw.randrange(len(words) // 2)
    words = list(words)
    words[2 * at + 1] = words[2 * at + 1][0] + str(draw.randrange(toy.N_PAIRS))
    return words


def test_a_model_learns_to_correct_from_pairs_alone(tmp_path):
    draw = random.Random(0)
    lines = []
    for text in toy.training_sentences(n=1500):
        wrong = spoilt(text.split(), draw) if draw.random() < 0.6 else text.split()
        lines.append(json.dumps({"source": " ".join(wrong), "target": text}))
    write_lines(tmp_path / "pairs.jsonl", lines)
    recipe = toy.write_recipe(
        tmp_path,
        data={"train": None, "pairs": "pairs.jsonl"},
        correction={"share": 0, "unchanged_share": 1},
        optim={"steps": 150, "eval_every": 50, "tokens_per_step": 1600, "tokens_per_batch": 800},
    )
    output = toy.train(recipe, tmp_path / "run")
    losses = toy.log_of(output, "eval_correction")
    assert losses[-1] < 0.5 * losses[0]
    assert json.loads((output / "config.json").read_text())["editor"]["context"]["correct"] is not None
