"""Choosing a model's settings on development sentences."""

import json
import math

import numpy as np
import pytest

from xl_editor.editor import Editor
from xl_editor.evaluation import tune
from xl_editor.evaluation.tune import LEAST_MARGIN, Trial, try_paper_rules, usual_logit, write_presets
from xl_editor.operations.transfer import PaperRules, Revision

DEV = {
    "negative": ["the food was bad .", "slow staff .", "i will not be back ."],
    "positive": ["the food was great .", "friendly staff .", "i will be back ."],
}


def test_nine_of_ten_real_sentences_are_as_sure(editor):
    logits = []
    for style, lines in DEV.items():
        for line in lines:
            p = editor.classify(line)[style]
            logits.append(math.log(p / (1 - p)))
    assert usual_logit(editor, DEV) == pytest.approx(np.quantile(logits, 0.1), abs=0.05)


def test_a_higher_threshold_keeps_more(editor, monkeypatch):
    monkeypatch.setattr(tune, "THRESHOLDS", (-100.0, 100.0))  # with random weights nothing stands out
    monkeypatch.setattr(editor, "rules", lambda preset: PaperRules(max_steps=1, max_length=2))
    trials = {(trial.max_span, trial.threshold): trial for trial in try_paper_rules(editor, DEV)}
    assert len(trials) == 2 * len(tune.MAX_SPANS)
    assert all(0 <= trial.acc <= 100 and 0 <= trial.kept <= 100.0001 for trial in trials.values())
    assert trials[1, 100.0].kept > 90  # what is forced in, at most, is new
    assert trials[1, -100.0].kept < 50


def test_the_margin_is_never_below_the_least(editor, tmp_path, monkeypatch):
    editor.save_pretrained(tmp_path)
    monkeypatch.setattr(tune, "try_paper_rules", lambda *_: iter([Trial(1, 2.0, 90.0, 50.0)]))
    told, *_ = tune.tune(tmp_path, editor, DEV, n_sentences=1)
    assert usual_logit(editor, DEV) < LEAST_MARGIN  # the toy knows nothing
    assert f"≥ {usual_logit(editor, DEV)}; margin {LEAST_MARGIN}" in told
    assert Editor.from_pretrained(tmp_path).rules("default").margin == LEAST_MARGIN


def test_a_trial_is_worth_its_style_and_what_it_keeps():
    assert Trial(1, 2.0, 90.0, 50.0).value > Trial(1, 2.0, 89.0, 50.0).value
    assert Trial(1, 2.0, 90.0, 50.0).value > Trial(1, 2.0, 90.0, 49.0).value
    assert Trial(1, 2.0, 90.0, 100.0).value == 90.0


def test_what_is_not_chosen_stays_as_the_model_has_it(editor, monkeypatch):
    used = []
    own = PaperRules(forced_insertion=False)
    monkeypatch.setattr(editor, "rules", lambda preset: own)

    def unchanged(ids, source, target, rules, special):
        used.append(rules)
        yield from ()
        return Revision(ids, (), "")

    monkeypatch.setattr(tune, "algorithm_1", unchanged)
    assert all(trial.kept == pytest.approx(100) for trial in try_paper_rules(editor, DEV))
    assert len({(rules.max_span, rules.threshold) for rules in used}) == 21
    assert not any(rules.forced_insertion for rules in used)


def test_the_settings_are_kept_with_the_model(editor, tmp_path):
    editor.save_pretrained(tmp_path)
    before = json.loads((tmp_path / "config.json").read_text())
    write_presets(tmp_path, Trial(2, 1.5, 90.0, 50.0), 2.5)
    write_presets(tmp_path, Trial(1, 2.5, 90.0, 50.0), 3.5)
    after = json.loads((tmp_path / "config.json").read_text())
    presets = after["editor"].pop("presets")
    assert presets == {"paper": {"max_span": 1, "threshold": 2.5}, "default": {"margin": 3.5}}
    assert after == before
    tuned = Editor.from_pretrained(tmp_path)
    assert (tuned.rules("paper").threshold, tuned.rules("default").margin) == (2.5, 3.5)
