"""The default way to transfer, on a hand-made table of probabilities: no neural model, every decision known."""

import math

import pytest

from xl_editor.engine import Scored
from xl_editor.operations import carry_out
from xl_editor.operations.search import SearchRules, smallest_edits
from xl_editor.operations.transfer import SpecialTokens

END, BAD, GOOD, FINE, WORD, OTHER = range(6)


class Table:
    """BAD is negative, GOOD and FINE are positive, the rest is neutral; the likeliest filling is given."""

    def __init__(self, fillings=(((WORD,), -0.5), ((FINE,), -1.0), ((GOOD,), -2.5)), swing=3.0):
        self.fillings = fillings
        self.swing = swing

    def score(self, insertions):
        return [
            Scored(i.inserted, tuple(self._logprob(token, i.context.style) for token in (*i.inserted, END)))
            for i in insertions
        ]

    def _logprob(self, token, style):
        own = {BAD: "negative", GOOD: "positive", FINE: "positive"}.get(token, style)
        return -1.0 if own == style else -3.0

    def decode(self, contexts, decoding):
        assert decoding.n_best == decoding.beam
        assert decoding.with_empty
        best = [Scored(ids, (logprob,)) for ids, logprob in self.fillings[: decoding.n_best]]
        return [[*best, Scored((), (-1.0,))] for _ in contexts]

    def classify(self, texts):
        found = []
        for text in texts:
            logit = self.swing * sum({BAD: -1, GOOD: 1.1, FINE: 1}.get(token, 0) for token in text)
            p = 1 / (1 + math.exp(-logit))
            found.append({"negative": 1 - p, "positive": p})
        return found


def tokens_as_units(ids):
    return [(i, i + 1) for i in range(len(ids))]


SPECIAL = SpecialTokens(END)


def search(table, texts, rules, special=SPECIAL, kept=frozenset()):
    plans = [smallest_edits(ids, "negative", "positive", rules, tokens_as_units, special, kept) for ids in texts]
    return carry_out(table, plans)


def to_positive(*ids, table=None, kept=frozenset(), **rules):
    settings = {"margin": 2.0, "edit_cost": 0.25, "fluency": 0.1, "odds": 0.2, "n_gaps": 2, **rules}
    (revision,) = search(table or Table(), [ids], SearchRules(**settings), kept=kept)
    return revision


def test_what_stands_out_is_replaced_by_the_likeliest_that_convinces():
    revision = to_positive(WORD, BAD, OTHER)
    assert revision.ids == (WORD, FINE, OTHER)  # WORD is likelier but says nothing; GOOD says more but is less likely
    (step,) = revision.steps
    assert (step.start, step.end, step.inserted, step.log_f) == (1, 2, (FINE,), 2.0)
    assert step.style_before["positive"] < 0.1 < 0.9 < step.style_after["positive"]
    assert revision.stopped == "the style is sure"


def test_what_cannot_be_convinced_is_not_edited_for_nothing():
    revision = to_positive(WORD, BAD, OTHER, table=Table(swing=0.0), odds=0.0)
    assert revision.steps == ()
    assert revision.stopped == "no edit is worth its cost"


def test_a_text_that_is_sure_is_left_alone_however_much_stands_out():
    assert to_positive(GOOD, GOOD, GOOD, BAD).steps == ()


def test_smaller_edits_are_preferred():
    """Taking the neighbours out, too, would convince as well, and longer spans have the same log f."""
    table = Table(fillings=(((GOOD,), -1.0), ((GOOD, GOOD), -1.0)))
    assert to_positive(WORD, BAD, OTHER, table=table).ids == (WORD, GOOD, OTHER)


def test_several_steps_where_one_is_not_enough():
    table = Table(fillings=(((FINE,), -1.0),), swing=1.5)
    revision = to_positive(BAD, WORD, BAD, table=table, max_span=1)
    assert revision.ids == (FINE, WORD, FINE)
    assert len(revision.steps) == 2


def test_the_step_limit():
    table = Table(fillings=(((FINE,), -1.0),), swing=1.5)
    revision = to_positive(BAD, WORD, BAD, table=table, max_span=1, max_steps=1)
    assert len(revision.steps) == 1
    assert revision.stopped == "the limit of 1 steps"
    assert to_positive(BAD, max_steps=0).ids == (BAD,)


