"""Folders of Qwen's models as they are published: small ones of random weights, with the files of the hub (the template in
chat_template.jinja, chat_template.json or tokenizer_config.json, settings of pictures in preprocessor_config.json, or
where transformers 5 writes them). `darkroom ask` must take the tokens that transformers finds the likeliest.
CHECK_TEMPLATES names a folder with the published templates (trl/chat_templates); without it this part is left out.
"""
import json, os, shutil, traceback
import numpy as np
import torch
from PIL import Image

SIDE = 64
KINDS = {"qwen2_vl": ("Qwen2VL", "qwen2_5_vl", 14), "qwen2_5_vl": ("Qwen2_5_VL", "qwen2_5_vl", 14), "qwen3_vl": ("Qwen3VL", "qwen3_vl", 16), "qwen3_5": ("Qwen3_5", "qwen3_5_nothink", 16)}


def settings(kind, tokens, patch):
    text = {"vocab_size": len(tokens), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 1024}
    vision = {"depth": 2, "num_heads": 2, "patch_size": patch, "spatial_merge_size": 2, "temporal_patch_size": 2}
    rope = {"rope_type": "default", "mrope_section": [4, 2, 2], "rope_theta": 1e4}
    if kind == "qwen2_vl":
        vision.update(embed_dim=32, hidden_size=32, mlp_ratio=2)
    elif kind == "qwen2_5_vl":
        vision.update(hidden_size=32, out_hidden_size=32, intermediate_size=48, window_size=112, fullatt_block_indexes=[1])
    else:
        vision.update(hidden_size=32, out_hidden_size=32, intermediate_size=48, num_position_embeddings=64)
        text["head_dim"] = 16
        rope["mrope_interleaved"] = True
    if kind == "qwen3_vl":
        vision["deepstack_visual_indexes"] = [0]
    if kind == "qwen3_5":
        text.update(num_hidden_layers=4, layer_types=["linear_attention"] * 3 + ["full_attention"], head_dim=32, linear_key_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_value_head_dim=8)
        rope["partial_rotary_factor"] = 0.5
    text["rope_parameters"] = rope
    ids = {k: tokens.convert_tokens_to_ids(t) for k, t in (("image_token_id", "<|image_pad|>"), ("video_token_id", "<|video_pad|>"), ("vision_start_token_id", "<|vision_start|>"), ("vision_end_token_id", "<|vision_end|>"))}
    return {"text_config": text, "vision_config": vision, "tie_word_embeddings": False, **ids}


def published(check, kind, where):
    import transformers
    name, template, patch = KINDS[kind]
    words = os.path.join(check.models, "../vlm/tokenizer")
    tokens = transformers.AutoTokenizer.from_pretrained(words)
    torch.manual_seed(3)
    model = getattr(transformers, name + "ForConditionalGeneration")(getattr(transformers, name + "Config")(**settings(kind, tokens, patch))).eval()
    for p in model.parameters():
        p.data.mul_(2)  # so that answers differ from token to token
    folder = f"{kind}-{where}"
    model.save_pretrained(folder)
    text = open(os.path.join(os.environ["CHECK_TEMPLATES"], template + ".jinja")).read()
    for f in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(words, f), folder)
    config = json.load(open(f"{folder}/tokenizer_config.json"))
    pictures = {"image_processor_type": "Qwen2VLImageProcessor" + "Fast" * (kind in ("qwen3_vl", "qwen3_5")), "patch_size": patch, "merge_size": 2, "temporal_patch_size": 2, "size": {"shortest_edge": 1024, "longest_edge": 65536},
                "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    json.dump({"eos_token_id": [tokens.convert_tokens_to_ids("<|im_end|>")], "do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}, open(f"{folder}/generation_config.json", "w"))
    if where == "tokenizer_config":
        config["chat_template"] = text
    elif where == "chat_template.json":
        json.dump({"chat_template": text}, open(f"{folder}/chat_template.json", "w"))
    else:
        open(f"{folder}/chat_template.jinja", "w").write(text)
    json.dump(config, open(f"{folder}/tokenizer_config.json", "w"))
    if where == "processor_config":
        json.dump({"image_processor": pictures, "processor_class": name + "Processor"}, open(f"{folder}/processor_config.json", "w"))
    else:
        json.dump(pictures, open(f"{folder}/preprocessor_config.json", "w"))
    return folder, model, tokens, pictures


def check(check):
    if not os.environ.get("CHECK_TEMPLATES"):
        print("folders as published are left out: CHECK_TEMPLATES names no folder of templates")
        return
    x = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3)).astype(np.uint8)
    Image.fromarray(x).save("seen.png")
    for kind in KINDS:
        for where in ("tokenizer_config", "chat_template.json", "processor_config"):
            try:
                asked(check, kind, where)
            except Exception as e:
                check.say(f"{kind} as published", where, False, (str(e).strip() or repr(e)).splitlines()[-1])
                traceback.print_exc()


def asked(check, kind, where):
    from transformers import Qwen2VLImageProcessorPil
    folder, model, tokens, pictures = published(check, kind, where)
    told = json.loads(check.run("ask", "--model", folder, "--image", "seen.png", "--turns", "1", "--tokens", "8", "--dtype", "f32", "--json", "what is it?"))["transcript"]
    ids = torch.tensor([told["tokens"]])
    seen = Qwen2VLImageProcessorPil(**{k: v for k, v in pictures.items() if k != "image_processor_type"})(images=[Image.open("seen.png")], return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=ids, mm_token_type_ids=(ids == model.config.image_token_id).int(), **seen).logits[0].double()
    log = torch.log_softmax(logits, -1)
    drawn = [i for i, on in enumerate(told["sampled"]) if on]
    said = told.get("model_log_prob") or told["log_prob"]
    banned = [t for t in map(tokens.convert_tokens_to_ids, ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"])]
    logits[:, banned] = -float("inf")  # darkroom never samples these
    greedy = all(logits[i - 1].argmax().item() == told["tokens"][i] for i in drawn)
    apart = max(abs(log[i - 1, told["tokens"][i]].item() - said[i]) for i in drawn)
    prompt = tokens.decode(told["tokens"][:drawn[0]])
    check.say(f"{kind} as published", where, greedy and apart < 1e-3, f"log-probabilities {apart:.1e}; greedy tokens {'the same' if greedy else 'others'}; the turn begins {prompt[-24:]!r}")
