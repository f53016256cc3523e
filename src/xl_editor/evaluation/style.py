"""Style transfer, measured: Acc, BLEU, G and fluency of a system's outputs, with intervals and a signature.

Nothing here knows how outputs are made. A system is two lists of texts (`SystemOutputs`); an editor's outputs
come in the same way, with `edited_from` set to what they were made from.
"""

import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from xl_editor.errors import RequestError

from .bleu import (
    Interval,
    PairedDifference,
    bleu_of_statistics,
    corpus_bleu,
    middle_95_percent,
    paired_difference,
    prepare_output,
    prepare_reference,
    resampling_weights,
    sentence_statistics,
)
from .fluency import ORDER, NgramModel
from .kept import claim
from .ngram_judge import CARD_FILE as NGRAM_CARD_FILE
from .ngram_judge import MIN_LINES as NGRAM_MIN_LINES
from .ngram_judge import ORDER as NGRAM_ORDER
from .ngram_judge import NgramClassifier, train_ngram_classifier
from .prefix import SMALL_CONFIG, SMALL_OPTIONS
from .style_data import DIRECTIONS, STYLES, StyleData, SystemOutputs
from .textcnn import (
    AMAZON_WIDTHS,
    CARD_FILE,
    UNFINISHED_FILE,
    YELP_WIDTHS,
    StyleClassifier,
    TextCNNConfig,
    TrainingOptions,
    train_textcnn,
)
from .words import split_words

N_BOOTSTRAP_SAMPLES = 1000
BOOTSTRAP_SEED = 0


@dataclass(frozen=True)
class Judges:
    """The models that measure. None of them may steer an edit."""

    classifiers: tuple[StyleClassifier, ...]  # the same TextCNN, one for each training seed
    language_model: NgramModel
    ngram_classifier: NgramClassifier  # out of the TextCNNs' family: what fools them need not fool it


@dataclass(frozen=True)
class Comparison:
    """Outputs against those that they were edited from."""

    edited_from: str
    acc: PairedDifference
    ngram_acc: PairedDifference
    bleu: PairedDifference
    g: PairedDifference
    ngram_g: PairedDifference
    mean_g: PairedDifference
    share_changed: float  # of the texts
    ppl_ratio_of_changed: float  # the median of after / before, over the changed texts only; 1 if there are none
    share_inserted_at_start: float  # of the texts: whether the first thing that an edit did was to prepend


@dataclass(frozen=True)
class StyleScores:
    """One row of the table. Acc, BLEU and G in per cent; Acc is the mean over the TextCNNs.

    The `ngram` ones are by the n-gram classifier; `mean_g` is G of the mean of the two Accs.
    """

    name: str
    acc: float
    ngram_acc: float
    bleu: float
    g: float
    ngram_g: float
    mean_g: float
    ppl_median: float
    ppl_ratio: float  # to the median perplexity of what went in: the source, or the outputs that were edited
    acc_interval: Interval
    ngram_acc_interval: Interval
    bleu_interval: Interval
    g_interval: Interval
    ngram_g_interval: Interval
    mean_g_interval: Interval
    acc_of_each_classifier: tuple[float, ...]
    comparison: Comparison | None  # for edited outputs only
    signature: str


@dataclass(frozen=True)
class _Sampled:
    """A figure on the test split and on resampled ones."""

    value: float
    samples: NDArray[np.float64]

    @property
    def interval(self) -> Interval:
        return middle_95_percent(self.samples)

    def mean(self, other: "_Sampled") -> "_Sampled":
        return _Sampled((self.value + other.value) / 2, (self.samples + other.samples) / 2)

    def g(self, bleu: "_Sampled") -> "_Sampled":
        """G, if this is Acc."""
        return _Sampled(geometric_mean(self.value, bleu.value), np.sqrt(self.samples * bleu.samples))

    def since(self, before: "_Sampled") -> PairedDifference:
        return paired_difference(before.value, self.value, before.samples, self.samples)


