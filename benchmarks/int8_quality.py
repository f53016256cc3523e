"""What int8 costs in quality: outputs of a system, post-edited with both backends, and how they score.

    python benchmarks/int8_quality.py --data yelp --work work [--system PTO] [--model yelp]

`--work` holds the judges, as `xl-editor reproduce style` trains and keeps them.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from xl_editor import Editor
from xl_editor.evaluation.reproduce_style import STYLE_OF
from xl_editor.evaluation.style import evaluate_outputs, open_judges
from xl_editor.evaluation.style_data import StyleData, SystemOutputs


def post_edited(editor: Editor, system: SystemOutputs, preset: str) -> SystemOutputs:
    lines = {
        direction: tuple(
            trace.text for trace in editor.transfer_all(getattr(system, direction), to, preset=preset, progress=True)
        )
        for direction, to in STYLE_OF.items()
    }
    return SystemOutputs(f"{system.name}, {preset}", **lines, edited_from=system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--system", default="PTO")
    parser.add_argument("--model", default="yelp")
    arguments = parser.parse_args()
    data = StyleData.open(arguments.data)
    judges = open_judges(data, arguments.work, seeds=(0, 1, 2))
    system = data.system(arguments.system)
    editors = {backend: Editor.from_pretrained(arguments.model, backend=backend) for backend in ("torch", "int8")}
    print("| preset | backend | Acc | BLEU | G | outputs the same |\n| --- | --- | --- | --- | --- | --- |")
    exact: dict[str, SystemOutputs] = {}
    for preset, (backend, editor) in product(("paper", "default"), editors.items()):
        outputs = post_edited(editor, system, preset)
        exact.setdefault(preset, outputs)
        same = sum(a == b for a, b in zip(outputs.pooled, exact[preset].pooled, strict=True))
        scores = evaluate_outputs(outputs, data, judges)
        figures = f"{scores.acc:.1f} | {scores.bleu:.2f} | {scores.g:.2f} | {same} of {len(outputs.pooled)}"
        print(f"| {preset} | {backend} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
