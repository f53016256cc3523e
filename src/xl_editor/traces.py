"""From revised token ids to what a person reads: every step of a transfer as an edit of the whole text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from xl_editor.edits import MARKS, Edit
from xl_editor.engine import Ids
from xl_editor.operations.transfer import Revision, Step
from xl_editor.sentences import split_sentences
from xl_editor.text import Codec, EncodedText, Span


class Sentences:
    """A text as its sentences, each of which is transferred by itself; or as one, if it is not to be split."""

    def __init__(self, codec: Codec, whole: EncodedText, *, split: bool) -> None:
        self.codec = codec
        self.whole = whole
        everything = (0, len(whole.text))
        self.spans = split_sentences(whole.text) if split else [everything]
        # A sentence is written as the whole text is, which may show more of that than the sentence by itself.
        self.encoded = [
            whole if (start, end) == everything else codec.encode(whole.text[start:end], whole.tokenised)
            for start, end in self.spans
        ]


class TraceWriter:
    """Writes down the steps of a transfer, sentence after sentence, as edits of the whole text."""

    def __init__(self, sentences: Sentences) -> None:
        self.text = sentences.whole.text  # with the edits so far
        self.edits: list[Edit] = []
        self._sentences = [  # with what follows each
            (_Rewritten(sentences.codec, encoded), self.text[end:])
            for encoded, (_, end) in zip(sentences.encoded, sentences.spans, strict=True)
        ]
        self._n_written = 0  # sentences to which all has been done
        self._revisions: dict[int, Revision] = {}  # by the number of the sentence, as far as they have come

    def follow(self, number: int, revision: Revision) -> list[Edit]:
        """Take note of what has become of a sentence so far; the edits that can be told now, in the text's order."""
        self._revisions[number] = revision
        n_told = len(self.edits)
        while (found := self._revisions.get(self._n_written)) is not None:
            sentence, right = self._sentences[self._n_written]
            left = self.text[: len(self.text) - len(right) - len(sentence.text)]
            for step in found.steps[sentence.n_steps :]:
                before = self.text
                removed, inserted = (_moved(span, len(left)) for span in sentence.apply(step))
                self.text = left + sentence.text + right
                self.edits.append(_edit(before, self.text, removed, inserted, step))
            if not found.stopped:
                break
            self._n_written += 1
        return self.edits[n_told:]


class _Rewritten:
    """A sentence as it changes: which of the user's tokens are still there, and what stands in place of the others."""

    def __init__(self, codec: Codec, encoded: EncodedText) -> None:
        self.codec = codec
        self.encoded = encoded
        self.items: list[tuple[int | None, int]] = list(enumerate(encoded.ids))  # (index in the user's text, id)
        self.text, self.spans = encoded.text, encoded.spans
        self.n_steps = 0

    def apply(self, step: Step) -> tuple[Span, Span]:
        """Make a step; the characters that it took out of the text before, and those that it put into the new one.

        Of tokens that are put back where they were, at either end, nothing is told.
        """
        old = [token for _, token in self.items[step.start : step.end]]
        n_before = _n_common(old, step.inserted)
        n_after = _n_common(old[n_before:][::-1], step.inserted[n_before:][::-1])
        first, last = step.start + n_before, step.end - n_after
        removed = _characters(self.spans, first, last, len(self.text))
        self.items[step.start : step.end] = [(None, token) for token in step.inserted]
        self.n_steps += 1
        edits: list[tuple[int, int, Ids]] = []
        done, new = 0, []
        for index, token in [*self.items, (len(self.encoded.ids), -1)]:
            if index is None:
                new.append(token)
                continue
            if new or index > done:
                edits.append((done, index, tuple(new)))
            done, new = index + 1, []
        applied = self.codec.apply(self.encoded, edits)
        self.text, self.spans = applied.text, applied.spans
        new_last = step.start + len(step.inserted) - n_after
        return removed, _characters(self.spans, first, new_last, len(self.text))


def _n_common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _characters(spans: Sequence[Span], first: int, last: int, n_characters: int) -> Span:
    """Of tokens [first, last); of none, the place before a token."""
    if first < last:
        return spans[first][0], spans[last - 1][1]
    place = spans[first][0] if first < len(spans) else spans[-1][1] if spans else n_characters
    return place, place


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _edit(before: str, after: str, removed: Span, inserted: Span, step: Step) -> Edit:
    return Edit.between(
        before,
        after,
        *whole_words(before, after, removed, inserted),
        log_odds=step.log_f,
        logprob=step.logprob,
        style_before=step.style_before,
        style_after=step.style_after,
    )


def whole_words(before: str, after: str, removed: Span, inserted: Span) -> tuple[Span, Span]:
    """A change as one of whole words, as people write them, beyond which both texts agree but for white space.

    So what is taken out of "can't" is told as a change of "can't"; and so is a word that gets another case because
    of what now stands before it.
    """
    (start, end), (new_start, new_end) = removed, inserted
    while not (
        before[:start].rstrip() == after[:new_start].rstrip() and _is_edge(before, start) and _is_edge(after, new_start)
    ):
        left, new_left = before[:start].rstrip(), after[:new_start].rstrip()
        has_space = len(left) < start or len(new_left) < new_start
        start, new_start = (len(left), len(new_left)) if has_space else (max(0, start - 1), max(0, new_start - 1))
    while not (
        before[end:].lstrip() == after[new_end:].lstrip() and _is_edge(before, end) and _is_edge(after, new_end)
    ):
        right, new_right = before[end:].lstrip(), after[new_end:].lstrip()
        has_space = len(right) < len(before) - end or len(new_right) < len(after) - new_end
        if has_space:
            end, new_end = len(before) - len(right), len(after) - len(new_right)
        else:
            end, new_end = min(len(before), end + 1), min(len(after), new_end + 1)
    if new_start == new_end and start > 0 and not before[start - 1].isspace():  # a mark goes from the word before it
        new_start = new_end = len(after[:new_start].rstrip())
    return (start, end), (new_start, new_end)


def _is_edge(text: str, at: int) -> bool:
    """Whether no word goes on here: beside white space, and before a mark that stands at the end of a word."""
    if at in (0, len(text)) or text[at].isspace() or text[at - 1].isspace():
        return True
    return text[at] in MARKS and text[at + 1 : at + 2].strip() == ""