@dataclass(frozen=True)
class _Measurement:
    """The figures that outputs have; see `StyleScores`."""

    acc: _Sampled
    ngram_acc: _Sampled
    bleu: _Sampled
    acc_of_each_classifier: tuple[float, ...]
    bleu_signature: str

    @property
    def figures(self) -> dict[str, _Sampled]:
        return {
            "acc": self.acc,
            "ngram_acc": self.ngram_acc,
            "bleu": self.bleu,
            "g": self.acc.g(self.bleu),
            "ngram_g": self.ngram_acc.g(self.bleu),
            "mean_g": self.acc.mean(self.ngram_acc).g(self.bleu),
        }


def geometric_mean(acc: float, bleu: float) -> float:
    """G: the one figure in which style and content both count."""
    return float(np.sqrt(acc * bleu))


def evaluate_outputs(system: SystemOutputs, data: StyleData, judges: Judges) -> StyleScores:
    """Measures one system's outputs on the test split, both directions pooled."""
    check_lines(system, data)
    base = system.edited_from
    after = _measure(system, data, judges)
    inputs = (base or data.copy).pooled
    ppl_median = judges.language_model.median_perplexity(system.pooled)
    figures: dict[str, Any] = {name: found.value for name, found in after.figures.items()}
    figures |= {f"{name}_interval": found.interval for name, found in after.figures.items()}
    return StyleScores(
        name=system.name,
        **figures,
        ppl_median=ppl_median,
        ppl_ratio=ppl_median / judges.language_model.median_perplexity(inputs),
        acc_of_each_classifier=after.acc_of_each_classifier,
        comparison=_compare(base, system, data, judges, after) if base else None,
        signature=signature(after.bleu_signature, data, judges),
    )


def evaluate_systems(
    systems: Iterable[SystemOutputs], data: StyleData, judges: Judges, *, progress: bool = True
) -> list[StyleScores]:
    """Measures systems in the order given."""
    shown = track(list(systems), description=f"Scoring {data.name}", console=Console(stderr=True), disable=not progress)
    return [evaluate_outputs(system, data, judges) for system in shown]


def signature(bleu_signature: str, data: StyleData, judges: Judges) -> str:
    """How a row was measured, in one line."""
    seeds = ",".join(str(classifier.options.seed) for classifier in judges.classifiers)
    config = judges.classifiers[0].model.config
    return "|".join(
        [
            bleu_signature,
            f"ref:li.treebank.lc.unk<{data.min_count}",
            f"acc:textcnn.w{config.widths[0]}-{config.widths[-1]}.s{seeds}",
            f"ngram_acc:logreg.n1-{NGRAM_ORDER}.lines{NGRAM_MIN_LINES}",
            f"ppl:kn{ORDER}.median",
            f"bs:{N_BOOTSTRAP_SAMPLES}.s{BOOTSTRAP_SEED}",
        ]
    )


def inserts_at_start(before: str, after: str) -> bool:
    """Whether the words of `after` open with an insertion before those of `before`."""
    matcher = difflib.SequenceMatcher(a=split_words(before), b=split_words(after), autojunk=False)
    return [operation for operation, *_ in matcher.get_opcodes()][:1] == ["insert"]


def open_judges(data: StyleData, work_dir: Path, seeds: Sequence[int] = (0,), *, progress: bool = True) -> Judges:
    """Loads the judges of a data set from `work_dir`; what is not there yet is trained and saved there."""
    claim(work_dir, data.name, data.train_files.values())
    claim(work_dir, f"{data.name}-dev", data.dev_files.values())  # by which a judge's best weights are chosen
    widths = AMAZON_WIDTHS if data.name == "amazon" else YELP_WIDTHS
    classifiers = tuple(
        _open_classifier(
            data,
            work_dir / f"textcnn-{data.name}-seed{seed}",
            TextCNNConfig(widths=widths),
            TrainingOptions(seed=seed),
            progress=progress,
        )
        for seed in seeds
    )
    path = work_dir / f"fluency-{data.name}" / "fluency.npz"
    if not path.exists():
        NgramModel.train([line for style in STYLES for line in data.train_lines(style)]).save(path)
    directory = work_dir / f"ngrams-{data.name}"
    if not (directory / NGRAM_CARD_FILE).exists():  # it is written last
        if progress:
            print("Training the n-gram classifier, a few minutes", file=sys.stderr, flush=True)
        train_ngram_classifier({style: data.train_lines(style) for style in STYLES}, data.dev).save(directory)
    return Judges(classifiers, NgramModel.load(path), NgramClassifier.load(directory))


