"""Answers of transformers' detectors with weights by rule, for vision/detectors: detectors.py OUT.

A file a kind, OUT/KIND.json.gz: config.json, preprocessor_config.json, the names and shapes of the weights as folders of
the hub have them, two pictures by rule, and the network's numbers at every k-th place, of a run in float64. Weights are no
part of it: vision/detectors/rule_test.go makes them again.
"""
import gzip
import json
import math
import os
import sys
import tempfile
import zlib

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(2)
transformers.logging.set_verbosity_error()


def noise(name, n):
    x = np.arange(n, dtype=np.uint64) * 2654435761 + zlib.crc32(name.encode()) * 40503 & 0xffffffff
    x ^= x >> np.uint64(15)
    x = x * 0x2c1b3c6d & 0xffffffff
    x ^= x >> np.uint64(12)
    return x.astype(np.float64) / 2**32 - 0.5


def rule(name, shape):
    """A weight's numbers: norms are near 1, biases small, products keep the size of what they read."""
    u = noise(name, int(np.prod(shape)))
    if name.endswith("running_var"):
        v = 0.75 + 0.5 * u
    elif len(shape) == 1 and name.endswith("weight"):
        v = 1 + 0.4 * u
    elif len(shape) <= 1:
        v = 0.4 * u
    else:
        v = u * math.sqrt(12 / np.prod(shape[1:]))
    return torch.tensor(v.reshape(shape), dtype=torch.float32)


def picture(i, w, h):
    return ((noise(f"picture {i}", w * h * 3) + 0.5) * 256).astype(np.uint8).reshape(h, w, 3)


def numbers(t, most=40):
    t = torch.nan_to_num(t.detach().double(), neginf=-100.0)
    x = t.flatten().tolist()
    every = max(1, len(x) // most)
    return {"shape": list(t.shape), "every": every, "values": [float("%.8g" % v) for v in x[::every]]}


def clip_tokenizer(d, limit):
    letters = sorted(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    name, n = {}, 0
    for b in range(256):
        name[b] = chr(b) if b in letters else chr(256 + n)
        n += b not in letters
    order = [name[b] for b in letters + [b for b in range(256) if b not in letters]]
    merges = [("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>"), ("o", "f</w>")]
    words = order + [x + "</w>" for x in order] + ["".join(m) for m in merges] + ["<|startoftext|>", "<|endoftext|>"]
    t = transformers.CLIPTokenizer(vocab={w: k for k, w in enumerate(words)}, merges=merges, model_max_length=limit, pad_token="!")
    t.save_pretrained(d)
    return t, len(words)


def record(out, kind, model, processor, call, extra=None):
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        processor.save_pretrained(d)
        path = os.path.join(d, "model.safetensors")
        weights = {k: rule(k, v.shape) if v.is_floating_point() and not k.endswith("_points_scale") else v for k, v in load_file(path).items()}
        save_file(weights, path, metadata={"format": "pt"})
        model = type(model).from_pretrained(d).double().eval()
        files = {f: json.load(open(os.path.join(d, f))) for f in ("config.json", "preprocessor_config.json")}
    pictures = [picture(0, 50, 37), picture(1, 31, 44)]
    from PIL import Image
    with torch.no_grad():
        answers = call(model, processor, [Image.fromarray(p) for p in pictures])
    doc = {"kind": kind, "source": f"transformers=={transformers.__version__}", "files": files, "pictures": [[50, 37], [31, 44]],
           "weights": {k: list(v.shape) for k, v in weights.items()}, "answers": {k: numbers(v) for k, v in answers.items()}, **(extra or {})}
    with open(os.path.join(out, kind + ".json.gz"), "wb") as f:
        f.write(gzip.compress(json.dumps(doc).encode(), 9, mtime=0))


def labels(n):
    return {"id2label": {k: f"thing {k}" for k in range(n)}, "label2id": {f"thing {k}": k for k in range(n)}}


def fed(processor, pictures):
    return {k: v.double() if v.is_floating_point() else v for k, v in processor(images=pictures, return_tensors="pt").items()}


def mask2former(out):
    swin = transformers.SwinConfig(image_size=64, patch_size=4, embed_dim=8, depths=[1, 2, 1, 1], num_heads=[1, 2, 4, 4], window_size=3, mlp_ratio=2.0, out_features=["stage1", "stage2", "stage3", "stage4"])
    c = transformers.Mask2FormerConfig(backbone_config=swin, feature_size=64, mask_feature_size=16, hidden_dim=24, encoder_feedforward_dim=40, encoder_layers=2, decoder_layers=5, num_attention_heads=4,
                                       dim_feedforward=48, num_queries=7, pre_norm=True, **labels(5))
    p = transformers.Mask2FormerImageProcessor(size={"shortest_edge": 40, "longest_edge": 72}, size_divisor=32, num_labels=5)

    def call(m, p, pictures):
        o = m(**fed(p, pictures))
        return {"classes": o.class_queries_logits, "masks": o.masks_queries_logits.permute(0, 2, 3, 1)}
    record(out, "mask2former", transformers.Mask2FormerForUniversalSegmentation(c), p, call)


def rt_detr(out, v2=False):
    bb = transformers.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 12, 16, 24], depths=[2, 1, 1, 2], layer_type="bottleneck" if v2 else "basic", out_indices=[2, 3, 4])
    kw = dict(encoder_hidden_dim=16, encoder_in_channels=[12, 16, 24], encoder_ffn_dim=40, encoder_attention_heads=4, d_model=16, num_queries=9, decoder_in_channels=[16] * 3, decoder_ffn_dim=40,
              decoder_n_points=3 if v2 else 2, decoder_layers=2, decoder_attention_heads=4, hidden_expansion=1.0 if v2 else 0.5, anchor_image_size=None, num_denoising=0, **labels(5))
    if v2:
        kw.update(decoder_offset_scale=0.5, decoder_method="default")
    kind = "RTDetrV2" if v2 else "RTDetr"
    c = getattr(transformers, kind + "Config")(backbone_config=bb, **kw)

    def call(m, p, pictures):
        o = m(**fed(p, pictures))
        return {"logits": o.logits, "boxes": o.pred_boxes}
    record(out, "rt_detr_v2" if v2 else "rt_detr", getattr(transformers, kind + "ForObjectDetection")(c), transformers.RTDetrImageProcessor(size={"height": 64, "width": 96}), call)


