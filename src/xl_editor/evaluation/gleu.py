"""GLEU, by which JFLEG measures corrections (Napoles et al. 2015, 2016); not NLTK's measure of that name.

For a source S, a reference R and an output H, an order n of n-grams has so many matches:

    max(0, Σ min(H, R) − Σ min(H, S∖R))

where S∖R are the source's n-grams that the reference does not have: to keep what should have been changed costs as much
as to write what should be there gains. The rest is BLEU-4: matches over H's n-grams, summed over the corpus, the
geometric mean over n, and the brevity penalty. Each sentence draws one of its references, and the score is the mean
over many such draws. Texts are scored as they are: words are what stands between spaces, and case counts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xl_editor.errors import RequestError

from .bleu import Interval, bleu_of_statistics, middle_95_percent, resampling_weights

MAX_ORDER = 4
N_DRAWS = 500  # of references, as in the published script
N_BOOTSTRAP_SAMPLES = 1000
SEED = 0


@dataclass(frozen=True)
class Gleu:
    score: float  # the mean over the draws
    spread: float  # their standard deviation: what the choice of references alone makes
    interval: Interval  # of a bootstrap over the sentences, with the mean counts over their references
    signature: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def corpus_gleu(sources: Sequence[str], references: Sequence[Sequence[str]], outputs: Sequence[str]) -> Gleu:
    """GLEU of outputs against several files of references, all of them tokenised and in the same order."""
    statistics = gleu_statistics(sources, references, outputs)
    n_sentences, n_references, _ = statistics.shape
    random = np.random.default_rng(SEED)
    each = np.arange(n_sentences)

    def drawn() -> NDArray[np.int64]:
        return statistics[each, random.integers(n_references, size=n_sentences)]

    scores = bleu_of_statistics(np.stack([drawn().sum(axis=0) for _ in range(N_DRAWS)]).astype(np.float64))
    weights = resampling_weights(n_sentences, N_BOOTSTRAP_SAMPLES, SEED)
    resampled = bleu_of_statistics(weights @ statistics.mean(axis=1))
    return Gleu(
        score=float(scores.mean()),
        spread=float(scores.std()),
        interval=middle_95_percent(resampled),
        signature=f"gleu|nrefs:{n_references}|draws:{N_DRAWS}|seed:{SEED}|case:mixed|tok:none|order:{MAX_ORDER}"
        f"|bs:{N_BOOTSTRAP_SAMPLES}",
    )


def gleu_statistics(
    sources: Sequence[str], references: Sequence[Sequence[str]], outputs: Sequence[str]
) -> NDArray[np.int64]:
    """What BLEU is computed from, with GLEU's matches: (sentences, references, 10), columns as in `bleu`."""
    if not references:
        raise RequestError("GLEU needs at least one file of references.")
    if not sources:
        raise RequestError("There is nothing to score: no sources and no outputs.")
    for what, lines in (("outputs", outputs), *(("references", lines) for lines in references)):
        if len(lines) != len(sources):
            raise RequestError(f"There are {len(lines)} {what} for {len(sources)} sources: one each is needed.")
    statistics = np.zeros((len(sources), len(references), 2 + 2 * MAX_ORDER), dtype=np.int64)
    for of_sentence, source, output, *of_source in zip(statistics, sources, outputs, *references, strict=True):
        source_ngrams, output_ngrams = ngrams(source.split()), ngrams(output.split())
        totals = [found.total() for found in output_ngrams]
        for row, reference in zip(of_sentence, of_source, strict=True):
            pairs = zip(source_ngrams, ngrams(reference.split()), output_ngrams, strict=True)
            row[:] = [totals[0], len(reference.split()), *(_matches(*of_order) for of_order in pairs), *totals]
    return statistics


def ngrams(words: Sequence[str]) -> list[Counter[tuple[str, ...]]]:
    """How often each n-gram occurs, a counter for each order."""
    return [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for n in range(1, MAX_ORDER + 1)]


def _matches(
    source: Counter[tuple[str, ...]], reference: Counter[tuple[str, ...]], output: Counter[tuple[str, ...]]
) -> int:
    should_have_gone = Counter({ngram: count for ngram, count in source.items() if ngram not in reference})
    return max(0, (output & reference).total() - (output & should_have_gone).total())
