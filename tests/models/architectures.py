"""Architectures of `transformers` with tiny random configurations: text models, decoders, encoders and both.

A row names a model class; its configuration is `TEXT` with what the row adds.  Few classes need more words than that.
Images, sound and several kinds of input at once are in `architectures_media`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.models.zoo import VOCABULARY, ZooModel

#: What nearly every text configuration understands; a configuration maps these names to its own.
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
#: The same for models of an encoder and a decoder with learnt or sinusoidal positions.
PAIR = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
GROUPED = {"num_key_value_heads": 2}
EXPERTS = {"num_key_value_heads": 2, "num_experts_per_tok": 2}

Inputs = Callable[[], dict[str, Any]]


def tokens(length: int = 12, rows: int = 2) -> Tensor:
    """Token ids, none of them special."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY, (rows, length), generator=generator)


def floats(*sizes: int) -> Tensor:
    """Normal numbers."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(3))


def mask(length: int = 12) -> Tensor:
    """Two rows, the second one third padding."""
    result = torch.ones(2, length, dtype=torch.long)
    result[1, length - length // 3 :] = 0
    return result


def build(model: str, settings: dict[str, Any], layers: int = 1, **attributes: Any) -> nn.Module:
    """An instance of a class of transformers; `attributes` are written on it afterwards."""
    import transformers

    del layers  # the row says how many
    architecture = getattr(transformers, model)
    module: nn.Module = architecture(architecture.config_class(**settings))
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def architecture(
    name: str, model: str, settings: dict[str, Any], inference: Inputs, training: Inputs
) -> ZooModel:
    """One row."""
    return ZooModel(name, partial(build, model, settings), inference, training, layers=1)


def masked(name: str, model: str, **settings: Any) -> ZooModel:
    """An encoder with a head over the vocabulary; its inputs are padded."""
    batch = lambda: {"input_ids": tokens(), "attention_mask": mask()}  # noqa: E731
    return architecture(name, model, TEXT | settings, batch, lambda: batch() | {"labels": tokens()})


def causal(name: str, model: str, **settings: Any) -> ZooModel:
    """A decoder with a head over the vocabulary."""
    return architecture(
        name,
        model,
        TEXT | settings,
        lambda: {"input_ids": tokens()},
        lambda: {"input_ids": tokens(), "labels": tokens()},
    )


def pair(name: str, model: str, **settings: Any) -> ZooModel:
    """An encoder and a decoder."""
    return architecture(
        name,
        model,
        PAIR | settings,
        lambda: {"input_ids": tokens(), "attention_mask": mask(), "decoder_input_ids": tokens(8)},
        lambda: {"input_ids": tokens(), "attention_mask": mask(), "labels": tokens(8)},
    )


ENCODERS = [
    masked("bert", "BertForMaskedLM"),
    masked("roberta", "RobertaForMaskedLM"),
    masked("xlm-roberta", "XLMRobertaForMaskedLM"),
    masked("camembert", "CamembertForMaskedLM"),
    masked("distilbert", "DistilBertForMaskedLM"),
    masked("albert", "AlbertForMaskedLM", embedding_size=16),
    masked("electra", "ElectraForMaskedLM", embedding_size=16),
    masked("deberta", "DebertaForMaskedLM", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    masked("deberta-v2", "DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    masked("mpnet", "MPNetForMaskedLM"),
    masked(
        "mobilebert",
        "MobileBertForMaskedLM",
        embedding_size=16,
        intra_bottleneck_size=16,
        true_hidden_size=16,
    ),
    masked("squeezebert", "SqueezeBertForMaskedLM", embedding_size=32),
    masked("convbert", "ConvBertForMaskedLM", embedding_size=32, conv_kernel_size=3, head_ratio=2),
    masked("roformer", "RoFormerForMaskedLM", embedding_size=32),
    masked("rembert", "RemBertForMaskedLM", input_embedding_size=16, output_embedding_size=16),
    masked("megatron-bert", "MegatronBertForMaskedLM"),
    masked("ernie", "ErnieForMaskedLM"),
    masked("esm", "EsmForMaskedLM", mask_token_id=3, position_embedding_type="rotary", token_dropout=False),
    masked("fnet", "FNetForMaskedLM"),
    masked("modernbert", "ModernBertForMaskedLM"),
    masked("nystromformer", "NystromformerForMaskedLM", num_landmarks=64, segment_means_seq_len=64),
    masked("yoso", "YosoForMaskedLM", use_expectation=True),
    masked("longformer", "LongformerForMaskedLM", attention_window=[4]),
    masked("big-bird", "BigBirdForMaskedLM", attention_type="original_full"),
    masked(
        "big-bird-sparse",
        "BigBirdForMaskedLM",
        attention_type="block_sparse",
        block_size=2,
        num_random_blocks=1,
    ),
    masked("data2vec-text", "Data2VecTextForMaskedLM"),
    masked("ibert", "IBertForMaskedLM"),
    masked("xlm", "XLMWithLMHeadModel", emb_dim=32, n_layers=1, n_heads=4),
    masked("xmod", "XmodForMaskedLM", default_language="en_XX", languages=["en_XX"]),
    masked(
        "canine",
        "CanineForTokenClassification",
        num_labels=VOCABULARY,
        local_transformer_stride=4,
        downsampling_rate=4,
    ),
    masked("layoutlm", "LayoutLMForMaskedLM"),
]

DECODERS = [
    causal("gpt2", "GPT2LMHeadModel", loss_type="ForCausalLM"),
    causal(
        "gpt-neo",
        "GPTNeoForCausalLM",
        attention_types=[[["global", "local"], 1]],
        num_layers=2,
        num_hidden_layers=2,
    ),
    causal("gpt-neox", "GPTNeoXForCausalLM"),
    causal("gpt-j", "GPTJForCausalLM", rotary_dim=4),
    causal("gpt-bigcode", "GPTBigCodeForCausalLM"),
    causal("openai-gpt", "OpenAIGPTLMHeadModel", loss_type="ForCausalLM"),
    causal("ctrl", "CTRLLMHeadModel", loss_type="ForCausalLM", dff=64),
    causal("codegen", "CodeGenForCausalLM", rotary_dim=4),
    causal("opt", "OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32),
    causal("xglm", "XGLMForCausalLM", d_model=32, ffn_dim=64, num_layers=1, attention_heads=4),
    causal("biogpt", "BioGptForCausalLM"),
    causal("bloom", "BloomForCausalLM", n_layer=1, n_head=4),
    causal("mpt", "MptForCausalLM", d_model=32, n_heads=4, n_layers=1, expansion_ratio=2, max_seq_len=64),
    causal("falcon", "FalconForCausalLM"),
    causal("llama", "LlamaForCausalLM", **GROUPED),
    causal("mistral", "MistralForCausalLM", **GROUPED, head_dim=8),
    causal("qwen2", "Qwen2ForCausalLM", **GROUPED),
    causal("qwen3", "Qwen3ForCausalLM", **GROUPED, head_dim=8),
    causal("gemma", "GemmaForCausalLM", **GROUPED, head_dim=8),
    causal("gemma2", "Gemma2ForCausalLM", **GROUPED, head_dim=8, num_hidden_layers=2),
    causal("gemma3", "Gemma3ForCausalLM", **GROUPED, head_dim=8, num_hidden_layers=2),
    causal("phi", "PhiForCausalLM"),
    causal("phi3", "Phi3ForCausalLM", **GROUPED),
    causal("stablelm", "StableLmForCausalLM", **GROUPED),
    causal("olmo", "OlmoForCausalLM"),
    causal("olmo2", "Olmo2ForCausalLM"),
    causal("cohere", "CohereForCausalLM", **GROUPED),
    causal("cohere2", "Cohere2ForCausalLM", **GROUPED),
    causal("granite", "GraniteForCausalLM", **GROUPED),
    causal("glm4", "Glm4ForCausalLM", **GROUPED, head_dim=8),
    causal("exaone4", "Exaone4ForCausalLM", **GROUPED),
    causal("smollm3", "SmolLM3ForCausalLM", **GROUPED),
    causal("starcoder2", "Starcoder2ForCausalLM", **GROUPED),
    causal("nemotron", "NemotronForCausalLM", **GROUPED, head_dim=8),
    causal("persimmon", "PersimmonForCausalLM"),
    causal("helium", "HeliumForCausalLM", **GROUPED, head_dim=8),
    causal("diffllama", "DiffLlamaForCausalLM", **GROUPED),
]

EXPERT_DECODERS = [
    causal("mixtral", "MixtralForCausalLM", **EXPERTS, num_local_experts=4),
    causal(
        "qwen2-moe",
        "Qwen2MoeForCausalLM",
        **EXPERTS,
        num_experts=4,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    causal(
        "qwen3-moe", "Qwen3MoeForCausalLM", **EXPERTS, num_experts=4, moe_intermediate_size=16, head_dim=8
    ),
    causal("olmoe", "OlmoeForCausalLM", **EXPERTS, num_experts=4),
    causal("granite-moe", "GraniteMoeForCausalLM", **EXPERTS, num_local_experts=4),
    causal("phimoe", "PhimoeForCausalLM", **EXPERTS, num_local_experts=4),
    causal(
        "deepseek-v3",
        "DeepseekV3ForCausalLM",
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=16,
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
        num_key_value_heads=4,
        first_k_dense_replace=0,
    ),
    causal("gpt-oss", "GptOssForCausalLM", **EXPERTS, num_local_experts=4, head_dim=8),
]

STATE_SPACE = [
    causal(
        "mamba", "MambaForCausalLM", state_size=4, time_step_rank=4, conv_kernel=4, use_associative_scan=False
    ),
    causal("mamba-scan", "MambaForCausalLM", state_size=4, time_step_rank=4, conv_kernel=4),
    causal("mamba2", "Mamba2ForCausalLM", state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=4),
    causal(
        "falcon-mamba",
        "FalconMambaForCausalLM",
        state_size=4,
        time_step_rank=4,
        conv_kernel=4,
        use_associative_scan=False,
    ),
    causal(
        "jamba",
        "JambaForCausalLM",
        **EXPERTS,
        num_experts=2,
        num_hidden_layers=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=4,
        mamba_d_conv=2,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
    causal("rwkv", "RwkvForCausalLM", num_hidden_layers=2, attention_hidden_size=32, context_length=64),
    causal(
        "recurrent-gemma",
        "RecurrentGemmaForCausalLM",
        **GROUPED,
        num_hidden_layers=3,
        lru_width=32,
        attention_window_size=8,
        head_dim=8,
    ),
    causal(
        "bamba",
        "BambaForCausalLM",
        **GROUPED,
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=8,
        mamba_n_groups=1,
        mamba_chunk_size=4,
        attn_layer_indices=[1],
        num_hidden_layers=2,
    ),
    causal("lfm2", "Lfm2ForCausalLM", **GROUPED, num_hidden_layers=2, layer_types=["conv", "full_attention"]),
]

_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
ENCODER_DECODERS = [
    pair("t5", "T5ForConditionalGeneration", **_T5),
    pair("mt5", "MT5ForConditionalGeneration", **_T5),
    pair("longt5", "LongT5ForConditionalGeneration", **_T5, local_radius=4, global_block_size=4),
    pair(
        "switch-transformers",
        "SwitchTransformersForConditionalGeneration",
        **_T5,
        num_experts=2,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        num_decoder_layers=1,
    ),
    pair("bart", "BartForConditionalGeneration"),
    pair("mbart", "MBartForConditionalGeneration"),
    pair("blenderbot", "BlenderbotForConditionalGeneration"),
    pair("pegasus", "PegasusForConditionalGeneration"),
    pair("pegasus-x", "PegasusXForConditionalGeneration", num_global_tokens=2, block_size=4),
    pair("marian", "MarianMTModel"),
    pair("m2m100", "M2M100ForConditionalGeneration"),
    pair("plbart", "PLBartForConditionalGeneration"),
    pair(
        "led",
        "LEDForConditionalGeneration",
        attention_window=4,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
    ),
    pair(
        "nllb-moe",
        "NllbMoeForConditionalGeneration",
        num_experts=2,
        encoder_sparse_step=1,
        decoder_sparse_step=1,
        expert_capacity=16,
    ),
]

_TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
OTHERS = [
    architecture(
        "funnel",
        "FunnelForMaskedLM",
        _TOKENS
        | {
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
        },
        lambda: {"input_ids": tokens(), "attention_mask": mask()},
        lambda: {"input_ids": tokens(), "attention_mask": mask(), "labels": tokens()},
    ),
    architecture(
        "xlnet",
        "XLNetLMHeadModel",
        _TOKENS | {"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 64},
        lambda: {"input_ids": tokens()},
        lambda: {"input_ids": tokens(), "labels": tokens()},
    ),
    architecture(
        "prophetnet",
        "ProphetNetForConditionalGeneration",
        _TOKENS
        | {
            "hidden_size": 32,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "ngram": 2,
            "num_buckets": 8,
            "relative_max_distance": 16,
            "max_position_embeddings": 64,
        },
        lambda: {"input_ids": tokens(), "decoder_input_ids": tokens(8)},
        lambda: {"input_ids": tokens(), "labels": tokens(8)},
    ),
]

TEXT_MODELS = [*ENCODERS, *DECODERS, *EXPERT_DECODERS, *STATE_SPACE, *ENCODER_DECODERS, *OTHERS]
