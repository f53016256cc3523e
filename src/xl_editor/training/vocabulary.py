"""The tokenizers of our models: trained on a corpus, or a pretrained XLNet's with our tokens added.

A model's tokenizer is one file, `tokenizer.json`, which both `tokenizers` and `PreTrainedTokenizerFast`
load. It adds no tokens of its own to a text: what stands at the right end of a context is the model's
business.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from xl_editor.errors import RequestError
from xl_editor.text import TOKENIZER_FILE

Kind = Literal["word", "bpe", "unigram"]

SENTENCEPIECE_FILE = "spiece.model"

PAD, UNK, CLS, SEP, MASK, END = SPECIAL_TOKENS = ("<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<end>")
STYLE_PREFIX, STYLE_SUFFIX = "<style:", ">"
CORRECT = "<correct>"  # at the right end of a text that is to be corrected; only models that learn it have it

# Entries that a vocabulary of pieces has at the least, beside special tokens: every byte, for byte-level BPE.
MIN_LEARNT = {"bpe": 256, "unigram": 1}


class VocabularyError(RequestError):
    """A tokenizer that cannot be made or loaded, in one sentence."""


def style_token(style: str) -> str:
    """The token that stands for a style in the right context."""
    return f"{STYLE_PREFIX}{style}{STYLE_SUFFIX}"


def may_be_style(name: str) -> bool:
    """Say whether a style can have this name: a word that can stand in a token."""
    return bool(name) and not any(character.isspace() or character in "<>" for character in name)


def train_tokenizer(
    texts: Iterable[str],
    kind: Kind,
    *,
    size: int | None = None,
    min_count: int = 1,
    styles: Sequence[str] = (),
    correcting: bool = False,
) -> Tokenizer:
    """Make a vocabulary from texts; the same texts give the same file.

    Args:
        texts: of the training corpus; they are consumed once.
        kind: `word` (what stands between spaces; the rest is `<unk>`), `bpe` (byte-level, loses nothing) or
            `unigram` (SentencePiece's).
        size: entries of the vocabulary, special and style tokens included; every word by default for `word`.
        min_count: how often a word must have been seen (`word` only).
        styles: get a token each, after the special tokens, in sorted order.
        correcting: whether there is a control token for corrections, too.

    """
    special = [*SPECIAL_TOKENS, *_control_tokens(styles, correcting)]
    if kind == "word":
        tokenizer, trainer = _word_level(special, size, min_count)
    elif size is None:
        raise VocabularyError(f"A {kind} vocabulary needs a size.")
    elif size < len(special) + MIN_LEARNT[kind]:
        raise VocabularyError(f"A {kind} vocabulary needs a size of at least {len(special) + MIN_LEARNT[kind]}.")
    else:
        tokenizer, trainer = (_byte_level_bpe if kind == "bpe" else _unigram)(special, size)
    try:
        tokenizer.train_from_iterator(_without_special_tokens(texts, special), trainer)
    except ValueError:
        raise
    except Exception as error:  # the library has no narrower one
        raise VocabularyError(f"No {kind} vocabulary of {size} entries can be made: {error}.") from None
    if kind == "unigram":
        tokenizer.model = _settle_unigram(tokenizer.model, len(special))
    _mark_special(tokenizer, special)
    if tokenizer.get_vocab_size() <= len(special):
        raise VocabularyError("The training texts hold no word that could enter the vocabulary.")
    return tokenizer


def _control_tokens(styles: Sequence[str], correcting: bool) -> list[str]:
    return [*(style_token(style) for style in sorted(styles)), *([CORRECT] if correcting else [])]


def _word_level(special: list[str], size: int | None, min_count: int) -> tuple[Tokenizer, trainers.Trainer]:
    tokenizer = Tokenizer(models.WordLevel(unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    every_word = 2**31  # the trainer wants a limit
    trainer = trainers.WordLevelTrainer(
        vocab_size=size or every_word, min_frequency=min_count, special_tokens=special, show_progress=False
    )
    return tokenizer, trainer


def _byte_level_bpe(special: list[str], size: int) -> tuple[Tokenizer, trainers.Trainer]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)  # offsets without the space before a word
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return tokenizer, trainer


def _unigram(special: list[str], size: int) -> tuple[Tokenizer, trainers.Trainer]:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token=UNK, show_progress=False)
    return tokenizer, trainer


def _without_special_tokens(texts: Iterable[str], special: Sequence[str]) -> Iterator[str]:
    """A text that happens to contain "<sep>" must not bring it into the vocabulary a second time."""
    for text in texts:
        if "<" in text:
            for token in special:
                text = text.replace(token, " ")
        yield text


def _settle_unigram(model: models.Model, n_special: int) -> models.Model:
    """Undo what differs from one training to the next: the trainer iterates over hash maps.

    That leaves noise in the last digits of the scores, an arbitrary order of equal ones, and arbitrary small
    penalties that tell the rarest characters apart.
    """
    state = json.loads(model.__getstate__())
    special, learnt = state["vocab"][:n_special], state["vocab"][n_special:]
    scores = {piece: round(score, 6) for piece, score in learnt}
    characters = [piece for piece in scores if len(piece) == 1]
    penalty_step = 1e-4  # the trainer's
    rarest_score = min(scores.values()) + penalty_step * (len(characters) + 1)
    rarest = sorted(piece for piece in characters if scores[piece] <= rarest_score)
    scores.update(zip(rarest, sorted((scores[piece] for piece in rarest), reverse=True), strict=True))
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return models.Unigram([*map(tuple, special), *ordered], unk_id=state["unk_id"])


def _mark_special(tokenizer: Tokenizer, tokens: Sequence[str]) -> None:
    """Make these tokens special, adding those that the vocabulary lacks after its end."""
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])


def pretrained_tokenizer(directory: Path, styles: Sequence[str] = (), *, correcting: bool = False) -> Tokenizer:
    """The tokenizer of an XLNet, or of one of our models, with `<end>` and the control tokens that it lacks."""
    if (directory / TOKENIZER_FILE).is_file():
        try:
            tokenizer = Tokenizer.from_file(str(directory / TOKENIZER_FILE))
        except Exception as error:  # tokenizers raises nothing more precise
            raise VocabularyError(f"{directory / TOKENIZER_FILE} is not a tokenizer: {error}.") from None
    elif (directory / SENTENCEPIECE_FILE).is_file():
        tokenizer = _from_sentencepiece(directory / SENTENCEPIECE_FILE)
    else:
        raise VocabularyError(f"{directory} holds neither {TOKENIZER_FILE} nor {SENTENCEPIECE_FILE}.")
    lacking = [token for token in SPECIAL_TOKENS if token != END and tokenizer.token_to_id(token) is None]
    if lacking:
        raise VocabularyError(f"The tokenizer in {directory} is not XLNet's: it lacks {lacking[0]}.")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if tokenizer.num_special_tokens_to_add(False):
        tokenizer.post_processor = None  # XLNet's would add `<sep> <cls>` to every text
    _mark_special(tokenizer, [END, *_control_tokens(styles, correcting)])
    return tokenizer


def _from_sentencepiece(path: Path) -> Tokenizer:
    """XLNet's SentencePiece file as `transformers` converts it, but read without protobuf."""
    from transformers import XLNetTokenizer  # takes seconds to import

    try:
        pieces, character_map = _read_sentencepiece(path.read_bytes())
    except (IndexError, ValueError, struct.error):
        raise VocabularyError(f"{path} is not a SentencePiece model.") from None
    converted = XLNetTokenizer(vocab=pieces, _spm_precompiled_charsmap=character_map)
    # A copy, because the original belongs to an object that we do not keep.
    return Tokenizer.from_str(converted.backend_tokenizer.to_str())


def _read_sentencepiece(data: bytes) -> tuple[list[tuple[str, float]], bytes | None]:
    """The pieces with their scores, and the normaliser's table, of a SentencePiece `ModelProto`."""
    pieces, character_map = [], None
    for number, value in _protobuf_fields(data):
        if number == 1:  # ModelProto.pieces: piece = 1, score = 2
            piece = dict(_protobuf_fields(value))
            pieces.append((piece[1].decode("utf-8"), struct.unpack("<f", piece.get(2, bytes(4)))[0]))
        elif number == 3:  # ModelProto.normalizer_spec: precompiled_charsmap = 2
            character_map = dict(_protobuf_fields(value)).get(2)
    if not pieces:
        raise ValueError("no pieces")
    return pieces, character_map


def _protobuf_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protobuf message as (number, raw bytes), in order."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(data):
        key, at = varint(at)
        kind = key & 7
        if kind == 0:
            start = at
            _, end = varint(at)
        elif kind == 2:
            size, start = varint(at)
            end = start + size
        elif kind in (1, 5):
            start, end = at, at + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"wire type {kind}")
        if end > len(data):
            raise ValueError("truncated")
        yield key >> 3, data[start:end]
        at = end


