"""The same model as a `transformers.PreTrainedModel`, for those who live in that library. Editing never imports this.

    from transformers import AutoModel
    import xl_editor.hf                       # registers the Auto classes
    model = AutoModel.from_pretrained("…")    # a directory written by XLEditorForInsertion.save_pretrained

A directory written by `XLEditorModel.save_pretrained` names itself an XLNet instead, so that `transformers` opens
it with no help from us (as `XLNetLMHeadModel`); `XLEditorForInsertion.from_pretrained` reads both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedModel, XLNetConfig
from transformers.utils.generic import ModelOutput

from xl_editor.geometry import Relation
from xl_editor.model import Cache, XLEditorConfig, XLEditorModel


class XLEditorPretrainedConfig(XLNetConfig):
    """XLNet's configuration with the three fields that are ours."""

    model_type = "xl-editor"

    end_token_id: int | None = None
    n_labels: int = 0
    editor: dict[str, Any] | None = None

    def to_model_config(self) -> XLEditorConfig:
        names = {f.name for f in fields(XLEditorConfig)} - {"editor"}
        return XLEditorConfig(**{name: getattr(self, name) for name in names}, editor=self.editor or {})


@dataclass
class InsertionOutput(ModelOutput):
    logits: Tensor | None = None  # (B, n_read, vocab_size)
    cache: Cache | None = None


class XLEditorForInsertion(PreTrainedModel):
    config_class = XLEditorPretrainedConfig
    base_model_prefix = ""
    _inner: XLEditorModel
    _tied_weights_keys = {"lm_loss.weight": "transformer.word_embedding.weight"}

    def __init__(self, config: XLEditorPretrainedConfig) -> None:
        super().__init__(config)
        inner = XLEditorModel(config.to_model_config())
        # The inner model's parts are this model's, so that both write the same weight names.
        for name, module in inner.named_children():
            self.add_module(name, module)
        object.__setattr__(self, "_inner", inner)
        self.post_init()

    def get_input_embeddings(self) -> Any:
        return self._inner.transformer.word_embedding

    def get_output_embeddings(self) -> Any:
        return self.lm_loss

    def _init_weights(self, module: Any) -> None:
        """The parts were initialised when they were made."""

    def forward(
        self, input_ids: Tensor, relation: Relation, n_read: int, cache: Cache | None = None
    ) -> InsertionOutput:
        inner = self._inner
        inner.train(self.training)
        states, cache = inner.advance(input_ids, relation, n_read=n_read, cache=cache)
        return InsertionOutput(logits=inner.logits(states), cache=cache)


AutoConfig.register("xl-editor", XLEditorPretrainedConfig)
AutoModel.register(XLEditorPretrainedConfig, XLEditorForInsertion)
