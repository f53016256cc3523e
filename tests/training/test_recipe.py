"""Recipes: every shipped one loads, and every mistake is one sentence that names the place and the key."""

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml

from xl_editor.training.corpus import Source
from xl_editor.training.recipe import Recipe, RecipeError, _section_of, describe, load_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))

STYLED = """\
objective: xl-editor
data:
  train: {neg: a.neg, pos: [a.pos, b.pos]}
  dev: {neg: d.neg, pos: d.pos}
vocabulary: {kind: word, min_count: 3}
sampling: {empty_rate: 0.1}
classifier: {share: 0.5}
text: {lowercase: true, number: _num_}
optim:
  learning_rate: 1e-3
  tokens_per_step: 4000
  tokens_per_batch: 2000
  epochs: 2
"""


@pytest.fixture
def recipe_file(tmp_path):
    for name in ("a.neg", "a.pos", "b.pos", "d.neg", "d.pos", "news.jsonl.xz"):
        (tmp_path / name).touch()
    path = tmp_path / "r.yaml"
    path.write_text(STYLED)
    return path


@pytest.fixture
def load(recipe_file):
    def load(*overrides):
        return load_recipe(recipe_file, [f"data.dir={recipe_file.parent}", *overrides])

    return load


def names(value) -> list[str]:
    """The files that a recipe names under data.train or data.dev."""
    if isinstance(value, dict):
        return [name for below in value.values() for name in names(below)]
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_load(path, tmp_path):
    data = yaml.safe_load(path.read_text())["data"]
    for name in [each for key in ("train", "dev", "pairs") if key in data for each in names(data[key])]:
        assert not Path(name).is_absolute()
        files = [name] if Path(name).suffix else [f"{name}/{each}.jsonl.gz" for each in data["shares"]]  # a directory
        for file in files:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).touch()
    recipe = load_recipe(path, [f"data.dir={tmp_path}"])
    assert recipe.batches_per_step >= 2  # so that two processes can share a step
    if any(word in path.stem for word in ("paper", "l2r", "transformer", "xlnet")):
        assert recipe.sampling.empty_rate == recipe.sampling.style_dropout == 0
        assert (recipe.sampling.max_slots, recipe.sampling.unit) == (1, "token")
    if recipe.model.init is None and path.stem != "english":
        sizes = recipe.model
        assert (sizes.n_layer, sizes.n_head, sizes.d_model, sizes.d_inner) == (4, 4, 256, 512)


def test_all_that_the_paper_trains_has_a_recipe():
    assert {path.stem for path in RECIPES} >= {
        "yelp-paper",
        "yelp",
        "amazon-paper",
        "amazon",
        "captions",
        "news-paper",
        "news-l2r",
        "news-transformer",
        "news",
        "news-xlnet-base",
        "news-xlnet-base-l2r",
    }


def test_values_arrive_with_their_types(load, recipe_file):
    recipe = load()
    assert recipe.optim.learning_rate == 1e-3  # a string to YAML 1.1
    assert recipe.data.train == (
        Source(Path("a.neg"), "neg"),
        Source(Path("a.pos"), "pos"),
        Source(Path("b.pos"), "pos"),
    )
    assert recipe.train_files[0].path == recipe_file.parent / "a.neg"
    assert recipe.text.lowercase is True
    assert recipe.text.number == "_num_"
    assert recipe.classifier is not None
    assert (recipe.classifier.weight, recipe.classifier.share) == (1.0, 0.5)
    assert recipe.optim.betas == (0.9, 0.98)
    assert recipe.batches_per_step == 2


def test_overrides(load):
    assert load("optim.minutes=null").optim.epochs == load().optim.epochs  # takes away nothing but itself
    recipe = load("optim.minutes=5", "optim.betas=[0.9, 0.95]", "classifier=null", "data.train.pos=b.pos", "data.dev=")
    assert (recipe.optim.minutes, recipe.optim.epochs) == (5, None)
    assert recipe.optim.betas == (0.9, 0.95)
    assert recipe.classifier is None
    assert recipe.data.train[1:] == (Source(Path("b.pos"), "pos"),)
    assert recipe.dev_files is None
    assert load("model.dropout=0").model.dropout == 0


def test_a_recipe_survives_being_written(load, tmp_path):
    recipe = load("optim.steps=7", "optim.betas=[0.8, 0.9]")
    (tmp_path / "again.yaml").write_text(recipe.to_yaml())
    assert str(tmp_path) not in recipe.to_yaml()
    assert load_recipe(tmp_path / "again.yaml", [f"data.dir={tmp_path}"]) == recipe


