"""Pictures that diffusers decodes in tiles, for TestTilesAreThoseOfDiffusers.

    python tiled.py FOLDER SIDE LATENTS.safetensors OUT.safetensors

FOLDER is an AutoencoderKL's, SIDE the tiles' in pixels; "latents" [1, C, H, W] are scaled ones. OUT gets "tiled" and
"whole", [H, W, 3].
"""
import sys

import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file

folder, side, latents, out = sys.argv[1:]
torch.set_num_threads(1)
vae = AutoencoderKL.from_pretrained(folder, torch_dtype=torch.float32, local_files_only=True)
c = vae.config
x = load_file(latents)["latents"] / c.scaling_factor + (c.shift_factor or 0)
pictures = {}
with torch.no_grad():
    pictures["whole"] = vae.decode(x).sample
    vae.enable_tiling()
    if int(side) > 0:  # otherwise those of the folder
        vae.tile_sample_min_size = int(side)
        vae.tile_latent_min_size = int(side) // 2 ** (len(c.block_out_channels) - 1)
    pictures["tiled"] = vae.decode(x).sample
save_file({k: v[0].permute(1, 2, 0).contiguous() for k, v in pictures.items()}, out)
