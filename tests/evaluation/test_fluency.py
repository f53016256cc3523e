"""Properties of the 5-gram model: proper distributions, Kneser-Ney's continuation counts, the way to disk."""

from pathlib import Path

import numpy as np
import pytest

from xl_editor.evaluation.fluency import END_ID, NgramModel, count_ngrams


def toy_lines(n_lines: int = 400, seed: int = 0) -> list[str]:
    """A Markov chain over words of very different frequencies, so that every discount can be estimated."""
    random = np.random.default_rng(seed)
    words = [f"w{index}" for index in range(60)]
    weights = 1 / np.arange(1, 61)
    lines = []
    for _ in range(n_lines):
        line = [int(random.choice(60, p=weights / weights.sum()))]
        while random.random() < 0.85:
            step = random.choice([1, 3, int(random.integers(60))])
            line.append((line[-1] + int(step)) % 60)
        lines.append(" ".join(words[index] for index in line))
    return lines


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return NgramModel.train([*toy_lines(), "once only"])


@pytest.mark.parametrize(
    "context",
    [
        "",
        "w0",
        "w0 w1",
        "w0 w1 w2 w3",
        "w0 w1 w2 w3 w4 w5",
        "w59 w0 w59 w0",
        "never",
        "never seen w3",
        "w3 never",
    ],
)
def test_probabilities_sum_to_one_over_the_vocabulary(model: NgramModel, context: str) -> None:
    known = [word for word in model.counts.vocabulary if not word.startswith("<")]
    place = len(context.split())
    next_word = [logprobs[place] for logprobs in model.word_logprobs([f"{context} {word}" for word in known])]
    end = model.word_logprobs([context])[0][-1]
    unknown = model.word_logprobs([f"{context} unheard-of"])[0][place]
    # the model splits the unknown word's mass over the types that it stands for
    total = np.exp(next_word).sum() + np.exp(end) + model.counts.n_unknown_types * np.exp(unknown)
    assert total == pytest.approx(1, abs=1e-4)


def test_counts_by_hand() -> None:
    counts = count_ngrams(["a b", "a b", "c b", "c c"], order=2)
    ids = {word: index for index, word in enumerate(counts.vocabulary)}
    continuation = counts.counts[0]
    assert continuation[ids["b"]] == 2  # after a, c
    assert continuation[ids["c"]] == 2  # after the start, c
    assert continuation[ids["a"]] == 1  # after the start
    assert continuation[END_ID] == 2  # after b, c
    bigrams = dict(zip(counts.keys[1].tolist(), counts.counts[1].tolist(), strict=True))
    assert bigrams[ids["a"] * len(ids) + ids["b"]] == 2


def test_probability_by_hand() -> None:
    # Too few counts to estimate discounts: 0.5, 1, 1.5 for counts 1, 2, ≥ 3.
    model = NgramModel(count_ngrams(["a b", "a b", "a c", "a c"], order=2, min_count=1))
    # Unigrams: a, b, c follow one word each, the end two; total 5, of it 0.5 + 0.5 + 0.5 + 1 withheld.
    # The vocabulary is a, b, c, end and unknown.
    unigram_b = (1 - 0.5) / 5 + 2.5 / 5 * (1 / 5)
    # After a: b twice, c twice; 1 + 1 of 4 withheld.
    expected = (2 - 1) / 4 + 2 / 4 * unigram_b
    assert np.exp(model.word_logprobs(["a b"])[0][1]) == pytest.approx(expected, rel=1e-5)
    # b after b was never seen: the whole of what is withheld after b (1 of 2) times the unigram.
    assert np.exp(model.word_logprobs(["b b"])[0][1]) == pytest.approx(1 / 2 * unigram_b, rel=1e-5)


def test_a_word_of_few_contexts_is_unlikely_elsewhere() -> None:
    """The point of Kneser-Ney: "francisco" is frequent, but only after "san"."""
    lines = ["we like san francisco"] * 8 + [
        f"{word} glasses" for word in ["the", "my", "your", "his", "her", "our", "their", "a"]
    ]
    francisco, glasses = NgramModel.train(lines + lines).word_logprobs(["unheard francisco", "unheard glasses"])
    assert francisco[1] < glasses[1] - 1


def test_longer_contexts_are_used() -> None:
    lines = ["p q r s yes", "x q r s no"] * 20
    model = NgramModel.train(lines)
    yes, no = model.word_logprobs(["p q r s yes", "p q r s no"])
    assert yes[4] > no[4] + 2


def test_seen_lines_are_more_fluent_than_shuffled_ones(model: NgramModel) -> None:
    random = np.random.default_rng(5)
    held_out = [line for line in toy_lines(200, seed=9) if len(line.split()) > 4]
    shuffled = [" ".join(random.permutation(line.split())) for line in held_out]
    assert model.median_perplexity(held_out) < 0.8 * model.median_perplexity(shuffled)


def test_perplexity_counts_the_end(model: NgramModel) -> None:
    logprobs = model.word_logprobs(["w0 w1"])[0]
    assert len(logprobs) == 3
    assert model.perplexities(["w0 w1"])[0] == pytest.approx(np.exp(-logprobs.sum() / 3))


def test_one_text_is_scored_as_among_others(model: NgramModel) -> None:
    texts = ["w0 w1 w2", "", "w5", "w9 never w9"]
    together = model.perplexities(texts)
    assert together.tolist() == [model.perplexities([text])[0] for text in texts]


def test_a_written_out_unknown_word_is_an_unknown_word(model: NgramModel) -> None:
    written_out = ["w0 <unk> w1", "w0 </s> w1", "w0 <s> w1"]
    expected = model.perplexities(["w0 unheard-of w1"] * 3)
    assert model.perplexities(written_out).tolist() == expected.tolist()


def test_round_trip(model: NgramModel, tmp_path: Path) -> None:
    path = tmp_path / "new" / "fluency.npz"
    model.save(path)
    texts = [*toy_lines(20, seed=3), "never seen"]
    assert NgramModel.load(path).perplexities(texts).tolist() == model.perplexities(texts).tolist()
    with np.load(path, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_bad_input_is_named(model: NgramModel, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No n-gram model at .*absent\.npz"):
        NgramModel.load(tmp_path / "absent.npz")
    with pytest.raises(ValueError, match="at least one line"):
        NgramModel.train([])
    with pytest.raises(ValueError, match="no text"):
        model.median_perplexity([])
