"""The models that framehook is held to: small random configurations, built without a network.

Tests and benchmarks share this table.  `layers` and `hidden` scale a model; everything else stays tiny, so that
what is measured is the front end and not the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY = 128


@dataclass(frozen=True)
class ZooModel:
    """One model: how to build it, what to call it with, and how many operations the peer's one graph has.

    `peer_operations` are the call nodes of `torch.compile`'s one graph in (inference, training), with torch 2.13.0
    and transformers 5.24.0; `unread_by_step` of them only pick outputs that a training step does not look at.
    """

    name: str
    make: Callable[..., nn.Module]
    inference: Callable[[], dict[str, Any]]
    training: Callable[[], dict[str, Any]]
    layers: int
    peer_operations: tuple[int, int] = (0, 0)
    unread_by_step: int = 0

    def build(self, **sizes: int) -> nn.Module:
        """A new instance with weights from a fixed seed; the caller's random state is not touched."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.make(**{"layers": self.layers, **sizes})


def _tokens(length: int = 12, rows: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, VOCABULARY, (rows, length), generator=generator)


def _images() -> Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))


def _floats(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(3))


def bert(layers: int = 2, hidden: int = 32, heads: int = 4) -> nn.Module:
    """BERT with a masked-language-model head."""
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=2 * hidden,
            max_position_embeddings=64,
        )
    )


def gpt2(layers: int = 2, hidden: int = 32, heads: int = 4) -> nn.Module:
    """GPT-2 with a language-model head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=hidden,
            n_layer=layers,
            n_head=heads,
            n_positions=64,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    # The class name does not tell the loss: naming it keeps transformers from logging a warning (a break for the peer).
    model.loss_type = "ForCausalLM"
    return model


def llama(layers: int = 2, hidden: int = 32, heads: int = 4) -> nn.Module:
    """Llama with grouped-query attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            max_position_embeddings=64,
        )
    )


def qwen3(layers: int = 2, hidden: int = 32, heads: int = 4) -> nn.Module:
    """Qwen3 with query and key norms."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=hidden // heads,
            max_position_embeddings=64,
        )
    )


def t5(layers: int = 2, hidden: int = 32, heads: int = 4) -> nn.Module:
    """T5 encoder and decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=hidden,
            d_kv=hidden // heads,
            d_ff=2 * hidden,
            num_layers=layers,
            num_heads=heads,
            decoder_start_token_id=0,
        )
    )


def vit(layers: int = 2, hidden: int = 32, heads: int = 4) -> nn.Module:
    """Vision transformer with a classification head."""
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=2 * hidden,
            image_size=32,
            patch_size=8,
            num_labels=10,
            problem_type="single_label_classification",  # else the first call writes it, and the second recompiles
        )
    )


