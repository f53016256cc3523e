"""What the rules of Delete go by: how hard sentences are by themselves, and what the rest of a text tells of them.

python benchmarks/delete.py news rows/news-runs/l2r-b2e856b714bf --work rows [--n 400]

asks models, XL-Editor or XLNet L2R, the first `n` instances that `xl-editor evaluate news --work rows` has made.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from torch import Tensor

from xl_editor.editor import Editor
from xl_editor.engine import Context, Engine, Insertion, Scored
from xl_editor.evaluation.news import candidates
from xl_editor.evaluation.news_rules import NOWHERE, PairRules, Score, open_rules
from xl_editor.evaluation.news_tasks import DeleteTask, open_tasks
from xl_editor.evaluation.tables import table_header, table_row
from xl_editor.operations import shared_information
from xl_editor.text import Codec

Floats = NDArray[np.float64]
SIGHTS = ((0, 20), (20, 100), (100, 200), (200, None))  # tokens of a text


class EngineWithoutEnd(Engine):
    """Scores tokens as if it were known that they are not END."""

    @torch.inference_mode()
    def _target_logprobs(self, states: Tensor, targets: Tensor) -> Tensor:
        logprobs = self.model.logits(states).log_softmax(-1)
        found = logprobs.gather(1, targets[:, None])[:, 0] - torch.log1p(-logprobs[:, self.end].exp())
        return found.where(targets != self.end, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--n", type=int, default=400)
    arguments = parser.parse_args()
    tasks = open_tasks(None, arguments.work).delete[: arguments.n]
    sentences = [
        table_header(
            "nats a token",
            "told its own",
            "foreign",
            "varies",
            "spread",
            "expected",
            "measured",
            "END, own and foreign",
        )
    ]
    texts = [table_header("nats a token", *(f"from {first}" for first, _ in SIGHTS), "+ rank", "information")]
    for name in arguments.models:
        rules = open_rules(name)
        if isinstance(rules, PairRules):
            texts.append(of_texts(name, rules.codec, rules.model.score, tasks))
            continue
        editor = Editor.from_pretrained(name)
        sentences.append(of_sentences(name, rules.codec, editor.engine.score, tasks))
        texts.append(of_texts(name, rules.codec, editor.engine.score, tasks))
        without_end = EngineWithoutEnd(editor.model, editor.engine.format)
        texts.append(of_texts(f"{name}, without END's share", rules.codec, without_end.score, tasks))
    print("\n".join([*sentences, "", *texts]))


def of_sentences(name: str, codec: Codec, score: Score, tasks: Sequence[DeleteTask]) -> str:
    """What the rest tells of sentences, beside how much they differ without it; and what follows for PPL(q(y))."""
    alone, given, nothing = (np.empty((len(tasks), 3)) for _ in range(3))
    for row, task in enumerate(_tracked(tasks, f"{name}, sentences")):
        ids, spans = candidates(codec, task)
        around = [Context.around(ids, a, b) for a, b in spans]
        parts = [ids[a:b] for a, b in spans]
        alone[row] = _nats(score([Insertion(NOWHERE, part) for part in parts]))
        given[row] = _nats(score([Insertion(at, part) for at, part in zip(around, parts, strict=True)]))
        nothing[row] = _nats(score([Insertion(at, ()) for at in around]))
    answers = np.array([task.answer - 1 for task in tasks])
    foreign = np.arange(3) == answers[:, None]
    told = alone - given
    spread = _spread(alone)
    varies = float(np.sqrt((told[foreign].var() + told[~foreign].var()) / 2))
    difference = float(told[~foreign].mean() - told[foreign].mean())
    return table_row(
        [
            name,
            f"{told[~foreign].mean():.2f}",
            f"{told[foreign].mean():.2f}",
            f"{varies:.2f}",
            f"{spread:.2f}",
            f"{100 * highest_of_three(difference / np.hypot(spread, varies)):.1f}",
            f"{100 * (given.argmax(1) == answers).mean():.1f}",
            f"{nothing[~foreign].mean():.2f}, {nothing[foreign].mean():.2f} (spread {_spread(nothing):.2f})",
        ]
    )


def of_texts(name: str, codec: Codec, score: Score, tasks: Sequence[DeleteTask]) -> str:
    """How hard the tokens of whole texts are, and how often two rules are right that go by whole texts."""
    right, tokens = [], []
    for task in _tracked(tasks, f"{name}, texts"):
        ids, spans = candidates(codec, task)
        asked = [ids, *(ids[:a] + ids[b:] for a, b in spans), *(ids[a:b] for a, b in spans)]
        whole, *others = score([Insertion(NOWHERE, text) for text in asked])
        rests, parts = others[:3], others[3:]
        information = [shared_information(whole, rest, part) for rest, part in zip(rests, parts, strict=True)]
        right.append([int(_nats(rests).argmin()) + 1 == task.answer, int(np.argmin(information)) + 1 == task.answer])
        tokens.append(-np.array(whole.token_logprobs))
    by_sight = [np.concatenate([of_text[first:last] for of_text in tokens]).mean() for first, last in SIGHTS]
    shares = 100 * np.mean(right, axis=0)
    return table_row([name, *(f"{nats:.2f}" for nats in by_sight), *(f"{share:.1f}" for share in shares)])


def highest_of_three(shift: float) -> float:
    """How often the first of three normal draws is the highest, if it is shifted by so many standard deviations."""
    normal, draws = NormalDist(), np.linspace(-8, 8, 3201)
    density = np.array([normal.pdf(draw - shift) for draw in draws])
    below = np.array([normal.cdf(draw) for draw in draws])
    return float((density * below**2).sum() / density.sum())


def _tracked(tasks: Sequence[DeleteTask], description: str) -> Iterable[DeleteTask]:
    return track(tasks, description, console=Console(stderr=True))


def _nats(scored: Sequence[Scored]) -> Floats:
    return np.array([-np.mean(found.token_logprobs) for found in scored])


def _spread(values: Floats) -> float:
    """The standard deviation within texts."""
    return float(np.sqrt(values.var(axis=1, ddof=1).mean()))


if __name__ == "__main__":
    main()
