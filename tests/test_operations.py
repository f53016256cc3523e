"""The operations against their definitions in the paper, by brute force over a tiny model."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import tiny_engine
from xl_editor import operations
from xl_editor.engine import Context, Decoding, Engine, Insertion

WORDS = range(6, 10)
LONGEST = 4
texts = st.lists(st.sampled_from(list(WORDS)), min_size=3, max_size=6).map(tuple)
styles = st.sampled_from([None, "negative", "positive"])


@pytest.fixture(scope="module")
def engine() -> Engine:
    return tiny_engine()


def logprob(engine, left, y, right, style=None) -> float:
    return engine.score([Insertion(Context((tuple(left), tuple(right)), style), tuple(y))])[0].logprob


def carry_out(engine, plan):
    return operations.carry_out(engine, [plan])[0]


def all_insertions():
    return [y for n in range(LONGEST + 1) for y in itertools.product(WORDS, repeat=n)]


@settings(max_examples=15, deadline=None)
@given(texts, styles)
def test_locate_is_the_ranking_by_the_probability_of_nothing(engine, text, style):
    gaps = range(len(text) + 1)
    expected = sorted(gaps, key=lambda i: (round(logprob(engine, text[:i], (), text[i:], style), 4), i))
    found = carry_out(engine, operations.locate(text, list(gaps), style))
    assert [gap for gap, _ in found] == expected


@settings(max_examples=6, deadline=None)
@given(texts, st.data())
def test_replace_is_the_ranking_of_every_other_insertion_by_its_odds(engine, text, data):
    a = data.draw(st.integers(0, len(text) - 1))
    b = data.draw(st.integers(a + 1, min(len(text), a + 2)))
    standing = logprob(engine, text[:a], text[a:b], text[b:])
    odds = {y: logprob(engine, text[:a], y, text[b:]) - standing for y in all_insertions() if y != text[a:b]}
    expected = sorted(odds.values(), reverse=True)[:10]
    decoding = Decoding(n_best=10, beam=400, max_length=LONGEST)
    found = carry_out(engine, operations.replacements(text, (a, b), decoding))
    assert [alternative.log_odds for alternative in found] == pytest.approx(expected, abs=1e-4)
    for alternative in found:
        assert alternative.log_odds == pytest.approx(odds[alternative.inserted.ids], abs=1e-4)


@settings(max_examples=10, deadline=None)
@given(texts)
def test_delete_is_the_ranking_by_perplexity_ratio_by_the_rest_or_by_information(engine, text):
    spans = [(a, b) for a in range(len(text)) for b in range(a + 1, min(len(text), a + 2) + 1)]

    def ratio(span):
        a, b = span
        x = math.exp(-logprob(engine, text[:a], text[a:b], text[b:]) / (b - a + 1))
        nothing = 1 / math.exp(logprob(engine, text[:a], (), text[b:]))
        return x / nothing

    def perplexity_without(span):
        rest = text[: span[0]] + text[span[1] :]
        return math.exp(-logprob(engine, (), rest, ()) / (len(rest) + 1))

    found = carry_out(engine, operations.omissions(text, spans))
    assert [o.perplexity_ratio for o in found] == pytest.approx(sorted(map(ratio, spans), reverse=True), rel=1e-4)
    for omission in found:
        a, b = omission.span
        assert omission.perplexity_ratio == pytest.approx(ratio(omission.span), rel=1e-4)
        odds = logprob(engine, text[:a], (), text[b:]) - logprob(engine, text[:a], text[a:b], text[b:])
        assert omission.log_odds == pytest.approx(odds, abs=1e-4)
    ranked = carry_out(engine, operations.omissions(text, spans, by="rank"))
    assert [o.perplexity_without for o in ranked] == pytest.approx(sorted(map(perplexity_without, spans)), rel=1e-4)

    def information(span):
        a, b = span
        apart = logprob(engine, (), text[:a] + text[b:], ()) + logprob(engine, (), text[a:b], ())
        return (logprob(engine, (), text, ()) - apart) / (b - a + 1)

    informed = carry_out(engine, operations.omissions(text, spans, by="information"))
    assert [o.information for o in informed] == pytest.approx(sorted(map(information, spans)), abs=1e-4)
    for omission in informed:
        assert omission.information == pytest.approx(information(omission.span), abs=1e-4)


def test_a_text_and_nothing_tell_nothing_about_each_other(engine):
    (omission,) = carry_out(engine, operations.omissions((7, 8, 9), [(0, 3)], by="information"))
    assert omission.information == 0


@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(st.sampled_from(list(WORDS)), min_size=1, max_size=2).map(tuple), min_size=3, max_size=3))
def test_several_blanks_are_a_chain_with_open_slots(engine, parts):
    """Brute force over both blanks: the first with the second open, then the second with the first filled in."""
    short = [y for n in range(3) for y in itertools.product(WORDS, repeat=n)]
    chains = {}
    for y1 in short:
        first = engine.score([Insertion(Context(tuple(parts), slot=0), y1)])[0].logprob
        for y2 in short:
            left = parts[0] + y1 + parts[1]
            chains[y1, y2] = first + logprob(engine, left, y2, parts[2])
    expected = sorted(chains.values(), reverse=True)[:5]
    found = carry_out(engine, operations.infill(parts, Decoding(n_best=5, beam=len(short) ** 2, max_length=2)))
    assert [chain.logprob for chain in found] == pytest.approx(expected, abs=1e-4)
    for chain in found:
        assert chain.logprob == pytest.approx(chains[chain.inserted], abs=1e-4)


def test_sampled_chains_are_drawn_and_repeat_with_their_seed(engine):
    parts = [(6,), (7,), (8,)]
    decoding = Decoding(sample=True, n_best=6, seed=3, max_length=4)
    once = carry_out(engine, operations.infill(parts, decoding))
    again = carry_out(engine, operations.infill(parts, decoding))
    other = carry_out(engine, operations.infill(parts, Decoding(sample=True, n_best=6, seed=4, max_length=4)))
    assert len(once) == 6
    assert once == again
    assert once != other
