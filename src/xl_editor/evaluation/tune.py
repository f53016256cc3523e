"""The settings of a model's presets, chosen on development sentences by a rule that is written down here.

Post-editing mostly meets texts that have the style already, so that is simulated: of the texts to be edited into a
style, nine of ten are development sentences of that style, one of ten is of another. Style is measured by the model's
own classifier; what is kept, as nobody has rewritten these sentences, by BLEU against the sentence itself. But a word
that is changed costs less BLEU against a human's rewriting than against the source: over the five systems of the paper
with a published G above 45 (UMT, PTO, DualRL and both Style Transformers), BLEU against the reference falls, on
average, as BLEU against the source to the power of 0.28.

`paper`    the (L, threshold) with the highest Acc × BLEU^0.28.
`default`  counts a text as sure if it looks as much like the target style as nine of ten real sentences do, and at
           least 0.96 probable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from xl_editor.editor import Editor
from xl_editor.files import write_whole
from xl_editor.model import CONFIG_FILE
from xl_editor.operations import Memory, carry_out, remembering
from xl_editor.operations.search import logit
from xl_editor.operations.transfer import PaperRules, algorithm_1

from .bleu import corpus_bleu

KEPT_EXPONENT = 0.28
REAL_SENTENCES = 0.9  # that count as sure
LEAST_MARGIN = 3.3  # p = 0.96; a classifier that is often wrong would call anything sure
MAX_SPANS = (1, 2, 3)
THRESHOLDS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
RIGHT_ALREADY = 0.9  # of the texts that are post-edited

LinesByStyle = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Trial:
    """What settings of the `paper` preset gave, in per cent."""

    max_span: int
    threshold: float
    acc: float
    kept: float  # BLEU against the source

    @property
    def value(self) -> float:
        return self.acc * (self.kept / 100) ** KEPT_EXPONENT


def tune(directory: Path, editor: Editor, dev: LinesByStyle, n_sentences: int) -> Iterator[str]:
    """Choose the settings of a model's presets, and write them; told line by line.

    Args:
        directory: the model's, whose config.json is changed.
        editor: the model itself.
        dev: sentences of each style.
        n_sentences: the first so many of each are edited, with every setting.

    """
    reached = usual_logit(editor, dev)
    margin = max(reached, LEAST_MARGIN)
    yield f"nine of ten sentences have logit p(their style) ≥ {reached}; margin {margin}\n"
    yield " L  threshold    Acc   BLEU  value"
    trials = []
    for trial in try_paper_rules(editor, {style: lines[:n_sentences] for style, lines in dev.items()}):
        trials.append(trial)
        yield f"{trial.max_span:2}{trial.threshold:11}{trial.acc:7.1f}{trial.kept:7.1f}{trial.value:7.2f}"
    yield json.dumps(write_presets(directory, max(trials, key=lambda trial: trial.value), margin))


def usual_logit(editor: Editor, dev: LinesByStyle) -> float:
    """The logit of p(its own style) that nine of ten real sentences reach."""
    logits = [
        logit(found[style])
        for style, lines in dev.items()
        for found in editor.engine.classify([editor.codec.encode(line).ids for line in lines])
    ]
    return round(float(np.quantile(logits, 1 - REAL_SENTENCES)), 1)


def try_paper_rules(editor: Editor, dev: LinesByStyle) -> Iterator[Trial]:
    """Post-edit the sentences of each style, into it and into the next style, with every setting."""
    own = editor.rules("paper")
    assert isinstance(own, PaperRules)
    styles = list(dev)
    memory = Memory()  # settings ask much the same
    following = dict(zip(styles, [*styles[1:], styles[0]], strict=True))
    for max_span, threshold in product(MAX_SPANS, THRESHOLDS):
        rules = replace(own, max_span=max_span, threshold=threshold)
        right = _acc_and_kept(editor, [(dev[style], following[style], style) for style in styles], rules, memory)
        wrong = _acc_and_kept(editor, [(dev[style], style, following[style]) for style in styles], rules, memory)
        acc, kept = (RIGHT_ALREADY * r + (1 - RIGHT_ALREADY) * w for r, w in zip(right, wrong, strict=True))
        yield Trial(max_span, threshold, acc, kept)


def _acc_and_kept(
    editor: Editor, work: Sequence[tuple[Sequence[str], str, str]], rules: PaperRules, memory: Memory
) -> tuple[float, float]:
    """Of lines that are edited from one style into another."""
    n_right, before, after = 0, [], []
    for lines, source, target in work:
        texts = [editor.codec.encode(line).ids for line in lines]
        plans = [algorithm_1(ids, source, target, rules, editor.special_tokens) for ids in texts]
        revisions = carry_out(editor.engine, [remembering(plan, memory) for plan in plans])
        found = editor.engine.classify([revision.ids for revision in revisions])
        n_right += sum(max(styles_of, key=styles_of.__getitem__) == target for styles_of in found)
        before += texts
        after += [revision.ids for revision in revisions]
    # Ids are as good as words: BLEU only asks which are equal.
    outputs, sources = ([" ".join(map(str, ids)) for ids in texts] for texts in (after, before))
    return 100 * n_right / len(after), corpus_bleu(outputs, sources).score


def write_presets(directory: Path, best: Trial, margin: float) -> dict[str, dict[str, Any]]:
    """Put the chosen settings into a model's config.json, where the editor finds them."""
    path = directory / CONFIG_FILE
    settings = json.loads(path.read_text(encoding="utf-8"))
    presets = settings.setdefault("editor", {}).setdefault("presets", {})
    presets["paper"] = {**presets.get("paper", {}), "max_span": best.max_span, "threshold": best.threshold}
    presets["default"] = {**presets.get("default", {}), "margin": margin}
    write_whole(path, json.dumps(settings, indent=2) + "\n")
    return presets
