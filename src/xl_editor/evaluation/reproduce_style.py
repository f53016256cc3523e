"""The paper's table of style transfer, rebuilt: every system of the data, and those that the editor post-edits.

The reporting classifiers only report: an edit is steered by the editor's own model alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from xl_editor.editor import Editor
from xl_editor.edits import Trace

from .prefix import with_prefix
from .style import Judges, StyleScores, evaluate_systems, open_prefix_classifier
from .style_data import StyleData, SystemOutputs
from .style_table import write_table

# What is post-edited: the paper's two, and others that differ from them in kind; Copy is the plain source.
POST_EDITED = ("Copy", "UnsuperMT", "PTO", "DualRL", "StyleTransformer_multi", "StyleTransformer_cond", "TemplateBased")
STYLE_OF = {"neg2pos": "positive", "pos2neg": "negative"}  # the target of each direction, as the model names it
N_SHOWN_TRACES = 20


@dataclass(frozen=True)
class PostEdited:
    outputs: SystemOutputs
    traces: tuple[Trace, ...]


def post_edit(editor: Editor, system: SystemOutputs, preset: str, *, progress: bool = True) -> PostEdited:
    """A system's outputs, revised into the style that they were meant to have."""
    traces = {
        direction: editor.transfer_all(getattr(system, direction), to, preset=preset, progress=progress)
        for direction, to in STYLE_OF.items()
    }
    name = f"{system.name}+XLE" if preset == "paper" else f"{system.name}+XLE ({preset})"
    lines = {direction: tuple(trace.text for trace in of_direction) for direction, of_direction in traces.items()}
    return PostEdited(
        SystemOutputs(name, lines["neg2pos"], lines["pos2neg"], edited_from=system),
        (*traces["neg2pos"], *traces["pos2neg"]),
    )


def operations_used(traces: Sequence[Trace]) -> dict[str, int]:
    """How often each operation was used, and how many texts were changed."""
    counts = Counter(edit.operation for trace in traces for edit in trace.edits)
    changed = sum(trace.text != trace.source for trace in traces)
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
    edited = [post_edit(editor, system, preset, progress=progress) for system in bases for preset in presets]
    small = open_prefix_classifier(data, work_dir, progress=progress)
    systems = [data.copy, *data.systems, *(with_prefix(system, small) for system in bases)]
    rows = evaluate_systems([*systems, *(result.outputs for result in edited)], data, judges, progress=progress)
    write_table(rows, data, judges, output)
    used = {result.outputs.name: operations_used(result.traces) for result in edited}
    (output / f"operations-{data.name}.json").write_text(json.dumps(used, indent=1) + "\n", encoding="utf-8")
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
        changed = [trace for trace in result.traces if trace.edits]
        lines += [f"## {result.outputs.name}", ""]
        for trace in Random(0).sample(changed, min(N_SHOWN_TRACES, len(changed))):
            lines += [f"    {line}" for line in trace.render().plain.splitlines()] + [f"    = {trace.text}", ""]
    return "\n".join(lines) + "\n"