def test_every_key_has_a_help_text():
    asked = []

    def undocumented(kind):
        for f in fields(kind):
            section = _section_of(get_type_hints(kind)[f.name])
            if section and section.__name__.endswith("Recipe"):
                yield from undocumented(section)
            asked.append(f.name)
            if not f.metadata.get("help"):
                yield f.name

    assert not list(undocumented(Recipe))
    assert {"train", "window", "steps", "precision", "kind", "share", "empty_rate"} <= set(asked)
    assert "  - `learning_rate`: At its highest." in describe()


# Overrides of the recipe above, and what is said about them.
MISTAKES = {
    "misspelt key": (["optim.learning_rat=1"], "no key optim.learning_rat; did you mean optim.learning_rate"),
    "misspelt section": (["optm.seed=1"], "there is no key optm; did you mean optim"),
    "key of another section": (["optim.dropout=0.1"], "no key optim.dropout; did you mean model.dropout"),
    "unheard-of key": (["model.zzz=1"], "no key model.zzz; there are n_layer, n_head"),
    "not a number": (["optim.learning_rate=fast"], "optim.learning_rate must be a number, got 'fast'"),
    "not finite": (["optim.learning_rate=nan"], "optim.learning_rate must be a number"),
    "not whole": (["optim.seed=1.5"], "optim.seed must be a whole number, got '1.5'"),
    "not a truth value": (["text.lowercase=1"], "text.lowercase must be true or false, got '1'"),
    "not a choice": (["objective=xlnet"], "objective must be one of xl-editor, l2r, seq2seq, got 'xlnet'"),
    "list for a number": (["optim.seed=[1]"], "optim.seed must be a single value, got a list"),
    "too short a list": (["optim.betas=[0.9]"], "optim.betas must be a list of 2 numbers"),
    "scalar for a section": (["model=big"], "model must be a mapping of keys to values, got 'big'"),
    "key below a scalar": (["objective.kind=l2r"], "objective has no keys below it"),
    "below the range": (["data.window=0"], "data.window must be at least 1, got '0'"),
    "above the range": (["sampling.empty_rate=1.5"], "sampling.empty_rate must be at most 1, got '1.5'"),
    "at the edge": (["classifier.share=0"], "classifier.share must be more than 0"),
    "endless": (["optim.epochs=1e308"], "optim.epochs must be at most 1000000"),
    "more digits than a float has": ([f"optim.seed={'9' * 400}"], "optim.seed must be at most 4294967295"),
    "no number that anybody wants": (["data.window=99999999999999999999"], "data.window must be at most 1000000000"),
    "itself": (["data=&a {train: *a}"], "refers to itself"),
    "a packed table": (["data={train: t.csv.gz}", "classifier=null"], "text comes a sequence a line, or as JSONL"),
    "styles below a style": (["data.train={neg: {pos: a.neg}}"], "data.train.neg must be a file or a list of files"),
    "too long for sinusoids": (
        [
            "objective=seq2seq",
            "data={train: a.neg, max_tokens: 2048}",
            "classifier=null",
            "optim.tokens_per_batch=9000",
        ],
        "objective seq2seq reads less than 2048 tokens",
    ),
    "beta": (["optim.betas=[0.9, 1.5]"], "optim.betas must be at most 0.9999"),
    "missing key": (["optim.learning_rate=null"], "the key optim.learning_rate is missing"),
    "missing section": (["data=null"], "the key data is missing"),
    "missing file": (["data.train.neg=zzz"], "data.train.neg names ", "zzz, which is not there"),
    "missing directory": (["data.dir=/nowhere"], "/nowhere/a.neg, which is not there"),
    "odd style": (["data.train={a b: a.neg}"], "the style 'a b' of data.train must be a word"),
    "no files": (["data.train=[]"], "data.train must be a file or a list of files, got a list"),
    "no styles": (["data.train={}"], "data.train must be a mapping from style to file"),
    "no equals sign": (["optim.seed"], "expected key=value"),
    "bad YAML": (["optim.seed=[1"], "not valid YAML"),
    "two durations": (
        ["optim={learning_rate: 1, steps: 3, minutes: 4, tokens_per_step: 4000, tokens_per_batch: 4000}"],
        "choose one of optim.steps and optim.minutes",
    ),
    "no duration": (["optim.epochs=null"], "one of optim.steps, optim.epochs and optim.minutes is missing"),
    "uneven batches": (["optim.tokens_per_batch=3000"], "must be a multiple of optim.tokens_per_batch 3000"),
    "small batches": (["data.max_tokens=1000"], "cannot hold a sequence of data.max_tokens 1000"),
    "odd size": (["model.d_model=250"], "model.d_model 250 must be a multiple of twice model.n_head 4"),
    "bpe without size": (["vocabulary={kind: bpe}"], "kind bpe needs a vocabulary.size"),
    "bpe with counts": (["vocabulary={kind: bpe, size: 300, min_count: 2}"], "min_count is for kind word"),
    "no vocabulary": (["vocabulary=null"], "a vocabulary (or model.init) is missing"),
    "sizes and init": (["vocabulary=null", "model={init: x, n_head: 2}"], "leave model.n_head out"),
    "shortest above longest": (["data.least_window=2"], "data.least_window is above data.window"),
    "growth of nothing": (["model={grow: {n_layer: 8}}"], "model.grow needs a model.init"),
    "init that is not there": (
        ["vocabulary=null", "model.init=./zzz"],
        "names ./zzz, which is not a directory",
    ),
    "styles for a baseline": (["objective=seq2seq"], "objective seq2seq knows no styles"),
    "classifier for a baseline": (["objective=l2r", "data.train=a.neg"], "objective l2r has no classifier"),
    "slots for a baseline": (
        ["objective=l2r", "data={train: a.neg}", "classifier=null", "sampling.max_slots=2"],
        "objective l2r takes one slot only",
    ),
    "nothing to predict": (
        ["objective=l2r", "data={train: a.neg}", "classifier=null"],
        "objective l2r has no END",
    ),
    "no sentence to predict": (
        ["objective=l2r", "data={train: a.neg}", "classifier=null", "sampling={sentence_rate: 0.1}"],
        "sampling.sentence_rate must be 0",
    ),
    "init for seq2seq": (
        ["objective=seq2seq", "data={train: a.neg}", "classifier=null", "vocabulary=null", "model.init=x"],
        "objective seq2seq cannot start from model.init",
    ),
    "classifier without styles": (["data={train: a.neg}"], "a classifier needs styles"),
    "one style": (["data={train: {neg: a.neg}}"], "a classifier needs at least two styles"),
    "style dropout without styles": (
        ["data={train: a.neg}", "classifier=null", "sampling.style_dropout=0.1"],
        "sampling.style_dropout needs styles",
    ),
    "styles differ": (["data.dev={odd: d.neg}"], "data.dev has the style odd, data.train has neg, pos"),
    "dev without styles": (["data.dev=d.neg"], "data.dev has the style None, data.train has neg, pos"),
    "windows of plain text": (
        ["data={train: [news.jsonl.xz, a.neg], window: 3}"],
        "data.window 3 needs articles (JSONL with sents), not plain text: a.neg",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_refused_in_one_sentence(load, recipe_file, mistake):
    overrides, *messages = MISTAKES[mistake]
    with pytest.raises(RecipeError) as error:
        load(*overrides)
    said = str(error.value)
    assert all(message in said for message in messages)
    assert "\n" not in said
    assert said.endswith(".")
    assert said.startswith((f"{recipe_file}, line ", "--set "))


# Whole files, and what is said about them.
BAD_FILES = {
    "misspelt": (
        STYLED.replace("epochs", "epoch"),
        "r.yaml, line 13: there is no key optim.epoch; did you mean",
    ),
    "wrong type": (STYLED.replace("4000", "many"), "r.yaml, line 11: optim.tokens_per_step must be a whole"),
    "twice": (STYLED + "objective: l2r\n", "r.yaml, line 14: the key objective is given twice"),
    "combination": (STYLED + "  steps: 3\n", "r.yaml, line 13: choose one of optim.steps and optim.epochs"),
    "not YAML": ("objective: [xl-editor\ndata: 3\n", "r.yaml, line 2: not valid YAML"),
    "tab": ("objective:\n\t- x\n", "r.yaml, line 2: not valid YAML"),
    "a list": ("- objective\n", "r.yaml: a recipe is a mapping of keys to values"),
    "empty": ("", "r.yaml: a recipe is a mapping of keys to values"),
    "odd key": ("[a, b]: 3\n", "r.yaml, line 1: a key must be a word"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_mistakes_in_a_file_name_its_line(load, recipe_file, case):
    text, message = BAD_FILES[case]
    recipe_file.write_text(text)
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe_file)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_unreadable_recipes(tmp_path):
    with pytest.raises(RecipeError, match=r"zzz.yaml cannot be read: No such file"):
        load_recipe(tmp_path / "zzz.yaml")
    (tmp_path / "a.yaml").write_bytes(b"objective: \xff\n")
    with pytest.raises(RecipeError, match="not a UTF-8 text file"):
        load_recipe(tmp_path / "a.yaml")


def test_a_missing_file_comes_with_a_hint(recipe_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(RecipeError, match=r"line 3: data.train.neg names a.neg, .*--set data.dir=DIR"):
        load_recipe(recipe_file)
    monkeypatch.chdir(tmp_path)
    assert load_recipe(recipe_file).data.dir is None


def test_the_documentation_lists_every_key_as_it_is():
    documentation = Path(__file__).parents[2] / "docs" / "training.md"
    assert documentation.read_text(encoding="utf-8").endswith(describe().rstrip() + "\n")
