"""Generators: a run of one iteration trains the network in full, another an adapter. Exports are loaded by diffusers (a
whole folder, load_lora_weights of a file, kohya's layout of it), and make a picture from the noise that
`darkroom sample --run --latents` wrote. Pixels may differ by 1 of 255, and training must have moved the picture by more.
"""
import inspect, json, traceback
import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

PROMPT, SIZE = "a red circle", 64

RUN = """
[run]
name = "x"
iterations = 1
[model]
path = "{path}"
train = "{train}"
precision = "f32"
source_area = -1
[sampler]
{sampler}
width = {size}
height = {size}
[rollout]
prompts = "prompts.txt"
prompts_per_iteration = 1
group = 4
[[reward]]
name = "jpeg"
[optim]
lr = {lr}
"""
FLOW = 'steps = 2\neval_steps = 3\nguidance = 3\nguidance_kind = "{}"\nschedule = {{ kind = "{}" }}'
LADDER = 'preset = "ddpo"\nsteps = 2\neval_steps = 3\nguidance = 3'
KONTEXT = {"guidance_scale": 3.0, "max_area": SIZE * SIZE, "_auto_resize": False}
QWEN = {"true_cfg_scale": 3.0, "negative_prompt": "blurry"}
DDIM = ["--solver", "ddim", "--noise", "0"]  # DDPO's evaluations draw

# The sampler, what diffusers is told, whether diffusers reads kohya's layout of it, and what sample is told.
FAMILIES = {
    "pipe_sd3": (FLOW.format("cfg", "shifted"), {"guidance_scale": 3.0}, False, []),
    "pipe_flux": (FLOW.format("embedded", "dynamic"), {"guidance_scale": 3.0}, True, []),
    "pipe_sd15": (LADDER, {"guidance_scale": 3.0}, True, DDIM),
    "pipe_sdxl": (LADDER, {"guidance_scale": 3.0}, True, DDIM),
    "pipe_flux_kontext": (FLOW.format("embedded", "dynamic"), KONTEXT, True, []),
    "pipe_qwen_image": (FLOW.format("cfg-norm", "dynamic") + '\nnegative = "blurry"', QWEN, False, ["--solver", "euler"]),
}


def narrow_flux(folder):
    """diffusers' reader of kohya's FLUX layers knows the published width alone, 3072: here it knows the folder's."""
    from diffusers.loaders import lora_conversion_utils, lora_pipeline
    name = "_convert_kohya_flux_lora_to_diffusers"
    config = json.load(open(f"{folder}/transformer/config.json"))
    width = config["num_attention_heads"] * config["attention_head_dim"]
    published = vars(lora_conversion_utils).get("as_published") or inspect.getsource(getattr(lora_conversion_utils, name))
    lora_conversion_utils.as_published = published
    exec(published.replace("12288", str(4 * width)).replace("3072", str(width)), vars(lora_conversion_utils))
    setattr(lora_pipeline, name, getattr(lora_conversion_utils, name))


def theirs(folder, latents, settings, lora=None):
    from diffusers import DDIMScheduler, DiffusionPipeline
    p = DiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    p.set_progress_bar_config(disable=True)
    if type(p).__name__ in ("StableDiffusionPipeline", "StableDiffusionXLPipeline"):
        p.scheduler = DDIMScheduler.from_config(p.scheduler.config)
    if lora:
        p.load_lora_weights(lora)
    noise = load_file(latents)["latents"].float()
    if type(p).__name__ in ("FluxPipeline", "FluxKontextPipeline", "QwenImagePipeline"):
        n, c, h, w = noise.shape
        noise = p._pack_latents(noise, n, c, h, w)
    made = p(prompt=PROMPT, num_inference_steps=3, height=SIZE, width=SIZE, latents=noise, **settings).images[0]
    return np.asarray(made.convert("RGB")).astype(int)


def ours(check, out, name, *more):
    check.run("sample", "--run", out, "--prompt", PROMPT, "--width", str(SIZE), "--height", str(SIZE), "--latents", f"{out}.noise", "--out", f"{name}.png", *more)
    return np.asarray(Image.open(f"{name}.png").convert("RGB")).astype(int)


def check(check, family):
    if "flux" in family:
        narrow_flux(f"{check.models}/{family}")
    for train in ("full", "lora"):
        try:
            trained(check, family, train)
        except Exception as e:  # one family's trouble is not the others'
            check.say(f"{family} {train}", "", False, (str(e).strip() or repr(e)).splitlines()[-1])
            traceback.print_exc()


def trained(check, family, train):
    sampler, settings, kohya, more = FAMILIES[family]
    folder, out = f"{check.models}/{family}", f"{family}-{train}"
    open("prompts.txt", "w").write("a red circle\na dog\n")
    open("x.toml", "w").write(RUN.format(path=folder, train=train, sampler=sampler, size=SIZE, lr=1e-3 if train == "full" else 0.1))
    check.run("train", "x.toml", "--out", out)
    layouts = {"hub": (f"{out}-hub", None)}
    check.run("export", out, "--as", "hub", "--out", f"{out}-hub", "--dtype", "f32")
    for layout in ["diffusers"] + ["kohya"] * kohya if train == "lora" else []:
        layouts[layout] = (folder, f"{out}-{layout}.safetensors")
        check.run("export", out, "--as", layout, "--out", layouts[layout][1])
    pictures = {"": (ours(check, out, out, *more), settings)}
    if "kontext" in family:
        x = np.random.default_rng(1).integers(0, 255, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(x).resize((SIZE, SIZE)).save("source.png")
        pictures[" of a picture"] = ours(check, out, f"{out}-seen", *more, "--image", "source.png"), {**settings, "image": Image.open("source.png").convert("RGB")}
    for of, (picture, told) in pictures.items():
        moved = np.abs(picture - theirs(folder, f"{out}.noise", told)).max()
        for layout, (where, lora) in layouts.items():
            apart = np.abs(picture - theirs(where, f"{out}.noise", told, lora)).max()
            check.say(f"{family} {train}{of}", layout, apart <= 1 and moved > 1, f"{apart} of 255; training moved {moved}")
