"""What runs have trained, loaded by the upstream libraries: the same pixels, the same answers.

    python internal/exports/check.py DARKROOM FOLDER-OF-SMALL-MODELS [DEVICE]

For each family of pipelines a run of one iteration trains the network in full, and another an adapter. Their exports
are loaded by diffusers (as a folder, by load_lora_weights, in kohya's layout) and make a picture from the noise that
`darkroom sample --run --latents` wrote; pixels may differ by 1 of 255. The embedded vision-language model is trained
in both ways, and transformers (and PEFT) must give the same tokens, greedily, and log-probabilities to 1e-3.
Needs torch, diffusers, transformers, peft, safetensors, pillow. Exits 1 where something differs.
"""
import json, os, subprocess, sys, tempfile
import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

darkroom, models = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PROMPT, SIZE = "a red circle", 64
failed = []

RUN = """
[run]
name = "x"
iterations = 1
[model]
path = "{path}"
train = "{train}"
precision = "f32"
[sampler]
{sampler}
[rollout]
prompts = "prompts.txt"
prompts_per_iteration = 1
group = 4
[[reward]]
name = "jpeg"
[optim]
lr = {lr}
"""
FLOW = "steps = 2\neval_steps = 3\nguidance = {g}\nguidance_kind = \"{kind}\""
LADDER = "preset = \"ddpo\"\nsteps = 2\neval_steps = 3\nguidance = 3"

FAMILIES = {
    "pipe_sd3": (FLOW.format(g=3, kind="cfg"), {"guidance_scale": 3.0}),
    "pipe_flux": (FLOW.format(g=3, kind="embedded"), {"guidance_scale": 3.0}),
    "pipe_sd15": (LADDER, {"guidance_scale": 3.0}),
    "pipe_sdxl": (LADDER, {"guidance_scale": 3.0}),
}


def say(name, ok, what):
    print(f"{'ok  ' if ok else 'FAIL'} {name}: {what}", flush=True)
    if not ok:
        failed.append(name)


def run(*args):
    r = subprocess.run([darkroom, *args], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"darkroom {' '.join(args)}: {r.stderr}")
    return r.stdout


def theirs(folder, latents, settings, lora=None):
    from diffusers import DiffusionPipeline
    p = DiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    p.set_progress_bar_config(disable=True)
    if lora:
        p.load_lora_weights(lora)
    noise = load_file(latents)["latents"].float()
    if type(p).__name__ == "FluxPipeline":
        n, c, h, w = noise.shape
        noise = p._pack_latents(noise, n, c, h, w)
    return np.asarray(p(PROMPT, num_inference_steps=3, height=SIZE, width=SIZE, latents=noise, **settings).images[0]).astype(int)


def pictures():
    for family, (sampler, settings) in FAMILIES.items():
        for train in ("full", "lora"):
            name = f"{family} {train}"
            out = f"{family}-{train}"
            try:
                lr = 1e-3 if train == "full" else 0.1
                open("x.toml", "w").write(RUN.format(path=f"{models}/{family}", train=train, sampler=sampler, lr=lr))
                run("train", "x.toml", "--out", out)
                run("sample", "--run", out, "--prompt", PROMPT, "--width", str(SIZE), "--height", str(SIZE), "--latents", f"{out}.noise", "--out", f"{out}.png")
                ours = np.asarray(Image.open(f"{out}.png").convert("RGB")).astype(int)
                base = theirs(f"{models}/{family}", f"{out}.noise", settings)

                run("export", out, "--as", "hub", "--out", f"{out}-hub", "--dtype", "f32")
                wanted = {"hub": (f"{out}-hub", None)}
                if train == "lora":
                    run("export", out, "--as", "diffusers", "--out", f"{out}.safetensors")
                    wanted["diffusers"] = (f"{models}/{family}", f"{out}.safetensors")
                    if family != "pipe_sd3":
                        run("export", out, "--as", "kohya", "--out", f"{out}-kohya.safetensors")
                        wanted["kohya"] = (f"{models}/{family}", f"{out}-kohya.safetensors")
                moved = np.abs(ours - base).max()
                for layout, (folder, lora) in wanted.items():
                    apart = np.abs(ours - theirs(folder, f"{out}.noise", settings, lora)).max()
                    say(f"{name} as {layout}", apart <= 1 and moved > 1, f"{apart} of 255 apart; training moved {moved}")
            except Exception as e:  # one family's trouble is not the others'
                say(name, False, str(e).splitlines()[-1] if str(e) else repr(e))


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
            ids, n = torch.tensor([told["tokens"]]), told["prompt"]
            for layout, load in wanted.items():
                with torch.no_grad():
                    logits = load().eval()(input_ids=ids, mm_token_type_ids=(ids == json.load(open(f"{out}-hub/config.json"))["image_token_id"]).int(), **seen).logits[0].double()
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
        open("prompts.txt", "w").write("a red circle\na dog\n")
        answers()
        pictures()
    sys.exit(1 if failed else 0)
