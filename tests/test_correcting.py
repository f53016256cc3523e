"""Correcting: what the answers mean, against tables; and what holds for any text, with a model that changes wildly."""

import json
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import run_here
from conftest import RIGHT_SENTENCES as SENTENCES
from xl_editor import Editor
from xl_editor.editor import EditorError
from xl_editor.edits import corrected
from xl_editor.engine import Scored
from xl_editor.operations import CorrectionRules, carry_out, correct
from xl_editor.postedit.answers import Task
from xl_editor.text.slots import is_protected, slot_edit

A, B, C, D = (6,), (7,), (8,), (9,)
RULES = CorrectionRules(threshold=2.0, protected_margin=3.0, max_rounds=3)


@dataclass
class Table:
    """An estimator that knows what should stand where: (words, slot) → insertions with their probabilities."""

    wanted: dict
    asked: list = field(default_factory=list)

    def score(self, insertions):
        return [Scored(i.inserted, (math.log(self.q(i.context, i.inserted)),)) for i in insertions]

    def decode(self, contexts, decoding):
        self.asked += [context.slot for context in contexts]
        found = []
        for context in contexts:
            answers = self.wanted.get((context.words, context.slot), {})
            best = sorted(answers.items(), key=lambda pair: -pair[1])[: decoding.n_best]
            found.append([Scored(ids, (math.log(q),)) for ids, q in best])
        return found

    def q(self, context, inserted) -> float:
        standing = ((), *context.words)[context.slot]
        answers = self.wanted.get((context.words, context.slot), {standing: 0.999})
        return answers.get(inserted, 1e-6)


def split(ids):
    return [(id,) for id in ids]


def replacements(wanted, words, margins=None, rules=RULES):
    table = Table(wanted)
    (found,) = carry_out(table, [correct(words, margins or [0.0] * len(words), rules, split)])
    return [(r.slot, r.chosen.inserted) for r in found], table


def test_only_doubtful_places_are_searched_and_only_sure_ones_changed():
    wanted = {
        ((A, B, C), 2): {B: 0.02, D: 0.9},
        ((A, B, C), 3): {C: 0.4, D: 0.5},  # likelier, but not by enough
        ((A, D, C), 3): {C: 0.9, D: 0.1},
    }
    found, table = replacements(wanted, (A, B, C))
    assert found == [(2, D)]
    assert table.asked == [2]  # the odds of all else than C are 0.6 to 0.4: not worth a search


def test_a_correction_may_call_for_another():
    wanted = {
        ((A, B), 1): {A: 0.01, C: 0.9},
        ((C, B), 2): {B: 0.01, (*B, *D): 0.9},
        ((C, B, D), 3): {D: 0.01, A: 0.9},  # what was put in is looked at, too
    }
    found, _ = replacements(wanted, (A, B))
    assert found == [(1, C), (2, (*B, *A))]
    assert replacements(wanted, (A, B), rules=CorrectionRules(2.0, 3.0, 1))[0] == [(1, C)]


def test_what_goes_in_circles_ends():
    wanted = {((A,), 1): {A: 0.01, B: 0.9}, ((B,), 1): {B: 0.01, A: 0.9}}
    found, table = replacements(wanted, (A,), rules=CorrectionRules(2.0, 3.0, 50))
    assert found == [(1, B)]
    assert len(table.asked) == 2


def test_protected_words_want_more_and_kept_ones_never_change_but_something_may_follow():
    sure = {((A,), 1): {A: 0.01, B: 0.6, (*A, *C): 0.3}}
    assert replacements(sure, (A,))[0] == [(1, B)]
    assert replacements(sure, (A,), [1.0])[0] == [(1, B)]
    assert replacements(sure, (A,), [3.0])[0] == [(1, (*A, *C))]
    assert replacements(sure, (A,), [math.inf])[0] == [(1, (*A, *C))]
    assert replacements({((A,), 1): {A: 0.05, B: 0.9}}, (A,), [3.0])[0] == []


@pytest.mark.parametrize(
    ("text", "slot", "old", "new", "expected"),
    [
        ("He go home.", 2, " go", " goes", "He goes home."),
        ("He goes to home.", 3, " to", "", "He goes home."),
        ("He goes home", 3, " home", " home.", "He goes home."),
        ("The the cat", 1, " The", "", "the cat"),
        ("However he left", 1, " However", " However,", "However, he left"),
        ("Is it ?", 3, " ?", "?", "Is it?"),
        ("raining now", 0, "", " It is", "It is raining now"),
        ("a\nb c", 2, " b", "", "a\nc"),
        ("I dont’t know it’s", 2, " dont’t", " don't", "I don’t know it’s"),
    ],
)
def test_edits_take_their_white_space_along(text, slot, old, new, expected):
    words, at = [], 0
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        words.append((start, at))
    start, end, inserted = slot_edit(text, words, slot, old, new)
    assert text[:start] + inserted + text[end:] == expected