def open_prefix_classifier(data: StyleData, work_dir: Path, *, progress: bool = True) -> StyleClassifier:
    """The small classifier of the `Prefix` rows, loaded or trained like the judges."""
    directory = work_dir / f"prefix-{data.name}"
    return _open_classifier(data, directory, SMALL_CONFIG, SMALL_OPTIONS, progress=progress)


def _open_classifier(
    data: StyleData, directory: Path, config: TextCNNConfig, options: TrainingOptions, *, progress: bool
) -> StyleClassifier:
    if not (directory / CARD_FILE).exists():  # it is written last
        train = {style: data.train_lines(style) for style in STYLES}
        unfinished = directory / UNFINISHED_FILE
        train_textcnn(train, data.dev, config, options, unfinished=unfinished, progress=progress).save(directory)
        unfinished.unlink()
    return StyleClassifier.load(directory)


def _measure(system: SystemOutputs, data: StyleData, judges: Judges) -> _Measurement:
    outputs = [prepare_output(text, data.vocabulary) for text in system.pooled]
    references = [
        prepare_reference(text, data.vocabulary) for direction in DIRECTIONS for text in data.references[direction]
    ]

    def is_target_style(judge: StyleClassifier | NgramClassifier) -> NDArray[np.bool_]:
        return np.concatenate([judge.is_style(system.neg2pos, "pos"), judge.is_style(system.pos2neg, "neg")])

    hits = np.stack([is_target_style(judge) for judge in judges.classifiers])  # (classifiers, texts)
    weights = resampling_weights(len(outputs), N_BOOTSTRAP_SAMPLES, BOOTSTRAP_SEED)

    def acc(shares: NDArray[np.float64]) -> _Sampled:
        return _Sampled(100 * float(shares.mean()), 100 * (weights @ shares) / len(outputs))

    bleu = corpus_bleu(outputs, references)
    return _Measurement(
        acc=acc(hits.mean(axis=0)),
        ngram_acc=acc(is_target_style(judges.ngram_classifier).astype(np.float64)),
        bleu=_Sampled(bleu.score, bleu_of_statistics(weights @ sentence_statistics(outputs, references))),
        acc_of_each_classifier=tuple((100 * hits.mean(axis=1)).tolist()),
        bleu_signature=bleu.signature,
    )


def _compare(
    base: SystemOutputs, system: SystemOutputs, data: StyleData, judges: Judges, after: _Measurement
) -> Comparison:
    before = _measure(base, data, judges).figures
    pairs = list(zip(base.pooled, system.pooled, strict=True))
    changed = np.array([split_words(old) != split_words(new) for old, new in pairs])
    ppl_ratios = judges.language_model.perplexities(system.pooled) / judges.language_model.perplexities(base.pooled)
    return Comparison(
        edited_from=base.name,
        **{name: found.since(before[name]) for name, found in after.figures.items()},
        share_changed=float(changed.mean()),
        ppl_ratio_of_changed=float(np.median(ppl_ratios[changed])) if changed.any() else 1.0,
        share_inserted_at_start=float(np.mean([inserts_at_start(old, new) for old, new in pairs])),
    )


def check_lines(system: SystemOutputs, data: StyleData) -> None:
    for direction, texts in (("neg2pos", system.neg2pos), ("pos2neg", system.pos2neg)):
        n_expected = len(data.references[direction])
        if len(texts) != n_expected:
            raise RequestError(
                f"{system.name} has {len(texts)} outputs for {direction}, but the test split has {n_expected} texts."
            )
