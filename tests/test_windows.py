"""Long texts: every question is asked among the sentences around it, so the cost is linear and nothing is refused."""

from itertools import pairwise
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xl_editor import operations
from xl_editor.engine import Scored
from xl_editor.errors import EditorError
from xl_editor.windows import WINDOW_TOKENS, Windows, sentence_spans

WORDS = ["the", "food", "was", "great", "and", "staff", "slow", "friendly", "we", "will", "come", "back"]


def text_of(n_sentences: int, seed: int = 0) -> str:
    random = Random(seed)
    return " ".join(" ".join(random.choices(WORDS, k=random.randint(5, 20))) + " ." for _ in range(n_sentences))


def n_rows_asked(editor, monkeypatch, call) -> int:
    """Content tokens and predicted rows of all that the engine is asked; nothing is computed."""
    asked = []

    def score(insertions):
        asked.extend(insertions)
        return [Scored(i.inserted, (-1.0,) * (len(i.inserted) + 1)) for i in insertions]

    with monkeypatch.context() as patch:
        patch.setattr(editor.engine, "score", score)
        call(editor)
    return sum(sum(map(len, i.context.parts)) + 2 * len(i.inserted) + 1 for i in asked)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.data())
def test_a_window_is_bounded_and_has_neighbours_on_both_sides(sizes, data):
    bounds = [0]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    windows = Windows(bounds)
    first = data.draw(st.integers(0, bounds[-1]))
    low, high = windows.around(first, first)
    assert low <= first <= high
    own = max(i for i, bound in enumerate(bounds[:-1]) if bound <= first)
    assert low <= bounds[max(0, own - 1)]
    assert high >= bounds[min(len(sizes), own + 2)]
    assert high - low <= max(WINDOW_TOKENS, sum(sizes[max(0, own - 1) : own + 2]))
    if bounds[-1] <= WINDOW_TOKENS:
        assert (low, high) == (0, bounds[-1])
    for wider in (low - 1, high + 1):  # no more would fit
        if 0 <= wider <= bounds[-1]:
            i, j = bounds.index(low), bounds.index(high)
            grown = bounds[j] - bounds[i - 1] if wider < low else bounds[j + 1] - bounds[i]
            assert grown > WINDOW_TOKENS


def test_a_sentence_without_end_comes_in_parts_of_whole_words(editor):
    encoded = editor.codec.encode("the food was great " * 200)
    spans = sentence_spans(encoded)
    assert [a for a, _ in spans[1:]] == [b for _, b in spans[:-1]]
    assert (spans[0][0], spans[-1][1]) == (0, len(encoded.ids))
    assert max(b - a for a, b in spans) <= WINDOW_TOKENS // 2
    assert {a for a, _ in spans} <= {word.first for word in encoded.words}


def test_a_text_that_fits_a_window_is_asked_about_as_a_whole(editor):
    text = text_of(7)
    encoded = editor.codec.encode(text)
    assert 60 < len(encoded.ids) <= WINDOW_TOKENS
    gaps = [word.first for word in encoded.words] + [len(encoded.ids)]
    spans = sentence_spans(encoded)
    plans = [operations.locate(encoded.ids, gaps)]
    measures = get_args(operations.Measure)
    plans += [operations.omissions(encoded.ids, spans, by=measure) for measure in measures]
    located, *deleted = (operations.carry_out(editor.engine, [plan])[0] for plan in plans)  # in the same batches
    assert [(s.char, s.logprob_end) for s in editor.locate(text, top=1000)] == [
        (encoded.slot(g), p) for g, p in located
    ]
    for expected, measure in zip(deleted, measures, strict=True):
        found = editor.delete(text, top=100, by=measure)
        assert [d.start for d in found] == [encoded.slot(omission.span[0]) for omission in expected]
        assert [d.perplexity_ratio for d in found] == [omission.perplexity_ratio for omission in expected]
        assert [d.perplexity_without for d in found] == [omission.perplexity_without for omission in expected]
        assert [d.information for d in found] == [omission.information for omission in expected]