def rt_detr_v2(out):
    rt_detr(out, v2=True)


def d_fine(out):
    """Two levels, as in the smallest published one, a map of another width than the decoder's, and points of each level."""
    bb = transformers.HGNetV2Config(embedding_size=8, depths=[1, 1, 2, 1], hidden_sizes=[8, 12, 16, 24], stem_channels=[3, 8, 8], stage_in_channels=[8, 8, 12, 16], stage_mid_channels=[4, 4, 8, 8],
                                    stage_out_channels=[8, 12, 16, 24], stage_num_blocks=[1, 1, 2, 1], stage_numb_of_layers=[1, 2, 2, 1], use_learnable_affine_block=True, out_indices=[3, 4])
    c = transformers.DFineConfig(backbone_config=bb, encoder_hidden_dim=16, encoder_in_channels=[16, 24], encoder_ffn_dim=40, encoder_attention_heads=4, d_model=24, num_queries=9, decoder_in_channels=[16] * 2,
                                 decoder_ffn_dim=40, decoder_n_points=[3, 2], decoder_layers=3, decoder_attention_heads=4, hidden_expansion=0.8, anchor_image_size=None, num_denoising=0, feat_strides=[16, 32],
                                 num_feature_levels=2, encode_proj_layers=[1], depth_mult=0.5, max_num_bins=6, top_prob_values=3, lqe_hidden_dim=8, **labels(5))

    def call(m, p, pictures):
        o = m(**fed(p, pictures))
        return {"logits": o.logits, "boxes": o.pred_boxes}
    record(out, "d_fine", transformers.DFineForObjectDetection(c), transformers.RTDetrImageProcessor(size={"height": 64, "width": 96}), call)


