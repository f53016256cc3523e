"""The tables of Locate, Infill and Delete, as Markdown and as JSON, published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from .news import TOKENIZE, Measured, NewsScores, heuristics, random_choices
from .news_tasks import NewsTasks
from .published import PUBLISHED_NEWS
from .tables import table_header, table_row, write_results

N_SHOWN_INFILLS = 5
HEADER = table_header(
    "model", "Locate", "Infill", "Delete", "tokens", "passes", "learning rate", "published Locate / Infill / Delete"
)
TITLES = {
    "main": "Post-editing news",
    "bundled": "The general model that ships (how it was trained is on its card)",
    "empty_rate 0.1": "The same, empty intervals trained in one case of ten",
    "ablation": "What empty intervals and several slots do (a third of the steps each)",
    "a third": "A baseline after a third of the steps",
}


@dataclass(frozen=True)
class NewsRow:
    """A model, how it did and, if it was trained for the table, what it has seen."""

    name: str
    scores: NewsScores
    tokens: int | None = None
    passes: float | None = None
    learning_rate: float | None = None


def write_news_table(groups: Mapping[str, Sequence[NewsRow]], tasks: NewsTasks, directory: Path) -> None:
    """Writes `news.md`, `news.json` and `news-infills.md`."""
    write_results(directory, "news", markdown_table(groups, tasks), json_table(groups, tasks))
    (directory / "news-infills.md").write_text(sampled_infills(groups, tasks), encoding="utf-8")


def markdown_table(groups: Mapping[str, Sequence[NewsRow]], tasks: NewsTasks) -> str:
    lines = []
    for group, rows in groups.items():
        lines += [f"## {TITLES[group]}", "", HEADER]
        if group == "main":
            located, deleted = random_choices(tasks)
            lines.append(table_row(["Random", located, "–", deleted, "–", "–", "–", _published("Random")]))
        for row in rows:
            lines += _lines(row, with_published=group == "main")
        lines.append("")
    return "\n".join([*lines, *_notes(groups["main"], tasks), ""])


def json_table(groups: Mapping[str, Sequence[NewsRow]], tasks: NewsTasks) -> dict[str, Any]:
    """The same, for programs; what was filled in is left out."""

    def as_dict(row: NewsRow) -> dict[str, Any]:
        scores = {name: found for name, found in row.scores.to_dict().items() if not name.startswith("infilled")}
        return {**vars(row), "scores": scores}

    located, deleted = random_choices(tasks)
    return {
        "tasks": len(tasks.locate),
        "bleu_tokenizer": TOKENIZE,
        "random": {"locate": located.to_dict(), "delete": deleted.to_dict()},
        "points_above_chance": heuristics(tasks),
        "published": PUBLISHED_NEWS,
        "groups": {group: [as_dict(row) for row in rows] for group, rows in groups.items()},
    }


def sampled_infills(groups: Mapping[str, Sequence[NewsRow]], tasks: NewsTasks) -> str:
    """A few instances, chosen by a fixed seed, with what every model fills in."""
    lines = []
    for index in sorted(Random(0).sample(range(len(tasks.infill)), min(N_SHOWN_INFILLS, len(tasks.infill)))):
        task = tasks.infill[index]
        lines += [f"> {task.left} **[_]** {task.right}", "", table_header("", "what goes there")]
        lines.append(table_row(["**answer**", _cell(task.answer)]))
        for group, rows in groups.items():
            told = "" if group == "main" else f" ({group})"
            for row in rows:
                if row.scores.infilled:
                    lines.append(table_row([f"{row.name}{told}", _cell(row.scores.infilled[index])]))
                if row.scores.infilled_rank:
                    lines.append(table_row([f"{row.name} + rank{told}", _cell(row.scores.infilled_rank[index])]))
        lines.append("")
    return "\n".join(lines)


def _lines(row: NewsRow, *, with_published: bool) -> Iterator[str]:
    scores = row.scores
    ranked = f"{row.name} + rank"
    seen = ["–", "–", "–"]
    if row.tokens is not None:
        seen = [f"{row.tokens / 1e6:.1f}M", f"{row.passes:.2f}", f"{row.learning_rate:g}"]
    published = _published(row.name), _published(ranked)
    if not with_published:
        published = "", ""
    yield table_row([row.name, scores.locate, scores.infill or "–", scores.delete, *seen, published[0]])
    yield table_row([ranked, "–", scores.infill_rank or "–", scores.delete_rank, "", "", "", published[1]])
    yield table_row([f"{row.name}, by information", "–", "–", scores.delete_information, "", "", "", ""])


def _published(name: str) -> str:
    figures = PUBLISHED_NEWS.get(name)
    return " / ".join("–" if figure is None else f"{figure:.2f}" for figure in figures) if figures else "–"


def _notes(rows: Sequence[NewsRow], tasks: NewsTasks) -> Iterator[str]:
    yield (
        f"- {len(tasks.locate):,} instances of each task; in brackets the middle 95 % of a bootstrap over them, "
        "a paired one where two models are compared. "
        "Locate and Delete: per cent right; Infill: corpus BLEU of what was put in "
        f"(sacrebleu, {TOKENIZE}, no smoothing)."
    )
    by_name = {row.name: row.scores for row in rows}
    ours = by_name["XL-Editor"]
    baselines = {name: by_name[name] for name in ("XLNet L2R", "Transformer")}
    for name, scores in baselines.items():
        published = (PUBLISHED_NEWS["XL-Editor"][0] or 0) - (PUBLISHED_NEWS[name][0] or 0)
        margin = _margin(ours.locate, scores.locate)
        yield f"- Locate, XL-Editor before {name}: {margin} points (published {published:+.2f})."
    for task, best in {"Infill": _best_infill, "Delete, the paper's better way": _best_delete}.items():
        mine, theirs = best([ours]), best(list(baselines.values()))
        yield f"- {task}: XL-Editor {mine}, the best baseline {theirs}; {_margin(mine, theirs)}."
    theirs = max((scores.delete_information for scores in baselines.values()), key=lambda found: found.value)
    yield (
        '- "By information" is ours: the sentence goes that tells, and is told, least a token by the rest, '
        "log q(all) − log q(rest) − log q(sentence). "
        f"XL-Editor before the best baseline: {_margin(ours.delete_information, theirs)} points."
    )
    farthest = max(heuristics(tasks).items(), key=lambda found: abs(found[1]))
    yield f"- Rules that know no language are at most {abs(farthest[1]):.1f} points from chance ({farthest[0]})."
    yield "- Published figures: XL-Editor paper, CNN articles; what was fine-tuned there is XLNet-base."


def _margin(ours: Measured, other: Measured) -> str:
    ahead = ours - other
    return f"{ahead.value:+.2f} [{ahead.interval.low:+.1f}, {ahead.interval.high:+.1f}]"


def _best_infill(scores: Sequence[NewsScores]) -> Measured:
    tried = [found for of_row in scores for found in (of_row.infill, of_row.infill_rank) if found]
    return max(tried, key=lambda found: found.value)


def _best_delete(scores: Sequence[NewsScores]) -> Measured:
    tried = [found for of_row in scores for found in (of_row.delete, of_row.delete_rank)]
    return max(tried, key=lambda found: found.value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|") or "*(nothing)*"
