"""One step of sampling and one of training in diffusers and PEFT, on a folder of a real model's size, as realsteps times
them: the same folder, sizes, adapter and precision. Prints a line of JSON.

    python peer.py --model models/sd3.5-medium --size 512 --precision bf16"""
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
import argparse
import ctypes
import gc
import json
import resource
import time

import torch
from diffusers import AutoencoderKLWan, FluxTransformer2DModel, QwenImageTransformer2DModel, SD3Transformer2DModel, UNet2DConditionModel, WanTransformer3DModel
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024


def best(times, f):
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        open("/proc/self/clear_refs", "w").write("5")
    except OSError:
        pass
    all = []
    for _ in range(max(1, times)):
        t, c = time.perf_counter(), cpu()
        f()
        all.append((time.perf_counter() - t, cpu() - c))
    return dict(seconds=round(min(a[0] for a in all), 3), cpu_seconds=round(min(a[1] for a in all), 3), peak_mib=peak())


ap = argparse.ArgumentParser()
ap.add_argument("--model", required=True)
ap.add_argument("--precision", default="bf16", choices=["bf16", "f32"])
ap.add_argument("--size", type=int, default=512)
ap.add_argument("--batch", type=int, default=1)
ap.add_argument("--repeat", type=int, default=1)
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--frames", type=int, default=33)
ap.add_argument("--decode", action="store_true", help="time the autoencoder of clips, too")
ap.add_argument("--decoder", default="", choices=["", "bf16", "f32"], help="the autoencoder's precision; default: the transformer's")
ap.add_argument("--forward", action="store_true", help="sampling alone")
ap.add_argument("--full", action="store_true")
ap.add_argument("--checkpoint", action="store_true")
ap.add_argument("--talk", action="store_true", help="time answers of a vision-language model")
ap.add_argument("--prompt", type=int, default=512, help="tokens of a prompt")
ap.add_argument("--answer", type=int, default=64, help="tokens of an answer")
a = ap.parse_args()
torch.set_num_threads(a.threads)
torch.manual_seed(0)
bf = a.precision == "bf16"
dtype = torch.bfloat16 if bf else torch.float32


def talk():
    """Prompts are read at once, and known tokens follow one by one with transformers' cache."""
    from transformers import Qwen2_5_VLForConditionalGeneration

    net = {}

    def load():
        net["m"] = Qwen2_5_VLForConditionalGeneration.from_pretrained(a.model, torch_dtype=dtype).eval()

    found = dict(by="transformers", precision=a.precision, batch=a.batch, loading=best(1, load))
    ids = torch.randint(0, 256, (a.batch, a.prompt + a.answer))

    def ask(ids, cache):
        return net["m"](input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).past_key_values

    def read():
        net["cache"] = ask(ids[:, : a.prompt], None)

    def write():
        for at in range(a.prompt, a.prompt + a.answer):
            net["cache"] = ask(ids[:, at : at + 1], net["cache"])

    with torch.no_grad():
        if a.repeat > 1:
            read()
        found["reading"] = best(a.repeat, read)
        found["writing"] = best(1, write)
    print(json.dumps(found))


if a.talk:
    talk()
    raise SystemExit
part = "unet" if os.path.exists(os.path.join(a.model, "unet")) else "transformer"
config = json.load(open(os.path.join(a.model, part, "config.json")))
named = config["_class_name"]
# Where everything is trained, weights are fp32 and products bf16; a frozen network is bf16.
stored = torch.float32 if a.full else dtype
net = {}


ATTENTION = ["attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"]


def like(*shape):
    return torch.randn(a.batch, *shape, dtype=stored)


def unet(side):
    x, text = like(4, side, side), like(77, 768)
    return lambda m: m(x, torch.full((a.batch,), 500.0), encoder_hidden_states=text, return_dict=False)[0]


def sd3(side):
    x, text, pooled = like(16, side, side), like(333, 4096), like(2048)
    return lambda m: m(x, encoder_hidden_states=text, pooled_projections=pooled, timestep=torch.full((a.batch,), 500.0), return_dict=False)[0]


