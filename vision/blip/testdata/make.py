"""Makes tiny/: a random ImageReward in the names of its own checkpoint, and what transformers' port of
BLIP says of it: python make.py (torch, transformers, safetensors, Pillow)."""

import json
import torch
import numpy as np
from PIL import Image
from safetensors.torch import save_file
from transformers import BertTokenizerFast, BlipTextConfig, BlipVisionConfig
from transformers.models.blip.modeling_blip import BlipVisionModel
from transformers.models.blip.modeling_blip_text import BlipTextModel

SIDE, PATCH, WIDTH, HEADS, TEXT, LONGEST = 24, 8, 32, 4, 32, 35
MEAN, STD = 0.16717362830052426, 1.0333394966054072  # THUDM/ImageReward, ImageReward.py

torch.manual_seed(3)
words = """a red green blue circle square on white black left of the word un ##able ##s ##ing ##ed draw paint cafe
naive ! ? . , ' " ( ) - 1 2 ##2 3 日 本 x ##x ß ss ø + $ t don hello world ' ` ~ … – « é""".split()
vocabulary = list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words))
open("tiny/vocab.txt", "w").write("\n".join(vocabulary) + "\n")
tokens = BertTokenizerFast("tiny/vocab.txt") if False else BertTokenizerFast(vocab={w: i for i, w in enumerate(vocabulary)})
tokens.backend_tokenizer.save("tiny/tokenizer.json")
texts = ["a red circle on white", "", "A RED Circle!", "undrawable drawings", "café naïve ÉÉ é", "don't (draw) 日本 1 22 223", "hello…world–«x»", "xxxxx " + "y" * 5,
         "a\tred\u00a0circle\u200b\x00 \ufffd on", "x" * 101, "x" * 100, "[CLS] a [SEP] [MASK]", "İx ẞ ß Σς", "`~$+ '' \"x\"", "a red " * 20, "한국 カ ｱ"]
with open("tiny/texts.json", "w") as f:
    json.dump([{"text": t, "ids": tokens(t, add_special_tokens=False)["input_ids"], "fixed": tokens(t, padding="max_length", truncation=True, max_length=12)["input_ids"]} for t in texts], f)

vision = BlipVisionModel(BlipVisionConfig(hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS, image_size=SIDE, patch_size=PATCH, hidden_act="gelu", layer_norm_eps=1e-6)).eval()
text = BlipTextModel(BlipTextConfig(vocab_size=len(vocabulary), hidden_size=TEXT, encoder_hidden_size=WIDTH, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
                                    max_position_embeddings=40, hidden_act="gelu", layer_norm_eps=1e-12, is_decoder=True), add_pooling_layer=False).eval()
mlp = torch.nn.Sequential(torch.nn.Linear(TEXT, 20), torch.nn.Dropout(), torch.nn.Linear(20, 12), torch.nn.Dropout(), torch.nn.Linear(12, 8), torch.nn.Dropout(), torch.nn.Linear(8, 6), torch.nn.Linear(6, 1)).eval()
with torch.no_grad():
    for m in (vision, text, mlp):
        for p in m.parameters():
            p.copy_(0.25 * torch.randn_like(p) + (1 if p.ndim == 1 and p.mean() == 1 else 0))

out = {}
rename = {"embeddings.class_embedding": "cls_token", "embeddings.position_embedding": "pos_embed", "embeddings.patch_embedding.": "patch_embed.proj.", "encoder.layers.": "blocks.",
          "self_attn.qkv": "attn.qkv", "self_attn.projection": "attn.proj", "layer_norm1": "norm1", "layer_norm2": "norm2", "post_layernorm": "norm"}
for k, v in vision.state_dict().items():
    for a, b in rename.items():
        k = k.replace(a, b)
    out["blip.visual_encoder." + k] = v
for k, v in text.state_dict().items():
    if "position_ids" not in k:
        out["blip.text_encoder." + k] = v
out["blip.text_encoder.embeddings.position_ids"] = torch.arange(40)[None]
for k, v in mlp.state_dict().items():
    out["mlp.layers." + k] = v
save_file({k: v.contiguous() for k, v in out.items()}, "tiny/model.safetensors")
json.dump({"architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": TEXT, "intermediate_size": 40, "layer_norm_eps": 1e-12, "max_position_embeddings": 40, "model_type": "bert", "num_attention_heads": 2,
           "num_hidden_layers": 2, "vocab_size": len(vocabulary), "encoder_width": WIDTH, "add_cross_attention": True, "vision_attention_heads": HEADS}, open("tiny/med_config.json", "w"))

prompts = ["a red circle on white", "A RED square, left of the word!", "undrawable", "a red " * 20]
pictures = []
rng = np.random.default_rng(5)
for i, size in enumerate([(40, 30), (24, 24), (31, 47), (60, 25)]):
    px = rng.integers(0, 256, (size[1] // 5 + 1, size[0] // 5 + 1, 3), dtype=np.uint8)
    m = Image.fromarray(px).resize(size, Image.BICUBIC)
    m.save(f"tiny/image_{i}.png")
    pictures.append(m)


def prepared(m):
    w, h = m.size
    if w <= h:
        m = m.resize((SIDE, int(SIDE * h / w)), Image.BICUBIC)
    else:
        m = m.resize((int(SIDE * w / h), SIDE), Image.BICUBIC)
    w, h = m.size
    top, left = int(round((h - SIDE) / 2.0)), int(round((w - SIDE) / 2.0))
    x = torch.from_numpy(np.asarray(m.crop((left, top, left + SIDE, top + SIDE)))).float().div(255)
    return (x - torch.tensor([0.48145466, 0.4578275, 0.40821073])) / torch.tensor([0.26862954, 0.26130258, 0.27577711])


rewards, inputs, grads = [], [], []
for p, m in zip(prompts, pictures):
    x = prepared(m).requires_grad_()
    t = tokens(p, padding="max_length", truncation=True, max_length=LONGEST, return_tensors="pt")
    seen = vision(x.permute(2, 0, 1)[None]).last_hidden_state
    h = text(t.input_ids, attention_mask=t.attention_mask, encoder_hidden_states=seen, encoder_attention_mask=torch.ones(seen.shape[:-1], dtype=torch.long), is_decoder=False).last_hidden_state
    r = (mlp(h[:, 0, :].float()) - MEAN) / STD
    r.sum().backward()
    rewards.append(r.item())
    inputs.append(x.detach())
    grads.append(x.grad)
save_file({"inputs": torch.stack(inputs), "grads": torch.stack(grads)}, "tiny_answers.safetensors")
json.dump({"prompts": prompts, "rewards": rewards}, open("tiny_answers.json", "w"))
print(rewards, [g.abs().max().item() for g in grads])
