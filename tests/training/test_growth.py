"""A larger model out of a trained one: it answers as before, and all of it can learn."""

import pytest
import torch

from conftest import tiny_model
from xl_editor.geometry import insertion_places, relate
from xl_editor.model import XLEditorModel
from xl_editor.training.growth import grown

IDS = torch.arange(1, 25)[None]


def log_q(model: XLEditorModel) -> torch.Tensor:
    """Of each token at each place of an insertion into the middle of a text."""
    content, queries = insertion_places(IDS.shape[1], [(8, 16)])
    states, _ = model.advance(IDS, relate(content[None], queries[None]), n_read=len(queries))
    return model.logits(states).log_softmax(-1)


@pytest.fixture
def model() -> XLEditorModel:
    """With norms as training leaves them: near where they began."""
    model = tiny_model(d_model=64, n_labels=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" in name:
                parameter.copy_(float(name.endswith("weight")) + 0.1 * parameter)
    return model


def test_width_changes_no_answer(model):
    wider = grown(model, 3, 80)
    assert wider.config.d_inner == 80
    torch.testing.assert_close(log_q(wider), log_q(model))


@pytest.mark.parametrize("n_layer", [4, 5, 6, 9])
def test_depth_changes_answers_a_little(model, n_layer):
    with torch.no_grad():
        before = log_q(model)
        changed = (log_q(grown(model, n_layer, 48)) - before).abs().mean()
        other = (log_q(tiny_model(seed=1, d_model=64, n_labels=2)) - before).abs().mean()
    assert changed < 0.05 * other


def test_old_layers_stay_in_order_and_what_is_not_of_layers_as_it_was(model):
    deeper = grown(model, 5, 48)
    old, new = (list(m.transformer.layers()) for m in (model, deeper))
    kept = [layer for layer in new if layer.rel_attn.o.any()]
    assert len(kept) == 3
    for before, after in zip(old, kept, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
    for name, weight in model.state_dict().items():
        if not name.startswith("transformer.layer."):
            assert torch.equal(weight, deeper.state_dict()[name]), name


def test_all_of_it_learns(model):
    larger = grown(model, 6, 80)
    optimiser = torch.optim.Adam(larger.parameters(), lr=0.01)
    start = {name: parameter.detach().clone() for name, parameter in larger.named_parameters()}
    for _ in range(3):  # what is written first, then what is read for it
        optimiser.zero_grad()
        log_q(larger)[..., 0].mean().neg().backward()
        optimiser.step()
    still = {name for name, parameter in larger.named_parameters() if torch.equal(parameter, start[name])}
    elsewhere = ("seg_embed", "r_s_bias", "sequence_summary", "logits_proj")  # no segments, no classifier
    assert not [name for name in still if not any(part in name for part in elsewhere)]
