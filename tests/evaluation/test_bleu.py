"""BLEU against values worked out by hand, and the bootstrap on cases whose answer is known."""

import math

import numpy as np
import pytest

from xl_editor.evaluation.bleu import (
    bleu_of_statistics,
    corpus_bleu,
    paired_difference,
    prepare_output,
    prepare_reference,
    resampling_weights,
    sentence_statistics,
)

REFERENCE = "the cat sat on a mat"


def random_texts(n_texts: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(list("abc"), size=random.integers(1, 12))) for _ in range(n_texts)]


def test_one_word_replaced_as_worked_out_by_hand() -> None:
    # matches 5/6, 3/5, 2/4, 1/3; equal lengths, so no brevity penalty
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert corpus_bleu(["the cat sat on the mat"], [REFERENCE]).score == pytest.approx(expected)


def test_brevity_penalty_as_worked_out_by_hand() -> None:
    # five of six words, all n-grams right: exp(1 − 6/5)
    assert corpus_bleu(["the cat sat on a"], [REFERENCE]).score == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_longer_output_has_no_brevity_penalty() -> None:
    # matches 6/7, 5/6, 4/5, 3/4
    expected = 100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25
    assert corpus_bleu([REFERENCE + " !"], [REFERENCE]).score == pytest.approx(expected)


def test_counts_are_pooled_over_the_corpus() -> None:
    # matches 6/7, 4/5, 3/3, 2/2 in all; the text of two words has no 4-gram and would score 0 alone
    score = corpus_bleu(["a x", "d e f g h"], ["a b", "d e f g h"]).score
    assert score == pytest.approx(100 * (6 / 7 * 4 / 5) ** 0.25)


def test_no_smoothing() -> None:
    assert corpus_bleu(["the cat sat here"], [REFERENCE]).score == 0


def test_nothing_is_tokenised_again() -> None:
    assert corpus_bleu(["a, b c d"], ["a , b c d"]).score < 100


def test_signature_says_how() -> None:
    signature = corpus_bleu([REFERENCE], [REFERENCE]).signature
    assert "tok:none" in signature
    assert "smooth:none" in signature
    assert "version:" in signature


def test_statistics_add_up_to_corpus_bleu() -> None:
    outputs, references = random_texts(60, seed=1), random_texts(60, seed=2)
    summed = sentence_statistics(outputs, references).sum(axis=0).astype(float)
    assert float(bleu_of_statistics(summed)) == pytest.approx(corpus_bleu(outputs, references).score)


def test_statistics_without_any_match_give_zero() -> None:
    assert bleu_of_statistics(sentence_statistics(["x"], ["y"]).astype(float)).tolist() == [0.0]


def test_empty_output_is_scored() -> None:
    outputs, references = ["", REFERENCE], ["something", REFERENCE]
    summed = sentence_statistics(outputs, references).sum(axis=0).astype(float)
    score = corpus_bleu(outputs, references).score
    assert score == pytest.approx(100 * math.exp(1 - 7 / 6))
    assert float(bleu_of_statistics(summed)) == pytest.approx(score)


def test_references_are_lowered_tokenised_and_masked() -> None:
    vocabulary = {"it", "'s", "small", ",", "but", "i", "ca", "n't", "complain", "."}
    text = prepare_reference("It's SMALL, but I can't complain about Zarathustra.", vocabulary)
    assert text == "it 's small , but i ca n't complain <unk> <unk> ."


def test_outputs_keep_their_words() -> None:
    assert prepare_output("It 's wasn't  odd .", {"it", "'s", "."}) == "it 's <unk> <unk> ."


def paired_bleu(before, after, references, seed=0):
    weights = resampling_weights(len(references), seed=seed)
    sides = [
        (corpus_bleu(outputs, references).score, bleu_of_statistics(weights @ sentence_statistics(outputs, references)))
        for outputs in (before, after)
    ]
    return paired_difference(*(side[0] for side in sides), *(side[1] for side in sides))


def test_bootstrap_of_the_same_outputs_finds_no_difference() -> None:
    outputs, references = random_texts(50, seed=1), random_texts(50, seed=2)
    result = paired_bleu(outputs, outputs, references)
    assert (result.difference, result.interval.low, result.interval.high, result.share_better) == (0, 0, 0, 0)


def test_bootstrap_is_sure_of_a_gain_in_every_sentence() -> None:
    references = [f"the cat sat on mat number {number}" for number in range(40)]
    before = [reference.replace("cat", "dog") for reference in references]
    result = paired_bleu(before, references, references)
    assert result.after == pytest.approx(100)
    # every sentence is the same, so every resampled corpus has the same difference
    assert result.interval.low == pytest.approx(result.difference)
    assert result.share_better == 1


def test_bootstrap_is_unsure_where_gains_and_losses_balance() -> None:
    references = [f"the cat sat on mat number {number}" for number in range(40)]
    worse = [reference.replace("cat", "dog") for reference in references]
    before = worse[:20] + references[20:]
    after = references[:20] + worse[20:]
    result = paired_bleu(before, after, references)
    assert result.difference == pytest.approx(0, abs=1e-9)
    assert result.interval.low < -5
    assert result.interval.high > 5
    assert 0.3 < result.share_better < 0.7


def test_bootstrap_is_seeded() -> None:
    before, after, references = (random_texts(50, seed) for seed in (1, 2, 3))
    first, again, other = (paired_bleu(before, after, references, seed) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_every_resampled_corpus_has_the_size_of_the_corpus() -> None:
    weights = resampling_weights(30, n_samples=200, seed=0)
    assert weights.shape == (200, 30)
    assert (weights.sum(axis=1) == 30).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(30), abs=0.3)


def test_different_numbers_of_lines_are_named() -> None:
    with pytest.raises(ValueError, match=r"2 outputs for 1 references"):
        corpus_bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match=r"1 outputs for 2 references"):
        sentence_statistics(["a"], ["a", "b"])


def test_nothing_to_score_is_said() -> None:
    with pytest.raises(ValueError, match="nothing to score"):
        corpus_bleu([], [])
