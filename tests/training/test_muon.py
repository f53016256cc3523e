"""Muon: what is orthogonalised, and what is left to AdamW."""

import torch
from torch import nn

from xl_editor.model import XLEditorConfig, XLEditorModel
from xl_editor.training.muon import MOMENTUM, SIZE_OF_ADAMW, Muon, is_hidden_matrix, orthogonalised


def test_singular_values_come_near_one_and_directions_stay():
    torch.manual_seed(0)
    for shape in [(24, 24), (24, 60), (60, 24)]:
        matrix = torch.randn(shape)
        u, _, v = torch.linalg.svd(matrix, full_matrices=False)
        found = u.T @ orthogonalised(matrix) @ v.T
        assert ((found.diagonal() > 0.6) & (found.diagonal() < 1.3)).all()
        assert (found - found.diagonal().diag()).abs().max() < 1e-3


def test_a_gradient_of_zero_moves_nothing():
    assert not orthogonalised(torch.zeros(4, 6)).any()


def test_hidden_matrices_are_those_of_the_layers():
    model = XLEditorModel(XLEditorConfig(vocab_size=20, d_model=16, n_head=2, d_inner=24, n_layer=1, n_labels=2))
    hidden = {name for name, parameter in model.named_parameters() if is_hidden_matrix(name, parameter)}
    layer = "transformer.layer.0."
    attention = {f"{layer}rel_attn.{name}" for name in "qkvor"}
    assert hidden == attention | {f"{layer}ff.layer_1.weight", f"{layer}ff.layer_2.weight"}


def test_everything_else_moves_as_with_adamw():
    torch.manual_seed(0)
    start = torch.randn(5, 3)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimisers = [
        Muon([{"params": [ours], "weight_decay": 0.1}], lr=0.01, betas=(0.9, 0.98)),
        torch.optim.AdamW([theirs], lr=0.01, betas=(0.9, 0.98), weight_decay=0.1),
    ]
    for _ in range(5):
        for parameter, optimiser in zip((ours, theirs), optimisers, strict=True):
            parameter.grad = torch.sin(parameter.detach() * 3)
            optimiser.step()
    torch.testing.assert_close(ours, theirs)


def test_a_hidden_matrix_moves_along_its_momentum_as_far_as_adamw_would():
    torch.manual_seed(0)
    start = torch.randn(16, 4, 8)  # 16 × 32, as XLNet's attention keeps it
    parameter = nn.Parameter(start.clone())
    optimiser = Muon([{"params": [parameter], "is_hidden": True, "weight_decay": 0.5}], lr=0.01, betas=(0.9, 0.98))
    first, second = torch.randn_like(start), torch.randn_like(start)
    parameter.grad = first
    optimiser.step()
    after_one = parameter.detach().clone()
    moved = start * (1 - 0.01 * 0.5) - after_one
    assert 0.8 < moved.square().mean().sqrt() / (0.01 * SIZE_OF_ADAMW) < 1.2
    parameter.grad = second
    optimiser.step()
    momentum = MOMENTUM * first + second
    expected = orthogonalised((second + MOMENTUM * momentum).flatten(1)).view_as(start)
    torch.testing.assert_close(
        parameter.detach(), after_one * (1 - 0.01 * 0.5) - 0.01 * SIZE_OF_ADAMW * 32**0.5 * expected
    )
