"""Golden cases of pipelines beside those of golden/models: Stable Diffusion XL, FLUX.1-schnell.

    pip install torch diffusers transformers
    go run ./internal/golden/pack -to runs/models internal/golden/models
    python3 internal/oracle/pipelines.py --tokenizers runs/models --out FOLDER; go run ./internal/golden/pack FOLDER/*

Each case is a whole folder of diffusers with random weights, case.json and tensors.safetensors: the
embeddings, every output and latent, the picture. Tolerances come from the same run in float64.
"""
import argparse
import json
import os
import shutil

import diffusers
import torch
import transformers
from safetensors.torch import save_file

transformers.logging.set_verbosity_error()
diffusers.utils.logging.set_verbosity_error()
diffusers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
PROMPT, NEGATIVE = "a photo of a red cat sitting on the wooden bridge, studio lighting", ""


def drawn(module, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        x = torch.randn(p.shape, generator=g)
        with torch.no_grad():
            if p.dim() > 1:
                p.copy_(x * (0.7 / (p[0].numel() ** 0.5)))
            else:
                p.copy_(1 + 0.1 * x if "norm" in name and name.endswith("weight") else 0.1 * x)
    return module.eval()


def clip(cls, vocabulary, width, out, act, seed):
    return drawn(cls(transformers.CLIPTextConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2, num_attention_heads=2,
        hidden_act=act, max_position_embeddings=77, projection_dim=out, bos_token_id=0, eos_token_id=2, pad_token_id=1)), seed)


def vae(latent, quant, shift, scaling, seed):
    n = 4
    return drawn(diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * n, up_block_types=("UpDecoderBlock2D",) * n,
        block_out_channels=(4, 4, 8, 8), layers_per_block=1, latent_channels=latent, norm_num_groups=4, sample_size=64,
        scaling_factor=scaling, shift_factor=shift, use_quant_conv=quant, use_post_quant_conv=quant, force_upcast=False), seed)


class Recorder:
    """What goes through scheduler.step."""

    def __init__(self, scheduler):
        self.outputs, self.latents = [], []
        real = scheduler.step

        def step(output, time, sample, *a, **k):
            self.outputs.append(output.detach().clone())
            r = real(output, time, sample, *a, **k)
            self.latents.append((r[0] if isinstance(r, tuple) else r.prev_sample).detach().clone())
            return r
        scheduler.step = step

    def tensors(self):
        out = {f"model_output.{i}": v for i, v in enumerate(self.outputs)}
        out.update({f"latents.{i + 1}": v for i, v in enumerate(self.latents)})
        return out


def finish(folder, name, op, note, ins, args, run):
    with torch.no_grad():
        single, double = run(torch.float32), run(torch.float64)
    tols = {}
    for k, v in single.items():
        worst = (v.double() - double[k].double()).abs().max().item() if v.is_floating_point() else 0
        tols["out." + k] = {"abs": max(1e-5, 8 * worst), "rel": 1e-5}
    tensors = {"in." + k: v.float().contiguous() for k, v in ins.items()}
    tensors.update({"out." + k: (v.float() if v.is_floating_point() else v).contiguous().clone() for k, v in single.items()})
    save_file(tensors, os.path.join(folder, "tensors.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump({"name": name, "op": op, "source": "diffusers==" + diffusers.__version__, "note": note, "args": args,
                   "in": sorted("in." + k for k in ins), "out": sorted(tols),
                   "tol": {"abs": max(t["abs"] for t in tols.values()), "rel": 1e-5}, "tols": tols}, f, indent=1)
        f.write("\n")


