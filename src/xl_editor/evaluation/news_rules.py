"""How each model of the paper's first table decides: where something is missing, what goes there, what does not belong.

`EndRules` are for the models that estimate q(y | left ↓ right), with END: XL-Editor and the Transformer. `PairRules`
are what the paper makes do with for XLNet L2R, which can only be asked for an insertion of a given length. Both
answer in token ids; `open_rules` finds out which a model directory wants.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch

from xl_editor.baselines.l2r import LeftToRight
from xl_editor.baselines.seq2seq import Seq2Seq
from xl_editor.context import ContextFormat
from xl_editor.editor import Editor
from xl_editor.engine import DECIMALS, Context, Decoding, Ids, Insertion, Scored
from xl_editor.model import XLEditorModel, read_settings
from xl_editor.models import find_model
from xl_editor.operations import Span, shared_information
from xl_editor.text import TOKENIZER_FILE, Codec, TextFormat

LEAST_LENGTHS = 10  # that L2R tries, and that any model may write

Score = Callable[[list[Insertion]], list[Scored]]
Decode = Callable[[list[Context], int], list[Ids]]  # greedily, up to a length
NOWHERE = Context(((), ()))  # a whole text is what is inserted here


@dataclass(frozen=True)
class Blank:
    context: Context
    n_truth: int  # tokens of what was there

    @property
    def max_length(self) -> int:
        """The paper's bound for the lengths that L2R tries. It holds for all, or BLEU would depend on another."""
        return max(LEAST_LENGTHS, 2 * self.n_truth)


@dataclass(frozen=True)
class Filled:
    plain: Ids
    ranked: Ids | None = None  # "+ rank": chosen by the perplexity of the whole text, if the model has a choice


@dataclass(frozen=True)
class Misfit:
    ratio: float  # of perplexities: high where a span does not belong
    perplexity_without: float  # "+ rank": of the whole text without it
    information: float  # that it and the rest have of each other, a token: low where it does not belong


class Rules(Protocol):
    codec: Codec
    weights: Iterable[torch.Tensor]

    def needs(self, texts: Sequence[tuple[Ids, Sequence[int]]]) -> list[list[float]]:
        """For each text and each of its gaps a number, the lowest where something is missing."""

    def fill(self, blanks: Sequence[Blank]) -> list[Filled]: ...

    def misfits(self, texts: Sequence[tuple[Ids, Sequence[Span]]]) -> list[list[Misfit]]: ...


class EndRules:
    """argmin q̂(END); greedy decoding; PPL(q(x_i:j)) / PPL(q̂(END)).

    A blank asks for something, so what is decoded is not empty; the lengths that L2R tries begin at one, too.
    """

    def __init__(
        self,
        codec: Codec,
        score: Score,
        decode: Decode,
        weights: Iterable[torch.Tensor] = (),
    ) -> None:
        self.codec = codec
        self.weights = weights
        self._score = score
        self._decode = decode

    def needs(self, texts: Sequence[tuple[Ids, Sequence[int]]]) -> list[list[float]]:
        asked = [[Insertion(Context.around(ids, gap, gap), ()) for gap in gaps] for ids, gaps in texts]
        return [[scored.logprob for scored in of_text] for of_text in _answered(self._score, asked)]

    def fill(self, blanks: Sequence[Blank]) -> list[Filled]:
        alike = defaultdict(list)  # in how long they may get, so that few are decoded further than they may
        for index, blank in enumerate(blanks):
            alike[blank.max_length.bit_length()].append(index)
        found: dict[int, Filled] = {}
        for indices in alike.values():
            longest = max(blanks[i].max_length for i in indices)
            decoded = self._decode([blanks[i].context for i in indices], longest)
            found |= {i: Filled(ids[: blanks[i].max_length]) for i, ids in zip(indices, decoded, strict=True)}
        return [found[i] for i in range(len(blanks))]

    def misfits(self, texts: Sequence[tuple[Ids, Sequence[Span]]]) -> list[list[Misfit]]:
        def compared(ids: Ids, a: int, b: int) -> tuple[Insertion, Insertion]:
            return _taken_out(ids, a, b), Insertion(Context.around(ids, a, b), ())

        return _misfits(self._score, texts, compared)


