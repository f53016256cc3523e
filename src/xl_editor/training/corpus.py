"""Text files → token arrays on disk, memory-mapped, and the sequences of an epoch.

A corpus is a list of articles, an article a list of sentences. A plain text file holds an article of one
sentence a line; JSONL holds an article a line with `sents` (a list of sentences) or `text`, and maybe its
`style`. Both may be packed (.gz, .xz). A corpus is tokenised once for each tokenizer, into a cache directory
named by a hash of all that went into it; how a run makes sequences of it is not part of that, so runs share
it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from xl_editor.errors import RequestError
from xl_editor.files import DAMAGED, content_digest, sync, sync_tree, unpack
from xl_editor.text import TOKENIZER_FILE, starts_word
from xl_editor.training.sampling import Bools, Ints, random_bits, uniform
from xl_editor.training.vocabulary import (
    Kind,
    is_special,
    may_be_style,
    special_ids,
    train_tokenizer,
)

Progress = Callable[[int, int], None]  # bytes read so far, of how many (as the files stand on disk)

CACHE_VERSION = 2  # to be raised when the same input is to give other arrays
SENTENCES_AT_ONCE = 4096
HOLD_OUT_EVERY = 50  # which article of a corpus without a development split is held out

TOKENS_FILE = "tokens.bin"
COUNTS_FILE = "counts.json"
ARRAY_FILES = ("sentence_offsets.npy", "article_offsets.npy", "styles.npy", "files.npy")


class CorpusError(RequestError):
    """Text that cannot be trained on, in one sentence that names the file and, if there is one, the line."""


@dataclass(frozen=True)
class Source:
    """A file of text, all of it in one style if that is given."""

    path: Path
    style: str | None = None
    holds_pairs: bool = False  # a line is a pair (see `pairs`): two texts

    @property
    def is_jsonl(self) -> bool:
        return not {".jsonl", ".ndjson"}.isdisjoint(suffix.lower() for suffix in self.path.suffixes[-2:])

    @property
    def name(self) -> str:
        """The file's, without its endings."""
        return self.path.name.removesuffix("".join(self.path.suffixes[-2:]))


@dataclass(frozen=True, slots=True)
class Article:
    sentences: list[str]
    style: str | None
    path: Path
    line: int


@dataclass(frozen=True)
class Counts:
    """What was found in the files."""

    n_articles: int
    n_sentences: int
    n_tokens: int
    n_unknown: int  # tokens that became <unk>
    n_empty_lines: int  # skipped
    n_bad_lines: int  # skipped: not UTF-8


