"""The paper's first table of results, rebuilt: every model trained on the same articles for as long, and evaluated.

WORK/news-tasks-…/       the task sets
WORK/news-runs/          a directory for each run, named by its recipe: what is finished is used again, the rest goes on
                         with the same files
WORK/news-answers/       what each model answered, by its weights
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from xl_editor.model import load_config
from xl_editor.models import find_model
from xl_editor.training.card import SUMMARY_FILE, losses, plot_losses, signature
from xl_editor.training.corpus import Source
from xl_editor.training.recipe import DataRecipe, ModelRecipe, OptimRecipe, Recipe, SamplingRecipe, VocabularyRecipe
from xl_editor.training.run import RUN_FILE, train
from xl_editor.training.trainer import CHECKPOINTS, LOG_FILE, DivergedError, read_log
from xl_editor.training.vocabulary import pretrained_tokenizer

from .kept import claim
from .news import ANSWERS, evaluate_news
from .news_rules import open_rules
from .news_table import NewsRow, write_news_table
from .news_tasks import N_TASKS, NewsTasks, open_tasks, packed_or_not

BUNDLED = "news"  # the model that ships
STEPS = 2500  # an hour of two cores
LEARNING_RATES = {
    "xl-editor": (1e-3, 2e-3, 4e-3),
    "l2r": (1e-3, 2e-3, 4e-3),
    # 4e-3 is its best after a tenth of the steps, and leaves it far behind at the end.
    "seq2seq": (1e-3, 2e-3),
}
FINE_TUNING_RATES = (1e-5, 3e-5, 1e-4)
SEARCH_SHARE = 1 / 10  # of the steps, for each learning rate tried; in 70, an XLNet learns no more than unigrams
ABLATION_SHARE = 1 / 3
SEVERAL_SLOTS = 3


Curve = list[tuple[float, float]]


class InterruptedRunError(Exception):
    """A run was told to stop; its checkpoint is saved."""


@dataclass(frozen=True)
class TrainedRow:
    """A row before it is evaluated: a model and how it was trained."""

    name: str
    directory: Path
    recipe: Recipe | None  # of this table; the bundled model has others


def paper_recipe(data: Path) -> Recipe:
    """The paper's XL-Editor on news, as `recipes/news-paper.yaml` has it."""
    return Recipe(
        objective="xl-editor",
        data=DataRecipe(
            train=(Source(Path(packed_or_not(data, "train").name)),),
            dev=(Source(Path(packed_or_not(data, "valid").name)),),
            dir=data,
            window=3,
        ),
        vocabulary=VocabularyRecipe(kind="bpe", size=8000),
        model=ModelRecipe(dropout=0.0),
        optim=OptimRecipe(
            optimizer="muon",
            learning_rate=4e-3,
            tokens_per_step=8000,
            tokens_per_batch=4000,
            steps=STEPS,
            eval_every=500,
        ),
    )


def reproduce_news(
    recipe: Recipe,
    tasks: NewsTasks,
    work: Path,
    output: Path,
    *,
    steps: int = STEPS,
    init: str | None = None,
    console: Console | None = None,
) -> bool:
    """Train what is not yet trained, evaluate it and `news`, and write tables, curves and sampled infills.

    Args:
        recipe: the paper's, from which all rows are derived.
        tasks: what the models are asked.
        work: where runs and scores are kept.
        output: a directory.
        steps: of each row; its search for a learning rate takes a third of that on top.
        init: a pretrained XLNet, to be fine-tuned for two more rows.
        console: where progress is told.

    Returns:
        False if it was interrupted: the same call goes on.

    """
    runs = Runs(recipe, work / "news-runs", steps, console or Console(stderr=True, soft_wrap=True))
    groups: dict[str, list[NewsRow]] = {}
    curves: dict[str, dict[str, Curve]] = {}
    try:
        for group, row in _trained_rows(runs, init):
            # Of the baseline's shorter run the curve of Delete is wanted, and Infill takes it an hour.
            evaluated = _evaluated(row, tasks, work / ANSWERS, runs.console, with_infill=group != "a third")
            groups.setdefault(group, []).append(evaluated)
            if row.recipe:
                curves.setdefault(group, {})[row.name] = _curve(row.directory)
            # What is there is worth reading, though other rows still take hours.
            if len(groups["main"]) >= len(MAIN_ROWS):
                write_news_table(groups, tasks, output)
                picture = "news" if group == "main" else f"news-{group.replace(' ', '-')}"
                if group in curves:
                    plot_losses(curves[group], "passes over the corpus", output / f"{picture}.png")
    except InterruptedRunError:
        return False
    return True


def _trained_rows(runs: Runs, init: str | None) -> Iterator[tuple[str, TrainedRow]]:
    """With the group that each belongs to."""
    for name, objective in MAIN_ROWS.items():
        yield "main", runs.row(name, objective)
    if init is not None:
        for name, objective in {"L2R": "l2r", "XL-Editor": "xl-editor"}.items():
            yield "main", runs.row(f"XLNet fine-tuned as {name}", objective, init=init)
    yield "bundled", TrainedRow(BUNDLED, find_model(BUNDLED), None)
    for name in ("Transformer", "XL-Editor"):
        yield "empty_rate 0.1", runs.row(name, MAIN_ROWS[name], empty_rate=0.1)
    for name, (empty_rate, max_slots) in ABLATION.items():
        ablated = runs.row(name, "xl-editor", empty_rate=empty_rate, max_slots=max_slots, share=ABLATION_SHARE)
        yield "ablation", ablated
    # Beside the ablation's first row: how the margin over the best baseline moves with the steps.
    yield "a third", runs.row("XLNet L2R", "l2r", share=ABLATION_SHARE)


