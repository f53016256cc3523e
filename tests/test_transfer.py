"""Algorithm 1 on a hand-made table of probabilities: no neural model, every decision known."""

import math

import numpy as np
import pytest

from xl_editor.engine import Scored
from xl_editor.operations import carry_out
from xl_editor.operations.transfer import PaperRules, SpecialTokens, TextInProgress, algorithm_1, candidates

END, BAD, GOOD, WORD, OTHER, START = 0, 1, 2, 3, 4, 5
VOCABULARY = 6


class Table:
    """q(y | context, style) that depends on the style alone: BAD is negative, GOOD positive, the rest neutral.

    A style prefers its own word; `classify` counts BAD and GOOD.
    """

    def __init__(self, odds: float = 4.0, fill: dict[str, tuple[int, ...]] | None = None) -> None:
        self.odds = odds
        self.fill = fill or {"positive": (GOOD,), "negative": (BAD,)}
        self.batches: list[int] = []

    def word_logprob(self, word: int, style: str) -> float:
        mine = {BAD: "negative", GOOD: "positive"}.get(word)
        return -1.0 if mine is None else -1.0 if mine == style else -1.0 - self.odds

    def score(self, insertions):
        self.batches.append(len(insertions))
        return [
            Scored(i.inserted, tuple(self.word_logprob(w, i.context.style) for w in (*i.inserted, END)))
            for i in insertions
        ]

    def first_logprobs(self, contexts):
        rows = np.full((len(contexts), VOCABULARY), math.log(0.01))
        for row, context in zip(rows, contexts, strict=True):
            first = (*self.fill[context.style], END)[0]
            row[first] = math.log(0.9)
        return rows

    def decode(self, contexts, decoding):
        answers = []
        for context in contexts:
            y = self.fill[context.style]
            assert decoding.first == ((*y, END)[0],) or not y
            ids = () if decoding.first == (END,) else (decoding.first[0], *y[1:])
            answers.append([Scored(ids, (-0.5,) * (len(ids) + 1))])
        return answers

    def classify(self, texts):
        found = []
        for text in texts:
            p = 1 / (1 + math.exp(4 * (text.count(BAD) - text.count(GOOD))))
            found.append({"negative": 1 - p, "positive": p})
        return found


RULES = PaperRules(max_span=0, threshold=2.0)
SPECIAL = SpecialTokens(END)


def transfer(table, texts, rules=RULES, kept=()):
    plans = [algorithm_1(ids, "negative", "positive", rules, SPECIAL, *kept[i : i + 1]) for i, ids in enumerate(texts)]
    return carry_out(table, plans)


def to_positive(ids, table=None, preset=RULES, kept=frozenset()):
    (revision,) = transfer(table or Table(), [ids], preset, [kept])
    return revision


@pytest.mark.parametrize(("max_span", "n_candidates"), [(2, 41), (3, 49)])
def test_the_candidate_set_has_the_papers_bounds(max_span, n_candidates):
    n = 11
    found = list(candidates(n, max_span))
    literal = [
        (a, b) for a in range(1, n + 2) for b in range(1, n + 1) if -1 <= b - a <= max_span
    ]  # 1-based and inclusive, as printed
    assert found == [(a - 1, b) for a, b in literal]
    assert len(found) == n_candidates
    assert (0, 0) not in found  # no insertion before the first word
    assert (n, n) in found  # but one after the last


def test_what_stands_out_is_replaced_and_the_trace_tells():
    revision = to_positive((WORD, BAD, OTHER))
    assert revision.ids == (WORD, GOOD, OTHER)
    (step,) = revision.steps
    assert (step.start, step.end, step.inserted) == (1, 2, (GOOD,))
    assert step.log_f == pytest.approx(4.0)
    assert step.style_before["negative"] > 0.9 > step.style_after["negative"]
    assert revision.stopped == "nothing reaches the threshold"


def test_the_threshold_is_reached_by_equality_and_not_below():
    assert to_positive((WORD, BAD), Table(odds=2.0)).ids == (WORD, GOOD)
    untouched = to_positive(
        (WORD, BAD), Table(odds=1.99), PaperRules(max_span=0, threshold=2.0, forced_insertion=False)
    )
    assert untouched.ids == (WORD, BAD)
    assert not untouched.steps


def test_of_equals_the_first_wins():
    (step, *_) = to_positive((BAD, WORD, BAD)).steps
    assert (step.start, step.end) == (0, 1)
    (step, *_) = to_positive((WORD, BAD, WORD), preset=PaperRules(max_span=2, threshold=2.0)).steps
    assert (step.start, step.end) == (0, 2)  # WORD BAD, BAD, … have the same odds: the lowest position


def test_nothing_put_in_is_a_deletion():
    revision = to_positive((WORD, BAD, OTHER), Table(fill={"positive": (), "negative": (BAD,)}))
    assert revision.ids == (WORD, OTHER)
    assert revision.steps[0].inserted == ()


def test_two_texts_with_a_context_in_common_get_each_its_own_filling():
    """Before WORD BAD, one text takes a word out; the other, forced to insert, must not insert nothing there."""
    rules = PaperRules(max_span=0, threshold=2.0, max_steps=1)
    texts, kept = [(BAD, WORD, BAD), (WORD, BAD)], [frozenset({2}), frozenset({1})]
    table = Table(fill={"positive": (), "negative": (BAD,)})
    alone = [transfer(table, [ids], rules, [of_text])[0].ids for ids, of_text in zip(texts, kept, strict=True)]
    assert alone == [(WORD, BAD), (GOOD, WORD, BAD)]
    for order in (slice(None), slice(None, None, -1)):
        together = [revision.ids for revision in transfer(table, texts[order], rules, kept[order])]
        assert together == alone[order]


