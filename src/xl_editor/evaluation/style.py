"""Style transfer, measured: Acc, BLEU, G and fluency of a system's outputs, with intervals and a signature.

Nothing here knows how outputs are made. A system is two lists of texts (`SystemOutputs`); an editor's outputs
come in the same way, with `edited_from` set to what they were made from.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Comparison:
    """Outputs against those that they were edited from."""

    edited_from: str
    acc: PairedDifference
    bleu: PairedDifference
    g: PairedDifference
    share_changed: float  # of the texts
    ppl_ratio_of_changed: float  # the median of after / before, over the changed texts only; 1 if there are none
    share_inserted_at_start: float  # of the texts: whether the first thing that an edit did was to prepend


@dataclass(frozen=True)
class StyleScores:
    """One row of the table. Acc, BLEU and G in per cent; Acc is the mean over the classifiers."""

    name: str
    acc: float
    bleu: float
    g: float
    ppl_median: float
    ppl_ratio: float  # to the median perplexity of what went in: the source, or the outputs that were edited
    acc_interval: Interval
    bleu_interval: Interval
    g_interval: Interval
    acc_of_each_classifier: tuple[float, ...]
    comparison: Comparison | None  # for edited outputs only
    signature: str


@dataclass(frozen=True)
class _Measurement:
    """Acc, BLEU and G on the test split and on resampled ones."""

    accs: NDArray[np.float64]  # one a classifier
    bleu: float
    bleu_signature: str
    acc_samples: NDArray[np.float64]
    bleu_samples: NDArray[np.float64]

    @property
    def acc(self) -> float:
        return float(self.accs.mean())

    @property
    def g(self) -> float:
        return geometric_mean(self.acc, self.bleu)

    @property
    def g_samples(self) -> NDArray[np.float64]:
        return np.sqrt(self.acc_samples * self.bleu_samples)


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
    return StyleScores(
        name=system.name,
        acc=after.acc,
        bleu=after.bleu,
        g=after.g,
        ppl_median=ppl_median,
        ppl_ratio=ppl_median / judges.language_model.median_perplexity(inputs),
        acc_interval=middle_95_percent(after.acc_samples),
        bleu_interval=middle_95_percent(after.bleu_samples),
        g_interval=middle_95_percent(after.g_samples),
        acc_of_each_classifier=tuple(after.accs.tolist()),
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
    return Judges(classifiers, NgramModel.load(path))


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
    # (classifiers, texts): whether each text is classed as the target style
    hits = np.stack(
        [
            np.concatenate([judge.is_style(system.neg2pos, "pos"), judge.is_style(system.pos2neg, "neg")])
            for judge in judges.classifiers
        ]
    )
    weights = resampling_weights(len(outputs), N_BOOTSTRAP_SAMPLES, BOOTSTRAP_SEED)
    bleu = corpus_bleu(outputs, references)
    return _Measurement(
        accs=100 * hits.mean(axis=1),
        bleu=bleu.score,
        bleu_signature=bleu.signature,
        acc_samples=100 * (weights @ hits.mean(axis=0)) / len(outputs),
        bleu_samples=bleu_of_statistics(weights @ sentence_statistics(outputs, references)),
    )


def _compare(
    base: SystemOutputs, system: SystemOutputs, data: StyleData, judges: Judges, after: _Measurement
) -> Comparison:
    before = _measure(base, data, judges)
    pairs = list(zip(base.pooled, system.pooled, strict=True))
    changed = np.array([split_words(old) != split_words(new) for old, new in pairs])
    ppl_ratios = judges.language_model.perplexities(system.pooled) / judges.language_model.perplexities(base.pooled)
    return Comparison(
        edited_from=base.name,
        acc=paired_difference(before.acc, after.acc, before.acc_samples, after.acc_samples),
        bleu=paired_difference(before.bleu, after.bleu, before.bleu_samples, after.bleu_samples),
        g=paired_difference(before.g, after.g, before.g_samples, after.g_samples),
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
