"""From revised token ids to what a person reads: every step of a transfer as an edit of the whole text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xl_editor.edits import MARKS, Edit, Trace
from xl_editor.engine import Ids
from xl_editor.sentences import split_sentences
from xl_editor.text import Codec, EncodedText
from xl_editor.transfer import Revision, Step

Classify = Callable[[Sequence[Ids]], list[dict[str, float]]]


class Sentences:
    """A text as its sentences, each of which is transferred by itself; or as one, if it is not to be split."""

    def __init__(self, codec: Codec, whole: EncodedText, *, split: bool) -> None:
        self.codec = codec
        self.whole = whole
        self.spans = split_sentences(whole.text) if split else [(0, len(whole.text))]
        # A sentence is written as the whole text is, which may show more of that than the sentence by itself.
        self.encoded = [codec.encode(whole.text[start:end], whole.tokenised) for start, end in self.spans]

    def trace(self, revisions: list[Revision], classify: Classify) -> Trace:
        """All steps, as edits of the whole text; while a sentence is being revised, those up to it."""
        text = self.whole.text
        now, edits, moved = text, [], 0
        for (start, end), encoded, revision in zip(self.spans, self.encoded, revisions, strict=True):
            left, right = now[: start + moved], text[end:]
            history = _History(self.codec, encoded)
            for step in revision.steps:
                after = left + history.apply(step) + right
                edits.append(difference(now, after, step))
                now = after
            moved = len(now) - len(text)
            if not revision.stopped:
                break
        if not all(revision.stopped for revision in revisions):
            return Trace(text, now, tuple(edits), "")
        stopped = "; ".join(dict.fromkeys(revision.stopped for revision in revisions))
        before, after_styles = classify([self.whole.ids, self.codec.encode(now, self.whole.tokenised).ids])
        return Trace(text, now, tuple(edits), stopped, before, after_styles)


def traces_of(texts: Sequence[Sentences], revisions: Sequence[Revision], classify: Classify) -> list[Trace]:
    """The revisions of all sentences of all texts, in order, as a trace for each text."""
    of_sentence = iter(revisions)
    return [text.trace([next(of_sentence) for _ in text.encoded], classify) for text in texts]


class _History:
    """A sentence as it changes: which of the user's tokens are still there, and what stands in place of the others."""

    def __init__(self, codec: Codec, encoded: EncodedText) -> None:
        self.codec = codec
        self.encoded = encoded
        self.items: list[tuple[int | None, int]] = list(enumerate(encoded.ids))  # (index in the user's text, id)

    def apply(self, step: Step) -> str:
        self.items[step.start : step.end] = [(None, token) for token in step.inserted]
        edits: list[tuple[int, int, list[int]]] = []
        done, new = 0, []
        for index, token in [*self.items, (len(self.encoded.ids), -1)]:
            if index is None:
                new.append(token)
                continue
            if new or index > done:
                edits.append((done, index, new))
            done, new = index + 1, []
        return self.codec.apply(self.encoded, edits).text


def difference(before: str, after: str, step: Step) -> Edit:
    """A step as an edit of the text: whole words, from the first that differs to the last."""
    start = _n_common(before, after)
    while (
        start > 0 and not before[start - 1].isspace() and not all(_ends_word(text, start) for text in (before, after))
    ):
        start -= 1
    tail = _n_common(before[start:][::-1], after[start:][::-1])
    while tail > 0 and not all(_begins_word(text, len(text) - tail, start) for text in (before, after)):
        tail -= 1
    removed, inserted = (text[start : len(text) - tail].strip() for text in (before, after))
    at, new_at = before.find(removed, start), after.find(inserted, start)
    return Edit(
        operation="delete" if not inserted else "replace" if removed else "insert",
        start=at,
        end=at + len(removed),
        removed=removed,
        inserted=inserted,
        text=after,
        span=(new_at, new_at + len(inserted)),
        log_odds=step.log_f,
        logprob=step.logprob,
        style_before=step.style_before,
        style_after=step.style_after,
    )


def _ends_word(text: str, at: int) -> bool:
    """Whether a word cannot go on here: at white space, and at a mark that stands at the end of a word."""
    return at == len(text) or text[at].isspace() or (text[at] in MARKS and text[at + 1 : at + 2].strip() == "")


def _begins_word(text: str, at: int, start: int) -> bool:
    return at == start or _ends_word(text, at) or text[at - 1].isspace()


def _n_common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
