"""What darkroom's `bench gemm attention` and `bench iteration` time on a CUDA device, in PyTorch: the same shapes, the same
model, the same keys. Prints one JSON object.

    python peer.py kernels > kernels.json        # darkroom bench gemm attention --device cuda:0 --against kernels.json
    python peer.py gradients                     # products alone, by CUDA graphs, beside darkroom's TestTrialTimes
    python peer.py iteration > iteration.json    # darkroom bench iteration --device cuda:0 --parts grpo:bf16 --against iteration.json

An operation is queued again and again and waited for once; the best and the median of seven such runs."""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def timed(f, device, repeat=7, queue=0.02):
    for _ in range(3):
        f()
    wait(device)
    t = time.perf_counter()
    f()
    wait(device)
    n = min(max(int(queue / max(time.perf_counter() - t, 1e-9)), 1), 200)
    times = []
    for _ in range(repeat):
        t = time.perf_counter()
        for _ in range(n):
            f()
        wait(device)
        times.append((time.perf_counter() - t) / n)
    return min(times), statistics.median(times)


# ---- products and attention ----

FORWARD = ((1024, 1024, 1024), (974, 1536, 1536), (974, 6144, 1536), (974, 1536, 6144), (4096, 1536, 1536), (4608, 128, 128), (4608, 512, 128),
           (77, 768, 768), (8, 4096, 1024), (8, 151936, 1024))
BACKWARD = ((1024, 1024, 1024), (974, 1536, 1536), (974, 6144, 1536), (4608, 512, 128))
LARGE = ((4352, 1536, 1536), (4352, 6144, 1536), (4352, 1536, 6144), (4096, 4096, 4096), (8192, 8192, 8192))
ATTENTION = ((2, 24, 487, 64), (1, 24, 1178, 64), (64, 2, 80, 64), (8, 8, 512, 128))
LARGE_ATTENTION = ((1, 24, 4352, 64), (4, 24, 4352, 64), (1, 24, 4608, 128), (1, 16, 16384, 128))
ATTENTION_BACK = ATTENTION[:3] + ((16, 24, 1536, 64), (16, 24, 1536, 128))


def kernels(a):
    rows, dev = [], a.device

    def add(op, shape, f, work):
        best, median = timed(f, dev, a.repeat)
        rows.append({"op": op, "shape": list(shape), "dtype": "bfloat16", "threads": 1, "best_ms": round(best * 1e3, 4), "median_ms": round(median * 1e3, 4),
                     "GF/s": round(work / best / 1e9, 1)})
        print(op, shape, rows[-1]["best_ms"], file=sys.stderr, flush=True)

    def rand(*shape):
        return torch.randn(*shape, device=dev, dtype=torch.bfloat16)

    keep = a.small and (lambda all: all[:1]) or (lambda all: all)
    with torch.no_grad():
        for m, n, k in keep(FORWARD) + keep(LARGE if not a.small else ()):
            x, w = rand(m, k), rand(n, k)
            add("linear", (m, n, k), lambda: F.linear(x, w), 2 * m * n * k)
        for m, n, k in keep(BACKWARD + LARGE):
            y, w = rand(m, n), rand(n, k)
            add("linear_dx", (m, n, k), lambda: y @ w, 2 * m * n * k)
        for m, n, k in keep(BACKWARD):
            y, x = rand(m, n), rand(m, k)
            add("linear_dw", (m, n, k), lambda: y.T @ x, 2 * m * n * k)
        for b, h, s, d in keep(ATTENTION + LARGE_ATTENTION):
            q, k, v = rand(b, h, s, d), rand(b, h, s, d), rand(b, h, s, d)
            add("attention", (b, h, s, d), lambda: F.scaled_dot_product_attention(q, k, v), 4 * b * h * s * s * d)
    for b, h, s, d in keep(ATTENTION_BACK):
        q, k, v = (rand(b, h, s, d).requires_grad_() for _ in range(3))
        o = F.scaled_dot_product_attention(q, k, v)
        g = torch.randn_like(o)
        add("attention_backward", (b, h, s, d), lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True), 10 * b * h * s * s * d)
    return {"bench": "kernels", "rows": rows}


