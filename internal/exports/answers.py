"""A vision-language model: the embedded one is trained for an iteration, itself and by an adapter. transformers loads the
exported folders, and PEFT the exported adapter, and must find the tokens that `darkroom ask --run` took the likeliest,
with log-probabilities to 1e-3 (an adapter is folded into bf16).
"""
import json
import numpy as np
import torch
from PIL import Image

RUN = """
[run]
name = "x"
iterations = 1
[model]
path = "embed:tiny-vlm"
train = "{train}"
precision = "f32"
[rollout]
prompts = "embed:zoom"
prompts_per_iteration = 2
group = 8
[[reward]]
name = "accuracy"
[[reward]]
name = "format"
[optim]
lr = 0.01
[episode]
turns = 1
turn_tokens = 4
sampling = {{ temperature = 5 }}
"""


def check(check):
    x = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    Image.fromarray(x).save("seen.png")
    for train in ("full", "lora"):
        try:
            trained(check, train)
        except Exception as e:
            check.say(f"tiny-vlm {train}", "", False, str(e).strip() or repr(e))


def trained(check, train):
    from transformers import AutoImageProcessor
    out = "speaks-" + train
    open("s.toml", "w").write(RUN.format(train="model[.].*" if train == "full" else "lora"))
    check.run("train", "s.toml", "--out", out)
    told = json.loads(check.run("ask", "--run", out, "--image", "seen.png", "--json", "what is written?"))["transcript"]
    check.run("export", out, "--as", "hub", "--dtype", "f32", "--out", f"{out}-hub")
    wanted = {"hub": lambda: loaded(f"{out}-hub")}
    if train == "lora":
        from peft import PeftModel
        check.run("export", f"{out}/checkpoints/000000", "--as", "hub", "--dtype", "f32", "--out", f"{out}-base")
        check.run("export", out, "--as", "peft", "--out", f"{out}-peft")
        wanted["peft"] = lambda: PeftModel.from_pretrained(loaded(f"{out}-base"), f"{out}-peft")
    seen = AutoImageProcessor.from_pretrained(f"{out}-hub")(images=[Image.open("seen.png")], return_tensors="pt")
    ids, mark = torch.tensor([told["tokens"]]), json.load(open(f"{out}-hub/config.json"))["image_token_id"]
    for layout, load in wanted.items():
        with torch.no_grad():
            logits = load().eval()(input_ids=ids, mm_token_type_ids=(ids == mark).int(), **seen).logits[0].double()
        drawn = [i for i, on in enumerate(told["sampled"]) if on]
        log = torch.log_softmax(logits, -1)
        said = told.get("model_log_prob") or told["log_prob"]
        apart = max(abs(log[i - 1, told["tokens"][i]].item() - said[i]) for i in drawn)
        greedy = all(log[i - 1].argmax().item() == told["tokens"][i] for i in drawn)
        check.say(f"tiny-vlm {train}", layout, greedy and apart < 1e-3, f"log-probabilities {apart:.1e}; greedy tokens {'the same' if greedy else 'others'}")


def loaded(folder):
    from transformers import Qwen2_5_VLForConditionalGeneration
    return Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
