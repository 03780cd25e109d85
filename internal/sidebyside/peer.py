"""MixGRPO of a LoRA on a small Stable Diffusion 3 pipeline, with PyTorch, diffusers and PEFT.

    python peer.py job.json out.jsonl

job.json says everything (job.go writes it). out.jsonl gets a line an iteration, with seconds by part, and a line an
evaluation: the mean reward of held-out captions, from fixed noise by Euler's steps."""
import json
import math
import os
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads are ruinous where cores are shared

import numpy as np
import torch
from diffusers import AutoencoderKL, SD3Transformer2DModel
from peft import LoraConfig, get_peft_model
from scipy import ndimage
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import CLIPTextModelWithProjection, CLIPTokenizer

INK = {"red": (220, 40, 40), "green": (40, 170, 70), "blue": (50, 80, 220), "yellow": (240, 200, 40), "purple": (150, 60, 180)}
GROUND = {"white": (245, 245, 245), "black": (20, 20, 20), "gray": (140, 140, 140)}
PALETTE = np.array(list(INK.values()) + list(GROUND.values()), np.float32)
SHAPES = ("circle", "square", "triangle")


# ---- the reward: 0.8 of layout and 0.2 of clean colours ----

def fits(region, shape):
    """IoU of a region with a shape that fills its box."""
    h, w = region.shape
    y, x = ((np.arange(h) + 0.5) / h)[:, None], ((np.arange(w) + 0.5) / w)[None]
    ideal = {"square": np.ones((h, w), bool), "circle": (y - 0.5) ** 2 + (x - 0.5) ** 2 <= 0.25, "triangle": np.abs(x - 0.5) <= y / 2 + 0 * x}[shape]
    return (region & ideal).sum() / (region | ideal).sum()


def overlap(a, b):
    i = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    return i / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - i)


def regions(near):
    found = []
    for k, color in enumerate(INK):
        mask = near == k
        if not mask.any():
            continue
        labels, _ = ndimage.label(mask)
        for n, (ys, xs) in enumerate(ndimage.find_objects(labels)):
            part = labels[ys, xs] == n + 1
            if part.sum() >= 12:
                found.append((color, (xs.start, ys.start, xs.stop, ys.stop), part))
    return found


def layout(near, scene):
    found, used, total = regions(near), set(), 0.0
    for o in scene["objects"]:
        best, at = 0.0, None
        for i, (color, box, _) in enumerate(found):
            if i not in used and color == o["color"] and overlap(box, o["box"]) > best:
                best, at = overlap(box, o["box"]), i
        if at is None or best < 0.1:
            continue
        used.add(at)
        likeness = [fits(found[at][2], s) for s in SHAPES]
        asked = SHAPES.index(o["shape"])
        total += 0.5 * best + 0.5 * likeness[asked] * (1.0 if int(np.argmax(likeness)) == asked else 0.3)
    return total / (len(scene["objects"]) + len(found) - len(used))


def score(image, scene):
    x = image.reshape(-1, 3).astype(np.float32)
    d = (PALETTE ** 2).sum(1) - 2 * (x @ PALETTE.T)
    near = d.argmin(1).reshape(image.shape[:2])
    far = np.sqrt(d.min(1) + (x * x).sum(1))
    border = np.concatenate([near[:3].ravel(), near[-3:].ravel(), near[:, :3].ravel(), near[:, -3:].ravel()])
    ground = len(INK) + list(GROUND).index(scene["background"])
    return 0.8 * layout(near, scene) + 0.2 * (0.5 * float(np.exp(-far / 24).mean()) + 0.5 * float((border == ground).mean()))


# ---- the model ----

