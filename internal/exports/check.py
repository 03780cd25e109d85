"""What a run has trained of a vision-language model, loaded by the upstream libraries: the same answers.

    python internal/exports/check.py DARKROOM

The embedded model is trained for one iteration, itself and by an adapter. transformers loads the exported folders, and
PEFT the exported adapter, and must find the tokens that `darkroom ask --run` took the likeliest, with log-probabilities
to 1e-3 (an adapter is folded into bf16). Needs torch, transformers, peft, pillow. Exits 1 where something differs.
"""
import json, os, subprocess, sys, tempfile
import numpy as np
import torch
from PIL import Image

darkroom = os.path.abspath(sys.argv[1])
failed = []


def say(name, ok, what):
    print(f"{'ok  ' if ok else 'FAIL'} {name}: {what}", flush=True)
    if not ok:
        failed.append(name)


def run(*args):
    r = subprocess.run([darkroom, *args], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"darkroom {' '.join(args)}: {r.stderr}")
    return r.stdout


SPEAKER = """
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


def answers():
    from transformers import AutoImageProcessor, Qwen2_5_VLForConditionalGeneration
    x = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    Image.fromarray(x).save("seen.png")
    for train in ("model[.].*", "lora"):
        out = "speaks-" + ("lora" if train == "lora" else "full")
        try:
            open("s.toml", "w").write(SPEAKER.format(train=train))
            run("train", "s.toml", "--out", out)
            told = json.loads(run("ask", "--run", out, "--image", "seen.png", "--json", "what is written?"))["transcript"]
            run("export", out, "--as", "hub", "--dtype", "f32", "--out", f"{out}-hub")
            run("export", f"{out}/checkpoints/000000", "--as", "hub", "--dtype", "f32", "--out", f"{out}-base")
            wanted = {"hub": lambda: Qwen2_5_VLForConditionalGeneration.from_pretrained(f"{out}-hub", dtype=torch.float32)}
            if train == "lora":
                from peft import PeftModel
                run("export", out, "--as", "peft", "--out", f"{out}-peft")
                wanted["peft"] = lambda: PeftModel.from_pretrained(
                    Qwen2_5_VLForConditionalGeneration.from_pretrained(f"{out}-base", dtype=torch.float32), f"{out}-peft")
            seen = AutoImageProcessor.from_pretrained(f"{out}-hub")(images=[Image.open("seen.png")], return_tensors="pt")
            ids, mark = torch.tensor([told["tokens"]]), json.load(open(f"{out}-hub/config.json"))["image_token_id"]
            for layout, load in wanted.items():
                with torch.no_grad():
                    logits = load().eval()(input_ids=ids, mm_token_type_ids=(ids == mark).int(), **seen).logits[0].double()
                drawn = [i for i, on in enumerate(told["sampled"]) if on]
                log = torch.log_softmax(logits, -1)
                ours = told.get("model_log_prob") or told["log_prob"]
                apart = max(abs(log[i - 1, told["tokens"][i]].item() - ours[i]) for i in drawn)
                greedy = all(log[i - 1].argmax().item() == told["tokens"][i] for i in drawn)
                say(f"{out} as {layout}", greedy and apart < 1e-3, f"greedy tokens the same: {greedy}; log-probabilities {apart:.1e} apart")
        except Exception as e:
            say(out, False, str(e).splitlines()[-1] if str(e) else repr(e))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as at:
        os.chdir(at)
        answers()
    sys.exit(1 if failed else 0)