def test_a_word_that_only_has_to_go_is_deleted():
    table = Table(fillings=(((OTHER,), -9.0),))
    assert to_positive(GOOD, BAD, WORD, table=table, edit_cost=0.1).ids == (GOOD, WORD)


def test_an_insertion_where_nothing_stands_out():
    revision = to_positive(WORD, OTHER, threshold=1.0)
    assert sorted(revision.ids) == sorted((WORD, OTHER, FINE))
    assert revision.steps[0].start == revision.steps[0].end


def test_nothing_is_put_in_after_the_end_of_a_sentence():
    class LikesTheEnd(Table):
        def score(self, insertions):
            return [
                Scored(s.ids, (-1.0 if i.context.style == "negative" or i.context.parts[1] else -2.0,))
                for i, s in zip(insertions, super().score(insertions), strict=True)
            ]

    def searched(closing):
        rules = SearchRules(margin=2.0, n_gaps=1, threshold=5.0, max_steps=1)
        special = SpecialTokens(END, closing=frozenset(closing))
        (found,) = search(LikesTheEnd(), [(WORD, OTHER)], rules, special)
        return found.ids

    assert searched(closing=[]) == (WORD, OTHER, FINE)
    assert searched(closing=[OTHER]) != (WORD, OTHER, FINE)


def test_a_threshold_keeps_spans_from_being_tried():
    assert BAD in to_positive(WORD, BAD, threshold=2.1).ids
    assert BAD not in to_positive(WORD, BAD, threshold=2.0).ids


def test_a_text_never_becomes_empty():
    table = Table(fillings=())
    assert to_positive(BAD, table=table, edit_cost=0.0).ids == (BAD,)


@pytest.mark.parametrize("kept", [{1}, {0, 1, 2}])
def test_kept_words_are_never_edited(kept):
    revision = to_positive(WORD, BAD, OTHER, kept=frozenset(kept))
    assert BAD in revision.ids


def test_no_filling_is_looked_for_where_none_could_be_worth_its_cost():
    class Counts(Table):
        n_decoded = 0

        def decode(self, contexts, decoding):
            self.n_decoded += len(contexts)
            return super().decode(contexts, decoding)

    sure, unsure = Counts(), Counts()
    rules = {"n_spans": 6, "n_gaps": 2, "content": 0.05}
    assert to_positive(GOOD, WORD, GOOD, OTHER, table=sure, **rules).stopped == "the style is sure"
    assert sure.n_decoded == 0
    to_positive(WORD, BAD, OTHER, table=unsure, **rules)
    assert unsure.n_decoded > 0


@pytest.mark.parametrize("ids", [(WORD, BAD, OTHER), (BAD, GOOD, GOOD, WORD), (GOOD, OTHER, BAD, WORD, BAD)])
def test_what_is_not_looked_at_would_not_have_been_chosen(ids, monkeypatch):
    found = to_positive(*ids)
    monkeypatch.setattr("xl_editor.operations.search._most_worth", lambda *_: 1.0)
    assert to_positive(*ids) == found


def test_texts_searched_together_end_as_if_alone():
    texts = [(WORD, BAD, OTHER), (GOOD,), (BAD, BAD), (OTHER, WORD)]
    rules = SearchRules(margin=2.0)
    together = search(Table(), texts, rules)
    alone = [search(Table(), [ids], rules)[0] for ids in texts]
    assert together == alone


def test_a_number_is_put_in_only_where_one_was():
    table = Table(fillings=(((GOOD, OTHER), -0.1), ((FINE,), -1.0)))
    rules, special = SearchRules(margin=2.0, max_span=2), SpecialTokens(END, number=OTHER)

    def searched(*ids):
        return search(table, [ids], rules, special)[0].ids

    assert searched(WORD, BAD) == (WORD, FINE)
    assert searched(WORD, BAD, OTHER).count(OTHER) == 1


@pytest.mark.parametrize(
    ("filling", "start", "glues"),
    [((5,), 1, True), ((5,), 3, True), ((2,), 1, False), ((), 1, False), ((5,), 2, False)],
    ids=["before a word", "at the end", "a word of its own", "nothing", "within a word"],
)
def test_a_filling_does_not_go_on_with_a_word_that_had_ended(filling, start, glues):
    ids = (1, 2, 5)  # 1 and 2 begin words, 5 goes on with one
    assert SpecialTokens(END, opening=frozenset({1, 2})).glues(filling, ids, start) == glues
    assert not SPECIAL.glues(filling, ids, start)  # where every token is a word
