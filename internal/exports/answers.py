"""A vision-language model: the embedded one is trained for an iteration, itself and by an adapter. transformers loads the
exported folders, and PEFT the exported adapter, and must find the tokens that `darkroom ask --run` took the likeliest,
with log-probabilities to 1e-3; an adapter that was folded into bf16 weights is held to 5e-3, since it is rounded there.
An adapter is asked fifty questions, each about a picture of its own; a model that was trained in full, one.
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


QUESTIONS = {"full": 1, "lora": 50}
ASKED = ["what is written?", "Which digit is on the red card?", "Answer with one digit.", "what is the colour of the left card, and why?"]


def check(check):
    for n in range(max(QUESTIONS.values())):  # 64 x 64 is not resized: transformers resizes otherwise without torchvision
        x = np.random.default_rng(n).integers(0, 255, (64, 64, 3)).astype(np.uint8)
        Image.fromarray(x).save(f"seen-{n}.png")
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
    all_told = [json.loads(check.run("ask", "--run", out, "--image", f"seen-{n}.png", "--json", ASKED[n % len(ASKED)]))["transcript"]
                for n in range(QUESTIONS[train])]
    check.run("export", out, "--as", "hub", "--dtype", "f32", "--out", f"{out}-hub")
    wanted = {"hub": lambda: loaded(f"{out}-hub")}
    if train == "lora":
        from peft import PeftModel
        check.run("export", f"{out}/checkpoints/000000", "--as", "hub", "--dtype", "f32", "--out", f"{out}-base")
        check.run("export", out, "--as", "peft", "--out", f"{out}-peft")
        wanted["peft"] = lambda: PeftModel.from_pretrained(loaded(f"{out}-base"), f"{out}-peft")
    look = AutoImageProcessor.from_pretrained(f"{out}-hub")
    mark = json.load(open(f"{out}-hub/config.json"))["image_token_id"]
    for layout, load in wanted.items():
        model, apart, same, tokens = load().eval(), 0.0, 0, 0
        for n, told in enumerate(all_told):
            far, greedy, drawn = compared(model, told, look(images=[Image.open(f"seen-{n}.png")], return_tensors="pt"), mark)
            apart, same, tokens = max(apart, far), same + greedy, tokens + drawn
        bound = 5e-3 if (train, layout) == ("lora", "hub") else 1e-3
        check.say(f"tiny-vlm {train}", layout, same == len(all_told) and apart < bound,
                  f"log-probabilities {apart:.1e}; the same greedy tokens for {same} of {len(all_told)} questions, {tokens} tokens")


def compared(model, told, seen, mark):
    """How far apart log-probabilities are, whether all tokens are the likeliest, and how many there are."""
    ids = torch.tensor([told["tokens"]])
    with torch.no_grad():
        logits = model(input_ids=ids, mm_token_type_ids=(ids == mark).int(), **seen).logits[0].double()
    drawn = [i for i, on in enumerate(told["sampled"]) if on]
    log = torch.log_softmax(logits, -1)
    said = told.get("model_log_prob") or told["log_prob"]
    apart = max(abs(log[i - 1, told["tokens"][i]].item() - said[i]) for i in drawn)
    return apart, all(log[i - 1].argmax().item() == told["tokens"][i] for i in drawn), len(drawn)


def loaded(folder):
    from transformers import Qwen2_5_VLForConditionalGeneration
    return Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