@dataclass(frozen=True)
class Sequences:
    """What one epoch trains on: `tokens[starts[i]:ends[i]]`, in the order of the corpus."""

    starts: Ints  # (N,)
    ends: Ints  # (N,)
    styles: NDArray[np.int16]  # (N,) index into the corpus' `style_names`, or −1
    n_cut: int  # how many were longer than allowed

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Ints:
        return self.ends - self.starts


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus. The arrays are memory-mapped: nothing is read before it is used."""

    tokens: NDArray[np.unsignedinteger[Any]]  # (n_tokens,)
    sentence_offsets: Ints  # (n_sentences + 1,) into tokens
    article_offsets: Ints  # (n_articles + 1,) into sentences
    styles: NDArray[np.int16]  # (n_articles,) index into style_names, or −1
    files: NDArray[np.int16]  # (n_articles,) which of the files it is from
    starts_word: Bools  # (vocabulary,)
    unk: int  # the id of what the vocabulary lacks
    style_names: tuple[str, ...]
    counts: Counts  # of the chosen articles
    fingerprint: str  # of the text and of the vocabulary
    chosen: Bools | None = None  # (n_articles,) the articles that are used; all by default
    shares: NDArray[np.float64] | None = None  # (n_files,) of each file's articles that an epoch takes; all by default

    def sequences(
        self,
        *,
        window: int,
        max_tokens: int,
        least_window: int | None = None,
        whole_windows: bool = False,
        seed: int = 0,
        epoch: int | None = None,
    ) -> Sequences:
        """Windows of `window` consecutive sentences that cover each article once.

        Where the first window of an article ends depends on (seed, epoch, article), so that other sentences
        meet in the next epoch; without an epoch (for evaluation) it is always a whole one. The windows at
        both ends of an article may be shorter; if `window` > 1, they are left out if they have but one token. What
        exceeds `max_tokens` is cut off, after a whole word. With `least_window`, each article has windows of another
        length, from that to `window`. With `whole_windows`, shorter ones are left out. Which articles of a file with a
        share an epoch takes depends on (seed, epoch, article); without an epoch it is all of them.
        """
        n_sentences = np.diff(self.article_offsets)
        numbers = np.arange(len(n_sentences))
        lengths = np.full(len(n_sentences), window)  # of each article's windows
        if least_window is not None:
            bits = random_bits(numbers, "length of windows", seed=seed, epoch=-1 if epoch is None else epoch)
            lengths = least_window + (bits % np.uint64(window - least_window + 1)).astype(np.int64)
        articles = np.repeat(numbers, n_sentences)  # of each sentence
        index = np.arange(len(articles)) - self.article_offsets[articles]  # within its article
        phase = np.zeros(len(n_sentences), np.int64)
        if epoch is not None:
            bits = random_bits(numbers, "phase of windows", seed=seed, epoch=epoch)
            phase = (bits % lengths.astype(np.uint64)).astype(np.int64)
        first = np.flatnonzero((index == 0) | ((index - phase[articles]) % lengths[articles] == 0))
        starts = self.sentence_offsets[first]
        ends = np.append(starts[1:], self.sentence_offsets[-1])[: len(starts)]
        used = ends - starts >= min(window, 2)
        if whole_windows:
            used &= np.diff(first, append=len(articles)) == lengths[articles[first]]
        if self.chosen is not None:
            used &= self.chosen[articles[first]]
        if self.shares is not None and epoch is not None:
            taken = uniform(numbers, "is the article taken", seed=seed, epoch=epoch) < self.shares[self.files]
            used &= taken[articles[first]]
        starts, ends, styles = starts[used], ends[used], self.styles[articles[first[used]]]
        too_long = np.flatnonzero(ends - starts > max_tokens)
        for i in too_long:
            ends[i] = self._end_of_word(int(starts[i]), int(starts[i]) + max_tokens)
        return Sequences(starts, ends, styles, len(too_long))

    def _end_of_word(self, start: int, limit: int) -> int:
        """The last end of a word in start..limit; the limit itself, if there is none."""
        begins = np.flatnonzero(self.starts_word[self.tokens[start + 1 : limit + 1]])
        return start + 1 + int(begins[-1]) if len(begins) else limit

    def choose(self, chosen: Bools) -> Corpus:
        """These of its articles, counted. *Shape:* (n_articles,)."""
        n_sentences = np.diff(self.article_offsets)
        in_chosen = np.repeat(np.repeat(chosen, n_sentences), np.diff(self.sentence_offsets))  # of each token
        counts = replace(
            self.counts,
            n_articles=int(chosen.sum()),
            n_sentences=int(n_sentences[chosen].sum()),
            n_tokens=int(in_chosen.sum()),
            n_unknown=int((self.tokens[in_chosen] == self.unk).sum()),
        )
        return replace(self, chosen=chosen, counts=counts)

    def hold_out(self) -> tuple[Corpus, Corpus]:
        """The corpus in two parts, for training and development: every 50th article is held out."""
        n_articles = len(self.article_offsets) - 1
        if n_articles < 2:
            raise CorpusError("A corpus of a single article cannot be split into training and development parts.")
        held_out = np.arange(n_articles) % HOLD_OUT_EVERY == min(HOLD_OUT_EVERY, n_articles) - 1
        return self.choose(~held_out), self.choose(held_out)


def cache_directory() -> Path:
    """Where tokenised corpora are kept: $XL_EDITOR_CACHE, or the user's cache directory."""
    if named := os.environ.get("XL_EDITOR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xl-editor"


def find_styles(sources: Sequence[Source], *, skip_bad_lines: bool = False) -> tuple[str, ...]:
    """The styles of a corpus, sorted: those that files are given with, and those named within JSONL files."""
    styles = {source.style for source in sources}
    for source in sources:
        if source.is_jsonl and source.style is None:
            # One article without a style means that the file has none; `load_corpus` refuses a mixture.
            articles = read_articles(source, skip_bad_lines=skip_bad_lines)
            styles.update(article.style for article in takewhile(lambda article: article.style is not None, articles))
    return tuple(sorted(style for style in styles if style is not None))


def load_tokenizer(
    sources: Sequence[Source],
    kind: Kind,
    *,
    size: int | None = None,
    min_count: int = 1,
    styles: Sequence[str] = (),
    correcting: bool = False,
    skip_bad_lines: bool = False,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Tokenizer:
    """The tokenizer of a corpus, trained as `vocabulary.train_tokenizer` does if it has not been before."""
    settings = [kind, size, min_count, sorted(styles), correcting, skip_bad_lines]
    directory = (cache or cache_directory()) / f"tokenizer-{_fingerprint(sources, settings)}"

    def is_complete(directory: Path) -> bool:
        return (directory / TOKENIZER_FILE).is_file()

    if not is_complete(directory):
        texts = chain.from_iterable(
            article.sentences for article in _read_all(sources, Counter(), skip_bad_lines, progress)
        )
        tokenizer = train_tokenizer(texts, kind, size=size, min_count=min_count, styles=styles, correcting=correcting)
        _write_atomically(directory, lambda new: tokenizer.save(str(new / TOKENIZER_FILE)), is_complete)
    return Tokenizer.from_file(str(directory / TOKENIZER_FILE))


def load_corpus(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    *,
    style_names: Sequence[str] = (),
    skip_bad_lines: bool = False,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """The tokenised corpus, made if that has not been done before.

    Args:
        sources: files, in this order.
        tokenizer: one of ours (see `vocabulary`).
        style_names: all styles there are; empty for a corpus without styles.
        skip_bad_lines: leave out lines that are not UTF-8, and count them, instead of refusing the file.
        cache: where tokenised corpora are kept.
        progress: called every now and then while the corpus is made.

    """
    settings = [hashlib.sha256(tokenizer.to_str().encode()).hexdigest(), list(style_names), skip_bad_lines]
    directory = (cache or cache_directory()) / f"corpus-{_fingerprint(sources, settings)}"
    if not _is_complete(directory):

        def write(new: Path) -> None:
            _tokenise(sources, tokenizer, tuple(style_names), skip_bad_lines, new, progress)

        _write_atomically(directory, write, _is_complete)
    sentence_offsets, article_offsets, styles, files = (
        np.load(directory / name, mmap_mode="r") for name in ARRAY_FILES
    )
    return Corpus(
        tokens=np.memmap(directory / TOKENS_FILE, _token_type(tokenizer), "r"),
        sentence_offsets=sentence_offsets,
        article_offsets=article_offsets,
        styles=styles,
        files=files,
        starts_word=starts_word(tokenizer),
        unk=special_ids(tokenizer).unk,
        style_names=tuple(style_names),
        counts=_read_counts(directory),
        fingerprint=directory.name,
    )


def empty_corpus(tokenizer: Tokenizer) -> Corpus:
    """No text at all, for runs that learn from pairs alone."""
    nothing = np.zeros(1, np.int64)
    return Corpus(
        tokens=np.zeros(0, _token_type(tokenizer)),
        sentence_offsets=nothing,
        article_offsets=nothing,
        styles=np.zeros(0, np.int16),
        files=np.zeros(0, np.int16),
        starts_word=starts_word(tokenizer),
        unk=special_ids(tokenizer).unk,
        style_names=(),
        counts=Counts(0, 0, 0, 0, 0, 0),
        fingerprint="none",
    )


def read_articles(
    source: Source,
    tally: Counter[str] | None = None,
    *,
    skip_bad_lines: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Article]:
    """The articles of a file, one by one; `tally` counts the lines that were skipped, `empty` and `bad`."""
    tally = Counter() if tally is None else tally
    for number, line in read_lines(source.path, tally, skip_bad_lines, progress):
        sentences, style = [line], source.style
        if source.is_jsonl and not line.isspace():
            sentences, style = _parse_json(source, f"{source.path}, line {number}", line)
        if sentences := [text for sentence in sentences if (text := sentence.strip())]:
            yield Article(sentences, style, source.path, number)
        else:
            tally["empty"] += 1


def read_lines(
    path: Path, tally: Counter[str], skip_bad_lines: bool, progress: Callable[[int], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Numbered lines. Only "\\n" ends a line ("\\r" is white space), and a byte-order mark is no text."""
    try:
        with path.open("rb") as packed, unpack(packed, path.suffix) as stream:
            for number, line in enumerate(stream, 1):
                if progress is not None and number % 4096 == 0:
                    progress(packed.tell())
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    if not skip_bad_lines:
                        raise CorpusError(
                            f"{path}, line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) "
                            "is not UTF-8; mend the file, or set data.bad_lines to skip."
                        ) from None
                    tally["bad"] += 1
                    continue
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except DAMAGED as error:
        raise CorpusError(f"{path} cannot be unpacked, it is damaged or not what its name says: {error}.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None


def _parse_json(source: Source, place: str, line: str) -> tuple[list[str], str | None]:
    """The sentences of an article, and its style."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{place}: not valid JSON ({error.msg}, column {error.colno}).") from None
    except RecursionError:
        raise CorpusError(f"{place}: JSON that is nested too deeply.") from None
    if source.holds_pairs and isinstance(entry, dict):
        entry = {"sents": [entry.get("source"), entry.get("target")]}
    if not isinstance(entry, dict) or ("sents" in entry) == ("text" in entry):
        raise CorpusError(f"{place}: expected a JSON object with either `sents`, a list of sentences, or `text`.")
    sentences = entry["sents"] if "sents" in entry else [entry["text"]]
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise CorpusError(f"{place}: `sents` must be a list of strings, and `text` a string.")
    try:
        "".join(sentences).encode()
    except UnicodeEncodeError:
        raise CorpusError(f"{place}: half of a surrogate pair, which is no character.") from None
    style = entry.get("style", source.style)
    if style is not None and not isinstance(style, str):
        raise CorpusError(f"{place}: `style` must be a string, got {style!r}.")
    if style is not None and not may_be_style(style):
        raise CorpusError(f"{place}: the style {style!r} must be a word.")
    if source.style not in (None, style):
        raise CorpusError(f"{place}: has style {style!r}, but the file was given as {source.style!r}.")
    return sentences, style


def _read_all(
    sources: Sequence[Source], tally: Counter[str], skip_bad_lines: bool, progress: Progress | None
) -> Iterator[Article]:
    """All articles of all files; refuses a file without any text."""
    sizes = [_size(source.path) for source in sources]
    for position, source in enumerate(sources):
        before = sum(sizes[:position])

        def report(n_bytes: int, before: int = before) -> None:
            if progress is not None:
                progress(before + n_bytes, sum(sizes))

        article = None
        for article in read_articles(source, tally, skip_bad_lines=skip_bad_lines, progress=report):
            yield article
        if article is None:
            raise CorpusError(f"{source.path} holds no text.")
        report(sizes[position])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None


def _tokenise(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    style_names: tuple[str, ...],
    skip_bad_lines: bool,
    directory: Path,
    progress: Progress | None,
) -> None:
    """Write the arrays of a corpus. Only a batch of sentences at a time is held in Python objects."""
    encode = _plain_encoder(tokenizer)
    unk = special_ids(tokenizer).unk
    tally: Counter[str] = Counter()
    lengths: list[Ints] = []  # of sentences, a batch each
    article_sizes: list[Ints] = []  # sentences of articles, a batch each
    styles: list[int] = []
    files: list[int] = []
    number_of = {source.path: number for number, source in enumerate(sources)}
    articles = _label(style_names, _read_all(sources, tally, skip_bad_lines, progress))
    with (directory / TOKENS_FILE).open("wb") as file:
        for batch in _batched(articles, SENTENCES_AT_ONCE):
            n_tokens, tokens = encode([sentence for article, _ in batch for sentence in article.sentences])
            tokens.tofile(file)
            tally["unknown"] += int((tokens == unk).sum())
            # A sentence of characters that the tokenizer drops has no tokens: it is as good as an empty line.
            owner = np.repeat(np.arange(len(batch)), [len(article.sentences) for article, _ in batch])
            sizes = np.bincount(owner[n_tokens > 0], minlength=len(batch))
            tally["empty"] += int((n_tokens == 0).sum())
            lengths.append(n_tokens[n_tokens > 0])
            article_sizes.append(sizes[sizes > 0])
            styles += [style for (_, style), size in zip(batch, sizes, strict=True) if size]
            files += [number_of[article.path] for (article, _), size in zip(batch, sizes, strict=True) if size]
    sentence_offsets, article_offsets = _offsets(lengths), _offsets(article_sizes)
    labels = np.array(styles, np.int16)
    arrays: list[NDArray[Any]] = [sentence_offsets, article_offsets, labels, np.array(files, np.int16)]
    for name, array in zip(ARRAY_FILES, arrays, strict=True):
        np.save(directory / name, array)
    counts = Counts(
        n_articles=len(article_offsets) - 1,
        n_sentences=len(sentence_offsets) - 1,
        n_tokens=int(sentence_offsets[-1]),
        n_unknown=tally["unknown"],
        n_empty_lines=tally["empty"],
        n_bad_lines=tally["bad"],
    )
    if not counts.n_tokens:
        raise CorpusError(f"{', '.join(str(source.path) for source in sources)}: no text that the tokenizer knows.")
    (directory / COUNTS_FILE).write_text(json.dumps(asdict(counts)), encoding="utf-8")


def _plain_encoder(
    tokenizer: Tokenizer,
) -> Callable[[list[str]], tuple[Ints, NDArray[np.unsignedinteger[Any]]]]:
    """Texts → the number of tokens of each, and all tokens end to end. Special tokens in a text are text."""
    own = Tokenizer.from_str(tokenizer.to_str())  # a copy, because this setting changes it
    own.encode_special_tokens = True
    unk = special_ids(tokenizer).unk
    dtype = _token_type(tokenizer)
    # Word-level and unigram vocabularies find "<sep>" in a text all the same: then it is an unknown word.
    as_text = np.where(is_special(tokenizer), unk, np.arange(tokenizer.get_vocab_size())).astype(dtype)

    def encode(texts: list[str]) -> tuple[Ints, NDArray[np.unsignedinteger[Any]]]:
        ids = [encoding.ids for encoding in own.encode_batch_fast(texts, add_special_tokens=False)]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return lengths, as_text[np.fromiter(chain.from_iterable(ids), np.int64, int(lengths.sum()))]

    return encode


def _token_type(tokenizer: Tokenizer) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32)


def _label(style_names: tuple[str, ...], articles: Iterable[Article]) -> Iterator[tuple[Article, int]]:
    """Articles with the index of their style, −1 where there are no styles."""
    index: dict[str | None, int] = {style: i for i, style in enumerate(style_names)} or {None: -1}
    for article in articles:
        if article.style not in index:
            has = "no style" if article.style is None else f"the style {article.style!r}"
            known = f"one of {', '.join(style_names)}" if style_names else "none"
            raise CorpusError(f"{article.path}, line {article.line}: has {has}, expected {known}.")
        yield article, index[article.style]


def _batched(articles: Iterable[tuple[Article, int]], n_sentences: int) -> Iterator[list[tuple[Article, int]]]:
    """Articles in lists of about so many sentences."""
    batch: list[tuple[Article, int]] = []
    size = 0
    for entry in articles:
        batch.append(entry)
        size += len(entry[0].sentences)
        if size >= n_sentences:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _offsets(sizes: list[Ints]) -> Ints:
    """Where each of these, laid end to end, begins; and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes or [np.zeros(0, np.int64)]))])


def _fingerprint(sources: Sequence[Source], settings: object) -> str:
    """A hash of the files' contents (wherever they lie, whenever they were written) and of the settings."""
    files = [[source.style, source.is_jsonl, _content_hash(source.path)] for source in sources]
    described = json.dumps([CACHE_VERSION, files, settings])
    return hashlib.sha256(described.encode()).hexdigest()[:24]


def _content_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return content_digest(file, salt=path.suffix.encode())
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None


def _is_complete(directory: Path) -> bool:
    """Whether a cache directory holds all that it should: we write it in one go, but others may clean up."""
    if not all((directory / name).is_file() for name in (TOKENS_FILE, COUNTS_FILE, *ARRAY_FILES)):
        return False
    try:
        n_tokens = _read_counts(directory).n_tokens
        offsets = np.load(directory / ARRAY_FILES[0], mmap_mode="r")
    except (ValueError, TypeError):
        return False
    return (directory / TOKENS_FILE).stat().st_size in (2 * n_tokens, 4 * n_tokens) and offsets[-1] == n_tokens


def _read_counts(directory: Path) -> Counts:
    return Counts(**json.loads((directory / COUNTS_FILE).read_text(encoding="utf-8")))


def _write_atomically(directory: Path, write: Callable[[Path], None], is_complete: Callable[[Path], bool]) -> None:
    """Let `write` fill a temporary directory, and give it its name only when all of it is on disk."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        write(new)
        sync_tree(new)
        try:
            new.rename(directory)
        except OSError:
            if is_complete(directory):
                return  # another process was faster, and its work is as good as ours
            shutil.rmtree(directory)
            new.rename(directory)
        sync(directory.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
