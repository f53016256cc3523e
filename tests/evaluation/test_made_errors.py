"""Errors made in clean text: a model that knows all of them finds and mends all, one that knows nothing a few."""

from random import Random
from types import SimpleNamespace

import pytest

from conftest import RIGHT_SENTENCES
from xl_editor import Editor
from xl_editor.engine import Scored
from xl_editor.errors import RequestError
from xl_editor.evaluation.made_errors import evaluate_made_errors, markdown_table
from xl_editor.training import errors
from xl_editor.training.corrections import Reader, correct_slots

SENTENCES = [
    "She went to the station, and he waited for an hour there.",
    "They don't know whether it's true.",
    *RIGHT_SENTENCES,
]


class KnowsAll:
    """Answers as if it knew each sentence that a wrong one was made from."""

    def __init__(self, codec) -> None:
        self.reader = Reader(codec)
        self.right = {}
        maker = errors.ErrorMaker()
        for kind in errors.KINDS:
            for number, text in enumerate(SENTENCES):
                spoiled = maker.spoil_once(text, kind, Random(number))
                if spoiled:
                    words, slots = correct_slots(self.reader, spoiled.text, text)
                    self.right[tuple(words)] = slots
        for text in SENTENCES:
            words = self.reader.words(text)
            self.right[tuple(words)] = [(), *words]

    def score(self, insertions):
        return [
            Scored(i.inserted, (-0.01 if self.right[i.context.words][i.context.slot] == i.inserted else -9.0,))
            for i in insertions
        ]

    def decode(self, contexts, decoding):
        return [[Scored(self.right[c.words][c.slot], (-0.01,))] for c in contexts]


@pytest.fixture(scope="module")
def wild(wild_directory):
    return Editor.from_pretrained(wild_directory)


def test_who_knows_all_finds_all(wild):
    perfect = SimpleNamespace(can_correct=True, codec=wild.codec, engine=KnowsAll(wild.codec))
    *kinds, overall = evaluate_made_errors(perfect, SENTENCES, 3)
    assert len(kinds) > 25
    assert all((kind.found, kind.put_right) == (1, 1) for kind in kinds)
    assert (overall.kind, overall.n, overall.found) == ("all", sum(kind.n for kind in kinds), 1)


def test_who_knows_nothing_mends_little(wild):
    *kinds, overall = evaluate_made_errors(wild, SENTENCES, 2)
    assert overall.put_right < 0.3
    assert markdown_table(kinds).count("\n") == len(kinds) + 1


def test_a_model_that_cannot_is_refused(editor):
    with pytest.raises(RequestError, match="has not learnt to correct"):
        evaluate_made_errors(editor, SENTENCES, 1)
