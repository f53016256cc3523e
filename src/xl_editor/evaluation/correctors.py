"""What corrects text, asked in one way: the baseline that does nothing, and two programs of others to compare with."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from xl_editor.editor import Editor
from xl_editor.errors import RequestError

from .treebank import TextEdit, apply

# Kinds of Harper's that tell of taste, not of errors.
HARPER_STYLE = ("Enhancement", "Readability", "Regionalism", "Style")
SYMSPELL_DISTANCE = 2  # letters: the default of its authors


@dataclass(frozen=True)
class Corrected:
    text: str
    edits: tuple[TextEdit, ...]  # of the text that was given, in order, none overlapping another

    @classmethod
    def of(cls, text: str, edits: Sequence[TextEdit]) -> Corrected:
        return cls(apply(text, edits), tuple(edits))


class Corrector(Protocol):
    """Anything that corrects texts."""

    @property
    def name(self) -> str: ...

    def correct(self, texts: Sequence[str]) -> list[Corrected]:
        """Each text after its correction, and what was done to it."""
        ...


class Nothing:
    """Leaves all as it is."""

    name = "nothing"

    def correct(self, texts: Sequence[str]) -> list[Corrected]:
        return [Corrected(text, ()) for text in texts]


class Harper:
    """Harper (https://writewithharper.com): the first suggestion of each lint is taken, matters of style are not."""

    name = "Harper"

    def correct(self, texts: Sequence[str]) -> list[Corrected]:
        lines = [" ".join(text.split("\n")) for text in texts]
        # One document with a paragraph a text: to start the program anew for each would take most of the time.
        edits = iter(_harper_edits(_harper_lints("\n\n".join(lines))))
        edit = next(edits, None)
        corrected, start = [], 0
        for line in lines:
            end = start + len(line)
            of_line = []
            while edit and edit.end <= end:
                of_line.append(TextEdit(edit.start - start, edit.end - start, edit.text))
                edit = next(edits, None)
            corrected.append(Corrected.of(line, of_line))
            start = end + 2
        return corrected


def _harper_lints(document: str) -> list[dict[str, Any]]:
    from harper.__main__ import find_binary_path

    with tempfile.TemporaryDirectory() as directory, find_binary_path() as program:
        (Path(directory) / "text.txt").write_text(document, encoding="utf-8")
        # No words of the user's own: a measurement must not depend on whose machine it is.
        dictionaries = ("--user-dict-path", "none.txt", "--file-dict-path", "none")
        command = [str(program), "lint", "--format", "json", "--quiet", *dictionaries, "text.txt"]
        # It also fails if it has found something: only what it prints tells.
        run = subprocess.run(command, cwd=directory, capture_output=True, encoding="utf-8", check=False)
    try:
        (found,) = json.loads(run.stdout)
    except ValueError:
        raise RuntimeError(f"Harper gave no answer: {run.stderr.strip()}") from None
    return list(found["lints"])


def _harper_edits(lints: Sequence[dict[str, Any]]) -> list[TextEdit]:
    """The first suggestions, from left to right; where two overlap, the first."""
    edits: list[TextEdit] = []
    for lint in sorted(lints, key=lambda lint: (lint["span"]["char_start"], lint["span"]["char_end"])):
        if lint["kind"] in HARPER_STYLE or not lint["suggestions"]:
            continue
        start, end = lint["span"]["char_start"], lint["span"]["char_end"]
        suggestion = re.fullmatch(r"(Replace with: |Insert )“(.*)”|Remove error", lint["suggestions"][0], re.DOTALL)
        if suggestion is None:
            raise RuntimeError(f"Harper suggests something unheard of: {lint['suggestions'][0]}")
        if suggestion[1] == "Insert ":
            start = end
        if not edits or start >= edits[-1].end:
            edits.append(TextEdit(start, end, suggestion[2] or ""))
    return edits


class SymSpell:
    """SymSpell, for spelling alone: the most frequent of the words that are nearest in letters.

    Asked about words of letters that begin small, and about the first of a text; others are mostly names.
    """

    name = "SymSpell"

    @cached_property
    def _lookup(self) -> Callable[[str], str]:
        from symspellpy import SymSpell as Dictionary
        from symspellpy import Verbosity

        dictionary = Dictionary(max_dictionary_edit_distance=SYMSPELL_DISTANCE)
        with resources.files("symspellpy").joinpath("frequency_dictionary_en_82_765.txt").open() as words:
            dictionary.load_dictionary(words, term_index=0, count_index=1)

        def nearest(word: str) -> str:
            found = dictionary.lookup(word, Verbosity.TOP, include_unknown=True, transfer_casing=True)
            return found[0].term

        return nearest

    def correct(self, texts: Sequence[str]) -> list[Corrected]:
        return [Corrected.of(text, list(self._edits(text))) for text in texts]

    def _edits(self, text: str) -> list[TextEdit]:
        edits = []
        for match in re.finditer(r"(?<![\w'’&.@/-])[^\W\d_]{2,}(?![\w'’&@/-]|\.\w)", text):
            word = match[0]
            if word.islower() or (word.istitle() and not text[: match.start()].strip("\"'“‘( ")):
                nearest = self._lookup(word)
                if nearest != word:
                    edits.append(TextEdit(*match.span(), nearest))
        return edits


class OurEditor:
    """A model of ours, with its own threshold unless another is given."""

    def __init__(self, editor: Editor, threshold: float | None = None) -> None:
        self.name = "XL-Editor" if threshold is None else f"XL-Editor, threshold {threshold:g}"
        self._editor = editor
        self._threshold = threshold

    def correct(self, texts: Sequence[str]) -> list[Corrected]:
        found = self._editor.correct_all(texts, threshold=self._threshold, n=0)
        return [
            Corrected(one.text, tuple(TextEdit(edit.start, edit.end, edit.new) for edit in one.edits)) for one in found
        ]


CORRECTORS: dict[str, Callable[[], Corrector]] = {"nothing": Nothing, "harper": Harper, "symspell": SymSpell}


def open_corrector(name: str) -> Corrector:
    if name not in CORRECTORS:
        raise RequestError(f"corrector must be one of {', '.join(CORRECTORS)}, got {name!r}.", "corrector")
    return CORRECTORS[name]()