def resnet(layers: int = 1, hidden: int = 8) -> nn.Module:
    """ResNet with basic blocks, `layers` per stage."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(
        ResNetConfig(
            embedding_size=hidden,
            hidden_sizes=[hidden, 2 * hidden],
            depths=[layers, layers],
            layer_type="basic",
            num_labels=10,
            problem_type="single_label_classification",  # else the first call writes it, and the second recompiles
        )
    )


class EncoderClassifier(nn.Module):
    """`nn.TransformerEncoder` with a linear head; returns (logits, loss or None)."""

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(hidden, 4, 2 * hidden, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(hidden, 10)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits = self.head(self.encoder(x).mean(dim=1))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return logits, loss


def encoder(layers: int = 2, hidden: int = 32) -> nn.Module:
    """`nn.TransformerEncoder` classifier."""
    return EncoderClassifier(layers, hidden)


class LSTMClassifier(nn.Module):
    """Embedding, LSTM and a linear head; returns a dict with logits and, given labels, the loss."""

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, 10)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        states, (last, _) = self.lstm(self.embedding(input_ids))
        result = {"logits": self.head(last[-1]), "states": states}
        if labels is not None:
            result["loss"] = nn.functional.cross_entropy(result["logits"], labels)
        return result


def lstm(layers: int = 1, hidden: int = 32) -> nn.Module:
    """LSTM classifier."""
    return LSTMClassifier(layers, hidden)


def _labels(rows: int = 2) -> Tensor:
    return torch.tensor([1, 7])[:rows]


def _mask() -> Tensor:
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 8:] = 0
    return mask


ZOO = [
    ZooModel(
        name="bert",
        make=bert,
        inference=lambda: {"input_ids": _tokens(), "attention_mask": _mask()},
        training=lambda: {"input_ids": _tokens(), "attention_mask": _mask(), "labels": _tokens()},
        layers=2,
        peer_operations=(83, 86),
    ),
    ZooModel(
        name="gpt2",
        make=gpt2,
        inference=lambda: {"input_ids": _tokens()},
        training=lambda: {"input_ids": _tokens(), "labels": _tokens()},
        layers=2,
        peer_operations=(105, 113),
    ),
    ZooModel(
        name="llama",
        make=llama,
        inference=lambda: {"input_ids": _tokens()},
        training=lambda: {"input_ids": _tokens(), "labels": _tokens()},
        layers=2,
        peer_operations=(144, 152),
    ),
    ZooModel(
        name="qwen3",
        make=qwen3,
        inference=lambda: {"input_ids": _tokens()},
        training=lambda: {"input_ids": _tokens(), "labels": _tokens()},
        layers=2,
        peer_operations=(176, 184),
    ),
    ZooModel(
        name="t5",
        make=t5,
        inference=lambda: {"input_ids": _tokens(), "decoder_input_ids": _tokens(8)},
        training=lambda: {"input_ids": _tokens(), "labels": _tokens(8)},
        layers=2,
        peer_operations=(311, 322),
    ),
    ZooModel(
        name="vit",
        make=vit,
        inference=lambda: {"pixel_values": _images()},
        training=lambda: {"pixel_values": _images(), "labels": _labels()},
        layers=2,
        peer_operations=(60, 64),
    ),
    ZooModel(
        name="resnet",
        make=resnet,
        inference=lambda: {"pixel_values": _images()},
        training=lambda: {"pixel_values": _images(), "labels": _labels()},
        layers=1,
        peer_operations=(23, 33),
    ),
    ZooModel(
        name="encoder",
        make=encoder,
        inference=lambda: {"x": _floats(2, 12, 32)},
        training=lambda: {"x": _floats(2, 12, 32), "labels": _labels()},
        layers=2,
        peer_operations=(4, 31),
    ),
    ZooModel(
        name="lstm",
        make=lstm,
        inference=lambda: {"input_ids": _tokens()},
        training=lambda: {"input_ids": _tokens(), "labels": _labels()},
        layers=1,
        # With the peer's `allow_rnn`; by default it captures nothing here.
        peer_operations=(8, 9),
        unread_by_step=1,
    ),
]


def fields(output: Any) -> dict[str, Any]:
    """What a model returns, as a dict: of its items, or of its elements by number."""
    if isinstance(output, dict):
        return dict(output)
    return dict(enumerate(output)) if isinstance(output, tuple) else {"output": output}


def loss_of(output: Any) -> Tensor:
    """The loss in what a model returns, or for a model without one the mean square of all that it computes.

    A loss is the item `loss`, or the second element of a tuple.
    """
    if (
        isinstance(output, tuple)
        and len(output) > 1
        and isinstance(output[1], Tensor)
        and output[1].dim() == 0
    ):
        return output[1]
    computed = fields(output)
    if isinstance(computed.get("loss"), Tensor):
        return computed["loss"]
    return sum(
        (
            item.square().mean()
            for item in computed.values()
            if isinstance(item, Tensor) and item.requires_grad
        ),
        torch.zeros(()),
    )


def by_name(name: str) -> ZooModel:
    """The model called `name`."""
    return next(model for model in ZOO if model.name == name)
