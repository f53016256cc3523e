"""What is done with a text, and what is answered for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from xl_editor.editor import Call, Unit, check_number
from xl_editor.errors import EditorError, RequestError
from xl_editor.text import BLANK

if TYPE_CHECKING:
    from xl_editor.editor import Editor
    from xl_editor.edits import Correction, Deletion, Filling, Trace

OPERATIONS = ("transfer", "correct", "infill", "locate", "delete")
USED_BY = {  # the settings that not all operations have
    "source": ("transfer",),
    "preset": ("transfer",),
    "threshold": ("transfer", "correct", "delete"),
    "max_steps": ("transfer",),
    "keep": ("transfer", "correct"),
    "to": ("transfer", "infill", "locate", "delete"),
    "unit": ("delete",),
}
DECIMALS = 4  # of scores: what is beyond depends on the processor

# The fields of an answer, beside the fields of the input. Whatever the input has under these names is replaced.
FIELDS = ("edited", "operations", "scores", "p_before", "p_after", "trace", "error")


@dataclass(frozen=True)
class Answer:
    """The outcome for one text; if it failed, `error` says why, and there is nothing else."""

    edited: str | None = None
    operations: tuple[str, ...] = ()  # insert, replace, delete: what was done, in this order
    scores: tuple[float | None, ...] = ()  # see Task
    p_before: float | None = None  # of a transfer: p(target style | text)
    p_after: float | None = None
    trace: Any = None  # what `Editor` answered, as JSON; if asked for
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        if self.error is not None:
            return {"error": self.error}
        everything = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in everything.items() if value is not None}


@dataclass(frozen=True)
class Task:
    """What is done with every text.

    transfer  edits into the style `to`; the scores are log f of each edit (None if forced)
    correct   makes right what is wrong; the scores are the log-odds of each edit
    infill    fills the blanks, written [_]; the score is the log-probability of the filling
    locate    edits nothing; the score is log q(END) where the text most seems to lack something
    delete    leaves out the `unit` that fits least if the score is above `threshold` (by default 0): its log-odds, or
              of a sentence, which is never as probable as nothing, minus the information that it and the rest share
    """

    operation: str
    model: str
    to: str | None = None  # the target of a transfer, and a style to go by elsewhere
    source: str | None = None
    preset: str = "default"
    threshold: float | None = None
    max_steps: int | None = None
    keep: tuple[str, ...] = ()
    unit: Unit = "sentence"
    trace: bool = False

    @property
    def fields(self) -> list[str]:
        """What an answer may have."""
        left_out = {"trace"} if not self.trace else set()
        if self.operation != "transfer":
            left_out |= {"p_before", "p_after"}
        return [name for name in FIELDS if name not in left_out]

    @property
    def score_name(self) -> str:
        of_deletion = "minus the information" if self.unit == "sentence" else "log-odds"
        names = {
            "transfer": "log f",
            "correct": "log-odds",
            "infill": "log-probability",
            "locate": "log q(END)",
            "delete": of_deletion,
        }
        return names[self.operation]

    def check(self, editor: Editor) -> None:
        """Raise `EditorError` for what no text could be processed with."""
        if self.operation not in OPERATIONS:
            raise EditorError(f"operation must be one of {', '.join(OPERATIONS)}, got {self.operation!r}.", "operation")
        for setting in fields(self):
            is_used = self.operation in USED_BY.get(setting.name, OPERATIONS)
            if not is_used and getattr(self, setting.name) != setting.default:
                raise EditorError(f"{setting.name} must be left out: {self.operation} does not use it.", setting.name)
        if self.threshold is not None:
            check_number("threshold", self.threshold)
        if self.operation == "transfer" and self.to is None:
            raise EditorError("A transfer needs a style to revise into: --to.")
        (found,) = editor.answer_all([self._call(f"a {BLANK} a" if self.operation == "infill" else "a")])
        if isinstance(found, RequestError):
            message, argument = str(found), found.argument
            if argument == "style":  # as it is not called here
                message, argument = f"to{message.removeprefix('style')}", "to"
            raise EditorError(message, argument)

    def answer(self, editor: Editor, texts: Sequence[str]) -> list[Answer]:
        """An answer for each text; they are computed together, so that its last bits depend on the others.

        A blank one stays as it is.
        """
        written = iter(self._answer_all(editor, [text for text in texts if text.strip()]))
        return [next(written) if text.strip() else Answer(text) for text in texts]

    def _answer_all(self, editor: Editor, texts: Sequence[str]) -> list[Answer]:
        results = editor.answer_all([self._call(text) for text in texts])
        return [
            Answer(error=" ".join(str(found).split()))
            if isinstance(found, RequestError)
            else self._answer_of(text, found)
            for text, found in zip(texts, results, strict=True)
        ]

    def _call(self, text: str) -> Call:
        if self.operation == "transfer":
            names = ("to", "source", "preset", "max_steps", "threshold", "keep")
            return Call("transfer", {"text": text, **{name: getattr(self, name) for name in names}})
        if self.operation == "correct":
            return Call("correct", {"text": text, "threshold": self.threshold, "keep": self.keep})
        settings: dict[str, dict[str, Any]] = {"infill": {"n": 1}, "delete": {"unit": self.unit}}
        return Call(self.operation, {"text": text, "style": self.to, **settings.get(self.operation, {})})

    def _answer_of(self, text: str, found: Any) -> Answer:
        """From what the editor answers."""
        if self.operation == "transfer":
            return self._transferred(found)
        if self.operation == "correct":
            correction: Correction = found
            return Answer(
                correction.text,
                tuple(edit.kind for edit in correction.edits),
                tuple(_rounded(edit.log_odds) for edit in correction.edits),
                trace=correction.to_dict() if self.trace else None,
            )
        if self.operation == "infill":
            filling: Filling = found[0]
            trace = filling.to_dict() if self.trace else None
            return Answer(filling.text, ("insert",) * len(filling.inserted), (_rounded(filling.logprob),), trace=trace)
        if self.operation == "locate":
            places = [slot.to_dict() for slot in found] if self.trace else None
            return Answer(text, (), (_rounded(found[0].logprob_end),), trace=places)
        deletion: Deletion = found[0]
        score = deletion.log_odds if deletion.information is None else -deletion.information
        # A text is never emptied.
        deleted = score > (self.threshold or 0.0) and deletion.text.strip() != ""
        return Answer(
            deletion.text if deleted else text,
            ("delete",) if deleted else (),
            (_rounded(score),),
            trace=deletion.to_dict() if self.trace else None,
        )

    def _transferred(self, trace: Trace) -> Answer:
        assert self.to is not None
        return Answer(
            trace.text,
            tuple(edit.operation for edit in trace.edits),
            tuple(None if edit.log_odds is None else _rounded(edit.log_odds) for edit in trace.edits),
            _rounded(trace.style_before[self.to]),
            _rounded(trace.style_after[self.to]),
            trace.to_dict() if self.trace else None,
        )


def _rounded(value: float) -> float:
    return round(value, DECIMALS) + 0.0  # −0.0 becomes 0.0
