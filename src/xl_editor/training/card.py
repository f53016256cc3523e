"""What a run leaves beside its model: a card that says what it is, and its learning curve."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from xl_editor.files import write_whole
from xl_editor.training.corpus import Counts
from xl_editor.training.recipe import Recipe
from xl_editor.training.trainer import LOG_FILE, read_log

CURVE_FILE = "learning-curve.png"
CARD_FILE = "README.md"
SUMMARY_FILE = "summary.json"


def write_card(recipe: Recipe, output: Path, counts: Counts, n_steps: int) -> None:
    """Write the model card and the learning curve of a finished run."""
    log = read_log(output / LOG_FILE)
    evaluations = [entry for entry in log if "eval_loss" in entry]
    best = min(evaluations, key=lambda entry: entry["eval_loss"], default=None)
    plot_curve(log, output / CURVE_FILE)
    (output / CARD_FILE).write_text(_card(recipe, counts, n_steps, best, output.name), encoding="utf-8")


def write_summary(output: Path, counts: Counts, n_steps: int, steps_per_pass: int) -> None:
    """Write how much a finished run has seen, for programs; its last file."""
    passes = n_steps / steps_per_pass
    summary = {"steps": n_steps, "passes": passes, "tokens": round(passes * counts.n_tokens)}
    write_whole(output / SUMMARY_FILE, json.dumps(summary) + "\n")


def signature(recipe: Recipe) -> str:
    """A short name for exactly this recipe."""
    return hashlib.sha256(json.dumps(recipe.to_dict(), sort_keys=True).encode()).hexdigest()[:12]


def plot_curve(log: list[dict[str, float]], path: Path) -> None:
    names = {"training": "loss", "development": "eval_loss"}
    plot_losses({label: losses(log, name) for label, name in names.items()}, "step", path)


def losses(log: list[dict[str, float]], name: str) -> list[tuple[float, float]]:
    """The steps that a loss was logged at, with its values."""
    return [(entry["step"], entry[name]) for entry in log if name in entry]


def plot_losses(curves: Mapping[str, Sequence[tuple[float, float]]], over: str, path: Path) -> None:
    from matplotlib.figure import Figure  # takes a second to import

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for label, points in curves.items():
        if points:
            axes.plot(*zip(*points, strict=True), label=label, linewidth=1.5)
    axes.set(xlabel=over, ylabel="loss a target (nats)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _card(recipe: Recipe, counts: Counts, n_steps: int, best: dict[str, float] | None, name: str) -> str:
    results = "No evaluation was made."
    if best is not None:
        results = f"Development loss {best['eval_loss']:.4f} nats a target, at step {best['step']:,.0f}"
        results += f"; style classifier {best['eval_accuracy']:.2%} right." if "eval_accuracy" in best else "."
    what = {
        "xl-editor": f"""\
A model of XL-Editor: it estimates q(y | left ↓ right), the probability of inserting any sequence at a place of a text.

    xl-editor infill "some [_] text" --model {name}""",
        "l2r": "A baseline of XL-Editor's paper: XLNet, trained to fill gaps of known length from left to right.",
        "seq2seq": "A baseline of XL-Editor's paper: a Transformer, trained to write what a gap lacks.",
    }[recipe.objective]
    return f"""\
---
library_name: xl-editor
tags: [text-infilling, post-editing, xlnet]
---
# {name}

{what}

## Data
{counts.n_articles:,} texts, {counts.n_sentences:,} sentences, {counts.n_tokens:,} tokens \
({counts.n_unknown / max(1, counts.n_tokens):.2%} unknown).

## Training
{n_steps:,} steps, recipe signature `{signature(recipe)}`:

```yaml
{recipe.to_yaml().strip()}
```

## Results
{results}

![Learning curve]({CURVE_FILE})
"""
