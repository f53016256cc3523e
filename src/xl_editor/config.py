"""A model's sizes and settings, as its `config.json` has them. Imports nothing large."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from xl_editor.errors import ModelError

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
ACTIVATIONS = ("gelu", "gelu_new", "relu")


@dataclass(frozen=True)
class XLEditorConfig:
    """Sizes and settings, under the names that XLNet's `config.json` gives them. Paper size by default."""

    vocab_size: int = 32000
    d_model: int = 256
    n_layer: int = 4
    n_head: int = 4
    d_inner: int = 512  # of the position-wise feed-forward network
    ff_activation: str = "gelu"
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int = 0
    end_token_id: int | None = None  # END, once the vocabulary has it
    n_labels: int = 0  # outputs of the classification head on <cls>; 0 for none
    editor: dict[str, Any] = field(default_factory=dict)  # what the rooms above keep with a model; opaque here

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_layer", "n_head", "d_inner"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise ModelError(f"{name} must be a whole number above 0, got {size!r}.")
        if not isinstance(self.editor, dict):
            raise ModelError(f"editor must hold settings, got {self.editor!r}.")
        if self.d_model % (2 * self.n_head):
            raise ModelError(f"d_model ({self.d_model}) must be a multiple of 2 × n_head ({self.n_head}).")
        if self.ff_activation not in ACTIVATIONS:
            raise ModelError(f"ff_activation must be one of {', '.join(ACTIVATIONS)}, got {self.ff_activation!r}.")

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_head

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> XLEditorConfig:
        """Read the settings that matter here out of an XLNet `config.json`."""
        if settings.get("model_type") not in ("xlnet", "xl-editor"):
            raise ModelError(f"config.json describes a model of type {settings.get('model_type')!r}, not an XLNet.")
        # What XLNet can be configured to and no released checkpoint is: refuse it rather than compute nonsense.
        for name, only in {"attn_type": "bi", "bi_data": False, "clamp_len": -1, "untie_r": True}.items():
            if settings.get(name, only) != only:
                raise ModelError(f"config.json has {name} = {settings[name]!r}; only {only!r} is supported.")
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in known})

    def to_dict(self) -> dict[str, Any]:
        """The `config.json` of this model, which `transformers` opens as an XLNet."""
        return {
            "architectures": ["XLNetLMHeadModel"],
            "model_type": "xlnet",
            **asdict(self),
            "d_head": self.d_head,
            "attn_type": "bi",
            "untie_r": True,
        }


def load_config(directory: Path) -> XLEditorConfig:
    return XLEditorConfig.from_dict(read_settings(directory))


def read_settings(directory: Path) -> dict[str, Any]:
    """What a model's config.json holds, ours or another kind's."""
    path = directory / CONFIG_FILE
    if not path.is_file():
        raise ModelError(f"{directory} is no model directory: it holds no {CONFIG_FILE}.")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}.") from None
    if not isinstance(settings, dict):
        raise ModelError(f"{path} must hold a JSON object.")
    return settings
