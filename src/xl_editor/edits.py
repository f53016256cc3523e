"""What an editor answers: plain values that Python, the command line, JSON, HTTP and the web page all render.

Offsets are character offsets into the text that the user gave; in a trace, into what the edits before have made of it.
Log-probabilities and odds are natural logarithms.
`render` underlines what was put in and strikes out what was taken out; `marked`, for what is no terminal, writes
{+put in+} and [-taken out-] instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rich.text import Text

Operation = Literal["insert", "replace", "delete"]
MARKS = ".,;:!?"  # that stand at the end of a word


class _Result:
    """Everything that is answered becomes JSON the same way."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Score(_Result):
    """log q(inserted | left ↓ right), and its parts."""

    logprob: float
    token_logprobs: tuple[float, ...]  # END last
    tokens: tuple[str, ...]
    perplexity: float  # exp(−logprob / number of tokens, END included)

    def render(self, *, marked: bool = False) -> Text:
        line = Text(f"log q {self.logprob:.4f}  perplexity {self.perplexity:.2f}  ")
        for token, logprob in zip(self.tokens, self.token_logprobs, strict=True):
            # What marks the beginning of a word in some vocabularies is told by the space already.
            line.append(f" {token.lstrip('Ġ▁') or token}", style="bold").append(f" {logprob:.2f}", style="dim")
        return line


@dataclass(frozen=True)
class Slot(_Result):
    """A place between words, and how sure the model is that nothing is missing there."""

    char: int
    logprob_end: float  # log q̂(END): low where something is missing
    before: str  # the text on both sides, for reading
    after: str

    def render(self, *, marked: bool = False) -> Text:
        line = Text(f"{self.logprob_end:8.3f}  ", style="dim")
        before, after = (re.sub(r"\s+", " ", side) for side in (self.before, self.after))  # one line
        return line.append(before).append("‸", style="bold red").append(after)


@dataclass(frozen=True)
class Filling(_Result):
    """One way to fill the blanks of a text."""

    text: str
    inserted: tuple[str, ...]  # one for each blank
    spans: tuple[tuple[int, int], ...]  # where they stand in `text`
    logprob: float

    def render(self, *, marked: bool = False) -> Text:
        return Text(f"{self.logprob:8.3f}  ", style="dim").append_text(_with_insertions(self.text, self.spans, marked))


@dataclass(frozen=True)
class Change:
    """What makes one text of another: characters [start, end), replaced; white space that goes or comes included."""

    start: int
    end: int
    replacement: str

    @classmethod
    def between(cls, before: str, after: str, removed: tuple[int, int], inserted: tuple[int, int]) -> Change:
        """The change of which these are the words, and beyond which the texts differ in white space and case alone."""
        (start, end), (new_start, new_end) = removed, inserted
        if before[:start] != after[:new_start]:
            start, new_start = len(before[:start].rstrip()), len(after[:new_start].rstrip())
        if before[end:] != after[new_end:]:
            right, new_right = before[end:].lstrip(), after[new_end:].lstrip()
            # The word after it may have another case now: only its first letter, and it is as long as it was.
            n_recased = int(len(right) == len(new_right) and right[:1] != new_right[:1])
            end, new_end = len(before) - len(right) + n_recased, len(after) - len(new_right) + n_recased
        return cls(start, end, after[new_start:new_end])


@dataclass(frozen=True)
class Edit(_Result):
    """A change of a text: characters [start, end) of what was there, replaced."""

    operation: Operation
    start: int
    end: int
    removed: str
    inserted: str
    text: str  # with the change made
    span: tuple[int, int]  # where `inserted` stands in `text`
    # log q(inserted) − log q(removed) in the same place; in a transfer log f of what was removed, None if forced
    log_odds: float | None
    logprob: float  # log q(inserted)
    change: Change  # to the letter, where `removed` and `inserted` are words
    style_before: Mapping[str, float] | None = None  # of a transfer's step: p(style | text)
    style_after: Mapping[str, float] | None = None

    @classmethod
    def between(
        cls,
        before: str,
        after: str,
        removed: tuple[int, int],
        inserted: tuple[int, int],
        *,
        log_odds: float | None,
        logprob: float,
        style_before: Mapping[str, float] | None = None,
        style_after: Mapping[str, float] | None = None,
    ) -> Edit:
        """The edit that made one text of another, by its characters in both."""
        old, new = before[slice(*removed)], after[slice(*inserted)]
        return cls(
            operation="delete" if not new else "replace" if old else "insert",
            start=removed[0],
            end=removed[1],
            removed=old,
            inserted=new,
            text=after,
            span=inserted,
            log_odds=log_odds,
            logprob=logprob,
            change=Change.between(before, after, removed, inserted),
            style_before=style_before,
            style_after=style_after,
        )

    def render(self, *, marked: bool = False) -> Text:
        start, end = self.span
        odds = "  forced" if self.log_odds is None else f"{self.log_odds:+8.3f}"
        line = Text(f"{odds}  ", style="dim").append(self.text[:start])
        line.append_text(_taken_out(self.removed, marked))
        if self.removed and (self.inserted[:1] not in MARKS if self.inserted else self.text[end : end + 1].isalnum()):
            line.append(" ")
        return line.append_text(_put_in(self.inserted, marked)).append(self.text[end:])


