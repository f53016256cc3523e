"""Correction, measured: each figure on correctors whose answers are known, and the adapters of others' programs."""

import json
import lzma

import pytest
from typer.testing import CliRunner

from xl_editor import cli
from xl_editor.evaluation.correct import (
    FalseAlarms,
    MissingWords,
    References,
    clean_sentences,
    evaluate_corrector,
    is_whole,
    markdown_table,
    without_a_word,
)
from xl_editor.evaluation.correctors import Corrected, Nothing, SymSpell, _harper_edits, open_corrector
from xl_editor.evaluation.m2 import Counts, read_m2
from xl_editor.evaluation.treebank import TextEdit

SOURCES = ["He do n't likes teh school .", "All is well .", "I has alot of it ."]
REFERENCES = ["He does n't like the school .", "All is well .", "I have a lot of it ."]
M2 = """\
S He do n't likes teh school .
A 1 2|||R:VERB|||does|||REQUIRED|||-NONE-|||0
A 3 4|||R:VERB|||like|||REQUIRED|||-NONE-|||0
A 4 5|||R:SPELL|||the|||REQUIRED|||-NONE-|||0

S I walked school .
A 2 2|||M:PREP|||to|||REQUIRED|||-NONE-|||0
"""
CLEAN = ["We went to the market in the morning.", "They have been there for a while.", "Nobody knows why prices rose."]


class Replacing:
    """Replaces strings wherever they stand."""

    name = "replacing"

    def __init__(self, **replacements):
        self.replacements = replacements

    def correct(self, texts):
        found = []
        for text in texts:
            edits = [
                TextEdit(text.index(a), text.index(a) + len(a), b) for a, b in self.replacements.items() if a in text
            ]
            found.append(Corrected.of(text, sorted(edits)))
        return found


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "dev.src").write_text("\n".join(SOURCES) + "\n")
    for number in range(2):
        (tmp_path / f"dev.ref{number}").write_text("\n".join(REFERENCES) + "\n")
    (tmp_path / "dev.m2").write_text(M2)
    with lzma.open(tmp_path / "news.jsonl.xz", "wt") as file:
        file.write(json.dumps({"id": 0, "sents": [*CLEAN, "no sentence", "Too short."]}) + "\n")
    return tmp_path


def test_a_corrector_sees_ordinary_text_and_is_scored_by_tokens(directory):
    references = References.open(directory, "dev")
    right = Replacing(do="does", likes="like", teh="the", has="have", alot="a lot")
    assert right.correct(["He don't likes teh school."])[0].text == "He doesn't like the school."
    assert evaluate_corrector(right, references, progress=False).gleu.score == pytest.approx(100)
    half = evaluate_corrector(Replacing(teh="the"), references, progress=False).gleu.score
    assert evaluate_corrector(Nothing(), references, progress=False).gleu.score < half < 100


def test_edits_are_scored_against_annotators(directory):
    corrector = Replacing(teh="the", school="schools", walked="walked to")
    scores = evaluate_corrector(corrector, annotated=read_m2(directory / "dev.m2"), progress=False)
    assert scores.edits.edits == Counts(right=2, wrong=2, missed=2)
    assert scores.edits.missing_words == Counts(right=1, wrong=0, missed=0)


def test_every_edit_of_clean_text_is_a_false_alarm():
    corrector = Replacing(market="shop", morning="evening", Nobody="Nobody")
    scores = evaluate_corrector(corrector, clean={"news": CLEAN}, progress=False)
    assert scores.false_alarms == {"news": FalseAlarms(n_sentences=3, n_words=20, n_edits=2, n_touched=1)}
    assert scores.false_alarms["news"].per_1000_words == 100
    assert scores.false_alarms["news"].share_touched == pytest.approx(1 / 3)


def test_a_missing_word_is_one_that_people_leave_out():
    pairs = without_a_word(CLEAN)
    assert [whole for _, whole in pairs] == CLEAN[:2]  # the third has no such word
    for text, whole in pairs:
        words, left = whole.split(), text.split()
        gap = next(i for i in range(len(words)) if left[: i + 1] != words[: i + 1])
        assert words[gap + 1 :] == left[gap:]
        assert 0 < gap < len(words) - 1
    assert without_a_word(CLEAN) == pairs


