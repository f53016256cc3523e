"""The whole measurement on a data set of a few lines: reading, the toy `Prefix`, scores, tables."""

import gzip
import json
import lzma
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from xl_editor import cli
from xl_editor.evaluation.bleu import corpus_bleu
from xl_editor.evaluation.fluency import NgramModel
from xl_editor.evaluation.kept import claim
from xl_editor.evaluation.ngram_judge import train_ngram_classifier
from xl_editor.evaluation.prefix import MAX_PREFIX_WORDS, prepend_until, with_prefix
from xl_editor.evaluation.published import PUBLISHED, published_scores
from xl_editor.evaluation.reproduce_style import post_edit, reproduce_style
from xl_editor.evaluation.style import (
    Judges,
    evaluate_outputs,
    evaluate_systems,
    inserts_at_start,
    open_judges,
)
from xl_editor.evaluation.style_data import StyleData, SystemOutputs, read_lines
from xl_editor.evaluation.style_table import json_table, markdown_table, mean_acc_difference, write_table
from xl_editor.evaluation.textcnn import StyleClassifier, TextCNNConfig, TrainingOptions, train_textcnn

TEST = {"neg": ["the food was awful .", "awful staff at this place ."], "pos": ["the food was lovely ."]}
REFERENCES = {
    "neg2pos": ["The food was lovely.", "Lovely staff at this place."],
    "pos2neg": ["The food was awful."],
}
FLIPPED = {
    "neg2pos": ["the food was lovely .", "lovely staff at this place ."],
    "pos2neg": ["the food was awful ."],
}
HALF = {
    "neg2pos": ["the food was lovely .", "awful staff at this place ."],
    "pos2neg": ["the food was lovely ."],
}