def sdxl(o):
    name = "pipe_sdxl"
    d = os.path.join(o.out, name)
    tokenizers = [transformers.CLIPTokenizer.from_pretrained(os.path.join(o.tokenizers, "pipe_sd3", t)) for t in ("tokenizer", "tokenizer_2")]
    e1 = clip(transformers.CLIPTextModel, len(tokenizers[0]), 16, 16, "quick_gelu", 1)
    e2 = clip(transformers.CLIPTextModelWithProjection, len(tokenizers[1]), 24, 20, "gelu", 2)
    unet = drawn(diffusers.UNet2DConditionModel(
        sample_size=8, layers_per_block=1, block_out_channels=(8, 16), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=40, attention_head_dim=(2, 4), norm_num_groups=4,
        transformer_layers_per_block=(1, 2), use_linear_projection=True, addition_embed_type="text_time",
        addition_time_embed_dim=8, projection_class_embeddings_input_dim=20 + 6 * 8), 3)
    scheduler = diffusers.EulerDiscreteScheduler(
        num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1,
        timestep_spacing="leading", prediction_type="epsilon")
    shutil.rmtree(d, ignore_errors=True)
    diffusers.StableDiffusionXLPipeline(vae=vae(4, True, None, 0.13025, 4), text_encoder=e1, text_encoder_2=e2, tokenizer=tokenizers[0],
                                        tokenizer_2=tokenizers[1], unet=unet, scheduler=scheduler, add_watermarker=False).save_pretrained(d)
    path = os.path.join(d, "scheduler", "scheduler_config.json")
    with open(path) as f:
        settings = json.load(f)
    settings.update(clip_sample=False, set_alpha_to_one=False)  # the published file has them
    with open(path, "w") as f:
        json.dump(settings, f, indent=2)
    latents = torch.randn(1, 4, 8, 10, generator=torch.Generator().manual_seed(5))
    steps, scale = 5, 4.0

    def run(dtype):
        p = diffusers.StableDiffusionXLPipeline.from_pretrained(d, torch_dtype=dtype, add_watermarker=False)
        p.set_progress_bar_config(disable=True)
        # As DDIMScheduler.from_config takes the folder's settings.
        p.scheduler = diffusers.DDIMScheduler.from_config(p.scheduler.config)
        embeds, negative, pooled, negative_pooled = p.encode_prompt(prompt=PROMPT, do_classifier_free_guidance=True)
        r = Recorder(p.scheduler)
        image = p(prompt=PROMPT, height=64, width=80, num_inference_steps=steps, guidance_scale=scale, latents=latents.to(dtype), output_type="pt").images
        raw = p.vae.decode(r.latents[-1].to(dtype) / p.vae.config.scaling_factor).sample
        out = {"prompt_embeds": embeds, "negative_prompt_embeds": negative, "pooled": pooled, "negative_pooled": negative_pooled,
               "timesteps": p.scheduler.timesteps, "alphas_cumprod": p.scheduler.alphas_cumprod, "vae_out": raw, "image": image}
        for i, t in enumerate(tokenizers):
            out[f"ids_{i + 1}"] = t([PROMPT], padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
        return {**out, **r.tensors()}
    finish(d, name, "pipelines.sdxl", "DDIM over the folder's betas; no negative prompt: zeros, as force_zeros_for_empty_prompt says; "
           "sizes are the picture's own (64, 80), crop (0, 0)", {"latents": latents},
           {"prompt": PROMPT, "negative_prompt": "", "steps": steps, "guidance_scale": scale, "height": 64, "width": 80}, run)


def schnell(o):
    name = "pipe_flux_schnell"
    d = os.path.join(o.out, name)
    t1 = transformers.CLIPTokenizer.from_pretrained(os.path.join(o.tokenizers, "pipe_flux", "tokenizer"))
    t2 = transformers.T5TokenizerFast.from_pretrained(os.path.join(o.tokenizers, "pipe_flux", "tokenizer_2"))
    e1 = clip(transformers.CLIPTextModel, len(t1), 16, 16, "quick_gelu", 11)
    e2 = drawn(transformers.T5EncoderModel(transformers.T5Config(
        vocab_size=300, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu", dropout_rate=0.0)), 12)
    z = 4
    network = drawn(diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4 * z, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=16, guidance_embeds=False, axes_dims_rope=(2, 4, 2)), 13)
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=1.0, num_train_timesteps=1000)
    shutil.rmtree(d, ignore_errors=True)
    diffusers.FluxPipeline(scheduler=scheduler, vae=vae(z, False, 0.1159, 0.3611, 14), text_encoder=e1, tokenizer=t1, text_encoder_2=e2,
                           tokenizer_2=t2, transformer=network).save_pretrained(d)
    latents = torch.randn(1, z, 8, 10, generator=torch.Generator().manual_seed(15))
    packed = diffusers.FluxPipeline._pack_latents(latents, 1, z, 8, 10)
    steps, length = 4, 32

    def run(dtype):
        p = diffusers.FluxPipeline.from_pretrained(d, torch_dtype=dtype)
        p.set_progress_bar_config(disable=True)
        embeds, pooled, _ = p.encode_prompt(prompt=PROMPT, prompt_2=None, max_sequence_length=length)
        r = Recorder(p.scheduler)
        image = p(prompt=PROMPT, height=64, width=80, num_inference_steps=steps, guidance_scale=0.0, latents=packed.to(dtype),
                  max_sequence_length=length, output_type="pt").images
        unpacked = p._unpack_latents(r.latents[-1].to(dtype), 64, 80, p.vae_scale_factor)
        raw = p.vae.decode(unpacked / p.vae.config.scaling_factor + p.vae.config.shift_factor).sample
        out = {"prompt_embeds": embeds, "pooled": pooled, "timesteps": p.scheduler.timesteps, "sigmas": p.scheduler.sigmas, "unpacked": unpacked, "vae_out": raw,
               "image": image, "ids_1": t1([PROMPT], padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids,
               "ids_2": t2([PROMPT], padding="max_length", max_length=length, truncation=True, return_tensors="pt").input_ids}
        return {**out, **r.tensors()}
    finish(d, name, "pipelines.flux", "the network reads no guidance; sigmas linspace(1, 1/n, n), shift 1", {"latents_unpacked": latents, "latents": packed},
           {"prompt": PROMPT, "steps": steps, "guidance_scale": 0.0, "height": 64, "width": 80, "max_sequence_length": length}, run)


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--tokenizers", required=True)
    a.add_argument("--out", required=True)
    o = a.parse_args()
    sdxl(o)
    schnell(o)
