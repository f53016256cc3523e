"""Starting from a model: a tiny XLNet that `transformers` trained and saved, and our own directories."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import toy
from rich.console import Console
from torch.nn import functional as F
from transformers import XLNetConfig, XLNetLMHeadModel, XLNetTokenizer

from xl_editor import Editor
from xl_editor.context import ContextFormat
from xl_editor.geometry import END_OF_INSERTION, PADDING, Places, relate
from xl_editor.model import XLEditorModel
from xl_editor.models import bundled_models
from xl_editor.training.objectives import IGNORED, Examples, InsertionObjective
from xl_editor.training.recipe import load_recipe
from xl_editor.training.run import load_data, make_objective
from xl_editor.training.sampling import sample_intervals
from xl_editor.training.vocabulary import pretrained_tokenizer, special_ids

SPECIAL = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")
SIZES = {"n_layer": 2, "n_head": 2, "d_model": 64, "d_inner": 128}


def write_tokenizer(directory: Path) -> int:
    """XLNet's own tokenizer, with the words of the toy language as its pieces; the size of its vocabulary."""
    words = sorted({f"▁{word}" for sentence in toy.training_sentences() for word in sentence.split()})
    letters = sorted({letter for word in words for letter in word})
    pieces = [(token, 0.0) for token in SPECIAL] + [(word, -5.0) for word in words] + [(c, -20.0) for c in letters]
    XLNetTokenizer(vocab=pieces).save_pretrained(directory)
    return len(pieces)


def context_of(directory: Path) -> ContextFormat:
    ids = special_ids(pretrained_tokenizer(directory))
    return ContextFormat(sep=ids.sep, cls=ids.cls, unk=ids.unk, mask=ids.mask, xlnet=True)


def batch_of(objective: InsertionObjective, directory: Path, sentences: list[str], epoch: int) -> dict:
    """An interval of each sentence to be predicted, left to right, in XLNet's own geometry."""
    tokenizer = pretrained_tokenizer(directory)
    tokens = [np.array(tokenizer.encode(sentence).ids) for sentence in sentences]
    lengths = np.array([len(ids) for ids in tokens])
    slots = sample_intervals(lengths, np.arange(len(tokens)), seed=0, epoch=epoch)
    return objective.collate(Examples(tokens, slots, [None] * len(tokens)))


