"""What several test files share: tiny models, and a random but always valid insertion problem."""

import pytest
import torch

from xl_editor.model import XLEditorConfig, XLEditorModel


def tiny_model(seed: int = 0, **settings) -> XLEditorModel:
    """A model small enough for exhaustive checks, with weights large enough that its answers differ."""
    torch.manual_seed(seed)
    defaults = {"vocab_size": 31, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48, "dropout": 0.0}
    model = XLEditorModel(XLEditorConfig(**{**defaults, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


@pytest.fixture(scope="session")
def model() -> XLEditorModel:
    return tiny_model()