def test_a_sentence_is_put_right_if_it_is_as_it_was():
    pairs = without_a_word(CLEAN)

    class Knowing:
        name = "knowing"

        def correct(self, texts):
            whole = dict(pairs)
            texts_of = [whole.get(text, text) for text in texts]
            texts_of = [text.replace("while", "moment") for text in texts_of]  # and one thing that it should not
            return [
                Corrected.of(text, [TextEdit(0, len(text), new)] if new != text else [])
                for text, new in zip(texts, texts_of, strict=True)
            ]

    found = evaluate_corrector(Knowing(), clean={"news": CLEAN}, progress=False).missing_words["news"]
    assert found == MissingWords(n_sentences=2, n_touched=2, n_right=1)
    assert (found.share_right, found.precision) == (0.5, 0.5)


def test_clean_sentences_are_whole_and_drawn_alike(directory):
    path = directory / "news.jsonl.xz"
    assert clean_sentences(path, 10) == CLEAN
    assert clean_sentences(path, 2) == clean_sentences(path, 2)
    assert len(clean_sentences(path, 2)) == 2
    assert is_whole('"This is what he said."')
    assert not is_whole("and this is what he said.")
    assert not is_whole("This is what he said and")


def test_the_table_has_a_row_for_each_and_domains_below(directory):
    rows = [
        evaluate_corrector(
            corrector, References.open(directory, "dev"), (), {"a": CLEAN, "b": CLEAN[:1]}, progress=False
        )
        for corrector in (Nothing(), Replacing(market="shop"))
    ]
    table = markdown_table(rows).splitlines()
    assert table[2].startswith("| nothing | ")
    assert table[3].split(" | ")[4:6] == ["71.4", "50.0%"]  # 2 of 28 words, 2 of 4 sentences
    assert any(line.startswith("| b | replacing | 125.0 | 100.0% |") for line in table)
    assert table[-1].startswith("- Signature: `gleu|nrefs:2|")
    assert json.loads(json.dumps(rows[1].to_dict()))["false_alarms"]["b"]["n_edits"] == 1


def test_what_harper_suggests_is_read():
    def lint(start, end, *suggestions, kind="Grammar"):
        return {"kind": kind, "span": {"char_start": start, "char_end": end}, "suggestions": list(suggestions)}

    lints = [
        lint(10, 12, "Insert “,”"),
        lint(0, 2, "Replace with: “an”", "Replace with: “the”"),
        lint(1, 4, "Replace with: “x”"),  # overlaps the one before
        lint(5, 7, "Remove error"),
        lint(20, 22),  # suggests nothing
        lint(30, 32, "Replace with: “x”", kind="Style"),
    ]
    assert _harper_edits(lints) == [(0, 2, "an"), (5, 7, ""), (12, 12, ",")]


def test_harper_corrects_texts_one_by_one():
    pytest.importorskip("harper")
    harper = open_corrector("harper")
    texts = ["I has an test.", "", "All is well.", "However it is teh end."]
    found = harper.correct(texts)
    assert [corrected.text for corrected in found] == [
        "I have a test.",
        "",
        "All is well.",
        "However, it is the end.",
    ]
    assert found[3] == harper.correct(texts[3:])[0]


def test_symspell_corrects_spelling_alone():
    pytest.importorskip("symspellpy")
    (found,) = SymSpell().correct(["Becouse Obamo don't like teh e-mail of U.S. peopel, i has alot."])
    assert [edit.text for edit in found.edits][:3] == ["Because", "the", "people"]
    assert "Obamo don't like the e-mail of U.S. people" in found.text


def test_the_command_prints_a_table_or_json(directory):
    arguments = ["evaluate", "correct", "--references", str(directory), "--clean", str(directory / "news.jsonl.xz")]
    run = CliRunner().invoke(cli.app, [*arguments, "--m2", str(directory / "dev.m2"), "--corrector", "nothing"])
    assert run.exit_code == 0
    assert "| nothing | " in run.stdout
    assert "| 100.0 / 0.0 / 0.0 |" in run.stdout
    run = CliRunner().invoke(cli.app, [*arguments, "--corrector", "nothing", "--json"])
    assert json.loads(run.stdout)[0]["gleu"]["score"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Give something to measure by"),
        (["--references", "DIR", "--split", "test"], "test.src is missing"),
        (["--m2", "DIR/dev.src"], "no line of an M2 file"),
        (["--clean", "DIR/a.jsonl", "--clean", "DIR/b/a.jsonl"], "files of different names"),
        (["--clean", "DIR/nowhere.jsonl"], "nowhere.jsonl"),
        (["--m2", "DIR/dev.m2", "--corrector", "nobody"], "--corrector must be one of nothing, harper, symspell"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments, told, directory, monkeypatch, capsys):
    given = [argument.replace("DIR", str(directory)) for argument in arguments]
    monkeypatch.setattr("sys.argv", ["xl-editor", "evaluate", "correct", *given])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err