def test_an_insertion_is_never_empty():
    class Gap(Table):
        def score(self, insertions):
            """The end of the text is where the source style would leave things as they are."""
            return [
                Scored(i.inserted, (-1.0 if i.context.style == "negative" or i.context.parts[1] else -9.0,))
                for i in insertions
            ]

        def first_logprobs(self, contexts):
            rows = super().first_logprobs(contexts)
            rows[:, END] = [0.0 if c.style == "positive" else -9.0 for c in contexts]  # gains most, but is not allowed
            return rows

    revision = to_positive((WORD,), Gap(), PaperRules(max_span=-1, threshold=2.0, max_steps=1))
    assert revision.ids == (WORD, GOOD)


def test_forced_insertion_at_the_start_and_only_if_the_source_style_is_sure():
    table = Table(odds=0.0, fill={"positive": (START, GOOD), "negative": (BAD,)})
    forced = to_positive((BAD, WORD), table)
    assert forced.ids == (START, GOOD, BAD, WORD)
    assert forced.steps[0].log_f is None
    assert len(forced.steps) == 1
    assert forced.stopped == "nothing reaches the threshold"
    assert to_positive((WORD, OTHER), table).ids == (WORD, OTHER)  # p(negative) = 0.5
    off = to_positive((BAD, WORD), table, PaperRules(max_span=0, forced_insertion=False))
    assert off.ids == (BAD, WORD)


def test_forced_insertion_goes_on_while_the_source_style_is_sure():
    table = Table(odds=0.0, fill={"positive": (START, GOOD), "negative": (BAD,)})
    forced = to_positive((BAD, BAD, BAD, WORD), table)
    assert forced.ids == (START, GOOD, START, GOOD, START, GOOD, BAD, BAD, BAD, WORD)
    assert [step.log_f for step in forced.steps] == [None] * 3
    rules = PaperRules(max_span=0, threshold=2.0, max_steps=2)
    limited = to_positive((BAD, BAD, BAD, WORD), table, rules)
    assert len(limited.steps) == 2
    assert limited.stopped == "the limit of 2 steps"


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6, 1e-9])
def test_the_first_token_is_the_one_that_gains_most_however_flat_the_gains(scale):
    class Flat(Table):
        def first_logprobs(self, contexts):
            gains = np.array([0.0, 0.10, 0.20, 0.05, 0.19, 0.10])
            return [np.log(0.2 + scale * gains * (context.style == "positive")) for context in contexts]

        def decode(self, contexts, decoding):
            return [[Scored(decoding.first, (-0.5, -0.5))] for _ in contexts]

    assert to_positive((WORD, BAD, OTHER), Flat()).steps[0].inserted == (GOOD,)


def test_of_gains_that_only_rounding_parts_the_lowest_token_wins():
    class Tied(Table):
        def first_logprobs(self, contexts):
            gains = np.zeros(VOCABULARY)
            gains[[WORD, OTHER]] = 1e-5, 1e-5 + 1e-11
            return [np.log(0.1 + gains * (context.style == "positive")) for context in contexts]

        def decode(self, contexts, decoding):
            return [[Scored(decoding.first, (-0.5, -0.5))] for _ in contexts]

    assert to_positive((START, BAD), Tied()).steps[0].inserted == (WORD,)


def test_a_text_that_repeats_ends_the_loop():
    same = Table(fill={"positive": (BAD,), "negative": (WORD,)})
    revision = to_positive((WORD, BAD), same)
    assert revision.stopped == "the text repeats"
    assert revision.ids == (WORD, BAD)


def test_the_step_limit_ends_the_loop():
    revision = to_positive((BAD,) * 5, preset=PaperRules(max_span=0, threshold=2.0, max_steps=3))
    assert revision.ids == (GOOD, GOOD, GOOD, BAD, BAD)
    assert revision.stopped == "the limit of 3 steps"
    assert to_positive((BAD,), preset=PaperRules(max_steps=0)).ids == (BAD,)


def test_everything_may_go():
    gone = to_positive((BAD,), Table(fill={"positive": (), "negative": (BAD,)}))
    assert gone.ids == ()
    assert gone.stopped == "nothing is left"


def test_kept_words_are_never_edited_also_after_they_have_moved():
    table = Table(fill={"positive": (GOOD, OTHER), "negative": (BAD,)})
    revision = to_positive((BAD, WORD, BAD), table, kept=frozenset({2}), preset=PaperRules(max_span=1, threshold=2.0))
    assert revision.ids[-1] == BAD
    assert GOOD in revision.ids


def test_nothing_is_put_in_between_kept_tokens():
    text = TextInProgress((BAD, WORD, OTHER, BAD), "negative", frozenset({1, 2}), {}, set())
    allowed = [span for span in candidates(4, max_span=0) if text.may_edit(span)]
    assert allowed == [(0, 1), (1, 1), (3, 3), (3, 4), (4, 4)]  # not (2, 2), which parts them


def test_many_texts_advance_together_and_end_as_if_alone():
    texts = [(WORD, BAD, OTHER), (BAD, BAD), (WORD,), (GOOD, BAD, WORD, BAD)]
    alone = [to_positive(text) for text in texts]
    table = Table()
    together = transfer(table, texts)
    assert together == alone
    assert table.batches[0] == sum(
        2 * (2 * len(text)) for text in texts
    )  # one batch a round: n gaps, n words, 2 styles
