"""BLiMP: pairs are read as they are, judged by whole sentences, and pooled by paradigm."""

import json
import lzma

import pytest

from xl_editor.engine import Context, Insertion
from xl_editor.evaluation import blimp
from xl_editor.evaluation.blimp import MinimalPair, evaluate_blimp, log_odds, read_pairs, scores_of

PAIRS = [
    MinimalPair("the food was great .", "the food great was .", "syntax", "order", "one"),
    MinimalPair("the staff is friendly .", "the staff friendly .", "syntax", "order", "one"),
    MinimalPair("we will come back .", "we come will back .", "syntax", "islands", "two"),
    MinimalPair("the service was slow .", "the service were slow .", "morphology", "agreement", "three"),
]


def as_published(pair):
    names = (pair.good, pair.bad, pair.field, pair.term, pair.paradigm)
    return json.dumps(dict(zip(blimp.FIELDS, names, strict=True)) | {"pairID": "0"})


def test_pairs_are_read_packed_and_limited_by_paradigm(tmp_path):
    path = tmp_path / "pairs.jsonl.xz"
    path.write_bytes(lzma.compress("".join(f"{as_published(pair)}\n" for pair in PAIRS).encode()))
    assert read_pairs(path) == PAIRS
    assert read_pairs(path, most=1) == [PAIRS[0], *PAIRS[2:]]


@pytest.mark.parametrize("line", ["{}", "[]", "1", "no JSON", '{"sentence_good": "a"}'])
def test_a_line_that_is_no_pair_is_named(line, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"{as_published(PAIRS[0])}\n{line}\n")
    with pytest.raises(ValueError, match=r"pairs\.jsonl has no pair in line 2: sentence_good"):
        read_pairs(path)


def test_no_pairs_are_told(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ValueError, match="holds no pairs"):
        read_pairs(tmp_path / "empty.jsonl")


def test_the_odds_are_those_of_whole_sentences_with_their_end(editor):
    def logprob(text):
        (scored,) = editor.engine.score([Insertion(Context(((), ())), editor.codec.encode(text).ids)])
        return scored.logprob

    for pair, odds in zip(PAIRS, log_odds(editor, PAIRS), strict=True):
        assert odds == pytest.approx(logprob(pair.good) - logprob(pair.bad), abs=1e-4)


def test_groups_are_means_over_paradigms():
    scores = scores_of(PAIRS, [True, False, True, False])
    assert scores.paradigms == {"one": 50, "two": 100, "three": 0}
    assert scores.terms == {"order": 50, "islands": 100, "agreement": 0}
    assert scores.fields == {"syntax": 75, "morphology": 0}
    assert scores.accuracy == 50
    assert scores.n_pairs == 4
    assert "4 pairs" in scores.render()


def test_what_is_kept_is_not_asked_again_also_among_more_pairs(editor, tmp_path, monkeypatch):
    monkeypatch.setattr(blimp, "PAIRS_AT_ONCE", 2)
    first = evaluate_blimp(editor, PAIRS[:2], tmp_path, progress=False)
    asked = []
    monkeypatch.setattr(blimp, "log_odds", lambda _, pairs: asked.extend(pairs) or [1.0] * len(pairs))
    assert evaluate_blimp(editor, PAIRS[:2], tmp_path, progress=False) == first
    assert not asked
    evaluate_blimp(editor, PAIRS, tmp_path, progress=False)
    assert asked == PAIRS[2:]