class Model:
    def __init__(self, job):
        self.job = job
        load = lambda kind, part: kind.from_pretrained(job["model"], subfolder=part, torch_dtype=torch.float32).eval().requires_grad_(False)
        self.vae, transformer = load(AutoencoderKL, "vae"), load(SD3Transformer2DModel, "transformer")
        self.shape = (transformer.config.in_channels, transformer.config.sample_size, transformer.config.sample_size)
        self.texts = [load(CLIPTextModelWithProjection, part) for part in ("text_encoder", "text_encoder_2")]
        self.tokenizer = CLIPTokenizer.from_pretrained(job["model"], subfolder="tokenizer")
        self.net = get_peft_model(transformer, LoraConfig(r=job["rank"], lora_alpha=job["alpha"], init_lora_weights="gaussian", target_modules=job["targets"]))
        self.params = [p for p in self.net.parameters() if p.requires_grad]

    def mixed(self):
        return torch.autocast("cpu", torch.bfloat16)

    @torch.no_grad()
    def encode(self, captions):
        """SD3's rule: the last hidden states but one side by side, and the pooled ones."""
        ids = self.tokenizer(captions, padding="max_length", max_length=self.tokenizer.model_max_length, truncation=True, return_tensors="pt").input_ids
        out = [t(ids, output_hidden_states=True) for t in self.texts]
        return torch.cat([o.hidden_states[-2] for o in out], -1), torch.cat([o.text_embeds for o in out], -1)

    def velocity(self, x, states, pooled, sigma):
        with self.mixed():
            return self.net(x, encoder_hidden_states=states, pooled_projections=pooled, timestep=torch.full((len(x),), sigma * 1000), return_dict=False)[0].float()

    @torch.no_grad()
    def develop(self, latents):
        with self.mixed():
            x = self.vae.decode(latents / self.vae.config.scaling_factor + self.vae.config.shift_factor).sample
        return ((x.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()


def transition(x, v, sigma, below, first, noise):
    """Flow-SDE's step: its mean and its deviation."""
    g, d = noise * math.sqrt(sigma / (1 - (first if sigma >= 1 else sigma))), below - sigma
    return x * (1 + g * g / (2 * sigma) * d) + v * (1 + g * g * (1 - sigma) / (2 * sigma)) * d, g * math.sqrt(-d)


def log_prob(x, mean, deviation):
    return (-((x - mean) ** 2) / (2 * deviation ** 2) - math.log(deviation) - 0.5 * math.log(2 * math.pi)).mean(dim=(1, 2, 3))


@torch.no_grad()
def roll(m, job, texts, prompts, window, gen):
    """Groups from one noise each. The steps before the window are the group's, and taken once."""
    sigmas, which = job["sigmas"], torch.tensor(prompts).repeat_interleave(job["group"])
    x, decisions = torch.randn(len(prompts), *m.shape, generator=gen), {}
    at = torch.tensor(prompts)
    for i in range(len(sigmas) - 1):
        if i == window[0]:
            x, at = x.repeat_interleave(job["group"], 0), which
        v = m.velocity(x, texts[0][at], texts[1][at], sigmas[i])
        if i not in window:
            x = x + (sigmas[i + 1] - sigmas[i]) * v
            continue
        mean, deviation = transition(x, v, sigmas[i], sigmas[i + 1], sigmas[1], job["noise"])
        y = mean + deviation * torch.randn(x.shape, generator=gen)
        decisions[i] = (x, y, log_prob(y, mean, deviation))
        x = y
    return x, which, decisions


def train(m, job, texts, which, decisions, advantages, rates, optimizer, gen):
    """Each update sees its share of the samples; the loss is the mean over the window's steps."""
    for share, rate in zip(torch.randperm(len(which), generator=gen).chunk(len(rates)), rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        at, a = which[share], advantages[share]
        for i, (x, y, old) in decisions.items():
            v = m.velocity(x[share], texts[0][at], texts[1][at], job["sigmas"][i])
            mean, deviation = transition(x[share], v, job["sigmas"][i], job["sigmas"][i + 1], job["sigmas"][1], job["noise"])
            ratio = torch.exp(log_prob(y[share], mean, deviation) - old[share])
            clipped = ratio.clamp(1 - job["clip_range"], 1 + job["clip_range"])
            loss = torch.maximum(-a * ratio, -a * clipped).mean() * deviation
            (loss / len(decisions)).backward()
        torch.nn.utils.clip_grad_norm_(m.params, job["grad_clip"])
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def evaluate(m, job, texts):
    n, sigmas = job["evaluate_samples"], job["sigmas"]
    x = torch.randn(len(job["heldout"]) * n, *m.shape, generator=torch.Generator().manual_seed(4242))
    scores = []
    for first in range(0, len(x), 64):
        part = x[first:first + 64]
        at = torch.arange(first, first + len(part)) // n
        for i in range(len(sigmas) - 1):
            part = part + (sigmas[i + 1] - sigmas[i]) * m.velocity(part, texts[0][at], texts[1][at], sigmas[i])
        scores += [score(image, job["heldout"][int(k)]) for image, k in zip(m.develop(part), at)]
    return float(np.mean(scores))


def main():
    with open(sys.argv[1]) as f:
        job = json.load(f)
    torch.set_num_threads(job["threads"])
    torch.manual_seed(job["seed"])
    gen = torch.Generator().manual_seed(job["seed"])
    m = Model(job)
    texts, held_out = (m.encode([s["prompt"] for s in job[which]]) for which in ("train", "heldout"))
    optimizer = torch.optim.AdamW(m.params, lr=1e-3, betas=job["betas"], eps=job["adam_eps"], weight_decay=job["weight_decay"])
    with open(sys.argv[2], "w", buffering=1) as out:
        say = lambda **line: print(json.dumps(line), file=out)
        seconds = 0.0
        say(evaluated=0, seconds=0.0, mean=evaluate(m, job, held_out))
        for n, it in enumerate(job["iterations"], 1):
            t0 = time.perf_counter()
            final, which, decisions = roll(m, job, texts, it["prompts"], it["window"], gen)
            t1 = time.perf_counter()
            images = m.develop(final)
            rewards = torch.tensor([score(image, job["train"][int(k)]) for image, k in zip(images, which)], dtype=torch.float32)
            t2 = time.perf_counter()
            groups = rewards.view(-1, job["group"])
            advantages = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True, correction=0) + job["advantage_eps"])
            train(m, job, texts, which, decisions, advantages.clamp(-job["advantage_clip"], job["advantage_clip"]).view(-1), it["rates"], optimizer, gen)
            t3 = time.perf_counter()
            seconds += t3 - t0
            say(iteration=n, reward=float(rewards.mean()), roll=t1 - t0, score=t2 - t1, train=t3 - t2)
            if n % job["evaluate_every"] == 0 or n == len(job["iterations"]):
                say(evaluated=n, seconds=seconds, mean=evaluate(m, job, held_out))


if __name__ == "__main__":
    with sdpa_kernel(SDPBackend.MATH):  # at this size faster on a CPU than the fused kernel
        main()
