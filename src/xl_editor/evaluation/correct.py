"""Correction, measured: what is put right, what is made wrong, and how long it takes. For any `Corrector`.

- GLEU on a directory such as JFLEG's: SPLIT.src and SPLIT.ref0, SPLIT.ref1 …, tokenised, a line a sentence. Correctors
  see ordinary text; their edits are brought back to the tokens (`treebank`).
- Precision, recall and F0.5 of edits on an M2 file, missing words apart (`m2`).
- False alarms on clean text: every edit is one. Sentences that were written whole are drawn, with a fixed seed.
- Missing words: of the same sentences each loses one word, such as people leave out. A sentence is put right if it is
  as it was; precision is the share of these among the sentences that were touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import track

from xl_editor.errors import RequestError

from .correctors import Corrected, Corrector
from .gleu import Gleu, corpus_gleu
from .m2 import AnnotatedSentence, EditScores, score_edits
from .news_tasks import read_articles
from .style_data import read_lines
from .tables import table_header, table_row
from .treebank import detokenise, retokenise

SEED = 0
TEXTS_AT_ONCE = 500
MIN_WORDS, MAX_WORDS = 5, 60  # of a clean sentence
WHOLE_SENTENCE = re.compile(r"[\"“]?[A-Z].*[.!?][\"”]?")
# What is left out most in what people write, and can be told from the rest: a missing adjective cannot.
LEFT_OUT = re.compile(
    "an?|the|of|to|in|on|at|for|with|by|from|about|into|as|than|and|but|or|if|that|which|who|what|when|not|"
    "is|are|was|were|be|been|being|am|has|have|had|do|does|did|will|would|can|could|should|may|might|must|"
    "it|he|she|they|we|i|you|his|her|their|our|your|my|its|him|them|us|there|this|these|those",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class References:
    """Sentences that people have corrected, all tokenised."""

    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]

    @classmethod
    def open(cls, directory: Path, split: str) -> References:
        files = sorted(directory.glob(f"{split}.ref[0-9]*"))
        sources = read_lines(directory / f"{split}.src")
        if not files:
            raise FileNotFoundError(f"{directory} has no {split}.ref0.")
        for file in files:
            if len(read_lines(file)) != len(sources):
                raise RequestError(f"{file} has {len(read_lines(file))} lines, but {split}.src has {len(sources)}.")
        return cls(sources, tuple(map(read_lines, files)))


@dataclass(frozen=True)
class FalseAlarms:
    n_sentences: int
    n_words: int
    n_edits: int
    n_touched: int  # sentences

    def __add__(self, other: FalseAlarms) -> FalseAlarms:
        return FalseAlarms(*(mine + theirs for mine, theirs in zip(*map(_values, (self, other)), strict=True)))

    @property
    def per_1000_words(self) -> float:
        return 1000 * self.n_edits / max(1, self.n_words)

    @property
    def share_touched(self) -> float:
        return self.n_touched / max(1, self.n_sentences)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "per_1000_words": self.per_1000_words, "share_touched": self.share_touched}


@dataclass(frozen=True)
class MissingWords:
    n_sentences: int
    n_touched: int
    n_right: int

    def __add__(self, other: MissingWords) -> MissingWords:
        return MissingWords(*(mine + theirs for mine, theirs in zip(*map(_values, (self, other)), strict=True)))

    @property
    def share_right(self) -> float:
        return self.n_right / max(1, self.n_sentences)

    @property
    def precision(self) -> float | None:
        """Of the sentences that were touched, the share that was put right; none if there are none."""
        return self.n_right / self.n_touched if self.n_touched else None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share_right": self.share_right, "precision": self.precision}


def _values(counts: FalseAlarms | MissingWords) -> tuple[int, ...]:
    return tuple(vars(counts).values())


@dataclass(frozen=True)
class CorrectionScores:
    """One row of the table; what was not asked for is not there."""

    name: str
    gleu: Gleu | None
    edits: EditScores | None
    false_alarms: Mapping[str, FalseAlarms]  # by domain
    missing_words: Mapping[str, MissingWords]  # by domain
    seconds_to_start: float  # until a first, short text is corrected
    seconds_a_sentence: float  # after that

    def to_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "gleu": self.gleu and self.gleu.to_dict(),
            "edits": self.edits and self.edits.to_dict(),
            "false_alarms": {domain: found.to_dict() for domain, found in self.false_alarms.items()},
            "missing_words": {domain: found.to_dict() for domain, found in self.missing_words.items()},
        }


@dataclass
class _Timed:
    """A corrector with a watch, asked some texts at a time."""

    corrector: Corrector
    progress: bool
    seconds: float = 0.0
    n_texts: int = 0
    seconds_to_start: float = field(init=False)

    def __post_init__(self) -> None:
        self.seconds_to_start = self._watched(["This is fine."])[1]

    def _watched(self, texts: Sequence[str]) -> tuple[list[Corrected], float]:
        start = perf_counter()
        corrected = self.corrector.correct(texts)
        return corrected, perf_counter() - start

    def correct(self, texts: Sequence[str], what: str) -> list[Corrected]:
        found: list[Corrected] = []
        told = f"{self.corrector.name}, {what}"
        starts = range(0, len(texts), TEXTS_AT_ONCE)
        for first in track(starts, description=told, console=Console(stderr=True), disable=not self.progress):
            corrected, seconds = self._watched(texts[first : first + TEXTS_AT_ONCE])
            found += corrected
            self.seconds += seconds
        self.n_texts += len(texts)
        return found

    def correct_tokenised(self, lines: Sequence[str], what: str) -> list[str]:
        sources = [detokenise(line) for line in lines]
        corrected = self.correct([source.text for source in sources], what)
        return [retokenise(source, found.edits) for source, found in zip(sources, corrected, strict=True)]


def evaluate_corrector(
    corrector: Corrector,
    references: References | None = None,
    annotated: Sequence[AnnotatedSentence] = (),
    clean: Mapping[str, Sequence[str]] | None = None,
    *,
    progress: bool = True,
) -> CorrectionScores:
    """Measures all that there is data for; clean sentences come by domain."""
    timed = _Timed(corrector, progress)
    gleu = edits = None
    if references:
        outputs = timed.correct_tokenised(references.sources, "references")
        gleu = corpus_gleu(references.sources, references.references, outputs)
    if annotated:
        outputs = timed.correct_tokenised([" ".join(sentence.words) for sentence in annotated], "annotated edits")
        edits = score_edits(annotated, outputs)
    alarms, missing = {}, {}
    for domain, sentences in (clean or {}).items():
        alarms[domain] = count_false_alarms(sentences, timed.correct(sentences, domain))
        pairs = without_a_word(sentences)
        corrected = timed.correct([text for text, _ in pairs], f"{domain}, a word missing")
        missing[domain] = count_put_right(pairs, corrected)
    return CorrectionScores(
        name=corrector.name,
        gleu=gleu,
        edits=edits,
        false_alarms=alarms,
        missing_words=missing,
        seconds_to_start=timed.seconds_to_start,
        seconds_a_sentence=timed.seconds / max(1, timed.n_texts),
    )


def clean_sentences(path: Path, n_sentences: int) -> list[str]:
    """Sentences of a JSONL file (`sents`) that look whole, drawn with a fixed seed and in order."""
    sentences = (" ".join(sentence.split()) for article in read_articles(path) for sentence in article)
    whole = [sentence for sentence in sentences if is_whole(sentence)]
    if not whole:
        raise RequestError(f"{path} has no whole sentence of {MIN_WORDS} to {MAX_WORDS} words.")
    chosen = Random(SEED).sample(range(len(whole)), min(n_sentences, len(whole)))
    return [whole[index] for index in sorted(chosen)]


def is_whole(sentence: str) -> bool:
    n_words = len(sentence.split())
    return MIN_WORDS <= n_words <= MAX_WORDS and WHOLE_SENTENCE.fullmatch(sentence) is not None


def without_a_word(sentences: Sequence[str]) -> list[tuple[str, str]]:
    """Each sentence without one word of those that people leave out, and as it was; those that have none are left out.

    The first word stays, because what follows would have to be capitalised, and the last, which carries the full stop.
    """
    random = Random(SEED)
    pairs = []
    for sentence in sentences:
        words = sentence.split()
        places = [place for place in range(1, len(words) - 1) if LEFT_OUT.fullmatch(words[place])]
        if places:
            place = random.choice(places)
            pairs.append((" ".join([*words[:place], *words[place + 1 :]]), " ".join(words)))
    return pairs


def count_false_alarms(sentences: Sequence[str], corrected: Sequence[Corrected]) -> FalseAlarms:
    edits = [
        sum(text[edit.start : edit.end] != edit.text for edit in found.edits)
        for text, found in zip(sentences, corrected, strict=True)
    ]
    n_words = sum(len(sentence.split()) for sentence in sentences)
    return FalseAlarms(len(sentences), n_words, sum(edits), sum(map(bool, edits)))


def count_put_right(pairs: Sequence[tuple[str, str]], corrected: Sequence[Corrected]) -> MissingWords:
    touched = right = 0
    for (text, whole), found in zip(pairs, corrected, strict=True):
        touched += found.text != text
        right += found.text.split() == whole.split()
    return MissingWords(len(pairs), touched, right)


def markdown_table(rows: Sequence[CorrectionScores]) -> str:
    """All measures of all correctors; below, those that depend on the domain by domain; and how it was measured."""
    header = table_header(
        *("corrector", "GLEU", "edits P / R / F0.5", "of these missing words", "false alarms per 1,000 words"),
        *("sentences touched", "missing word put right", "precision", "ms a sentence", "s to start"),
    )
    lines = [header]
    for row in rows:
        edits = [str(row.edits.edits), str(row.edits.missing_words)] if row.edits else ["–", "–"]
        gleu = f"{row.gleu.score:.2f} [{row.gleu.interval.low:.1f}, {row.gleu.interval.high:.1f}]" if row.gleu else "–"
        alarms = sum(row.false_alarms.values(), FalseAlarms(0, 0, 0, 0)) if row.false_alarms else None
        missing = sum(row.missing_words.values(), MissingWords(0, 0, 0)) if row.missing_words else None
        times = [f"{1000 * row.seconds_a_sentence:.1f}", f"{row.seconds_to_start:.1f}"]
        lines.append(table_row([row.name, gleu, *edits, *_alarm_cells(alarms), *_missing_cells(missing), *times]))
    domains = list(rows[0].false_alarms)
    if len(domains) > 1:
        lines += ["", table_header("domain", "corrector", *header.splitlines()[0].split(" | ")[4:8])]
        for domain in domains:
            for row in rows:
                cells = [*_alarm_cells(row.false_alarms[domain]), *_missing_cells(row.missing_words[domain])]
                lines.append(table_row([domain, row.name, *cells]))
    signatures = dict.fromkeys(row.gleu.signature for row in rows if row.gleu)
    return "\n".join([*lines, *([""] if signatures else []), *(f"- Signature: `{text}`" for text in signatures)])


def _alarm_cells(found: FalseAlarms | None) -> list[str]:
    return [f"{found.per_1000_words:.1f}", f"{found.share_touched:.1%}"] if found else ["–", "–"]


def _missing_cells(found: MissingWords | None) -> list[str]:
    if found is None:
        return ["–", "–"]
    return [f"{found.share_right:.1%}", "–" if found.precision is None else f"{found.precision:.1%}"]