class PairRules:
    """The probability of the tokens beside a gap; every length up to twice the true one; a span with its neighbours."""

    def __init__(self, codec: Codec, model: LeftToRight, weights: Iterable[torch.Tensor] = ()) -> None:
        self.codec = codec
        self.weights = weights
        self.model = model

    def needs(self, texts: Sequence[tuple[Ids, Sequence[int]]]) -> list[list[float]]:
        asked = [[_taken_out(ids, gap - 1, gap + 1) for gap in gaps] for ids, gaps in texts]
        return [[scored.logprob for scored in of_text] for of_text in _answered(self.model.score, asked)]

    def fill(self, blanks: Sequence[Blank]) -> list[Filled]:
        asked = [[(blank.context, n) for n in range(1, blank.max_length + 1)] for blank in blanks]
        tried = _answered(self.model.decode, asked)
        texts = [
            [Insertion(NOWHERE, blank.context.parts[0] + y.ids + blank.context.parts[1]) for y in fillings]
            for blank, fillings in zip(blanks, tried, strict=True)
        ]
        found = []
        for fillings, wholes in zip(tried, _answered(self.model.score, texts), strict=True):
            plain, ranked = (
                min(zip(fillings, judged, strict=True), key=lambda pair: round(math.log(pair[1].perplexity), DECIMALS))
                for judged in (fillings, wholes)
            )
            found.append(Filled(plain[0].ids, ranked[0].ids))
        return found

    def misfits(self, texts: Sequence[tuple[Ids, Sequence[Span]]]) -> list[list[Misfit]]:
        def compared(ids: Ids, a: int, b: int) -> tuple[Insertion, Insertion]:
            return _taken_out(ids, a - 1, b + 1), _taken_out(ids[:a] + ids[b:], a - 1, a + 1)

        return _misfits(self.model.score, texts, compared)


def _taken_out(ids: Ids, start: int, end: int) -> Insertion:
    return Insertion(Context.around(ids, start, end), ids[start:end])


def _misfits(
    score: Score,
    texts: Sequence[tuple[Ids, Sequence[Span]]],
    compared: Callable[[Ids, int, int], tuple[Insertion, Insertion]],
) -> list[list[Misfit]]:
    """Of each span, the ratio of the perplexities of what is `compared`, and what texts with and without it say."""
    asked = [
        [
            *compared(ids, a, b),
            *(Insertion(NOWHERE, text) for text in (ids, ids[:a] + ids[b:], ids[a:b])),
        ]
        for ids, spans in texts
        for a, b in spans
    ]
    found = (
        Misfit(
            standing.perplexity / instead.perplexity,
            rest.perplexity,
            shared_information(whole, rest, part),
        )
        for standing, instead, whole, rest, part in _answered(score, asked)
    )
    return [list(islice(found, len(spans))) for _, spans in texts]


def _answered(ask: Callable[[list[Any]], list[Any]], groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Ask all questions together, each once, and give each group its answers."""
    questions = list(dict.fromkeys(question for group in groups for question in group))
    answers = dict(zip(questions, ask(questions), strict=True))
    return [[answers[question] for question in group] for group in groups]


def open_rules(name: str | Path) -> Rules:
    """The rules for a model that `xl-editor train` made, whatever its objective, or for a bundled one."""
    directory = find_model(name)
    config = read_settings(directory)
    objective = config.get("editor", {}).get("objective", "xl-editor")
    if objective == "xl-editor":
        return rules_of(Editor.from_pretrained(directory))
    format = ContextFormat.from_config(config["editor"])
    codec = Codec.from_file(directory / TOKENIZER_FILE, TextFormat.from_dict(config["editor"]["text"]))
    if objective == "l2r":
        model = XLEditorModel.from_pretrained(directory)
        return PairRules(codec, LeftToRight(model, format), model.state_dict().values())
    from transformers import MarianMTModel  # takes seconds to import

    transformer = MarianMTModel.from_pretrained(directory, dtype=torch.float32)  # it may be kept in half precision
    seq2seq = Seq2Seq(transformer, format)
    return EndRules(codec, seq2seq.score, seq2seq.decode, transformer.state_dict().values())


def rules_of(editor: Editor) -> EndRules:
    def decode(contexts: list[Context], max_length: int) -> list[Ids]:
        greedily = Decoding(min_length=1, max_length=max_length)
        return [best.ids for (best,) in editor.engine.decode(contexts, greedily)]

    return EndRules(editor.codec, editor.engine.score, decode, editor.model.state_dict().values())
