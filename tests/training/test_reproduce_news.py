"""The whole table of news, end to end, with models that train for a moment; also from an XLNet made on the spot."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
import toy
from rich.console import Console
from test_xlnet_init import SIZES, write_tokenizer
from transformers import XLNetConfig, XLNetLMHeadModel

from xl_editor.evaluation import news
from xl_editor.evaluation import reproduce_news as module
from xl_editor.evaluation.news_rules import EndRules, PairRules, open_rules
from xl_editor.evaluation.news_table import TITLES
from xl_editor.evaluation.news_tasks import make_tasks, open_tasks
from xl_editor.evaluation.published import PUBLISHED_NEWS
from xl_editor.evaluation.reproduce_news import LEARNING_RATES
from xl_editor.training.recipe import ModelRecipe, SamplingRecipe, VocabularyRecipe, load_recipe

STEPS = 10
RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Articles of the toy language, sentences of up to twelve words."""
    directory = tmp_path_factory.mktemp("news")
    sentences = toy.training_sentences()
    for part, n_articles in {"train": 60, "valid": 10, "test": 40}.items():
        random = Random(part)
        articles = [[" ".join(random.sample(sentences, 3)) for _ in range(8)] for _ in range(n_articles)]
        toy.write_lines(directory / f"{part}.jsonl", (json.dumps({"sents": article}) for article in articles))
    return directory


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("xlnet")
    torch.manual_seed(0)
    XLNetLMHeadModel(XLNetConfig(vocab_size=write_tokenizer(directory), **SIZES)).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def reproduced(data, xlnet, tmp_path_factory):
    """The table, made twice, the second time from packed files; and what was trained and evaluated each time."""
    work, output = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("results")
    packed = tmp_path_factory.mktemp("packed")
    for path in data.iterdir():
        (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    done: list[list[str]] = []
    train, infill = module.train, news._infill

    def trains(recipe, output, **how):
        done[-1].append(f"train {output.name}")
        return train(recipe, output, **how)

    def infills(*args):
        done[-1].append("infill")
        return infill(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XL_EDITOR_CACHE", str(work / "cache"))
        patch.setattr("xl_editor.training.card.plot_curve", lambda log, path: None)  # a second each
        patch.setattr(module, "train", trains)
        patch.setattr(news, "_infill", infills)
        patch.setattr(module, "LEARNING_RATES", dict.fromkeys(module.LEARNING_RATES, (1e-3, 1e-9)))
        patch.setattr(module, "FINE_TUNING_RATES", (1e-4,))
        for directory in (data, packed):
            done.append([])
            quiet, tasks = Console(quiet=True), open_tasks(directory, work, n_tasks=12)
            recipe = tiny(module.paper_recipe(directory))
            assert module.reproduce_news(recipe, tasks, work, output, steps=STEPS, init=str(xlnet), console=quiet)
    return work, output, done


def tiny(paper):
    return replace(
        paper,
        data=replace(paper.data, max_tokens=64),
        vocabulary=VocabularyRecipe(kind="bpe", size=400),
        model=ModelRecipe(n_layer=2, n_head=2, d_model=32, d_inner=48, dropout=0.0),
        optim=replace(paper.optim, tokens_per_step=600, tokens_per_batch=300, threads=1),
    )


def test_every_row_is_in_the_table(reproduced):
    _, output, _ = reproduced
    table = (output / "news.md").read_text()
    lines = table.splitlines()
    assert all(f"## {title}" in lines for title in TITLES.values())
    for name in PUBLISHED_NEWS:
        (line,) = [line for line in lines if line.startswith(f"| {name} |")][:1]
        figures = " / ".join("–" if figure is None else f"{figure:.2f}" for figure in PUBLISHED_NEWS[name])
        assert line.endswith(f"| {figures} |")
    for name in module.ABLATION:
        assert f"| {name} | " in table
    margin = r"[+-]\d+\.\d\d \[[+-]\d+\.\d, [+-]\d+\.\d\]"
    assert re.search(rf"^- Locate, XL-Editor before XLNet L2R: {margin} points", table, re.MULTILINE)
    assert re.search(rf"^- Delete, the paper's better way: .*; {margin}\.$", table, re.MULTILINE)
    for picture in ("news", "news-empty_rate-0.1", "news-ablation", "news-a-third"):
        assert (output / f"{picture}.png").stat().st_size > 1000


def test_the_same_figures_are_there_for_programs(reproduced):
    _, output, _ = reproduced
    found = json.loads((output / "news.json").read_text())
    assert found["tasks"] == 12
    n_rows = {group: len(rows) for group, rows in found["groups"].items()}
    assert n_rows == {"main": 5, "bundled": 1, "empty_rate 0.1": 2, "ablation": 4, "a third": 1}
    for group, row in ((group, row) for group, rows in found["groups"].items() for row in rows):
        if row["name"] != module.BUNDLED:
            assert row["tokens"] > 0
            assert row["passes"] > 0
        assert (row["scores"]["infill"] is not None) == (group != "a third")
        has_choice = "L2R" in row["name"] and group != "a third"  # of lengths
        assert (row["scores"]["infill_rank"] is not None) == has_choice
        for measured in filter(None, row["scores"].values()):
            low, high = measured["interval"]["low"], measured["interval"]["high"]
            assert 0 <= low <= high <= 100


def test_every_model_fills_in_five_instances(reproduced):
    _, output, _ = reproduced
    infills = (output / "news-infills.md").read_text()
    assert infills.count("**[_]**") == 5
    for name in (
        "**answer**",
        "Transformer",
        "XLNet L2R",
        "XLNet L2R + rank",
        "XL-Editor",
        "XL-Editor (empty_rate 0.1)",
        "news (bundled)",
    ):
        assert infills.count(f"| {name} | ") == 5
    assert "(a third)" not in infills  # which is not asked


def test_what_is_done_is_not_done_again(reproduced):
    work, _, (first, second) = reproduced
    n_searched, n_rows, n_bundled = 3 * 2 + 2, 3 + 2 + 2 + 4 + 1, 1
    assert sum(name.startswith("train") for name in first) == len(set(first)) - 1 == n_searched + n_rows
    n_filling = n_rows - 1 + n_bundled
    assert n_filling - 2 <= first.count("infill") <= n_filling  # short runs may end alike
    assert second == []
    assert len(list((work / "news-runs").iterdir())) == n_searched + n_rows


def test_all_rows_share_a_vocabulary_and_the_better_learning_rate(reproduced):
    work, output, _ = reproduced
    runs = [path for path in (work / "news-runs").iterdir() if "init" not in (path / "recipe.yaml").read_text()]
    assert len({(path / "tokenizer.json").read_text() for path in runs}) == 1
    rows = json.loads((output / "news.json").read_text())["groups"]["main"]
    assert {row["learning_rate"] for row in rows[:3]} == {1e-3}
    assert {row["learning_rate"] for row in rows[3:]} == {1e-4}


def test_any_of_the_models_can_be_opened_for_evaluation(reproduced):
    work, _, _ = reproduced
    kinds = {"l2r": PairRules, "seq2seq": EndRules, "xl-editor": EndRules}
    for objective, kind in kinds.items():
        directory = next(path for path in (work / "news-runs").iterdir() if path.name.startswith(objective))
        assert type(open_rules(directory)) is kind


def test_an_interrupted_run_ends_the_command(data, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "train", lambda *args, **how: False)
    tasks = open_tasks(data, tmp_path, n_tasks=5)
    assert not module.reproduce_news(
        module.paper_recipe(data), tasks, tmp_path, tmp_path / "out", console=Console(quiet=True)
    )
    assert not (tmp_path / "out").exists()


def test_the_recipe_is_that_of_the_recipes(tmp_path):
    for part in ("train", "valid"):
        (tmp_path / f"{part}.jsonl.xz").touch()
    ours = module.paper_recipe(tmp_path)
    for file, objective in {"paper": "xl-editor", "l2r": "l2r", "transformer": "seq2seq"}.items():
        written = load_recipe(RECIPES / f"news-{file}.yaml", [f"data.dir={tmp_path}"])
        row = replace(ours, objective=objective, optim=replace(ours.optim, learning_rate=LEARNING_RATES[objective][-1]))
        assert row.to_dict() == written.to_dict()


# --- that the rules point the right way ------------------------------------------------------------------------


def numbered_articles(n_articles: int, seed: str, least: int = 1) -> list[list[str]]:
    """Every article has a number of its own, which all its pairs of words bear; some are a single sentence.

    In three of four cases what is left of a sentence shows where words were taken out: half a pair stands alone.
    """
    random = Random(seed)

    def sentence_about(number: int) -> str:
        pairs = random.choices(toy.KINDS, k=random.randint(4, 7))
        return " ".join(f"{first}{number} {second}{number}" for first, second in pairs)

    numbers = [random.randrange(toy.N_PAIRS) for _ in range(n_articles)]
    return [[sentence_about(number) for _ in range(random.randint(least, 6))] for number in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["xl-editor", "l2r", "seq2seq"])
def test_trained_models_do_far_better_than_chance(tmp_path, monkeypatch, objective):
    """Which they could not, if a rule preferred the wrong end of its scale."""
    monkeypatch.setenv("XL_EDITOR_CACHE", str(tmp_path / "cache"))
    for part, n_articles in {"train": 1000, "valid": 20}.items():
        articles = numbered_articles(n_articles, part)
        toy.write_lines(tmp_path / f"{part}.jsonl", (json.dumps({"sents": article}) for article in articles))
    paper = module.paper_recipe(tmp_path)
    recipe = replace(
        paper,
        objective=objective,
        vocabulary=VocabularyRecipe(kind="word"),
        model=ModelRecipe(n_layer=2, n_head=4, d_model=64, d_inner=128, dropout=0.0),
        sampling=SamplingRecipe(empty_rate=0.0 if objective == "l2r" else 0.2),
        optim=replace(
            paper.optim,
            learning_rate=3e-3,
            tokens_per_step=2000,
            tokens_per_batch=2000,
            steps=400,
            threads=1,
        ),
    )
    assert module.train(recipe, tmp_path / "model", console=Console(quiet=True))
    tasks = make_tasks(numbered_articles(60, "test", least=6), n_tasks=100)
    scores = module.evaluate_news(open_rules(tmp_path / "model"), tasks, progress=False)
    if objective == "l2r":  # q̂(END) takes longer to learn; that its lowest value is meant, `test_news` tells
        assert scores.locate.value > 35
    assert max(scores.delete.value, scores.delete_rank.value) > 60
