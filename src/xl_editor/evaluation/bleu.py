"""Corpus BLEU as the style-transfer literature computes it, and how sure a difference of two BLEUs is.

The score is Moses' `multi-bleu`: BLEU-4 over the whole corpus, one reference a text, no smoothing, texts as
they are tokenised. `sacrebleu` computes it. A corpus BLEU depends on its sentences only through ten sums (two
lengths, four matches, four totals), so a bootstrap adds up rows of those instead of scoring texts again.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from nltk.tokenize import NLTKWordTokenizer
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from xl_editor.errors import RequestError

from .words import UNKNOWN, split_words

# Columns of the sufficient statistics.
OUTPUT_LENGTH, REFERENCE_LENGTH, MATCHES, TOTALS = 0, 1, slice(2, 6), slice(6, 10)


@dataclass(frozen=True)
class Bleu:
    score: float
    signature: str  # how sacrebleu computed it


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of a bootstrap distribution."""

    low: float
    high: float


@dataclass(frozen=True)
class PairedDifference:
    """A score before and after a change of the outputs, on the same resampled sets of sentences."""

    before: float
    after: float
    interval: Interval  # of after − before
    share_better: float  # of the resampled sets on which "after" scores higher

    @property
    def difference(self) -> float:
        return self.after - self.before


def prepare_output(text: str, vocabulary: Collection[str]) -> str:
    """An output as it is scored: lower-cased, words as the system separated them, rare words masked."""
    return mask_unknown(split_words(text), vocabulary)


def prepare_reference(text: str, vocabulary: Collection[str]) -> str:
    """A human reference as it is scored: lower-cased, tokenised, rare words masked.

    People wrote the references as ordinary text. The tokenizer is the word part of NLTK's `word_tokenize`;
    its sentence splitter would need downloaded data, and every reference is one line.
    """
    return mask_unknown(NLTKWordTokenizer().tokenize(text.lower()), vocabulary)


def mask_unknown(words: Iterable[str], vocabulary: Collection[str]) -> str:
    """The words in a line, those outside the vocabulary replaced by `<unk>`."""
    return " ".join(word if word in vocabulary else UNKNOWN for word in words)


def corpus_bleu(outputs: Sequence[str], references: Sequence[str], tokenize: str = "none") -> Bleu:
    """BLEU of prepared outputs against prepared references, in the same order; or of texts that sacrebleu tokenises."""
    _check_aligned(outputs, references)
    # `force` silences sacrebleu's warning that the texts look tokenised: here they are meant to be.
    metric = BLEU(tokenize=tokenize, smooth_method="none", force=True)
    score = metric.corpus_score(list(outputs), [list(references)]).score
    return Bleu(score, str(metric.get_signature()))


def sentence_statistics(outputs: Sequence[str], references: Sequence[str], tokenize: str = "none") -> NDArray[np.int64]:
    """The ten sums of each sentence: (sentences, 10)."""
    _check_aligned(outputs, references)
    # The effective order changes a sentence's score, which is not used here, and spares a warning.
    metric = BLEU(tokenize=tokenize, smooth_method="none", force=True, effective_order=True)
    statistics = np.zeros((len(outputs), 10), dtype=np.int64)
    for row, output, reference in zip(statistics, outputs, references, strict=True):
        score = metric.sentence_score(output, [reference])
        row[:] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return statistics


def bleu_of_statistics(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of summed statistics, any number of corpora at once: (..., 10) -> (...)."""
    output_length, reference_length = statistics[..., OUTPUT_LENGTH], statistics[..., REFERENCE_LENGTH]
    with np.errstate(divide="ignore", invalid="ignore"):
        # No match at some order: log 0 = −∞, and the score is 0, as without smoothing it should be.
        mean_log_precision = np.log(statistics[..., MATCHES] / statistics[..., TOTALS]).mean(axis=-1)
        log_brevity_penalty = np.minimum(0.0, 1.0 - reference_length / output_length)
        score = 100 * np.exp(mean_log_precision + log_brevity_penalty)
    return np.nan_to_num(score)  # no words at all, or no 4-gram at all


def resampling_weights(n_sentences: int, n_samples: int = 1000, seed: int = 0) -> NDArray[np.float64]:
    """How often each sentence is drawn into each resampled corpus: (samples, sentences).

    The same seed draws the same sentences, which is what makes a comparison of two systems a paired one.
    """
    random = np.random.default_rng(seed)
    uniform = np.full(n_sentences, 1 / n_sentences)
    return random.multinomial(n_sentences, uniform, size=n_samples).astype(np.float64)


def middle_95_percent(samples: NDArray[np.float64]) -> Interval:
    """The percentile interval of bootstrap samples."""
    low, high = np.percentile(samples, [2.5, 97.5])
    return Interval(float(low), float(high))


def paired_difference(
    before: float, after: float, before_samples: NDArray[np.float64], after_samples: NDArray[np.float64]
) -> PairedDifference:
    """Compares two scores whose bootstrap samples were drawn with the same weights."""
    differences = after_samples - before_samples
    return PairedDifference(before, after, middle_95_percent(differences), float((differences > 0).mean()))


def _check_aligned(outputs: Sequence[str], references: Sequence[str]) -> None:
    if len(outputs) != len(references):
        raise RequestError(f"There are {len(outputs)} outputs for {len(references)} references: one each is needed.")
    if not outputs:
        raise RequestError("There is nothing to score: no outputs and no references.")
