"""`xl-editor split`: documents → training, development and test parts that share no text.

A document's part is decided by a hash of its text: the same document always goes to the same part, whatever else
there is. Documents that are held out but nearly stand in another part are left out: those of which more than a tenth
of all runs of eight words (lower-cased, without punctuation) are in the training part, or, for the test part, in the
development part.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xl_editor.training.corpus import Article, CorpusError, Source, read_articles

RUN_OF_WORDS = 8
MOST_SHARED = 0.1
PARTS = ("train", "valid", "test")

Hashes = NDArray[np.uint64]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class SplitCounts:
    documents: dict[str, int]  # of each part
    left_out: int  # held-out documents that nearly stand in another part
    most_shared: float  # the largest share of runs that a held-out document which was kept shares


def split(
    files: Sequence[Path], output: Path, held_out: float, progress: Callable[[str], None] = lambda _: None
) -> SplitCounts:
    """Write OUTPUT/train, valid and test, each with a packed file for each of these; see the head of this module."""
    names = [_name(path) for path in files]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise CorpusError(f"Two of the files would be written as {repeated[0]}; give them different names.")
    runs = _Runs()
    kept: list[tuple[str, str, Hashes, Article]] = []  # what is held out: its part, its file's name, its runs
    counts: Counter[str] = Counter()
    for part in PARTS:
        (output / part).mkdir(parents=True, exist_ok=True)
    for path, name in zip(files, names, strict=True):
        progress(f"{name}: which documents are held out")
        kept += [
            (part, name, runs.of(article.sentences), article)
            for article in read_articles(Source(path))
            if (part := part_of(article.sentences, held_out)) != "train"
        ]
    in_training = np.zeros(len(runs.sorted_of(hashes for _, _, hashes, _ in kept)), np.bool_)
    for path, name in zip(files, names, strict=True):
        progress(f"{name}: training part")
        with _writer(output / "train" / name) as write:
            for article in read_articles(Source(path)):
                if part_of(article.sentences, held_out) == "train":
                    write(article)
                    counts["train"] += 1
                    in_training[runs.known(runs.of(article.sentences))] = True
    in_valid = np.zeros_like(in_training)
    for part, _, hashes, _ in kept:
        if part == "valid":
            in_valid[runs.known(hashes)] = True

    left_out, most_shared = 0, 0.0
    chosen: dict[tuple[str, str], list[Article]] = {}
    for part, name, hashes, article in kept:
        elsewhere = in_training | in_valid if part == "test" else in_training
        shared = float(elsewhere[runs.known(hashes)].mean()) if len(hashes) else 0.0
        if shared > MOST_SHARED:
            left_out += 1
            continue
        most_shared = max(most_shared, shared)
        chosen.setdefault((part, name), []).append(article)
    for (part, name), articles in chosen.items():
        with _writer(output / part / name) as write:
            for article in articles:
                write(article)
        counts[part] += len(articles)
    return SplitCounts({part: counts[part] for part in PARTS}, left_out, most_shared)


def part_of(sentences: Sequence[str], held_out: float) -> str:
    """Which part a document belongs to: `held_out` of all are for testing, as many for development."""
    digest = blake2b("\n".join(sentences).encode(), digest_size=8).digest()
    at = int.from_bytes(digest, "little") / 2**64
    return "test" if at < held_out else "valid" if at < 2 * held_out else "train"


class _Runs:
    """Hashes of runs of words; once the ones that matter are known, their numbers."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._sorted: Hashes = np.zeros(0, np.uint64)

    def of(self, sentences: Sequence[str]) -> Hashes:
        """One hash for each run of words within a document."""
        words = _WORD.findall(" ".join(sentences).lower())
        hashes = np.fromiter(map(self._hash, words), np.uint64, len(words))
        n_runs = len(words) - RUN_OF_WORDS + 1
        if n_runs < 1:
            return np.zeros(0, np.uint64)
        total = np.zeros(n_runs, np.uint64)
        for offset in range(RUN_OF_WORDS):
            total = total * np.uint64(0x9E3779B97F4A7C15) + hashes[offset : offset + n_runs]
        return total ^ (total >> np.uint64(29))

    def sorted_of(self, parts: Iterable[Hashes]) -> Hashes:
        self._sorted = np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))
        return self._sorted

    def known(self, hashes: Hashes) -> NDArray[np.int64]:
        """The numbers of those hashes that matter."""
        at = np.minimum(np.searchsorted(self._sorted, hashes), max(len(self._sorted) - 1, 0))
        return at[self._sorted[at] == hashes] if len(self._sorted) else at[:0]

    def _hash(self, word: str) -> int:
        found = self._words.get(word)
        if found is None:
            digest = blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
            found = self._words[word] = int.from_bytes(digest, "little")
        return found


class _writer:  # noqa: N801 -- used like a function
    """Writes documents into a packed file, the same bytes for the same documents; it has its name when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(f".{path.name}.partial")

    def __enter__(self) -> Callable[[Article], None]:
        self.raw = self.partial.open("wb")
        self.packed = gzip.GzipFile("", "wb", 6, self.raw, mtime=0)
        return lambda article: self._write(article)

    def _write(self, article: Article) -> None:
        self.packed.write(json.dumps({"sents": article.sentences}, ensure_ascii=False).encode() + b"\n")

    def __exit__(self, kind: object, *_: object) -> None:
        self.packed.close()
        self.raw.close()
        if kind is None:
            self.partial.replace(self.path)
        else:
            self.partial.unlink()


def _name(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".xz", ".jsonl", ".ndjson"):
        name = name.removesuffix(suffix)
    return f"{name}.jsonl.gz"
