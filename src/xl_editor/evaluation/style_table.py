"""The table of style-transfer results, as Markdown and as JSON, published figures beside ours."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .bleu import Interval, PairedDifference
from .published import PAPER_NAMES, SOURCE, PublishedScores, published_scores
from .style import Judges, StyleScores
from .style_data import StyleData
from .tables import table_header, table_row, write_results

HEADER = table_header(
    *("system", "Acc", "n-gram Acc", "BLEU", "G", "n-gram G", "G of the mean Acc"),
    *("perplexity", "× input", "published Acc / BLEU / G"),
)
COMPARISON_HEADER = table_header(
    *("edited", "Acc", "n-gram Acc", "BLEU", "G", "n-gram G", "G of the mean Acc"),
    *("× perplexity", "changed texts", "× perplexity of these", "start insertions"),
)
OPERATIONS_HEADER = table_header("edited", "insertions", "replacements", "deletions", "texts changed")

Operations = Mapping[str, Mapping[str, int]]  # of each edited row: how often each operation was used


def markdown_table(rows: Sequence[StyleScores], data: StyleData, judges: Judges, used: Operations | None = None) -> str:
    """All rows, then the edited ones against what they were edited from, then how it was measured."""
    lines = [f"## Style transfer, {data.name}", "", HEADER, *(_row(row, data.name) for row in rows)]
    edited = [row for row in rows if row.comparison]
    if edited:
        lines += ["", "Before against after (paired bootstrap, 95 % intervals of the difference):", ""]
        lines += [COMPARISON_HEADER, *(_comparison_row(row) for row in edited)]
    if used:
        lines += ["", OPERATIONS_HEADER]
        lines += [table_row([name, *counts.values()]) for name, counts in used.items()]
    return "\n".join([*lines, "", *_notes(rows, data, judges), ""])


def json_table(
    rows: Sequence[StyleScores], data: StyleData, judges: Judges, used: Operations | None = None
) -> dict[str, Any]:
    """The same, for programs."""
    return {
        "data": data.name,
        "partial_training_split": data.has_partial_training,
        "published_source": SOURCE,
        "mean_acc_difference": mean_acc_difference(rows, data.name),
        "classifiers": [
            {"seed": judge.options.seed, **dataclasses.asdict(judge.report)} for judge in judges.classifiers
        ],
        "ngram_classifier": {"dev_accuracy": judges.ngram_classifier.dev_accuracy},
        "operations": used or {},
        "rows": [{**dataclasses.asdict(row), "published": _published_dict(row, data.name)} for row in rows],
    }


def write_table(
    rows: Sequence[StyleScores], data: StyleData, judges: Judges, directory: Path, used: Operations | None = None
) -> None:
    """Writes `style-DATA.md` and `style-DATA.json`."""
    markdown, as_json = markdown_table(rows, data, judges, used), json_table(rows, data, judges, used)
    write_results(directory, f"style-{data.name}", markdown, as_json)


def mean_acc_difference(rows: Sequence[StyleScores], data_name: str) -> float | None:
    """The mean absolute difference of Acc from the published one, over systems whose very outputs are scored.

    Edited rows are left out: their outputs are ours, so they need not have the published accuracy.
    """
    differences = [
        abs(row.acc - published.acc)
        for row in rows
        if row.comparison is None and (published := published_scores(data_name, row.name))
    ]
    return sum(differences) / len(differences) if differences else None


def _row(row: StyleScores, data_name: str) -> str:
    published = published_scores(data_name, row.name)
    cells = [
        _display_name(row.name),
        f"{row.acc:.1f} {_interval(row.acc_interval, 1)}",
        f"{row.ngram_acc:.1f} {_interval(row.ngram_acc_interval, 1)}",
        f"{row.bleu:.2f} {_interval(row.bleu_interval, 1)}",
        f"{row.g:.1f} {_interval(row.g_interval, 1)}",
        f"{row.ngram_g:.1f} {_interval(row.ngram_g_interval, 1)}",
        f"{row.mean_g:.1f} {_interval(row.mean_g_interval, 1)}",
        f"{row.ppl_median:.0f}",
        f"{row.ppl_ratio:.2f}",
        f"{published.acc:.1f} / {published.bleu:.2f} / {published.g:.1f}" if published else "–",
    ]
    return table_row(cells)


def _comparison_row(row: StyleScores) -> str:
    comparison = row.comparison
    assert comparison is not None
    cells = [
        _display_name(row.name),
        _difference(comparison.acc, 1),
        _difference(comparison.ngram_acc, 1),
        _difference(comparison.bleu, 2),
        _difference(comparison.g, 1),
        _difference(comparison.ngram_g, 1),
        _difference(comparison.mean_g, 1),
        f"{row.ppl_ratio:.2f}",
        f"{comparison.share_changed:.1%}",
        f"{comparison.ppl_ratio_of_changed:.2f}",
        f"{comparison.share_inserted_at_start:.1%}",
    ]
    return table_row(cells)


def _notes(rows: Sequence[StyleScores], data: StyleData, judges: Judges) -> list[str]:
    judged = ", ".join(f"seed {judge.options.seed}: {judge.report.dev_accuracy:.2f} %" for judge in judges.classifiers)
    notes = [
        f"- TextCNN on the development split: {judged}. Acc and G are by the mean over these classifiers.",
        "- n-gram Acc and G are by a classifier of another family, logistic regression over runs of one to three "
        f"words: {judges.ngram_classifier.dev_accuracy:.2f} % on the development split.",
    ]
    if len(judges.classifiers) > 1:
        widest = max(rows, key=lambda row: _spread(row.acc_of_each_classifier))
        spread = _spread(widest.acc_of_each_classifier)
        notes.append(f"- Between classifiers, Acc differs by at most {spread:.1f} points ({widest.name}).")
    difference = mean_acc_difference(rows, data.name)
    if difference is not None:
        notes.append(f"- Mean absolute difference from the published Acc: {difference:.2f} points.")
    if data.has_partial_training:
        notes.append("- Only a part of the training split was to be had: vocabulary and judges come from it.")
    notes.append(f"- Published figures: {SOURCE}.")
    notes += [f"- Signature: `{text}`" for text in dict.fromkeys(row.signature for row in rows)]
    return notes


def _published_dict(row: StyleScores, data_name: str) -> dict[str, float] | None:
    published: PublishedScores | None = published_scores(data_name, row.name)
    return dataclasses.asdict(published) if published else None


def _display_name(name: str) -> str:
    short = PAPER_NAMES.get(name, name)
    return name if short == name else f"{name} ({short})"


def _interval(interval: Interval, digits: int) -> str:
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _difference(pair: PairedDifference, digits: int) -> str:
    return (
        f"{pair.before:.{digits}f} → {pair.after:.{digits}f} "
        f"({pair.difference:+.{digits}f} [{pair.interval.low:+.{digits}f}, {pair.interval.high:+.{digits}f}])"
    )


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)