def test_in_a_long_text_a_place_is_judged_by_the_sentences_around_it(editor):
    text = text_of(25)
    encoded = editor.codec.encode(text)
    windows = Windows.of(encoded)
    slots = {slot.char: slot for slot in editor.locate(text, top=10_000)}
    assert sorted(slots) == sorted(encoded.slot(gap) for gap in [*(w.first for w in encoded.words), len(encoded.ids)])
    n_compared = 0
    for word in encoded.words[::17]:
        low, high = windows.around(word.first, word.first)
        part = text[encoded.slot(low) : encoded.slot(high)].rstrip()
        char = encoded.slot(word.first) - encoded.slot(low)
        alone = {slot.char: slot.logprob_end for slot in editor.locate(part, top=1000)}
        if len(editor.codec.encode(part).ids) <= WINDOW_TOKENS:
            assert slots[encoded.slot(word.first)].logprob_end == pytest.approx(alone[char], abs=1e-4)
            n_compared += 1
    assert n_compared > 2


@pytest.mark.parametrize("unit", ["word", "sentence"])
@pytest.mark.parametrize("measure", get_args(operations.Measure))
def test_deletions_of_a_long_text_are_where_they_say(editor, unit, measure):
    text = text_of(25)
    found = editor.delete(text, unit=unit, top=10_000, by=measure)
    assert len(found) == (25 if unit == "sentence" else len(text.split()))
    for deletion in found[::11]:
        assert text[deletion.start : deletion.end] == deletion.removed
        assert len(deletion.text.split()) == len(text.split()) - len(deletion.removed.split())


@pytest.mark.parametrize("call", [lambda e, t: e.locate(t), lambda e, t: e.delete(t), lambda e, t: e.delete(t, "word")])
def test_the_work_grows_with_the_length_and_no_more(editor, monkeypatch, call):
    sentences = [f"{sentence} ." for sentence in text_of(320).split(" .") if sentence]
    texts = [" ".join(sentences[:n]) for n in (40, 80, 160, 320)]
    work = [n_rows_asked(editor, monkeypatch, lambda e, text=text: call(e, text)) for text in texts]
    for less, more in pairwise(work):
        assert 1.8 < more / less < 2.2


def test_a_bar_can_be_watched_and_changes_nothing(editor, monkeypatch):
    text = text_of(20)
    alone = editor.locate(text, top=3)
    shown = []
    monkeypatch.setattr("xl_editor.operations.editing.QUESTIONS_AT_ONCE", 100)
    monkeypatch.setattr("xl_editor.editor.track", lambda portions, what, **how: shown.append(how) or portions)
    assert [slot.char for slot in editor.locate(text, top=3, progress=True)] == [slot.char for slot in alone]
    assert len(shown) == 1
    editor.locate(text, top=3)
    editor.locate("the food was great .", progress=True)
    assert len(shown) == 1  # what nobody watches, or is soon done, has none


@pytest.mark.parametrize("length", [30, 300])
def test_what_is_filled_in_a_long_text_is_filled_among_its_neighbours(editor, length):
    before, after = text_of(length, seed=1), text_of(length, seed=2)
    (filling,) = editor.infill(f"{before} the food was [_] . {after}", n=1, max_length=3)
    start, end = filling.spans[0]
    assert filling.text[:start].rstrip() == f"{before} the food was"
    assert filling.text[end:].lstrip() == f". {after}"
    (edit,) = editor.replace(f"{before} the pizza was cold . {after}", "pizza", n=1, max_length=3)
    assert edit.start == len(before) + 5


def test_what_is_far_away_does_not_count(editor):
    near = text_of(100)
    scores = [editor.score(f"{text_of(100, seed)} {near} the", "food", "was great .").logprob for seed in (1, 2)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_a_word_that_no_window_holds_is_refused(editor, monkeypatch):
    monkeypatch.setattr("xl_editor.editor.MAX_TOKENS", 0)
    with pytest.raises(EditorError, match="text has a word of 1 tokens; at most 0 are accepted"):
        editor.locate("food")
