"""What a forward pass, and one with backward through an adapter, take in diffusers on a device: networks of published
shapes with random weights, bf16, PyTorch's own attention. One line of JSON a row.

    python realpeer.py sd3.5-medium flux.1-dev"""
import json
import sys
import time

import torch
from diffusers import FluxTransformer2DModel, SD3Transformer2DModel, WanTransformer3DModel
from peft import LoraConfig

bf, dev = torch.bfloat16, "cuda"
VLM = dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4)
TARGETS = r".*attn1?\.(to_q|to_k|to_v|to_out\.0)"
# FLUX's backward (2537 tokens, heads of 128) ended with an illegal memory access in PyTorch 2.11. Which kernel did it is
# not known: CUDA reports such an access later. cuDNN's attention is a guess, and so it is left out.
torch.backends.cuda.enable_cudnn_sdp(False)


def sd35(n):
    side = 64
    return dict(hidden_states=torch.randn(n, 16, side, side, device=dev, dtype=bf), encoder_hidden_states=torch.randn(n, 333, 4096, device=dev, dtype=bf),
                pooled_projections=torch.randn(n, 2048, device=dev, dtype=bf), timestep=torch.full((n,), 500.0, device=dev), return_dict=False)


def flux(n):
    ids = torch.zeros(45 * 45, 3, device=dev, dtype=bf)
    ids[:, 1], ids[:, 2] = torch.arange(45, device=dev).repeat_interleave(45), torch.arange(45, device=dev).repeat(45)
    return dict(hidden_states=torch.randn(n, 2025, 64, device=dev, dtype=bf), encoder_hidden_states=torch.randn(n, 512, 4096, device=dev, dtype=bf),
                pooled_projections=torch.randn(n, 768, device=dev, dtype=bf), timestep=torch.full((n,), 0.5, device=dev, dtype=bf), guidance=torch.full((n,), 3.5, device=dev),
                img_ids=ids, txt_ids=torch.zeros(512, 3, device=dev, dtype=bf), return_dict=False)


def wan(times, rows, cols):
    return lambda n: dict(hidden_states=torch.randn(n, 16, times, rows, cols, device=dev, dtype=bf), encoder_hidden_states=torch.randn(n, 512, 4096, device=dev, dtype=bf),
                          timestep=torch.full((n,), 500.0, device=dev), return_dict=False)


WAN = dict(num_layers=30, num_attention_heads=12, attention_head_dim=128, ffn_dim=8960, freq_dim=256, text_dim=4096, in_channels=16, out_channels=16, patch_size=(1, 2, 2),
           cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6)
SHAPES = {
    "sd3.5-medium": (SD3Transformer2DModel, dict(sample_size=128, patch_size=2, in_channels=16, out_channels=16, attention_head_dim=64, joint_attention_dim=4096,
                     pooled_projection_dim=2048, num_layers=24, num_attention_heads=24, caption_projection_dim=1536, pos_embed_max_size=384, qk_norm="rms_norm",
                     dual_attention_layers=tuple(range(13))), sd35, [4, 8, 16], 32),
    "flux.1-dev": (FluxTransformer2DModel, dict(num_layers=19, num_single_layers=38, num_attention_heads=24, attention_head_dim=128, joint_attention_dim=4096,
                   pooled_projection_dim=768, in_channels=64, patch_size=1, axes_dims_rope=(16, 56, 56), guidance_embeds=True), flux, [1, 2, 4], 64),
    "wan2.1-1.3b 33x240x416": (WanTransformer3DModel, WAN, wan(9, 30, 52), [1, 4], 32),
    "wan2.1-1.3b 81x480x832": (WanTransformer3DModel, WAN, wan(21, 60, 104), [1], 32),
}


def timed(f, least=2.0, most=12):
    f()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    took, began = [], time.perf_counter()
    while len(took) < 2 or (len(took) < most and time.perf_counter() - began < least):
        t = time.perf_counter()
        f()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - t)
    return sorted(took)[len(took) // 2], torch.cuda.max_memory_allocated() >> 20


def say(**row):
    print(json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}), flush=True)


def answers():
    """Qwen2.5-VL-7B's language model: prompts of 512 tokens, 32 tokens each, greedy, with transformers' usual cache."""
    from transformers import Qwen2ForCausalLM, Qwen2Config
    torch.set_default_dtype(bf)
    with torch.device(dev):
        m = Qwen2ForCausalLM(Qwen2Config(**VLM)).eval()
    torch.set_default_dtype(torch.float32)
    for n in (1, 8, 32):
        ids = torch.randint(0, 256, (n, 512), device=dev)
        with torch.no_grad():
            for new in (1, 33):
                f = lambda: m.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=0)
                s, mib = timed(f, 0.5, 3)
                if new == 1:
                    first = s
            say(model="qwen2.5-vl-7b", batch=n, read_tokens_a_second=n * 512 / first, written_tokens_a_second=n * 32 / (s - first), peak_mib=mib)
    del m
    torch.cuda.empty_cache()


def main():
    torch.manual_seed(0)
    a = torch.randn(8192, 8192, device=dev, dtype=bf)
    t, _ = timed(lambda: a @ a, 0.5, 50)
    say(product=8192, tflops=2 * 8192**3 / t / 1e12)
    del a
    for name in sys.argv[1:] or [*SHAPES, "answers"]:
        if name == "answers":
            answers()
            continue
        kind, config, inputs, batches, rank = SHAPES[name]
        torch.set_default_dtype(bf)
        began = time.perf_counter()
        with torch.device(dev):
            m = kind(**config)
        torch.set_default_dtype(torch.float32)
        m.requires_grad_(False)
        m.add_adapter(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=TARGETS))
        for p in m.parameters():
            if p.requires_grad:
                p.data = p.data.float()
        m.train()
        say(model=name, parameters=sum(p.numel() for p in m.parameters() if not p.requires_grad), made_s=time.perf_counter() - began)

        def ask(x):
            with torch.autocast(dev, bf):
                return m(**x)[0]

        def sample(x):
            with torch.no_grad():
                ask(x)

        def train(x):
            ask(x).float().square().mean().backward()
            m.zero_grad(set_to_none=True)

        for n in batches:
            x = inputs(n)
            for what, f, again in (("forward", sample, False), ("forward+backward", train, False), ("forward+backward, checkpointing", train, True)):
                (m.enable_gradient_checkpointing if again else m.disable_gradient_checkpointing)()
                try:
                    s, mib = timed(lambda: f(x))
                    say(model=name, what=what, batch=n, seconds=s, seconds_a_sample=s / n, peak_mib=mib)
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    say(model=name, what=what, batch=n, out_of_memory=True)
        del m
        torch.cuda.empty_cache()


main()
