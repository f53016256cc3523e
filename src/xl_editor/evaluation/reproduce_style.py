"""The paper's table of style transfer, rebuilt: every system of the data, and those that the editor post-edits.

The reporting classifiers only report: an edit is steered by the editor's own model alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from xl_editor.editor import Editor
from xl_editor.edits import Trace

from .kept import kept
from .prefix import with_prefix
from .style import Judges, StyleScores, evaluate_systems, open_prefix_classifier
from .style_data import StyleData, SystemOutputs
from .style_table import write_table

# What is post-edited: the paper's two, and others that differ from them in kind; Copy is the plain source.
POST_EDITED = ("Copy", "UnsuperMT", "PTO", "DualRL", "StyleTransformer_multi", "StyleTransformer_cond", "TemplateBased")
STYLE_OF = {"neg2pos": "positive", "pos2neg": "negative"}  # the target of each direction, as the model names it
N_SHOWN_TRACES = 20


@dataclass(frozen=True)
class EditedText:
    source: str
    text: str
    operations: tuple[str, ...]
    trace: str  # every edit, for people

    @classmethod
    def of(cls, trace: Trace) -> EditedText:
        return cls(trace.source, trace.text, tuple(e.operation for e in trace.edits), trace.render(marked=True).plain)


@dataclass(frozen=True)
class PostEdited:
    outputs: SystemOutputs
    texts: tuple[EditedText, ...]


def post_edit(
    editor: Editor, system: SystemOutputs, preset: str, work_dir: Path, *, progress: bool = True
) -> PostEdited:
    """A system's outputs, revised into the style that they were meant to have; those made before are used again."""
    name = f"{system.name}+XLE" if preset == "paper" else f"{system.name}+XLE ({preset})"
    edited = {}
    for direction, to in STYLE_OF.items():
        texts = getattr(system, direction)

        def edit(texts: Sequence[str] = texts, to: str = to) -> list[dict[str, Any]]:
            written = [text for text in texts if text.strip()]  # a system may have had nothing to say
            traces = iter(editor.transfer_all(written, to, preset=preset, progress=progress))
            found = (EditedText.of(next(traces)) if text.strip() else EditedText(text, text, (), "") for text in texts)
            return [asdict(edited) for edited in found]

        settings = {**editor.model.config.editor, "presets": asdict(editor.rules(preset))}
        question = [texts, to, preset, settings]
        found = kept(work_dir / "edited", question, editor.model.state_dict().values(), edit)
        edited[direction] = tuple(EditedText(**text) for text in found)
    lines = {direction: tuple(found.text for found in texts) for direction, texts in edited.items()}
    outputs = SystemOutputs(name, lines["neg2pos"], lines["pos2neg"], edited_from=system)
    return PostEdited(outputs, (*edited["neg2pos"], *edited["pos2neg"]))


def operations_used(texts: Sequence[EditedText]) -> dict[str, int]:
    """How often each operation was used, and how many texts were changed."""
    counts = Counter(operation for text in texts for operation in text.operations)
    changed = sum(text.text != text.source for text in texts)
    return {"insert": counts["insert"], "replace": counts["replace"], "delete": counts["delete"], "changed": changed}


def reproduce_style(
    data: StyleData,
    editor: Editor,
    judges: Judges,
    work_dir: Path,
    output: Path,
    presets: Sequence[str] = ("paper", "default"),
    *,
    progress: bool = True,
) -> list[StyleScores]:
    """Score all rows and write the table, a plot, the operations used and sampled traces into `output`."""
    known = {system.name for system in data.systems} | {"Copy"}
    bases = [data.system(name) for name in POST_EDITED if name in known]
    edited = []
    for base, preset in product(bases, presets):
        if progress:
            print(f"{base.name}, {preset}", file=sys.stderr, flush=True)
        edited.append(post_edit(editor, base, preset, work_dir, progress=progress))
    small = open_prefix_classifier(data, work_dir, progress=progress)
    systems = [data.copy, *data.systems, *(with_prefix(system, small) for system in bases)]
    rows = evaluate_systems([*systems, *(result.outputs for result in edited)], data, judges, progress=progress)
    used = {result.outputs.name: operations_used(result.texts) for result in edited}
    write_table(rows, data, judges, output, used)
    (output / f"traces-{data.name}.md").write_text(_sampled_traces(edited), encoding="utf-8")
    plot_arrows(rows, output / f"style-{data.name}.png")
    return rows


def plot_arrows(rows: Sequence[StyleScores], path: Path) -> None:
    """BLEU against Acc, with an arrow from each system to what post-editing made of it."""
    from matplotlib.figure import Figure  # takes a second to import

    by_name = {row.name: row for row in rows}
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        if row.comparison is None:
            axes.plot(row.acc, row.bleu, "o", color="0.4")
            axes.annotate(row.name, (row.acc, row.bleu), xytext=(4, 4), textcoords="offset points", fontsize=7)
        elif "XLE" in row.name:
            base = by_name[row.comparison.edited_from]
            colour = "tab:blue" if row.name.endswith("+XLE") else "tab:green"
            arrow = {"arrowstyle": "->", "color": colour}
            axes.annotate("", xy=(row.acc, row.bleu), xytext=(base.acc, base.bleu), arrowprops=arrow)
    axes.set(
        xlabel="Acc", ylabel="BLEU", title="Systems, and what post-editing makes of them (paper blue, default green)"
    )
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _sampled_traces(edited: Sequence[PostEdited]) -> str:
    """Some texts that were changed, chosen by a fixed seed, with every edit."""
    lines = []
    for result in edited:
        changed = [text for text in result.texts if text.operations]
        lines += [f"## {result.outputs.name}", ""]
        for text in Random(0).sample(changed, min(N_SHOWN_TRACES, len(changed))):
            lines += [f"    {line}" for line in text.trace.splitlines()] + [f"    = {text.text}", ""]
    return "\n".join(lines) + "\n"