# ---- products without the host ----

# Rows of a batch, and the weight's two sides, as darkroom's TestTrialTimes has them.
GRADIENTS = ((1024, 1024, 1024), (974, 1536, 1536), (974, 6144, 1536), (974, 1536, 6144), (4608, 512, 128), (4608, 3072, 3072), (4608, 12288, 3072),
             (4608, 3072, 12288), (5074, 3072, 3072), (4096, 1536, 1536))
PRODUCTS = ((974, 1536, 6144), (4352, 1536, 1536), (974, 1536, 1536), (974, 3072, 3072), (128, 3584, 3584), (128, 512, 3584), (128, 4608, 3584),
            (128, 18944, 3584), (128, 3584, 18944))


def gradients(a):
    """Microseconds of products, queued by a graph: no host stands between them."""
    rows = []

    def add(op, shape, f):
        f()
        torch.cuda.synchronize()
        graph, n = torch.cuda.CUDAGraph(), 20
        with torch.cuda.graph(graph):
            for _ in range(n):
                f()
        graph.replay()
        best = min(timed(graph.replay, "cuda", 3)[0] / n for _ in range(2)) * 1e6
        rows.append({"op": op, "shape": list(shape), "us": round(best, 1), "TF/s": round(2e-6 * shape[0] * shape[1] * shape[2] / best)})
        print(rows[-1], file=sys.stderr, flush=True)

    def rand(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    with torch.no_grad():
        for k, m, n in GRADIENTS:
            y, x, g = rand(k, m), rand(k, n), torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
            add("dw", (k, m, n), lambda: torch.mm(y.T, x, out=g))
        for m, n, k in PRODUCTS:
            x, w, o = rand(m, k), rand(n, k), torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
            add("nt", (m, n, k), lambda: torch.mm(x, w.T, out=o))
        x, w, o = rand(974, 6144), rand(6144, 1536), torch.zeros(974, 1536, device="cuda", dtype=torch.bfloat16)
        add("nn", (974, 1536, 6144), lambda: torch.mm(x, w, out=o))
    return {"bench": "gradients", "torch": torch.__version__, "rows": rows}


# ---- iterations of a transformer ----

TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"]


def sigmas(steps, shift):
    s = torch.linspace(1, 1 / steps, steps, dtype=torch.float64)
    return (shift * s / (1 + (shift - 1) * s)).tolist() + [0.0]


def flow_sde(x, v, s, t, top, level, noise=None, after=None):
    """The step of Flow-GRPO from sigma s to t: where it leads, and its log-probability, the mean over a picture."""
    std = (s / (1 - (top if s == 1 else s))) ** 0.5 * level
    dt = t - s
    mean = x * (1 + std * std / (2 * s) * dt) + v * (1 + std * std * (1 - s) / (2 * s)) * dt
    scale = std * (-dt) ** 0.5
    if after is None:
        after = mean + scale * noise
    lp = -((after.detach() - mean) ** 2) / (2 * scale * scale)
    return after, lp.mean(dim=tuple(range(1, lp.ndim)))


def iteration(a):
    from diffusers import SD3Transformer2DModel
    from peft import LoraConfig, get_peft_model
    dev = a.device
    torch.manual_seed(0)
    base = SD3Transformer2DModel(sample_size=a.latent, patch_size=2, in_channels=16, out_channels=16, num_layers=a.layers, attention_head_dim=64, num_attention_heads=a.heads,
                                 joint_attention_dim=4096, caption_projection_dim=64 * a.heads, pooled_projection_dim=2048, pos_embed_max_size=192)
    base = base.to(dev, torch.bfloat16).requires_grad_(False)
    net = get_peft_model(base, LoraConfig(r=32, lora_alpha=64, init_lora_weights="gaussian", target_modules=TARGETS))
    params = [p for p in net.parameters() if p.requires_grad]
    for p in params:
        p.data = p.data.float()
    opt = torch.optim.AdamW(params, lr=1e-4, fused=dev == "cuda")
    sig, n = sigmas(a.steps, 3.0), a.micro
    text, pooled = torch.randn(1, a.text, 4096, device=dev).bfloat16(), torch.randn(1, 2048, device=dev).bfloat16()

    def velocity(x, s):
        b = len(x)
        with torch.autocast(dev, torch.bfloat16):
            return net(x.bfloat16(), encoder_hidden_states=text.expand(b, -1, -1), pooled_projections=pooled.expand(b, -1),
                       timestep=torch.full((b,), s * 1000, device=dev), return_dict=False)[0].float()

    def noise(b=n):
        return torch.randn(b, 16, a.latent, a.latent, device=dev)

    x0 = noise()

    def sample_step():
        with torch.no_grad():
            velocity(x0, sig[3])

    def train_step(x, after, old, adv, i):
        _, lp = flow_sde(x, velocity(x, sig[i]), sig[i], sig[i + 1], sig[1], 0.7, after=after)
        r = torch.exp(lp - old)
        torch.maximum(-adv * r, -adv * r.clamp(1 - 1e-4, 1 + 1e-4)).mean().backward()

    def one():
        train_step(x0, x0 + 0.1, torch.zeros(n, device=dev), torch.ones(n, device=dev), 3)

    out = {"parameters": sum(p.numel() for p in base.parameters()), "lora_parameters": sum(p.numel() for p in params)}

    def phase(f):
        if dev == "cuda":
            torch.cuda.reset_peak_memory_stats()
        best, median = timed(f, dev, a.repeat, queue=0)
        r = {"best_s": round(best, 5), "median_s": round(median, 5), "repeats": a.repeat, "batch": n}
        if dev == "cuda":
            r["device_mb"] = torch.cuda.max_memory_reserved() >> 20
        return r

    out["sampling"] = phase(sample_step)
    base.enable_gradient_checkpointing()
    out["training_checkpointing"] = phase(one)
    base.disable_gradient_checkpointing()
    out["training"] = phase(one)
    for name in ("sampling", "training_checkpointing", "training"):
        out[name + "_s_per_image_step"] = round(out[name]["best_s"] / n, 5)
    opt.zero_grad()
    for name, window in (("mixgrpo", range(2, 2 + a.window)), ("flowgrpo", range(a.steps - 1))):
        best = None
        for _ in range(a.repeat):
            if dev == "cuda":
                torch.cuda.reset_peak_memory_stats()
            wait(dev)
            start, taken = time.perf_counter(), []
            with torch.no_grad():
                for c in range(0, a.group, n):
                    x = noise(min(n, a.group - c))
                    for i in range(a.steps):
                        v = velocity(x, sig[i])
                        if i in window:
                            after, lp = flow_sde(x, v, sig[i], sig[i + 1], sig[1], 0.7, noise=noise(len(x)))
                            taken.append((x, after, lp, i, c))
                            x = after
                        else:
                            x = x + (sig[i + 1] - sig[i]) * v
            wait(dev)
            sampled = time.perf_counter()
            adv = torch.randn(a.group, device=dev)
            for x, after, lp, i, c in taken:
                train_step(x, after, lp, adv[c:c + len(x)], i)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            opt.step()
            opt.zero_grad()
            wait(dev)
            end = time.perf_counter()
            r = {"iteration_s": round(end - start, 5), "sampling_s": round(sampled - start, 5), "training_s": round(end - sampled, 5)}
            if dev == "cuda":
                r["device_mb"] = torch.cuda.max_memory_reserved() >> 20
            if best is None or r["iteration_s"] < best["iteration_s"]:
                best = r
        out[name] = best
    return {"bench": "iteration", "torch": torch.__version__, "grpo_bf16": out}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=("kernels", "gradients", "iteration"))
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--repeat", type=int, default=7)
    ap.add_argument("--small", action="store_true", help="one row of each, to try this program out")
    for name, n in (("heads", 24), ("layers", 6), ("latent", 32), ("text", 231), ("group", 4), ("steps", 10), ("window", 4), ("micro", 2)):
        ap.add_argument("--" + name, type=int, default=n)
    a = ap.parse_args()
    print(json.dumps({"kernels": kernels, "gradients": gradients, "iteration": iteration}[a.what](a), indent=1))


main()
