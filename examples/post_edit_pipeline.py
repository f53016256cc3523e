"""Post-edit what another system writes: any function from texts to texts, such as a pipeline of transformers.

python examples/post_edit_pipeline.py MODEL "Text for it to go on with" …     (a text-generation model of the hub)
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from xl_editor import Editor, Trace


def post_edit(system: Callable[[list[str]], Sequence[Any]], texts: list[str], editor: Editor, to: str) -> list[Trace]:
    """What the system makes of the texts, edited into a style."""
    return editor.transfer_all([text_of(answer) for answer in system(texts)], to)


def text_of(answer: Any) -> str:
    """A pipeline answers {"summary_text": …}, {"translation_text": …} or [{"generated_text": …}]; others a text."""
    if isinstance(answer, list):
        answer = answer[0]
    return (
        next(value for name, value in answer.items() if name.endswith("_text")) if isinstance(answer, dict) else answer
    )


if __name__ == "__main__":
    from transformers import pipeline

    system = pipeline("text-generation", model=sys.argv[1])
    for trace in post_edit(system, sys.argv[2:], Editor.from_pretrained("yelp"), to="positive"):
        print(trace.render(marked=True))