@pytest.mark.parametrize(
    "word", ["3.5", "x_y", "me@home.org", "https://a.b", "camelCase", "NASA", "@anna", "🙂", "naïve"]
)
def test_what_is_better_left_alone(word):
    assert is_protected(word, begins_sentence=True)


def test_names_are_protected_but_not_the_first_word():
    assert is_protected("Anna", begins_sentence=False)
    assert not is_protected("Annoyed", begins_sentence=True)
    assert not is_protected("I", begins_sentence=False)


# --- any text --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wild(wild_directory):
    return Editor.from_pretrained(wild_directory)


any_text = st.text(st.characters(codec="utf-8") | st.sampled_from(" \n.,'’\"it"), max_size=25) | st.sampled_from(
    SENTENCES
)


@settings(max_examples=60)
@given(any_text)
def test_the_edits_made_in_the_source_give_the_text(wild, text):
    correction = wild.correct(text)
    assert correction.source == text
    assert corrected(text, correction.edits) == correction.text
    for edit in correction.edits:
        assert edit.old == text[edit.start : edit.end]
        assert edit.kind == ("insert" if edit.start == edit.end else "replace" if edit.new else "delete")
        assert edit.old != edit.new
    ends = [0, *(edit.end for edit in correction.edits)]
    assert all(end <= edit.start for end, edit in zip(ends, correction.edits, strict=False))


def test_one_text_alone_is_corrected_as_among_others(wild):
    texts = [*SENTENCES, " ".join(SENTENCES), "", "\n\n".join(SENTENCES * 6)]
    together = wild.correct_all(texts)
    assert any(correction.edits for correction in together)
    alone = [wild.correct(text) for text in texts]
    assert [c.text for c in together] == [c.text for c in alone]
    assert [c.text for c in wild.correct_all(texts[::-1])] == [c.text for c in together[::-1]]


def test_kept_words_stay(wild):
    text = SENTENCES[3]
    assert any(edit.old.strip() in ("cat", "mat") for edit in wild.correct(text).edits)
    kept = wild.correct(text, keep=["cat", "mat"])
    assert "cat" in kept.text.split()
    assert not any(edit.old.strip() in ("cat", "mat") for edit in kept.edits)


def test_what_cannot_be_met_is_refused(wild, editor):
    with pytest.raises(EditorError, match="has not learnt to correct"):
        editor.correct("the food")
    with pytest.raises(EditorError, match="threshold must be a number"):
        wild.correct("I", threshold=math.nan)
    with pytest.raises(EditorError, match="max_rounds must be at least 1"):
        wild.correct("I", max_rounds=0)


def changes(correction: dict) -> tuple:
    """What is decided; the last bits of numbers depend on what shares a batch."""
    return correction["text"], [(edit["start"], edit["end"], edit["new"]) for edit in correction["edits"]]


def test_the_command_shows_checks_and_writes(wild, wild_directory, tmp_path):
    text = SENTENCES[3]
    expected = wild.correct(text)
    assert expected.text != text

    def run(*arguments):
        return run_here("correct", "--model", str(wild_directory), *map(str, arguments))

    assert run(text).stdout.decode() == f"{expected.text}\n"
    assert changes(json.loads(run(text, "--json").stdout)) == changes(expected.to_dict())
    shown = run(text, "--check")
    assert (shown.returncode, shown.stdout.decode()) == (1, f"{expected.render(marked=True).plain}\n")
    path = tmp_path / "letter.txt"
    path.write_text(text, encoding="utf-8")
    assert run(path).stdout.decode() == f"{expected.text}\n"
    assert path.read_text(encoding="utf-8") == text
    ending = tmp_path / "ending.txt"
    ending.write_text(f"{text}\n", encoding="utf-8")
    assert run(ending).stdout.decode() == f"{expected.text}\n"  # as the file ends, and no line more
    assert run(path, "--in-place").returncode == 0
    assert path.read_text(encoding="utf-8") == expected.text
    assert (tmp_path / "letter.txt~").read_text(encoding="utf-8") == text
    path.write_bytes(b"\xff\x00")
    assert run(path).returncode == 2
    assert run(text, path).returncode == 2
    assert run(text, "--in-place").returncode == 2


def test_whole_files_are_corrected_the_same(wild, wild_directory):
    answers = Task("correct", str(wild_directory), trace=True).answer(wild, [*SENTENCES, ""])
    for text, answer in zip(SENTENCES, answers, strict=False):
        expected = wild.correct(text)
        assert answer.edited == expected.text
        assert changes(answer.trace) == changes(expected.to_dict())
        assert answer.operations == tuple(edit.kind for edit in expected.edits)
    assert answers[-1].edited == ""