def clip_latents(side):
    return like(16, 1 + (a.frames - 1) // 4, side, side)


def wan(side):
    x, text = clip_latents(side), like(512, 4096)
    return lambda m: m(x, torch.full((a.batch,), 500.0), encoder_hidden_states=text, return_dict=False)[0]


def qwen(side):
    """Packed latents of 2 x 2; a text of as many tokens as realsteps' prompt has in the pipeline's template."""
    told = "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\na red circle on white<|im_end|>\n<|im_start|>assistant\n"
    tokens = len(AutoTokenizer.from_pretrained(os.path.join(a.model, "tokenizer"))(told).input_ids) - 34
    x, text, seen = like((side // 2) ** 2, 64), like(tokens, 3584), torch.ones(a.batch, tokens, dtype=torch.bool)
    shapes = [[(1, side // 2, side // 2)]] * a.batch
    return lambda m: m(x, encoder_hidden_states=text, encoder_hidden_states_mask=seen, timestep=torch.full((a.batch,), 0.5), img_shapes=shapes, return_dict=False)[0]


def flux(side):
    """Packed latents of 2 x 2, a text of T5's 512 tokens, and the guidance that the network reads."""
    n = side // 2
    x, text, pooled, at, places = like(n * n, 64), like(512, 4096), like(768), torch.arange(n * n), torch.zeros(n * n, 3)
    places[:, 1], places[:, 2] = at // n, at % n
    return lambda m: m(x, encoder_hidden_states=text, pooled_projections=pooled, timestep=torch.full((a.batch,), 0.5), img_ids=places, txt_ids=torch.zeros(512, 3), guidance=torch.full((a.batch,), 3.5), return_dict=False)[0]


def quantized(kind, path):
    """A network whose linear layers bitsandbytes has saved in 4 bits. from_pretrained does the same, and refuses machines
    without a GPU, though bitsandbytes computes on a CPU."""
    import bitsandbytes as bnb
    from accelerate import init_empty_weights
    from accelerate.utils import set_module_tensor_to_device
    from safetensors.torch import load_file

    with init_empty_weights():
        m = kind.from_config(kind.load_config(path))
    saved = {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            saved.update(load_file(os.path.join(path, file)))
    for name, layer in list(m.named_modules()):
        weight = name + ".weight"
        of = {k: saved.pop(k) for k in list(saved) if k.startswith(weight + ".")}
        if not of:
            continue
        four = bnb.nn.Linear4bit(layer.in_features, layer.out_features, layer.bias is not None, compute_dtype=dtype, quant_type="nf4", device="meta")
        four.weight = bnb.nn.Params4bit.from_prequantized(data=saved.pop(weight), quantized_stats=of, requires_grad=False, device="cpu", module=four)
        above, _, last = name.rpartition(".")
        setattr(m.get_submodule(above), last, four)
    for name, value in saved.items():
        set_module_tensor_to_device(m, name, "cpu", value=value, dtype=dtype)
    return m


kind, question, targets = {
    "UNet2DConditionModel": (UNet2DConditionModel, unet, ["to_q", "to_k", "to_v", "to_out.0"]),
    "FluxTransformer2DModel": (FluxTransformer2DModel, flux, ATTENTION),
    "SD3Transformer2DModel": (SD3Transformer2DModel, sd3, ATTENTION),
    "WanTransformer3DModel": (WanTransformer3DModel, wan, ["to_q", "to_k", "to_v", "to_out.0"]),
    "QwenImageTransformer2DModel": (QwenImageTransformer2DModel, qwen, ATTENTION),
}[named]


def load():
    path = os.path.join(a.model, part)
    m = quantized(kind, path) if "quantization_config" in config else kind.from_pretrained(path, torch_dtype=stored)
    if a.checkpoint:
        m.enable_gradient_checkpointing()
    if not a.full:
        m = get_peft_model(m.requires_grad_(False), LoraConfig(r=32, lora_alpha=64, target_modules=targets))
    m.train()
    net["m"] = m


loading = best(1, load)
asked = question(a.size // 8)


def ask():
    with torch.autocast("cpu", torch.bfloat16, enabled=bf):
        return asked(net["m"])


def sample():
    with torch.no_grad():
        ask()


def train():
    y = ask()
    y.float().square().mean().backward()
    net["m"].zero_grad()


found = dict(by="diffusers", precision=a.precision, batch=a.batch, loading=loading, sampling=best(a.repeat, sample))
if not a.forward:
    found["training"] = best(a.repeat, train)
if a.decode:
    net.clear()
    narrow = {"": stored, "bf16": torch.bfloat16, "f32": torch.float32}[a.decoder]
    decoder = AutoencoderKLWan.from_pretrained(os.path.join(a.model, "vae"), torch_dtype=narrow)
    latents = clip_latents(a.size // 8).to(narrow)

    def decode():
        with torch.no_grad():
            decoder.decode(latents)

    found["decoding"] = best(a.repeat, decode)
print(json.dumps(found))
