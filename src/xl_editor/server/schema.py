"""What may be asked over HTTP, and the shapes of the answers, which are those of the Python objects."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from xl_editor.editor import Call, Unit
from xl_editor.edits import Correction, Deletion, Edit, Filling, Score, Slot, Trace
from xl_editor.engine import MAX_LENGTH
from xl_editor.errors import RequestError
from xl_editor.operations import Measure
from xl_editor.text import split_blanks

MAX_CHARACTERS = 3000  # so many take `locate` and `delete` seconds, and ten times as many ten times as long
MAX_TRANSFERRED = 600  # characters; the time of Algorithm 1 grows with the cube of the length
MAX_TEXTS = 64
MAX_TOP = 200
MAX_WIDTH = 20  # of a beam, and of the list of answers that comes from it
MAX_STEPS = 20
MAX_BLANKS = 20  # of a text: each is filled after the one before it
MAX_SEED = 2**63 - 1

ShortText = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts = ShortText | Annotated[list[ShortText], Field(min_length=1, max_length=MAX_TEXTS)]
ShorterText = Annotated[str, Field(max_length=MAX_TRANSFERRED)]
ShorterTexts = ShorterText | Annotated[list[ShorterText], Field(min_length=1, max_length=MAX_TEXTS)]
Offset = Annotated[StrictInt, Field(ge=0, le=MAX_CHARACTERS)]
# JSON has lists only: a pair of offsets comes as one.
Span = Annotated[tuple[Offset, Offset], Field(strict=False)] | Annotated[StrictStr, Field(max_length=MAX_CHARACTERS)]
Spans = Span | Annotated[list[Span], Field(min_length=1, max_length=MAX_TEXTS)]
Style = Annotated[str, Field(max_length=100)]
Number = Annotated[float, Field(ge=-1e6, le=1e6)]


class Request(BaseModel):
    """A request: what differs from text to text (`per_text`), and settings, which hold for all of them."""

    model_config = ConfigDict(extra="forbid", strict=True)
    operation: ClassVar[str]
    per_text: ClassVar[tuple[str, ...]] = ("text",)

    model: Annotated[
        str | None, Field(max_length=200, description="One of /v1/models; the first that can answer by default.")
    ] = None

    @property
    def is_list(self) -> bool:
        return _is_list(getattr(self, self.per_text[0]))

    @property
    def settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"model", "stream", *self.per_text})

    def calls(self) -> list[Call]:
        """A call of the editor for each text."""
        columns = [getattr(self, name) for name in self.per_text]
        rows = zip(*columns, strict=True) if self.is_list else [tuple(columns)]
        settings = self.settings
        return [Call(self.operation, {**settings, **dict(zip(self.per_text, row, strict=True))}) for row in rows]

    @model_validator(mode="after")
    def _one_of_each_for_every_text(self) -> Request:
        columns = {name: getattr(self, name) for name in self.per_text}
        if len({len(column) if _is_list(column) else None for column in columns.values()}) > 1:
            raise RequestError(
                f"{', '.join(columns)} must all be single, or lists of the same length.", self.per_text[0]
            )
        return self


class LocateRequest(Request):
    operation = "locate"

    text: Texts
    top: Annotated[int, Field(ge=1, le=MAX_TOP)] = 5
    style: Style | None = None


class ScoreRequest(Request):
    operation = "score"
    per_text = ("left", "inserted", "right")

    left: Texts
    inserted: Texts
    right: Texts
    style: Style | None = None


class _Searched(Request):
    n: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 5
    style: Style | None = None
    beam: Annotated[int | None, Field(ge=1, le=MAX_WIDTH)] = None
    max_length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = MAX_LENGTH
    sample: bool = False
    top_k: Annotated[int, Field(ge=0, le=100_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0


class InfillRequest(_Searched):
    operation = "infill"

    text: Texts

    @model_validator(mode="after")
    def _few_blanks(self) -> InfillRequest:
        texts = self.text if isinstance(self.text, list) else [self.text]
        if any(len(split_blanks(text)) - 1 > MAX_BLANKS for text in texts):
            raise RequestError(f"text may hold at most {MAX_BLANKS} blanks.", "text")
        return self


class ReplaceRequest(_Searched):
    operation = "replace"
    per_text = ("text", "span")

    text: Texts
    span: Annotated[Spans, Field(description="[start, end) in characters, or words of the text.")]


class DeleteRequest(Request):
    operation = "delete"

    text: Texts
    unit: Unit = "sentence"
    span: Annotated[
        Span | None, Field(description="What would the text be without this? [start, end) in characters, or words.")
    ] = None
    top: Annotated[int, Field(ge=1, le=MAX_TOP)] = 1
    style: Style | None = None
    by: Measure | None = None

    @model_validator(mode="after")
    def _one_span_for_one_text(self) -> DeleteRequest:
        if self.span is not None and self.is_list:
            raise RequestError("span must be left out for a list of texts.", "span")
        return self


class ClassifyRequest(Request):
    operation = "classify"

    text: Texts


class TransferRequest(Request):
    operation = "transfer"

    text: ShorterTexts
    to: Style
    source: Style | None = None
    preset: Literal["default", "paper"] = "default"
    max_steps: Annotated[int | None, Field(ge=0, le=MAX_STEPS)] = None
    threshold: Annotated[
        Number | None, Field(description="What log f must reach for words to be replaced; the preset's by default.")
    ] = None
    keep: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=100)] = []
    stream: Annotated[bool, Field(description="Tell every edit as it is made, as server-sent events.")] = False

    @model_validator(mode="after")
    def _one_stream_for_one_text(self) -> TransferRequest:
        if self.stream and self.is_list:
            raise RequestError("stream must be false for a list of texts.", "stream")
        return self


class CorrectRequest(Request):
    operation = "correct"

    text: Texts
    threshold: Annotated[
        Number | None, Field(description="What the log-odds of a correction must reach; the model's by default.")
    ] = None
    n: Annotated[int, Field(ge=0, le=MAX_WIDTH, description="Alternatives of each edit, at most.")] = 3
    keep: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=100)] = []


class Located(BaseModel):
    text: str
    slots: list[Slot]


class Infilled(BaseModel):
    text: str
    fillings: list[Filling]


class Replaced(BaseModel):
    text: str
    edits: list[Edit]


class Deleted(BaseModel):
    text: str
    deletions: list[Deletion]


class Classified(BaseModel):
    text: str
    styles: dict[str, float]


Answer = TypeVar("Answer", Located, Infilled, Replaced, Deleted, Classified, Correction, Score, Trace)


class Many(BaseModel, Generic[Answer]):
    """For a list of texts: an answer for each, in their order."""

    results: list[Answer]


class Error(BaseModel):
    """Whatever went wrong, in one sentence."""

    error: str
    error_type: str
    field: str | None = None  # of the request, if one is to blame


class Model(BaseModel):
    name: str
    vocabulary: int
    layers: int
    styles: list[str]
    style_optional: bool  # whether it also edits without one
    presets: dict[str, dict[str, Any]]


class Models(BaseModel):
    models: list[Model]
    limits: dict[str, int]


def to_json(call: Call, result: Any) -> dict[str, Any]:
    """The answer to a call, as the command line prints it with --json, which also says what text a score is for."""
    if call.method in ("score", "transfer", "correct"):
        return result.to_dict()
    text = {"text": call.arguments["text"]}
    if call.method == "classify":
        return {**text, "styles": result}
    plural = {"locate": "slots", "infill": "fillings", "replace": "edits", "delete": "deletions"}[call.method]
    return {**text, plural: [answer.to_dict() for answer in result]}


def _is_list(value: Any) -> bool:
    """Whether a field is given for several texts: a span, too, comes as a sequence."""
    return isinstance(value, list)