MAIN_ROWS = {"Transformer": "seq2seq", "XLNet L2R": "l2r", "XL-Editor": "xl-editor"}
ABLATION = {  # empty_rate, max_slots
    "empty_rate 0, one slot": (0.0, 1),
    "empty_rate 0.1, one slot": (0.1, 1),
    "empty_rate 0.2, one slot": (0.2, 1),
    "empty_rate 0, up to three slots": (0.0, SEVERAL_SLOTS),
}


@dataclass(frozen=True)
class Runs:
    """Trains the rows of the table, each with the learning rate that did best in short runs of its kind."""

    recipe: Recipe
    directory: Path
    steps: int
    console: Console

    def row(
        self,
        name: str,
        objective: str,
        *,
        empty_rate: float = 0.0,
        max_slots: int = 1,
        init: str | None = None,
        share: float = 1.0,
    ) -> TrainedRow:
        plain = replace(self.recipe, objective=objective)  # type: ignore[arg-type]  # one of the three
        if init is not None:
            plain = replace(plain, model=ModelRecipe(init=init), vocabulary=None)
        rate = self._best_rate(plain)
        sampling = SamplingRecipe(empty_rate=empty_rate, max_slots=max_slots)
        recipe = self._set(replace(plain, sampling=sampling), rate, share)
        return TrainedRow(name, self._trained(name, recipe), recipe)

    def _best_rate(self, recipe: Recipe) -> float:
        """By development loss. It is searched once an objective: rows that only sample other intervals share it."""
        rates = LEARNING_RATES[recipe.objective] if recipe.model.init is None else FINE_TUNING_RATES
        found = {}
        for rate in rates:
            short = self._set(recipe, rate, SEARCH_SHARE)
            try:
                log = read_log(self._trained(f"{recipe.objective}, learning rate {rate:g}", short) / LOG_FILE)
            except DivergedError:
                continue
            found[rate] = min(loss for _, loss in losses(log, "eval_loss"))
        if not found:
            raise DivergedError(f"{recipe.objective} diverges with every learning rate of {rates}.")
        return min(found, key=lambda rate: found[rate])

    def _set(self, recipe: Recipe, learning_rate: float, share: float) -> Recipe:
        steps = max(1, round(self.steps * share))
        return replace(recipe, optim=replace(recipe.optim, learning_rate=learning_rate, steps=steps))

    def _trained(self, name: str, recipe: Recipe) -> Path:
        # What is kept can be used with files that are packed otherwise: `claim` knows what they hold.
        train_file, dev_file = (Source(Path(f"{part}.jsonl")) for part in ("train", "dev"))
        unpacked = replace(recipe, data=replace(recipe.data, train=(train_file,), dev=(dev_file,)))
        output = self.directory / f"{recipe.objective}-{signature(unpacked)}"
        if not (output / SUMMARY_FILE).exists():
            self.console.print(f"{name}: training into {output}", highlight=False)
            if not train(recipe, output, resume=(output / RUN_FILE).exists(), console=self.console):
                raise InterruptedRunError
        shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)  # a finished run is not resumed
        return output


def _evaluated(row: TrainedRow, tasks: NewsTasks, kept_in: Path, console: Console, *, with_infill: bool) -> NewsRow:
    console.print(f"{row.name}: evaluating", highlight=False)
    rules, progress = open_rules(row.directory), console.is_terminal
    scores = evaluate_news(rules, tasks, kept_in, with_infill=with_infill, progress=progress)
    if row.recipe is None:
        return NewsRow(row.name, scores)
    seen = json.loads((row.directory / SUMMARY_FILE).read_text(encoding="utf-8"))
    return NewsRow(row.name, scores, seen["tokens"], seen["passes"], row.recipe.optim.learning_rate)


def _curve(directory: Path) -> Curve:
    """Development loss over passes."""
    seen = json.loads((directory / SUMMARY_FILE).read_text(encoding="utf-8"))
    points = losses(read_log(directory / LOG_FILE), "eval_loss")
    return [(step * seen["passes"] / seen["steps"], loss) for step, loss in points]


def reproduce(
    data: Path, work: Path, output: Path, steps: int = STEPS, init: str | None = None, n_tasks: int = N_TASKS
) -> bool:
    """`reproduce_news` for a data directory."""
    if init is not None:  # which is needed after hours: is it there, and an XLNet?
        pretrained_tokenizer(find_model(init))
        load_config(find_model(init))
    claim(work, "news-valid", [packed_or_not(data, "valid")])  # by which rates and checkpoints are chosen
    return reproduce_news(paper_recipe(data), open_tasks(data, work, n_tasks), work, output, steps=steps, init=init)