@dataclass(frozen=True)
class SpecialIds:
    """Where the tokens that are no text stand in a vocabulary."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int  # also the seq2seq baseline's <m>
    end: int
    styles: dict[str, int]  # in sorted order; a style's place in it is its label for the classifier
    correct: int | None = None  # the control token of corrections, if there is one


def special_ids(tokenizer: Tokenizer) -> SpecialIds:
    """The special tokens of one of our tokenizers."""
    ids = {token: id_ for token in SPECIAL_TOKENS if (id_ := tokenizer.token_to_id(token)) is not None}
    for token in SPECIAL_TOKENS:
        if token not in ids:
            raise VocabularyError(f"The tokenizer lacks {token}: it is not one of ours.")
    styles = {
        token.content.removeprefix(STYLE_PREFIX).removesuffix(STYLE_SUFFIX): id_
        for id_, token in tokenizer.get_added_tokens_decoder().items()
        if token.content.startswith(STYLE_PREFIX)
    }
    return SpecialIds(
        pad=ids[PAD],
        unk=ids[UNK],
        cls=ids[CLS],
        sep=ids[SEP],
        mask=ids[MASK],
        end=ids[END],
        styles=dict(sorted(styles.items())),
        correct=tokenizer.token_to_id(CORRECT),
    )


def is_special(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """For each entry of the vocabulary, whether it is no piece of text. *Shape:* (vocabulary,)."""
    table = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    table[[id_ for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special]] = True
    return table
