"""The engine against brute force: a tiny model, every insertion enumerated."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import SPECIAL, STYLES, tiny_engine
from xl_editor.context import ContextFormat
from xl_editor.engine import DECIMALS, Context, Decoding, Engine, Insertion, _best
from xl_editor.errors import ModelError

WORDS = range(6, 10)  # a vocabulary of four words; see conftest for the rest
LONGEST = 4


@pytest.fixture(scope="module", params=["from scratch", "from XLNet"])
def engine(request) -> Engine:
    return tiny_engine(xlnet=request.param == "from XLNet")


def enumerate_insertions(longest: int = LONGEST) -> list[tuple[int, ...]]:
    return [y for n in range(longest + 1) for y in itertools.product(WORDS, repeat=n)]


def oracle(engine: Engine, context: Context, longest: int = LONGEST) -> list[tuple[tuple[int, ...], float]]:
    """Every insertion that is not longer, with its log-probability, computed one by one, best first."""
    found = []
    for y in enumerate_insertions(longest):
        (scored,) = engine.score([Insertion(context, y)])
        found.append((y, scored.logprob))
    return sorted(found, key=lambda pair: -pair[1])


words = st.lists(st.sampled_from(list(WORDS)), max_size=5).map(tuple)
contexts = st.builds(
    lambda parts, style, slot: Context(tuple(parts), style, slot % (len(parts) - 1)),
    st.lists(words, min_size=2, max_size=4),
    st.sampled_from([None, "negative", "positive"]),
    st.integers(0, 3),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.builds(Insertion, contexts, words), min_size=1, max_size=12), st.integers(8, 200))
def test_scores_depend_on_nothing_else_in_the_batch(engine, insertions, rows_at_once):
    alone = [engine.score([insertion])[0] for insertion in insertions]
    small = Engine(engine.model, engine.format, rows_at_once=rows_at_once)
    order = random.Random(0).sample(range(len(insertions)), len(insertions))
    for index, scored in zip(order, small.score([insertions[i] for i in order]), strict=True):
        assert scored.ids == insertions[index].inserted
        assert scored.token_logprobs == pytest.approx(alone[index].token_logprobs, abs=1e-5)


def test_a_context_asked_several_times_is_encoded_once_and_scores_the_same(engine, monkeypatch):
    context = Context(((6, 7), (8,)), "positive")
    insertions = [Insertion(context, y) for y in enumerate_insertions(2)]
    expected = [engine.score([insertion])[0].logprob for insertion in insertions]
    rows = []
    advance = engine.model.advance
    monkeypatch.setattr(
        engine.model, "advance", lambda ids, *a, **k: rows.append(tuple(ids.shape)) or advance(ids, *a, **k)
    )
    assert [s.logprob for s in engine.score(insertions)] == pytest.approx(expected, abs=1e-5)
    size = 3 + len(engine.format.right_end("positive"))
    assert rows[0] == (1, size)  # left, right and its end, once
    assert len(rows) == 2
    rows.clear()
    engine.score([insertions[0]] * 50)
    assert rows == [(1, size)]  # a question is answered once


def test_the_empty_insertion_is_among_the_answers_if_asked_for(engine):
    contexts = [Context(((6, 7), (8,)), "positive"), Context(((6,), (9, 8)), "negative")]
    for n in (1, 2, 40):
        plain, with_empty = (
            engine.decode(contexts, Decoding(n_best=n, beam=n, max_length=2, with_empty=asked))
            for asked in (False, True)
        )
        scores = engine.score([Insertion(context, ()) for context in contexts])
        for without, found, nothing in zip(plain, with_empty, scores, strict=True):
            assert found[: len(without)] == without
            assert [scored.ids for scored in found[len(without) :]] == [()] * all(scored.ids for scored in without)
            (empty,) = (scored for scored in found if not scored.ids)
            assert empty.logprob == pytest.approx(nothing.logprob, abs=1e-5)


def test_memory_is_bounded_by_the_budget_whatever_the_number_of_requests(engine, monkeypatch):
    small = Engine(engine.model, engine.format, rows_at_once=100)
    sizes = []
    advance = engine.model.advance

    def watched(ids, relation, **kwargs):
        sizes.append(relation.distance.shape[0] * relation.distance.shape[1])
        return advance(ids, relation, **kwargs)

    monkeypatch.setattr(engine.model, "advance", watched)
    contexts = [Context(((6,) * i, (7,) * j)) for i in range(12) for j in range(12)]
    small.score([Insertion(context, (8,)) for context in contexts])
    small.decode(contexts, Decoding(beam=2, n_best=2, max_length=4))
    assert max(sizes) <= 100


@settings(max_examples=10, deadline=None)
@given(contexts)
def test_a_beam_as_wide_as_the_enumeration_equals_it(engine, context):
    expected = oracle(engine, context)
    (found,) = engine.decode([context], Decoding(n_best=20, beam=400, max_length=LONGEST))
    assert [s.logprob for s in found] == pytest.approx([p for _, p in expected[:20]], abs=1e-4)
    assert len({s.ids for s in found}) == 20


@settings(max_examples=10, deadline=None)
@given(contexts, st.integers(1, 6))
def test_a_narrow_beam_never_exceeds_the_oracle_and_its_scores_are_scores(engine, context, beam):
    best = oracle(engine, context)[0][1]
    (found,) = engine.decode([context], Decoding(n_best=beam, beam=beam, max_length=LONGEST))
    assert found[0].logprob <= best + 1e-4
    scored = engine.score([Insertion(context, s.ids) for s in found])
    for hypothesis, score in zip(found, scored, strict=True):
        assert hypothesis.token_logprobs == pytest.approx(score.token_logprobs, abs=1e-5)
    ranks = [round(s.logprob, DECIMALS) for s in found]  # what is equal so far comes in another order
    assert ranks == sorted(ranks, reverse=True)


@settings(max_examples=10, deadline=None)
@given(contexts)
def test_a_wide_beginning_finds_all_that_is_short(engine, context):
    """All single tokens begin it, and each may end at once: so they are ranked as the oracle ranks them."""
    wide = Decoding(n_best=3, beam=3, first_beam=len(WORDS), max_length=LONGEST)
    (found,) = engine.decode([context], wide)
    short = [logprob for _, logprob in oracle(engine, context, longest=1)][:3]
    for one, at_least in zip(found, short, strict=True):
        assert one.logprob >= at_least - 1e-4
    assert len({s.ids for s in found}) == 3
    scored = engine.score([Insertion(context, s.ids) for s in found])
    assert [s.logprob for s in found] == pytest.approx([s.logprob for s in scored], abs=1e-4)


@settings(max_examples=15, deadline=None)
@given(contexts)
def test_beam_one_is_greedy_and_the_cache_equals_recomputation(engine, context):
    y: tuple[int, ...] = ()
    while True:  # greedy, a whole pass a token
        allowed = [*WORDS, engine.end] if len(y) < LONGEST else [engine.end]
        last = {}
        for token in allowed:
            inserted = y if token == engine.end else (*y, token)
            last[token] = engine.score([Insertion(context, inserted)])[0].token_logprobs[len(y)]
        token = max(last, key=lambda t: last[t])
        if token == engine.end:
            break
        y = (*y, token)
    (found,) = engine.decode([context], Decoding(max_length=LONGEST))
    assert [s.ids for s in found] == [y]


@settings(max_examples=10, deadline=None)
@example([Context(((), ())), Context(((9,), (), (9, 8), (7, 6, 9, 9)), "positive")])
@given(st.lists(contexts, min_size=2, max_size=6))
def test_decoding_depends_on_nothing_else_in_the_batch(engine, batch):
    for decoding in (
        Decoding(max_length=5),
        Decoding(n_best=3, beam=4, max_length=5),
        Decoding(n_best=3, beam=3, first_beam=8, max_length=5),
        Decoding(n_best=2, sample=True, top_k=3, seed=7, max_length=5),
    ):
        together = engine.decode(batch, decoding)
        for context, found in zip(batch, together, strict=True):
            for alone, beside in zip(engine.decode([context], decoding)[0], found, strict=True):
                # Values are compared rounded, and the last bits may carry one of two equals over a rounding's edge.
                assert alone.ids == beside.ids or alone.logprob == pytest.approx(beside.logprob, abs=1e-4)


def test_lengths_and_first_tokens_are_kept(engine):
    context = Context(((6, 7), (8,)))
    for decoding, holds in [
        (Decoding(beam=8, n_best=8, min_length=2, max_length=3), lambda y: 2 <= len(y) <= 3),
        (Decoding(beam=8, n_best=8, first=(7, 9), max_length=3), lambda y: y[0] in (7, 9)),
        (Decoding(beam=8, n_best=8, first_beam=20, min_length=2, max_length=3), lambda y: 2 <= len(y) <= 3),
        (Decoding(beam=8, n_best=8, first_beam=20, first=(7, 9), max_length=3), lambda y: y[0] in (7, 9)),
        (Decoding(sample=True, n_best=8, min_length=1, max_length=3), lambda y: 1 <= len(y) <= 3),
    ]:
        (found,) = engine.decode([context], decoding)
        assert len(found) == 8
        assert all(holds(s.ids) for s in found)
        assert not set(engine.not_text) & {t for s in found for t in s.ids}


def test_sampling_frequencies_match_the_probabilities(engine):
    context, n = Context(((6, 7), (8,))), 4000
    (drawn,) = engine.decode([context], Decoding(sample=True, n_best=n, max_length=1))
    logprobs = torch.from_numpy(engine.first_logprobs([context])[0])
    mass = {token: math.exp(float(logprobs[token])) for token in (*WORDS, engine.end)}
    total = sum(mass.values())  # what is no text is never drawn
    counts = Counter(s.ids[0] if s.ids else engine.end for s in drawn)
    for token, p in mass.items():
        p /= total
        assert abs(counts[token] / n - p) < 4 * math.sqrt(p * (1 - p) / n)  # four standard deviations


def test_nucleus_keeps_the_fewest_tokens_with_that_much_probability(engine):
    context = Context(((6, 7), (8,)))
    logprobs = torch.from_numpy(engine.first_logprobs([context])[0])
    allowed = [*WORDS, engine.end]
    probs = torch.tensor([math.exp(float(logprobs[t])) for t in allowed])
    order = (probs / probs.sum()).sort(descending=True)
    top = float(order.values[0]) + 1e-6
    likeliest = {allowed[int(i)] for i in order.indices[:2]}
    (drawn,) = engine.decode([context], Decoding(sample=True, n_best=200, top_p=top, max_length=1))
    assert {s.ids[0] if s.ids else engine.end for s in drawn} <= likeliest


def test_classifying_depends_on_nothing_else_in_the_batch(engine):
    texts = [tuple(random.Random(i).choices(list(WORDS), k=1 + i % 5)) for i in range(9)]
    together = engine.classify(texts)
    for text, found in zip(texts, together, strict=True):
        assert list(found) == ["negative", "positive"]
        assert sum(found.values()) == pytest.approx(1)
        assert engine.classify([text])[0] == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"n_best": 0}, "n_best must be at least 1"),
        ({"beam": 0}, "beam must be at least 1"),
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"min_length": 5, "max_length": 4}, "max_length must be at least 1 and min_length"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"n_best": 3, "beam": 2}, "n_best must be at most beam"),
    ],
)
def test_impossible_searches_are_refused(settings_, message):
    with pytest.raises(ValueError, match=message):
        Decoding(**settings_)


def test_bad_questions_are_refused(engine):
    with pytest.raises(ValueError, match="slot must lie within"):
        Context(((6,), (7,)), slot=1)
    with pytest.raises(ValueError, match="style must be one of negative, positive, got 'ironic'"):
        engine.score([Insertion(Context(((6,), ()), "ironic"), ())])
    with pytest.raises(ModelError, match="no END token"):
        Engine(tiny_engine(end_token_id=None).model, engine.format)


@pytest.mark.parametrize("n", [1, 3, 12])
def test_the_best_tokens_are_the_same_with_and_without_many_equals(n):
    torch.manual_seed(0)
    fine, coarse = torch.randn(5, 300), torch.randn(5, 300).mul(2).round()
    coarse[0] = -math.inf
    coarse[0, 7] = -1.0
    for logprobs in (fine, coarse, torch.zeros(2, 300)):
        values, ids = _best(logprobs, n)
        for row, of_row, values_of_row in zip(logprobs, ids, values, strict=True):
            key = [max(round(float(value) * 10**DECIMALS) if value > -math.inf else -1e9, -1e9) for value in row]
            assert of_row == sorted(range(300), key=lambda token: (-key[token], token))[:n]
            assert values_of_row == row[of_row].tolist()


# --- corrections -----------------------------------------------------------------------------------------------

CORRECTED = ContextFormat(**SPECIAL, styles=STYLES, correct=STYLES["positive"])
OLD_TEXTS = [((6,), (7, 8), (9,)), ((8,),), ((9, 9), (6,), (6,), (7,), (8,))]


def correcting_engine(xlnet: bool = False):
    engine = tiny_engine(xlnet)
    engine.format = replace(CORRECTED, xlnet=xlnet)
    return engine


@pytest.mark.parametrize("xlnet", [False, True])
def test_all_slots_of_a_text_are_answered_in_one_pass_as_one_by_one(xlnet):
    """The control token stands where a style's would, so an ordinary context with many slots says what is right."""
    engine = correcting_engine(xlnet)
    asked, expected = [], []
    for words in OLD_TEXTS:
        for slot in range(len(words) + 1):
            for inserted in (((), *words)[slot], (), (7,), (6, 9)):
                asked.append(Insertion(Context.behind(words, slot), inserted))
                expected.append(Insertion(Context(((), *words, ()), "positive", slot), inserted))
    assert_scores_agree(engine.score(asked), engine.score(expected))
    assert_scores_agree([engine.score([one])[0] for one in asked], engine.score(asked))


@pytest.mark.parametrize("xlnet", [False, True])
def test_a_slot_is_decoded_as_an_ordinary_one(xlnet):
    engine = correcting_engine(xlnet)
    how = Decoding(n_best=3, beam=4, max_length=3)
    contexts = [Context.behind(words, slot) for words in OLD_TEXTS for slot in range(len(words) + 1)]
    plain = [Context(c.parts, "positive", c.slot) for c in contexts]
    for found, expected in zip(engine.decode(contexts, how), engine.decode(plain, how), strict=True):
        assert_scores_agree(found, expected)
    mixed = engine.decode([contexts[0], plain[1], contexts[2]], how)
    assert [len(of_context) for of_context in mixed] == [3, 3, 3]


def assert_scores_agree(found, expected) -> None:
    assert [scored.ids for scored in found] == [scored.ids for scored in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-4)