def rf_detr(out):
    """Positions for another size than the pictures', three windows of a row, and layers that see windows apart."""
    bb = {"model_type": "rf_detr_dinov2", "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "mlp_ratio": 2, "image_size": 56, "patch_size": 8, "num_windows": 3, "out_indices": [1, 3, 4],
          "drop_path_rate": 0.0}
    c = transformers.RfDetrConfig(backbone_config=bb, d_model=16, decoder_ffn_dim=40, decoder_layers=3, decoder_n_points=3, decoder_self_attention_heads=4, decoder_cross_attention_heads=2, num_queries=9,
                                  group_detr=3, c2f_num_blocks=2, hidden_expansion=0.8, num_feature_levels=1, **labels(5))

    def call(m, p, pictures):
        o = m(**fed(p, pictures))
        return {"logits": o.logits, "boxes": o.pred_boxes}
    record(out, "rf_detr", transformers.RfDetrForObjectDetection(c), transformers.RfDetrImageProcessor(size={"height": 48, "width": 48}), call)


def owlv2(out):
    with tempfile.TemporaryDirectory() as d:
        t, v = clip_tokenizer(d, 16)
        texts = {f: open(os.path.join(d, f)).read() for f in ("tokenizer.json", "tokenizer_config.json")}
    text = {"vocab_size": v, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 16, "bos_token_id": v - 2, "eos_token_id": v - 1, "pad_token_id": 0}
    vision = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 40, "patch_size": 8}
    c = transformers.Owlv2Config(text_config=text, vision_config=vision, projection_dim=16)
    queries = [["a cat", "dog"], ["a photo of a dog", "Cup!"]]

    def call(m, p, pictures):
        x = {**fed(p, pictures), **t([q for row in queries for q in row], padding="max_length", max_length=16, return_tensors="pt")}
        o = m(**x)
        return {"logits": o.logits, "boxes": o.pred_boxes}
    record(out, "owlv2", transformers.Owlv2ForObjectDetection(c), transformers.Owlv2ImageProcessor(size={"height": 40, "width": 40}), call, {"texts": texts, "queries": queries})


WORDS = "a the red cup dog cat traffic light ##s b c d e f g h i j k l m n o p q r s t u v w x y z ##a ##b ##c ##d ##e ##f ##g ##h ##i ##j ##k ##l ##m ##n ##o ##p ##q ##r ##t ##u ##v ##w ##x ##y ##z".split()


def grounding_dino(out):
    vocab = [f"[unused{k}]" for k in range(1040)]
    for k, t in ((0, "[PAD]"), (100, "[UNK]"), (101, "[CLS]"), (102, "[SEP]"), (103, "[MASK]"), (1012, "."), (1029, "?")):
        vocab[k] = t
    vocab[104:104 + len(WORDS)] = WORDS
    t = transformers.BertTokenizer(vocab={w: k for k, w in enumerate(vocab)}, do_lower_case=True, model_max_length=512)
    with tempfile.TemporaryDirectory() as d:
        t.save_pretrained(d)
        texts = {f: open(os.path.join(d, f)).read() for f in ("tokenizer.json", "tokenizer_config.json")}
    swin = transformers.SwinConfig(image_size=64, patch_size=4, embed_dim=8, depths=[1, 1, 2, 1], num_heads=[1, 2, 2, 4], window_size=3, mlp_ratio=2.0, out_indices=[2, 3, 4])
    bert = transformers.BertConfig(vocab_size=1040, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32)
    c = transformers.GroundingDinoConfig(backbone_config=swin, text_config=bert, num_queries=8, encoder_layers=2, encoder_ffn_dim=48, encoder_attention_heads=4, decoder_layers=2, decoder_ffn_dim=40,
                                         decoder_attention_heads=4, d_model=32, num_feature_levels=4, encoder_n_points=2, decoder_n_points=3, max_text_len=20)
    p = transformers.GroundingDinoProcessor(transformers.GroundingDinoImageProcessor(size={"shortest_edge": 40, "longest_edge": 64}), t)
    queries = [["A cat", "red dogs"], ["traffic light"]]

    class Both:
        image_processor = p.image_processor

        def save_pretrained(self, d):
            p.image_processor.save_pretrained(d)

    def call(m, _, pictures):
        x = {k: v.double() if v.is_floating_point() else v for k, v in p(images=pictures, text=queries, padding=True, return_tensors="pt").items()}
        o = m(**x)
        return {"logits": o.logits, "boxes": o.pred_boxes}
    record(out, "grounding-dino", transformers.GroundingDinoForObjectDetection(c), Both(), call, {"texts": texts, "queries": queries})


if __name__ == "__main__":
    for f in (mask2former, rt_detr, rt_detr_v2, d_fine, rf_detr, owlv2, grounding_dino):
        f(sys.argv[1])