@dataclass(frozen=True)
class Deletion(_Result):
    """A part of a text, and how well the text would do without it."""

    start: int
    end: int
    removed: str
    text: str  # without it
    log_odds: float  # log q(ε) − log q(removed)
    perplexity_ratio: float  # PPL(removed) / PPL(nothing): high for what does not belong
    perplexity_without: float | None = None  # of the text around it without it, if asked for ("+ rank")
    information: float | None = None  # nats a token that it and the rest tell about each other, if asked for

    def render(self, *, marked: bool = False) -> Text:
        if self.information is not None:
            numbers = f"{self.information:+8.3f}"
        elif self.perplexity_without is not None:
            numbers = f"{self.perplexity_without:8.2f}"
        else:
            numbers = f"×{self.perplexity_ratio:<9.4g} {self.log_odds:+8.2f}"
        return Text(f"{numbers}  ", style="dim").append_text(_taken_out(self.removed, marked))


@dataclass(frozen=True)
class Trace(_Result):
    """A style transfer, step by step."""

    source: str
    text: str
    edits: tuple[Edit, ...]
    stopped: str  # why it went no further
    style_before: Mapping[str, float] = field(default_factory=dict)
    style_after: Mapping[str, float] = field(default_factory=dict)

    def render(self, *, marked: bool = False) -> Text:
        lines = [Text(self.source)]
        lines += [edit.render(marked=marked) for edit in self.edits]
        lines.append(Text(f"stopped: {self.stopped}{self._swing()}", style="dim"))
        return Text("\n").join(lines)

    def _swing(self) -> str:
        """How probable the style is that has gained most, before and after."""
        gains = {style: self.style_after[style] - before for style, before in self.style_before.items()}
        if not gains:
            return ""
        style = max(gains, key=lambda style: (gains[style], self.style_after[style]))
        return f"; {style} {self.style_before[style]:.2f} → {self.style_after[style]:.2f}"


@dataclass(frozen=True)
class OtherCorrection(_Result):
    """Something else that could stand there."""

    new: str
    log_odds: float
    probability: float


@dataclass(frozen=True)
class CorrectionEdit(_Result):
    """A correction: characters [start, end) of the old text, `old`, become `new`."""

    kind: Operation
    start: int
    end: int
    old: str
    new: str
    log_odds: float  # log q(new) − log q(old) in the same place
    probability: float  # q(new)
    alternatives: tuple[OtherCorrection, ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


@dataclass(frozen=True)
class Correction(_Result):
    """A text and what should be changed in it. The edits, in order and apart, made in the source give the text."""

    source: str
    text: str
    edits: tuple[CorrectionEdit, ...]

    @classmethod
    def of(cls, source: str, edits: Sequence[CorrectionEdit]) -> Correction:
        return cls(source, corrected(source, edits), tuple(edits))

    def render(self, *, marked: bool = False) -> Text:
        line, done = Text(), 0
        for edit in self.edits:
            line.append(self.source[done : edit.start])
            line.append_text(_taken_out(edit.old, marked)).append_text(_put_in(edit.new, marked))
            done = edit.end
        return line.append(self.source[done:])


def corrected(source: str, edits: Sequence[CorrectionEdit]) -> str:
    """The source with these edits made."""
    parts, done = [], 0
    for edit in edits:
        parts += [source[done : edit.start], edit.new]
        done = edit.end
    return "".join([*parts, source[done:]])


def _put_in(text: str, marked: bool) -> Text:
    return Text(f"{{+{text}+}}" if marked and text else text, style="underline green")


def _taken_out(text: str, marked: bool) -> Text:
    return Text(f"[-{text}-]" if marked and text else text, style="strike red")


def _with_insertions(text: str, spans: tuple[tuple[int, int], ...], marked: bool) -> Text:
    line, done = Text(), 0
    for start, end in spans:
        line.append(text[done:start]).append_text(_put_in(text[start:end], marked))
        done = end
    return line.append(text[done:])