def training_lines(word: str) -> list[str]:
    subjects = ("the food", "the staff", "this place", "the staff at this place")
    return [f"{subject} {verb} {word} ." for subject in subjects for verb in ("was", "is")] * 6


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "yelp"
    for style, word in (("neg", "awful"), ("pos", "lovely")):
        lines = training_lines(word)
        write_lines(directory / f"dev.{style}", lines[:8])
        write_lines(directory / f"test.{style}", TEST[style])
        with gzip.open(directory / f"train.{style}.gz", "wt", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    for direction in ("neg2pos", "pos2neg"):
        write_lines(directory / "references" / f"reference.li.{direction}", REFERENCES[direction])
        write_lines(directory / "outputs" / f"PTO.{direction}", FLIPPED[direction])
        write_lines(directory / "outputs" / f"CrossAligned.{direction}", HALF[direction])
        write_lines(directory / "outputs" / f"ANewSystem.{direction}", HALF[direction])
    return directory


@pytest.fixture
def data(directory: Path) -> StyleData:
    return StyleData.open(directory)


@pytest.fixture(scope="module")
def classifier() -> StyleClassifier:
    lines = {"neg": training_lines("awful"), "pos": training_lines("lovely")}
    config = TextCNNConfig(widths=(1,), n_filters=8, embedding_size=8)
    options = TrainingOptions(n_steps=150, batch_size=16, learning_rate=1e-2, check_every=50, longer_than=3)
    return train_textcnn(lines, lines, config, options, progress=False)


@pytest.fixture(scope="module")
def judges(classifier: StyleClassifier) -> Judges:
    model = NgramModel.train(training_lines("awful") + training_lines("lovely"))
    lines = {"neg": training_lines("awful"), "pos": training_lines("lovely")}
    return Judges((classifier,), model, train_ngram_classifier(lines, lines))


def has_three_words(texts: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([len(text.split()) >= 3 for text in texts])


def test_systems_come_in_the_papers_order(data: StyleData) -> None:
    assert [system.name for system in data.systems] == ["CrossAligned", "PTO", "ANewSystem"]
    assert data.system("PTO").pooled == (*FLIPPED["neg2pos"], *FLIPPED["pos2neg"])
    assert data.system("Copy").pooled == (*TEST["neg"], *TEST["pos"])


def test_vocabulary_is_what_was_seen_five_times(directory: Path) -> None:
    lines = [*training_lines("awful"), *["often"] * 4, "Often", *["seldom"] * 4]
    (directory / "train.neg.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    vocabulary = StyleData.open(directory).vocabulary
    assert {"food", "awful", "lovely", ".", "often"} <= vocabulary
    assert "seldom" not in vocabulary


def test_flipped_outputs_score_full_marks(data: StyleData, judges: Judges) -> None:
    scores = evaluate_outputs(data.system("PTO"), data, judges)
    assert scores.acc == 100
    assert scores.bleu == pytest.approx(100)
    assert scores.g == pytest.approx(100)
    assert scores.bleu_interval.low == pytest.approx(100)
    assert scores.comparison is None


def test_copy_has_no_accuracy_and_the_inputs_perplexity(data: StyleData, judges: Judges) -> None:
    scores = evaluate_outputs(data.copy, data, judges)
    assert scores.acc == 0
    assert scores.ppl_ratio == 1
    assert scores.ppl_median == pytest.approx(judges.language_model.median_perplexity(data.copy.pooled))


def test_accuracy_pools_directions_and_g_is_the_geometric_mean(data: StyleData, judges: Judges) -> None:
    scores = evaluate_outputs(data.system("CrossAligned"), data, judges)
    assert scores.acc == pytest.approx(100 / 3)
    assert scores.bleu == pytest.approx(
        corpus_bleu([*HALF["neg2pos"], *HALF["pos2neg"]], [*FLIPPED["neg2pos"], *FLIPPED["pos2neg"]]).score
    )
    assert scores.g == pytest.approx(math.sqrt(scores.acc * scores.bleu))
    assert scores.acc_interval.low <= scores.acc <= scores.acc_interval.high


def test_accuracy_is_the_mean_over_classifiers(data: StyleData, judges: Judges) -> None:
    class Contrarian:
        """Says the opposite of the trained classifier."""

        options = judges.classifiers[0].options
        model = judges.classifiers[0].model

        def is_style(self, texts: Sequence[str], style: str) -> NDArray[np.bool_]:
            return ~judges.classifiers[0].is_style(texts, style)

    both = replace(judges, classifiers=(judges.classifiers[0], Contrarian()))  # type: ignore[arg-type]
    scores = evaluate_outputs(data.system("PTO"), data, both)
    assert scores.acc_of_each_classifier == (100, 0)
    assert scores.acc == 50


def test_both_kinds_of_judge_count_apart_and_together(data: StyleData, judges: Judges) -> None:
    class Contrarian:
        """Says the opposite of the n-gram classifier."""

        def is_style(self, texts: Sequence[str], style: str) -> NDArray[np.bool_]:
            return ~judges.ngram_classifier.is_style(texts, style)

    doubted = replace(judges, ngram_classifier=Contrarian())  # type: ignore[arg-type]
    base = data.copy
    edited = SystemOutputs("Mine", tuple(FLIPPED["neg2pos"]), tuple(FLIPPED["pos2neg"]), edited_from=base)
    agreed, scores = (evaluate_outputs(edited, data, of) for of in (judges, doubted))
    assert (agreed.acc, agreed.ngram_acc) == (100, 100)
    assert agreed.g == agreed.ngram_g == agreed.mean_g
    assert (scores.acc, scores.ngram_acc) == (100, 0)
    assert scores.ngram_g == 0
    assert scores.mean_g == pytest.approx(math.sqrt(50 * scores.bleu))
    assert scores.comparison is not None
    assert (scores.comparison.acc.difference, scores.comparison.ngram_acc.difference) == (100, -100)
    assert scores.comparison.mean_g.after == scores.mean_g


def test_signature_names_every_measure(data: StyleData, judges: Judges) -> None:
    signature = evaluate_outputs(data.copy, data, judges).signature
    for part in (
        "tok:none",
        "smooth:none",
        "ref:li",
        "acc:textcnn.w1-1.s0",
        "ngram_acc:logreg.n1-3",
        "ppl:kn5",
        "bs:1000",
    ):
        assert part in signature


def test_edited_outputs_are_compared_with_their_inputs(data: StyleData, judges: Judges) -> None:
    base = SystemOutputs("Mine", (*FLIPPED["neg2pos"][:1], "awful awful place staff ."), ("food lovely the .",))
    edited = SystemOutputs("Mine+XLE", tuple(FLIPPED["neg2pos"]), tuple(FLIPPED["pos2neg"]), edited_from=base)
    scores = evaluate_outputs(edited, data, judges)
    comparison = scores.comparison
    assert comparison is not None
    assert comparison.edited_from == "Mine"
    assert comparison.acc.difference == pytest.approx(100 - 100 / 3)
    assert comparison.bleu.before == evaluate_outputs(base, data, judges).bleu
    assert comparison.g.after == scores.g
    assert comparison.share_changed == pytest.approx(2 / 3)
    assert comparison.share_inserted_at_start == pytest.approx(1 / 3)  # "the", before "food"
    language_model = judges.language_model
    before, after = language_model.perplexities(base.pooled), language_model.perplexities(edited.pooled)
    assert comparison.ppl_ratio_of_changed == pytest.approx(np.median(after[1:] / before[1:]))
    assert scores.ppl_ratio == pytest.approx(
        language_model.median_perplexity(edited.pooled) / language_model.median_perplexity(base.pooled)
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("good food", "very good food", True),
        ("good food", "very good cheap food", True),
        ("good food", "good cheap food", False),
        ("good food", "bad food", False),
        ("good food", "good food", False),
        ("", "words", True),
        ("", "", False),
    ],
)
def test_insertions_at_the_start_are_seen(before: str, after: str, expected: bool) -> None:
    assert inserts_at_start(before, after) is expected


def test_prefix_stops_when_satisfied() -> None:
    texts = ["one", "one two", "one two three", ""]
    assert prepend_until(texts, "x", has_three_words) == ("x x one", "x one two", "one two three", "x x x ")


def test_prefix_gives_up_in_the_end() -> None:
    def never(texts: Sequence[str]) -> NDArray[np.bool_]:
        return np.zeros(len(texts), dtype=bool)

    assert prepend_until(["a"], "x", never) == (" ".join(["x"] * MAX_PREFIX_WORDS + ["a"]),)
    assert prepend_until([], "x", never) == ()


def test_prefix_row_pushes_each_direction_to_its_target(data: StyleData, judges: Judges) -> None:
    class WantsStrongWord:
        """A classifier that only looks at the first word."""

        def is_style(self, texts: Sequence[str], style: str, margin: float) -> NDArray[np.bool_]:
            assert margin > 2  # the toy wants to be sure
            return np.array([text.split()[0] == {"pos": "excellent", "neg": "worst"}[style] for text in texts])

    row = with_prefix(data.copy, WantsStrongWord())  # type: ignore[arg-type]
    assert row.name == "Copy+Prefix"
    assert row.neg2pos == tuple(f"excellent {text}" for text in TEST["neg"])
    assert row.pos2neg == tuple(f"worst {text}" for text in TEST["pos"])
    comparison = evaluate_outputs(row, data, judges).comparison
    assert comparison is not None
    assert comparison.share_inserted_at_start == 1


def test_tables_carry_published_figures_and_comparisons(data: StyleData, judges: Judges, tmp_path: Path) -> None:
    base = data.system("PTO")
    edited = SystemOutputs("PTO+XLE", base.neg2pos, base.pos2neg, edited_from=base)
    rows = evaluate_systems([data.copy, *data.systems, edited], data, judges, progress=False)
    markdown = markdown_table(rows, data, judges)
    assert "| 91.5 / 29.86 / 52.3 |" in markdown
    assert "| 95.7 / 28.75 / 52.5 |" in markdown
    assert "CrossAligned (XAli)" in markdown
    assert "(+0.00 [+0.00, +0.00])" in markdown
    assert rows[0].signature in markdown
    new_system = next(line for line in markdown.splitlines() if line.startswith("| ANewSystem"))
    assert new_system.endswith("| – |")

    write_table(rows, data, judges, tmp_path / "results")
    stored = json.loads((tmp_path / "results" / "style-yelp.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(json_table(rows, data, judges)))
    assert [row["name"] for row in stored["rows"]] == [row.name for row in rows]
    assert stored["rows"][-1]["published"] == {"acc": 95.7, "bleu": 28.75, "g": 52.5}
    assert (tmp_path / "results" / "style-yelp.md").read_text(encoding="utf-8") == markdown


def test_mean_difference_leaves_edited_rows_out(data: StyleData, judges: Judges) -> None:
    base = data.system("PTO")
    edited = SystemOutputs("PTO+XLE", base.neg2pos, base.pos2neg, edited_from=base)
    rows = evaluate_systems([base, edited, data.system("ANewSystem")], data, judges, progress=False)
    assert mean_acc_difference(rows, "yelp") == pytest.approx(100 - 91.5)
    assert mean_acc_difference(rows, "elsewhere") is None


@pytest.mark.parametrize("name", ["yelp", "amazon"])
def test_published_g_is_the_geometric_mean_of_published_acc_and_bleu(name: str) -> None:
    for scores in PUBLISHED[name].values():
        assert math.sqrt(scores.acc * scores.bleu) == pytest.approx(scores.g, abs=0.11)
    assert published_scores(name, "Nobody") is None


def test_judges_are_loaded_where_they_were_saved(data: StyleData, judges: Judges, tmp_path: Path) -> None:
    judges.classifiers[0].save(tmp_path / "textcnn-yelp-seed0")
    opened = open_judges(data, tmp_path, seeds=(0,), progress=False)
    assert opened.classifiers[0].logits(TEST["neg"]).tolist() == judges.classifiers[0].logits(TEST["neg"]).tolist()
    # the language model was not there: trained, saved, and the same when loaded again
    assert (tmp_path / "fluency-yelp" / "fluency.npz").is_file()
    # and so was the n-gram classifier
    assert opened.ngram_classifier.is_style(TEST["neg"], "neg").all()
    again = open_judges(data, tmp_path, seeds=(0,), progress=False)
    assert again.language_model.perplexities(TEST["neg"]).tolist() == (
        opened.language_model.perplexities(TEST["neg"]).tolist()
    )
    assert again.ngram_classifier == opened.ngram_classifier


@pytest.mark.parametrize(("changed", "told"), [("dev.pos", "yelp-dev"), ("train.neg.gz", "yelp")])
def test_judges_of_other_data_are_not_used(
    changed: str, told: str, directory: Path, judges: Judges, tmp_path: Path
) -> None:
    judges.classifiers[0].save(tmp_path / "work" / "textcnn-yelp-seed0")
    open_judges(StyleData.open(directory), tmp_path / "work", progress=False)
    file = directory / changed
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(ValueError, match=f"made from other {told} data"):
        open_judges(StyleData.open(directory), tmp_path / "work", progress=False)


def test_partial_training_split_is_found_and_noted(directory: Path, judges: Judges) -> None:
    for style in ("neg", "pos"):
        (directory / f"train.{style}.gz").unlink()
        content = gzip.compress(f"seen once {style}".encode())
        (directory / f"train.partial.{style}.gz").write_bytes(content)
    data = StyleData.open(directory)
    assert data.has_partial_training
    assert data.vocabulary == {"seen", "once", "neg", "pos"}
    assert "Only a part of the training split" in markdown_table(
        evaluate_systems([data.copy], data, judges, progress=False), data, judges
    )


@pytest.mark.parametrize(
    "name", ["dev.neg", "test.pos", "references/reference.li.pos2neg", "outputs/PTO.neg2pos", "train.neg.gz"]
)
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(FileNotFoundError, match=Path(name).name.replace(".", r"\.")):
        StyleData.open(directory)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        StyleData.open(tmp_path / "nowhere")


def test_a_file_of_another_length_is_named(directory: Path) -> None:
    write_lines(directory / "outputs" / "PTO.neg2pos", ["only one line"])
    with pytest.raises(ValueError, match=r"PTO\.neg2pos has 1 lines, but test\.neg has 2"):
        StyleData.open(directory)


def test_outputs_of_another_length_are_named(data: StyleData, judges: Judges) -> None:
    with pytest.raises(ValueError, match="Mine has 1 outputs for neg2pos, but the test split has 2 texts"):
        evaluate_outputs(SystemOutputs("Mine", ("a",), ("b",)), data, judges)


def test_an_unknown_system_is_named(data: StyleData) -> None:
    with pytest.raises(ValueError, match="no outputs of 'Nobody' in the data: there are Copy, CrossAligned"):
        data.system("Nobody")


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("one\x85two three\n\nlast\n".encode())
    assert read_lines(path) == ("one\x85two three", "", "last")


def test_the_table_is_rebuilt_with_the_editors_rows(data, judges, classifier, editor, tmp_path):
    classifier.save(tmp_path / "work" / f"prefix-{data.name}")  # stands in for the small classifier
    rows = reproduce_style(data, editor, judges, tmp_path / "work", tmp_path / "out", progress=False)
    names = [row.name for row in rows]
    assert {"Copy", "PTO", "Copy+XLE", "Copy+XLE (default)", "PTO+XLE", "PTO+XLE (default)"} <= set(names)
    edited = {row.name: row.comparison.edited_from for row in rows if row.comparison}
    assert edited["PTO+XLE (default)"] == "PTO"
    table = json.loads((tmp_path / "out" / "style-yelp.json").read_text())
    assert set(table["operations"]) == {"Copy+XLE", "Copy+XLE (default)", "PTO+XLE", "PTO+XLE (default)"}
    assert "PTO+XLE" in (tmp_path / "out" / "style-yelp.md").read_text()
    assert (tmp_path / "out" / "style-yelp.png").stat().st_size > 1000
    assert "## PTO+XLE" in (tmp_path / "out" / "traces-yelp.md").read_text()


def test_texts_edited_before_are_not_edited_again(data, editor, tmp_path, monkeypatch):
    first = post_edit(editor, data.copy, "paper", tmp_path, progress=False)
    monkeypatch.setattr(editor, "transfer_all", None)
    assert post_edit(editor, data.copy, "paper", tmp_path, progress=False) == first
    with pytest.raises(TypeError):  # other settings: edited anew
        post_edit(editor, data.copy, "default", tmp_path, progress=False)


def test_where_a_system_said_nothing_nothing_is_edited(data, editor, tmp_path):
    said = post_edit(editor, data.copy, "paper", tmp_path, progress=False)
    silent = replace(data.copy, neg2pos=("", *data.copy.neg2pos[1:]))
    found = post_edit(editor, silent, "paper", tmp_path, progress=False)
    assert found.outputs.neg2pos == ("", *said.outputs.neg2pos[1:])
    assert not found.texts[0].operations
    assert found.texts[1:] == said.texts[1:]


@pytest.mark.parametrize(("name", "model"), [("yelp", "yelp"), ("amazon", "amazon"), ("hotels", None)])
def test_the_bundled_model_of_the_datas_name_edits_it(
    directory: Path, name: str, model: str | None, monkeypatch
) -> None:
    """Or none does: another one would know another language."""
    loaded = []

    class LoadedError(Exception):
        pass

    def load(name: str, **_: object) -> None:
        loaded.append(name)
        raise LoadedError

    monkeypatch.setattr(cli, "_prepare_torch", lambda: None)  # it is there already
    monkeypatch.setattr(cli, "_load", load)
    data = directory.rename(directory.with_name(name))
    with pytest.raises(LoadedError if model else SystemExit):
        cli.reproduce_style(data)
    assert loaded == [model] * (model is not None)


def test_what_was_made_is_used_however_the_data_is_packed(tmp_path):
    plain, packed = tmp_path / "train.neg", tmp_path / "train.neg.gz"
    plain.write_bytes(b"awful .\n")
    packed.write_bytes(gzip.compress(b"awful .\n"))
    claim(tmp_path / "work", "toy", [packed])
    claim(tmp_path / "work", "toy", [plain])
    plain.write_bytes(b"lovely .\n")
    with pytest.raises(ValueError, match="made from other toy data"):
        claim(tmp_path / "work", "toy", [plain])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", b"text"),
        ("a.gz", gzip.compress(b"text" * 99, mtime=0)[:-9]),
        ("a.xz", b"text"),
        ("a.xz", lzma.compress(b"text")[:-9]),
    ],
)
def test_data_that_cannot_be_unpacked_is_told(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be unpacked, it is damaged or not what its name says"):
        claim(tmp_path / "work", "toy", [tmp_path / name])
