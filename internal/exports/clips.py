"""Wan 2.2's two networks: a run of one iteration trains both in full, or an adapter on each. Exports are loaded by
diffusers (a whole folder; two files, one by load_into_transformer_2) and make a clip from the noise that
`darkroom sample --run` wrote.
"""
import traceback
import numpy as np
import torch
from PIL import Image, ImageSequence
from safetensors.torch import load_file

FOLDER, PROMPT, WIDTH, HEIGHT, FRAMES, STEPS, WORDS = "pipe_wan22_t2v", "a red circle", 48, 32, 5, 4, 24

RUN = """
[run]
name = "x"
iterations = 1
[model]
path = "{path}"
train = "{train}"
precision = "f32"
text_length = {words}
[sampler]
preset = "flow_grpo_wan"
steps = {steps}
eval_steps = {steps}
guidance = 4
guidance_2 = 3
frames = {frames}
width = {width}
height = {height}
[rollout]
prompts = "prompts.txt"
prompts_per_iteration = 1
group = 4
[[reward]]
name = "magnitude"
[optim]
lr = {lr}
"""


def theirs(folder, latents, lora=None):
    from diffusers import WanPipeline
    p = WanPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    p.set_progress_bar_config(disable=True)
    if lora:
        p.load_lora_weights(lora, adapter_name="high")
        p.load_lora_weights(lora.replace(".safetensors", ".transformer_2.safetensors"), adapter_name="low", load_into_transformer_2=True)
    made = p(prompt=PROMPT, negative_prompt="", num_frames=FRAMES, width=WIDTH, height=HEIGHT, num_inference_steps=STEPS, guidance_scale=4.0, guidance_scale_2=3.0,
             max_sequence_length=WORDS, latents=load_file(latents)["latents"].float(), output_type="np").frames[0]
    return np.rint(made * 255).astype(int)


def trained(check, train):
    folder, out = f"{check.models}/{FOLDER}", f"{FOLDER}-{train}"
    open("prompts.txt", "w").write("a red circle\na dog\n")
    open("x.toml", "w").write(RUN.format(path=folder, train=train, words=WORDS, steps=STEPS, frames=FRAMES, width=WIDTH, height=HEIGHT, lr=1e-3 if train == "full" else 0.1))
    check.run("train", "x.toml", "--out", out)
    layouts = {"hub": (f"{out}-hub", None)}
    check.run("export", out, "--as", "hub", "--out", f"{out}-hub", "--dtype", "f32")
    if train == "lora":
        layouts["diffusers"] = (folder, f"{out}.safetensors")
        check.run("export", out, "--as", "diffusers", "--out", f"{out}.safetensors")
    check.run("sample", "--run", out, "--prompt", PROMPT, "--width", str(WIDTH), "--height", str(HEIGHT), "--frames", str(FRAMES), "--steps", str(STEPS), "--guidance", "4",
              "--guidance-2", "3", "--solver", "unipc", "--latents", f"{out}.noise", "--out", f"{out}.png")
    ours = np.stack([np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(Image.open(f"{out}.png"))]).astype(int)
    moved = np.abs(ours - theirs(folder, f"{out}.noise")).max()
    for layout, (where, lora) in layouts.items():
        apart = np.abs(ours - theirs(where, f"{out}.noise", lora)).max()
        check.say(f"{FOLDER} {train}", layout, apart <= 1 and moved > 1, f"{apart} of 255; training moved {moved}")


def check(check):
    for train in ("full", "lora"):
        try:
            trained(check, train)
        except Exception as e:
            check.say(f"{FOLDER} {train}", "", False, (str(e).strip() or repr(e)).splitlines()[-1])
            traceback.print_exc()
