"""GLEU against a reference that is written as the definition reads, and properties that it must have."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xl_editor.evaluation.bleu import corpus_bleu
from xl_editor.evaluation.gleu import corpus_gleu

texts = st.lists(st.sampled_from("abc"), min_size=1, max_size=7).map(" ".join)
triples = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4)


def by_definition(sources, references, outputs):
    """One reference a source; every count is taken by looking for the n-gram everywhere."""

    def all_ngrams(text, n):
        words = text.split()
        return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]

    logs = []
    for n in range(1, 5):
        matches = total = 0
        for s, r, h in zip(sources, references, outputs, strict=True):
            of_source, of_reference, of_output = (all_ngrams(text, n) for text in (s, r, h))
            gained = sum(min(of_output.count(g), of_reference.count(g)) for g in set(of_output))
            lost = sum(min(of_output.count(g), of_source.count(g)) for g in set(of_output) if g not in of_reference)
            matches += max(0, gained - lost)
            total += len(of_output)
        if not matches:
            return 0.0
        logs.append(math.log(matches / total))
    n_output, n_reference = (sum(len(text.split()) for text in of) for of in (outputs, references))
    return 100 * math.exp(sum(logs) / 4 + min(0, 1 - n_reference / n_output))


@given(triples)
@settings(deadline=None, max_examples=50)
def test_it_is_what_the_definition_says(sentences):
    sources, references, outputs = zip(*sentences, strict=True)
    found = corpus_gleu(sources, [references], outputs)
    assert found.score == pytest.approx(by_definition(sources, references, outputs))
    assert found.spread == pytest.approx(0, abs=1e-9)  # there is nothing to draw


@given(triples)
@settings(deadline=None, max_examples=20)
def test_without_a_source_it_is_bleu(sentences):
    _, references, outputs = zip(*sentences, strict=True)
    found = corpus_gleu([""] * len(outputs), [references], outputs)
    assert found.score == pytest.approx(corpus_bleu(outputs, references).score)


def test_the_reference_has_full_marks_and_an_error_kept_costs_more_than_one_made():
    source, reference = (
        "every day she walk to school with a friend .",
        "every day she walks to school with her friend .",
    )
    half = "every day she walks to school with a friend ."
    other = "every day she walks to school with one friend ."  # as far from the reference, but not what the source had
    scores = [corpus_gleu([source], [[reference]], [output]).score for output in (reference, other, half, source)]
    assert scores[0] == pytest.approx(100)
    assert scores[1] > scores[2] > scores[3]


def test_references_are_drawn_alike_every_time_and_each_counts():
    sources, outputs = ["a b c d e"] * 40, [*["a b c d f"] * 30, *["a b c d g"] * 10]
    right, wrong = ["a b c d f"] * 40, ["a b c d e"] * 40
    found = corpus_gleu(sources, [right, wrong], outputs)
    assert found == corpus_gleu(sources, [right, wrong], outputs)
    assert corpus_gleu(sources, [wrong], outputs).score < found.score < 100
    assert found.spread > 0
    assert found.interval.low < found.score < found.interval.high
    assert found.signature.startswith("gleu|nrefs:2|draws:500|seed:0|case:mixed|tok:none")


@pytest.mark.parametrize(
    ("references", "outputs", "told"),
    [
        ([], ["a"], "at least one file of references"),
        ([["a", "b"]], ["a"], "2 references for 1 sources"),
        ([["a"]], [], "0 outputs for 1 sources"),
    ],
)
def test_what_does_not_fit_together_is_told(references, outputs, told):
    with pytest.raises(ValueError, match=told):
        corpus_gleu(["a"], references, outputs)
