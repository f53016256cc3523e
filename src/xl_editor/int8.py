"""The large products in 8-bit integers: faster where the processor has the instructions, and nearly the same answers.

Weights are rounded once, with a scale for each output; rows as they come, with one scale for all rows of a product. So
an answer is off by about a hundredth of a nat, and a little differently so in other company.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from xl_editor.errors import ModelError
from xl_editor.model import RelativeAttention, XLEditorConfig, XLEditorModel


def quantise(model: XLEditorModel) -> XLEditorModel:
    """Change a model, for good, so that it computes with integers."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        raise ModelError("The int8 backend needs an x86 processor with AVX2; use the torch backend.")
    if model.lm_loss.weight.device.type != "cpu" or model.lm_loss.weight.dtype != torch.float32:
        raise ModelError("The int8 backend runs on the CPU, and starts from dtype float32.")
    for layer in model.transformer.layers():
        layer.rel_attn = Int8Attention(layer.rel_attn, model.config)
        for name in ("layer_1", "layer_2"):
            exact = getattr(layer.ff, name)
            layer.ff.register_module(name, Int8Linear(exact.weight, exact.bias))
    model.register_module("lm_loss", Int8Linear(model.lm_loss.weight, model.lm_loss.bias))
    return model.eval()


class Int8Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """*Shape:* weight (outputs, inputs), as `nn.Linear`'s."""
        super().__init__()
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        scales = weight.abs().amax(1).double().clamp(min=1e-12) / 127
        zeros = torch.zeros_like(scales, dtype=torch.long)
        engine = torch.backends.quantized.engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that this way of quantising will have a successor
            torch.backends.quantized.engine = "fbgemm"
            integers = torch.quantize_per_channel(weight.contiguous(), scales, zeros, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(integers, bias)
        torch.backends.quantized.engine = engine
        # Without these instructions sums of two products saturate, unless rows keep to seven bits.
        self.seven_bits = not getattr(torch.cpu, "_is_vnni_supported", lambda: False)()  # older torch does not tell

    def forward(self, rows: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(rows, self.packed, reduce_range=self.seven_bits)


class Int8Attention(RelativeAttention):
    def __init__(self, exact: RelativeAttention, config: XLEditorConfig) -> None:
        super().__init__(config)
        self.load_state_dict(exact.state_dict())
        self.to_queries = Int8Linear(self.q.flatten(1).mT, self.r_w_bias.flatten())
        self.to_keys_and_values = Int8Linear(torch.cat([self.k.flatten(1), self.v.flatten(1)], dim=1).mT)
        self.to_output = Int8Linear(self.o.flatten(1))

    def queries(self, rows: Tensor) -> Tensor:
        return self.to_queries(rows).unflatten(-1, self.r_w_bias.shape)

    def keys_and_values(self, content: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.to_keys_and_values(content).unflatten(-1, (2, *self.r_w_bias.shape)).unbind(-3)
        return keys, values

    def output(self, attended: Tensor) -> Tensor:
        return self.to_output(attended)