def as_theirs(batch: dict, cls: int) -> dict:
    """The same batch as XLNetLMHeadModel takes it."""
    content = Places(batch["position"], batch["slot"], batch["offset"])
    hidden = ~relate(content, content[:, :0], plain=True).visible
    itself = torch.eye(len(content), dtype=torch.bool)
    is_target = (content.slot >= 0)[:, None, :]
    target = batch["query_position"].masked_fill(batch["labels"] == IGNORED, 0)
    mapping = F.one_hot(target, len(content)) * (batch["labels"] != IGNORED)[..., None]
    return {
        "input_ids": batch["ids"],
        "perm_mask": (hidden | (itself & is_target)).float(),  # a query does not see what it is to predict
        "target_mapping": mapping.float(),
        "input_mask": (content.slot == PADDING).float(),
        "token_type_ids": 2 * (batch["ids"] == cls),
        "labels": batch["labels"],
        "use_mems": False,
    }


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Path:
    """An XLNet that `transformers` trains for a few hundred steps, and saves."""
    directory = tmp_path_factory.mktemp("xlnet")
    vocab_size = write_tokenizer(directory)
    torch.manual_seed(0)
    model = XLNetLMHeadModel(XLNetConfig(vocab_size=vocab_size, dropout=0.0, **SIZES))
    context = context_of(directory)
    model.save_pretrained(directory)
    collator = InsertionObjective(XLEditorModel.from_pretrained(directory), context, plain=True)
    optimiser = torch.optim.AdamW(model.parameters(), 5e-3)
    sentences = toy.training_sentences()
    for step in range(300):
        batch = batch_of(collator, directory, sentences[step * 60 % 3000 :][:60], epoch=step)
        loss = model(**as_theirs(batch, context.cls)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    model.save_pretrained(directory)
    return directory


def loss_of_both(directory: Path) -> tuple[float, float]:
    """On held-out sentences: of `transformers`' model and of ours."""
    theirs = XLNetLMHeadModel.from_pretrained(directory).eval()
    context = context_of(directory)
    ours = InsertionObjective(XLEditorModel.from_pretrained(directory), context, plain=True)
    batch = batch_of(ours, directory, toy.held_out_sentences() + toy.training_sentences(n=20), epoch=1000)
    assert (batch["labels"] == IGNORED).any()  # there is padding
    assert not (batch["labels"] == END_OF_INSERTION).any()
    with torch.no_grad():
        return float(theirs(**as_theirs(batch, context.cls)).loss), float(ours(**batch)["loss"])


def test_our_loss_is_theirs(pretrained):
    theirs, ours = loss_of_both(pretrained)
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert theirs < 0.4 * math.log(87)  # it did learn


# --- fine-tuning it --------------------------------------------------------------------------------------------


def from_scratch(directory: Path, **sections) -> Path:
    directory.mkdir()
    return toy.write_recipe(directory, model={**SIZES, "dropout": 0.0}, **sections)


def from_model(directory: Path, init: Path | str, **sections) -> Path:
    directory.mkdir()
    return toy.write_recipe(directory, model={"init": str(init)}, vocabulary=None, **sections)


def styled_data(directory: Path, styles: tuple[str, ...]) -> dict:
    """The same text in all styles, but for the last sentences."""
    directory.mkdir(exist_ok=True)
    train = {
        s: toy.write_lines(directory / f"train.{s}", toy.training_sentences(n=60 + n)) for n, s in enumerate(styles)
    }
    dev = {s: toy.write_lines(directory / f"dev.{s}", toy.held_out_sentences()) for s in styles}
    return {"dir": str(directory), "train": train, "dev": dev}


@pytest.mark.parametrize(("objective", "least_gain"), [("l2r", 2.5), ("xl-editor", 0.7)])
def test_fine_tuning_starts_well_below_random_initialisation(tmp_path, pretrained, objective, least_gain):
    """Nats a target. END, half of what xl-editor predicts in so short a text, is new to both."""
    optim = {"learning_rate": 1e-3, "steps": 10, "eval_every": 10}
    fine = from_model(tmp_path / "fine", pretrained, objective=objective, optim=optim)
    random = from_scratch(tmp_path / "random", objective=objective, optim=optim)
    losses, evaluations = [], []
    for recipe in (fine, random):
        output = toy.train(recipe, recipe.parent / "model", before=toy.log_every_step)
        losses.append(toy.log_of(output, "loss")[0])
        evaluations.append(toy.log_of(output, "eval_loss")[0])
    assert losses[0] < losses[1] - least_gain
    assert evaluations[0] < evaluations[1] - least_gain


def test_end_and_styles_are_added_to_what_was_pretrained(tmp_path, pretrained):
    data = styled_data(tmp_path / "fine-data", ("n", "p"))
    optim = {"learning_rate": 1e-9, "steps": 1}
    recipe = from_model(tmp_path / "fine", pretrained, data=data, classifier={}, optim=optim)
    output = toy.train(recipe, tmp_path / "fine" / "model")
    before, after = (XLEditorModel.from_pretrained(directory) for directory in (pretrained, output))
    n_old = before.config.vocab_size
    assert after.config.vocab_size == n_old + 3
    assert after.config.end_token_id == n_old
    weights = dict(after.named_parameters())
    for name, parameter in before.named_parameters():
        grown = weights[name]
        torch.testing.assert_close(grown[:n_old] if len(grown) == n_old + 3 else grown, parameter, atol=1e-6, rtol=0)
    assert float(after.transformer.word_embedding.weight[n_old:].detach().std()) == pytest.approx(0.02, rel=0.3)

    editor = Editor.from_pretrained(output)
    format = editor.engine.format
    assert editor.styles == ("n", "p")
    assert format.xlnet
    assert format.right_end("p") == (n_old + 2, SPECIAL.index("<sep>"), SPECIAL.index("<cls>"))
    assert format.classifying_end == (SPECIAL.index("<sep>"), SPECIAL.index("<cls>"))
    assert sum(editor.classify("a1 b1").values()) == pytest.approx(1)
    assert len(editor.infill("a1 [_] x3 y3", 2, style="n")) == 2


def test_a_fine_tuned_model_stays_an_xlnet_when_it_is_trained_further(tmp_path, pretrained):
    first = toy.train(from_model(tmp_path / "first", pretrained, optim={"steps": 2}), tmp_path / "first" / "model")
    second = toy.train(from_model(tmp_path / "second", first, optim={"steps": 2}), tmp_path / "second" / "model")
    configs = [json.loads((directory / "config.json").read_text()) for directory in (first, second)]
    assert configs[0]["editor"]["context"]["xlnet"] is True
    assert configs[0] == configs[1]


# --- starting from our own -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("own")
    recipe = from_scratch(directory / "first", optim={"steps": 40}, text={"lowercase": True, "number": "_num_"})
    return toy.train(recipe, directory / "model")


def test_our_own_model_goes_on_where_it_was(tmp_path, own):
    recipe = from_model(tmp_path / "again", own, optim={"learning_rate": 1e-9, "steps": 1})
    again = toy.train(recipe, tmp_path / "again" / "model")
    assert toy.log_of(again, "eval_loss")[-1] == pytest.approx(toy.log_of(own, "eval_loss")[-1], abs=1e-4)
    assert (again / "tokenizer.json").read_text() == (own / "tokenizer.json").read_text()
    settings = [json.loads((directory / "config.json").read_text())["editor"] for directory in (own, again)]
    assert settings[0] == settings[1]
    assert settings[1]["text"]["lowercase"] is True


@pytest.mark.skipif("yelp" not in bundled_models(), reason="the model yelp is not bundled")
def test_a_bundled_model_goes_on_by_its_name(tmp_path):
    output = toy.train(from_model(tmp_path / "again", "yelp", optim={"steps": 1}), tmp_path / "model")
    assert Editor.from_pretrained(output).styles == Editor.from_pretrained("yelp").styles


def test_styles_and_a_classifier_can_be_added_twice(tmp_path, own):
    data = styled_data(tmp_path / "np", ("n", "p"))
    recipe = from_model(tmp_path / "styled", own, data=data, classifier={}, optim={"steps": 3})
    styled = toy.train(recipe, tmp_path / "styled" / "model")
    data = styled_data(tmp_path / "ao", ("a", "o"))
    recipe = from_model(tmp_path / "more", styled, data=data, classifier={}, optim={"steps": 3})
    more = Editor.from_pretrained(toy.train(recipe, tmp_path / "more" / "model"))
    assert more.styles == ("a", "n", "o", "p")
    assert more.model.config.n_labels == 4
    assert more.model.config.vocab_size == XLEditorModel.from_pretrained(own).config.vocab_size + 4
    assert set(more.classify("a1 b1")) == {"a", "n", "o", "p"}

    # A label is a style's place among all that the model knows, not among those of this corpus.
    _, corpus, development = load_data(load_recipe(recipe), Console(quiet=True))
    for part in (corpus, development):
        styles = part.sequences(window=1, max_tokens=16).styles
        assert {more.styles[style] for style in styles.tolist()} == {"a", "o"}
    n_of_last_style = sum(more.styles[style] == "o" for style in corpus.sequences(window=1, max_tokens=16).styles)
    assert n_of_last_style == 61


def test_a_model_with_styles_can_be_trained_on_text_without(tmp_path, own):
    data = styled_data(tmp_path / "np", ("n", "p"))
    styled = toy.train(from_model(tmp_path / "styled", own, data=data), tmp_path / "styled" / "model")
    with pytest.raises(ValueError, match="style must be one of n, p"):
        Editor.from_pretrained(styled).infill("a1 [_] x3 y3", 1)
    plain = toy.train(from_model(tmp_path / "plain", styled, optim={"steps": 2}), tmp_path / "plain" / "model")
    editor = Editor.from_pretrained(plain)
    assert editor.styles == ("n", "p")
    assert len(editor.infill("a1 [_] x3 y3", 1)) == 1


def test_a_model_grows_before_it_is_trained_on_but_never_shrinks(tmp_path, own):
    def begin(name: str, **grow: int) -> toy.Run:
        recipe = from_model(tmp_path / name, own, optim={"learning_rate": 1e-9, "steps": 1})
        said = [part for key, size in grow.items() for part in ("--set", f"model.grow.{key}={size}")]
        return toy.start(recipe, tmp_path / name / "model", *said)

    run = begin("larger", n_layer=4, d_inner=160)
    assert run.wait() == 0, run.said
    larger = tmp_path / "larger" / "model"
    config = XLEditorModel.from_pretrained(larger).config
    assert (config.n_layer, config.d_inner) == (4, 160)
    assert toy.log_of(larger, "eval_loss")[-1] == pytest.approx(toy.log_of(own, "eval_loss")[-1], abs=0.05)
    run = begin("smaller", n_layer=1)
    assert run.wait() == 2
    assert "model.grow.n_layer is 1, less than the 2 of model.init" in run.said


def test_what_is_said_of_text_and_transfer_is_said_beside_what_init_says(tmp_path):
    first = toy.train(
        from_scratch(tmp_path / "a", text={"lowercase": True, "tokenise": True}, transfer={"forced_insertion": False}),
        tmp_path / "a" / "model",
    )
    text = {"lowercase": True, "tokenise": True, "number": None, "dropped": ""}
    for name, said, of_text, forced in (
        ("b", {}, text, False),
        ("c", {"text": {"number": "_num_"}}, {**text, "number": "_num_"}, False),
        ("d", {"transfer": {"forced_insertion": True}}, text, True),
    ):
        recipe = load_recipe(from_model(tmp_path / name, first, **said))
        tokenizer, corpus, _ = load_data(recipe, Console(quiet=True))
        settings = make_objective(recipe, tokenizer, corpus.style_names).model.config.editor
        assert settings["text"] == of_text
        assert settings["presets"]["paper"] == {"forced_insertion": forced}
