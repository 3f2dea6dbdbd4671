"""Architectures with images, sound and several kinds of input at once, and a UNet in plain torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.models.architectures import GROUPED, PAIR, TEXT, architecture, floats, mask, tokens
from tests.models.zoo import VOCABULARY, ZooModel

#: What most vision transformers understand.
VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 10,
    "problem_type": "single_label_classification",
}
#: What the speech encoders that read a wave form understand.
SOUND = {
    "vocab_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16, 16],
    "conv_stride": [4, 4],
    "conv_kernel": [8, 4],
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "apply_spec_augment": False,
    "pad_token_id": 0,
}


def images(rows: int = 2) -> Tensor:
    """Two images."""
    return floats(rows, 3, 32, 32)


def labels() -> Tensor:
    """A class for each of two rows."""
    return torch.tensor([1, 7])


def picture(name: str, model: str, **settings: Any) -> ZooModel:
    """An image classifier."""
    return architecture(
        name,
        model,
        VISION | settings,
        lambda: {"pixel_values": images()},
        lambda: {"pixel_values": images(), "labels": labels()},
    )


def staged(name: str, model: str, rows: Any = images, **settings: Any) -> ZooModel:
    """An image classifier of several stages, whose sizes are lists."""
    return architecture(
        name,
        model,
        {key: VISION[key] for key in ("image_size", "num_labels", "problem_type")} | settings,
        lambda: {"pixel_values": rows()},
        lambda: {"pixel_values": rows(), "labels": labels()},
    )


def speech(name: str, model: str, **settings: Any) -> ZooModel:
    """A speech encoder with a CTC head."""
    return architecture(
        name,
        model,
        SOUND | settings,
        lambda: {"input_values": floats(2, 400)},
        lambda: {"input_values": floats(2, 400), "labels": tokens(4) % 15 + 1},
    )


_STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
IMAGES = [
    picture("vit", "ViTForImageClassification"),
    picture("deit", "DeiTForImageClassification"),
    picture("beit", "BeitForImageClassification"),
    picture("data2vec-vision", "Data2VecVisionForImageClassification"),
    picture("dinov2", "Dinov2ForImageClassification"),
    picture("dinov2-registers", "Dinov2WithRegistersForImageClassification"),
    picture("ijepa", "IJepaForImageClassification"),
    staged(
        "swin",
        "SwinForImageClassification",
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
        patch_size=4,
    ),
    staged(
        "swinv2",
        "Swinv2ForImageClassification",
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
        patch_size=4,
    ),
    staged("convnext", "ConvNextForImageClassification", **_STAGES, patch_size=4),
    staged("convnextv2", "ConvNextV2ForImageClassification", **_STAGES, patch_size=4),
    staged(
        "resnet",
        "ResNetForImageClassification",
        hidden_sizes=[8, 16],
        depths=[1, 1],
        embedding_size=8,
        layer_type="basic",
    ),
    staged(
        "regnet",
        "RegNetForImageClassification",
        hidden_sizes=[8, 16],
        depths=[1, 1],
        embedding_size=8,
        groups_width=8,
    ),
    staged("mobilenet-v1", "MobileNetV1ForImageClassification", depth_multiplier=0.25, min_depth=8),
    staged("mobilenet-v2", "MobileNetV2ForImageClassification", depth_multiplier=0.25, min_depth=8),
    staged(
        "efficientnet",
        "EfficientNetForImageClassification",
        width_coefficient=0.25,
        depth_coefficient=0.1,
        hidden_dim=320,
    ),
    staged(
        "mobilevit",
        "MobileViTForImageClassification",
        hidden_sizes=[16, 16, 16],
        patch_size=2,
        neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32],
    ),
    staged(
        "poolformer",
        "PoolFormerForImageClassification",
        **_STAGES | {"num_encoder_blocks": 2},
        patch_sizes=[7, 3],
        strides=[4, 2],
        padding=[2, 1],
    ),
    staged(
        "pvt",
        "PvtForImageClassification",
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_encoder_blocks=2,
        sequence_reduction_ratios=[2, 1],
        patch_sizes=[4, 2],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
    ),
    staged(
        "levit",
        "LevitForImageClassification",
        lambda: floats(2, 3, 64, 64),
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[1, 2, 3],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        image_size=64,
        patch_size=16,
    ),
    staged(
        "focalnet",
        "FocalNetForImageClassification",
        embed_dim=16,
        depths=[1, 1],
        focal_levels=[1, 1],
        focal_windows=[3, 3],
        patch_size=4,
    ),
    staged(
        "hiera",
        "HieraForImageClassification",
        lambda: floats(2, 3, 64, 64),
        embed_dim=8,
        image_size=[64, 64],
        depths=[1, 1, 1],
        num_heads=[1, 2, 4],
        patch_stride=[4, 4],
        patch_size=[7, 7],
        patch_padding=[3, 3],
        num_query_pool=2,
        query_stride=[2, 2],
        masked_unit_size=[4, 4],
        masked_unit_attention=[True, True, False],
    ),
    picture("siglip-vision", "SiglipForImageClassification", vision_config=VISION),
    architecture(
        "segformer",
        "SegformerForSemanticSegmentation",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [8, 16],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
            "num_labels": 5,
        },
        lambda: {"pixel_values": images()},
        lambda: {"pixel_values": images(), "labels": torch.arange(2 * 32 * 32).reshape(2, 32, 32) % 5},
    ),
    architecture(
        "vit-mae",
        "ViTMAEForPreTraining",
        VISION
        | {
            "decoder_hidden_size": 16,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 32,
        },
        lambda: {"pixel_values": images()},
        lambda: {"pixel_values": images()},
    ),
    architecture(
        "videomae",
        "VideoMAEForVideoClassification",
        VISION | {"num_frames": 4, "tubelet_size": 2},
        lambda: {"pixel_values": floats(2, 4, 3, 32, 32)},
        lambda: {"pixel_values": floats(2, 4, 3, 32, 32), "labels": labels()},
    ),
    architecture(
        "yolos",
        "YolosModel",
        VISION | {"image_size": [32, 32], "num_detection_tokens": 4},
        lambda: {"pixel_values": images()},
        lambda: {"pixel_values": images()},
    ),
    architecture(
        "swin2sr",
        "Swin2SRForImageSuperResolution",
        {
            "image_size": 32,
            "patch_size": 1,
            "embed_dim": 16,
            "depths": [1],
            "num_heads": [2],
            "window_size": 4,
            "upscale": 2,
        },
        lambda: {"pixel_values": floats(2, 3, 16, 16)},
        lambda: {"pixel_values": floats(2, 3, 16, 16)},
    ),
]

SOUNDS = [
    speech("wav2vec2", "Wav2Vec2ForCTC"),
    speech("hubert", "HubertForCTC"),
    speech("wavlm", "WavLMForCTC", num_buckets=8, max_bucket_distance=16),
    speech("unispeech-sat", "UniSpeechSatForCTC"),
    speech("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", position_embeddings_type="rotary"),
    speech("data2vec-audio", "Data2VecAudioForCTC", conv_pos_kernel_size=3),
    speech("sew", "SEWForCTC", squeeze_factor=2),
    architecture(
        "whisper",
        "WhisperForConditionalGeneration",
        PAIR | {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 64},
        lambda: {"input_features": floats(2, 8, 32), "decoder_input_ids": tokens(8)},
        lambda: {"input_features": floats(2, 8, 32), "labels": tokens(8)},
    ),
    architecture(
        "speech-to-text",
        "Speech2TextForConditionalGeneration",
        PAIR
        | {
            "input_feat_per_channel": 8,
            "conv_channels": 16,
            "max_source_positions": 64,
            "max_target_positions": 64,
        },
        lambda: {"input_features": floats(2, 32, 8), "decoder_input_ids": tokens(8)},
        lambda: {"input_features": floats(2, 32, 8), "labels": tokens(8)},
    ),
    architecture(
        "audio-spectrogram-transformer",
        "ASTForAudioClassification",
        VISION | {"max_length": 32, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8},
        lambda: {"input_values": floats(2, 32, 16)},
        lambda: {"input_values": floats(2, 32, 16), "labels": labels()},
    ),
    architecture(
        "encodec",
        "EncodecModel",
        {
            "num_filters": 4,
            "hidden_size": 16,
            "codebook_size": 8,
            "codebook_dim": 16,
            "upsampling_ratios": [4, 2],
            "num_lstm_layers": 1,
            "target_bandwidths": [24.0],
            "num_residual_layers": 1,
        },
        lambda: {"input_values": floats(2, 1, 64)},
        lambda: {"input_values": floats(2, 1, 64)},
    ),
]

_TEXT_TOWER = {key: TEXT[key] for key in TEXT if key != "eos_token_id"} | {
    "eos_token_id": 2,
    "projection_dim": 16,
}
_IMAGE_TOWER = {key: VISION[key] for key in VISION if key not in ("num_labels", "problem_type")} | {
    "projection_dim": 16
}


def towers(name: str, model: str, **settings: Any) -> ZooModel:
    """A text tower and an image tower with a contrastive loss."""
    batch = lambda: {"input_ids": tokens(), "pixel_values": images(), "attention_mask": mask()}  # noqa: E731
    return architecture(
        name,
        model,
        {"text_config": _TEXT_TOWER, "vision_config": _IMAGE_TOWER, "projection_dim": 16} | settings,
        batch,
        lambda: batch() | {"return_loss": True},
    )


def _described(image_tokens: int) -> Tensor:
    """A text that begins with the tokens an image stands for."""
    return torch.cat([torch.full((2, image_tokens), 5), tokens().clamp(min=6)], dim=1)


MIXED = [
    towers("clip", "CLIPModel"),
    towers("siglip", "SiglipModel"),
    towers("chinese-clip", "ChineseCLIPModel"),
    towers("altclip", "AltCLIPModel", text_config=_TEXT_TOWER | {"project_dim": 32}),
    towers("clipseg", "CLIPSegModel"),
    towers("blip", "BlipModel", text_config=_TEXT_TOWER | {"encoder_hidden_size": 32}),
    towers("owlvit", "OwlViTModel"),
    towers(
        "groupvit",
        "GroupViTModel",
        vision_config=_IMAGE_TOWER
        | {"depths": [1, 1], "num_group_tokens": [4, 0], "num_output_groups": [4, 2], "num_hidden_layers": 2},
        projection_intermediate_dim=16,
    ),
    architecture(
        "vilt",
        "ViltForImagesAndTextClassification",
        VISION | TEXT | {"num_images": 1, "modality_type_vocab_size": 2, "num_labels": 10},
        lambda: {"input_ids": tokens(), "pixel_values": images()},
        lambda: {"input_ids": tokens(), "pixel_values": images(), "labels": labels()},
    ),
    architecture(
        "llava",
        "LlavaForConditionalGeneration",
        {
            "text_config": TEXT | GROUPED | {"model_type": "llama"},
            "vision_config": _IMAGE_TOWER | {"model_type": "clip_vision_model"},
            "image_token_index": 5,
            "image_token_id": 5,
            "vision_feature_layer": -1,
        },
        lambda: {"input_ids": _described(16), "pixel_values": images()},
        lambda: {"input_ids": _described(16), "pixel_values": images(), "labels": _described(16)},
    ),
    architecture(
        "paligemma",
        "PaliGemmaForConditionalGeneration",
        {
            "text_config": TEXT | GROUPED | {"model_type": "gemma", "head_dim": 8},
            "vision_config": _IMAGE_TOWER | {"model_type": "siglip_vision_model"},
            "image_token_index": 5,
            "image_token_id": 5,
            "projection_dim": 32,
        },
        lambda: {"input_ids": _described(16), "pixel_values": images()},
        lambda: {
            "input_ids": _described(16),
            "pixel_values": images(),
            "labels": _described(16),
            "token_type_ids": torch.ones(2, 28, dtype=torch.long),
        },
    ),
    architecture(
        "visual-bert",
        "VisualBertForQuestionAnswering",
        TEXT | {"visual_embedding_dim": 16, "num_labels": 10},
        lambda: {
            "input_ids": tokens(),
            "visual_embeds": floats(2, 4, 16),
            "attention_mask": mask(),
            "visual_attention_mask": torch.ones(2, 4),
        },
        lambda: {
            "input_ids": tokens(),
            "visual_embeds": floats(2, 4, 16),
            "attention_mask": mask(),
            "visual_attention_mask": torch.ones(2, 4),
            "labels": floats(2, 10).softmax(-1),
        },
    ),
    architecture(
        "decision-transformer",
        "DecisionTransformerModel",
        TEXT | {"state_dim": 4, "act_dim": 3, "max_ep_len": 16},
        lambda: {
            "states": floats(2, 5, 4),
            "actions": floats(2, 5, 3),
            "rewards": floats(2, 5, 1),
            "returns_to_go": floats(2, 5, 1),
            "timesteps": torch.arange(5).repeat(2, 1),
            "attention_mask": torch.ones(2, 5),
        },
        lambda: {
            "states": floats(2, 5, 4),
            "actions": floats(2, 5, 3),
            "rewards": floats(2, 5, 1),
            "returns_to_go": floats(2, 5, 1),
            "timesteps": torch.arange(5).repeat(2, 1),
            "attention_mask": torch.ones(2, 5),
        },
    ),
    architecture(
        "patchtst",
        "PatchTSTForPrediction",
        {
            "num_input_channels": 2,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 16,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "ffn_dim": 32,
            "prediction_length": 4,
            "loss": "mse",
        },
        lambda: {"past_values": floats(2, 32, 2)},
        lambda: {"past_values": floats(2, 32, 2), "future_values": floats(2, 4, 2)},
    ),
    architecture(
        "perceiver",
        "PerceiverForMaskedLM",
        {
            "num_latents": 4,
            "d_latents": 16,
            "d_model": 16,
            "num_blocks": 1,
            "num_self_attends_per_block": 1,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 12,
            "qk_channels": 16,
            "v_channels": 16,
        },
        lambda: {"inputs": tokens(), "attention_mask": mask()},
        lambda: {"inputs": tokens(), "attention_mask": mask(), "labels": tokens()},
    ),
]


class _Block(nn.Sequential):
    def __init__(self, channels: int, wider: int) -> None:
        super().__init__(
            nn.Conv2d(channels, wider, 3, padding=1),
            nn.BatchNorm2d(wider),
            nn.ReLU(),
            nn.Conv2d(wider, wider, 3, padding=1),
            nn.BatchNorm2d(wider),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """A UNet with skip connections; returns (mask logits, loss or None)."""

    def __init__(self, width: int = 4, depth: int = 2) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(_Block(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(_Block(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        skips: list[Tensor] = []
        for level, block in enumerate(self.down):
            if level:
                x = nn.functional.max_pool2d(x, 2)
            x = block(x)
            skips.append(x)
        skips.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), skips.pop()], dim=1))
        x = self.head(x)
        loss = None if target is None else nn.functional.binary_cross_entropy_with_logits(x, target)
        return x, loss


PLAIN = [
    ZooModel(
        "unet",
        lambda layers: UNet(),
        lambda: {"x": floats(2, 3, 16, 16)},
        lambda: {"x": floats(2, 3, 16, 16), "target": (floats(2, 1, 16, 16) > 0).float()},
        layers=1,
    ),
]

MEDIA_MODELS = [*IMAGES, *SOUNDS, *MIXED, *PLAIN]
