"""Recorded conversions of checkpoints that are one file (diffusion/single), by diffusers' own functions.

    pip install torch diffusers transformers safetensors
    python3 internal/oracle/single.py --models runs/models --sd35 FOLDER-OF-A-SMALL-SD3.5 --out diffusion/single/testdata

For each architecture the names and shapes of a small folder are put back to what authors publish, filled with numbers
that follow from their names, and converted by diffusers. What is recorded is the names and shapes of the file, and of each
converted tensor its name, shape and the SHA-256 of its bytes: the file itself is made anew by the test.
"""
import argparse, glob, gzip, hashlib, inspect, json, os, re, zlib

import diffusers
import torch
from diffusers.loaders import single_file_utils as u
from safetensors import safe_open

BACK = {"norm1": "in_layers.0", "conv1": "in_layers.2", "norm2": "out_layers.0", "conv2": "out_layers.3", "time_emb_proj": "emb_layers.1", "conv_shortcut": "skip_connection"}


def shapes(folder):
    all = {}
    for path in sorted(p for p in glob.glob(folder + "/*.safetensors") if "model" in os.path.basename(p)):
        with safe_open(path, "pt") as f:
            all.update({k: list(f.get_slice(k).get_shape()) for k in f.keys()})
    return all


def numbers(name, shape):
    n = 1
    for d in shape:
        n *= d
    return ((torch.arange(n, dtype=torch.int64) + zlib.crc32(name.encode())) % (1 << 24)).to(torch.float32).reshape(shape)


def rename(key, pairs):
    for a, b in pairs:
        if key.startswith(a):
            return b + key[len(a):]
    return None


def unet(keys, layers):
    per, out = layers + 1, {}
    top = [("time_embedding.linear_1.", "time_embed.0."), ("time_embedding.linear_2.", "time_embed.2."), ("add_embedding.linear_1.", "label_emb.0.0."),
           ("add_embedding.linear_2.", "label_emb.0.2."), ("conv_in.", "input_blocks.0.0."), ("conv_norm_out.", "out.0."), ("conv_out.", "out.2.")]

    def resnet(rest):
        a, b = rest.split(".", 1)
        return BACK[a] + "." + b

    attentive = {int(k.split(".")[1]) for k in keys if k.startswith("up_blocks") and ".attentions." in k}
    for k, shape in keys.items():
        if to := rename(k, top):
            pass
        elif m := re.match(r"mid_block\.(resnets|attentions)\.(\d)\.(.*)", k):
            to = f"middle_block.{1 if m[1] == 'attentions' else 2 * int(m[2])}." + (m[3] if m[1] == "attentions" else resnet(m[3]))
        elif m := re.match(r"down_blocks\.(\d+)\.(resnets|attentions|downsamplers)\.(\d+)\.(.*)", k):
            at = int(m[1]) * per + 1 + (layers if m[2] == "downsamplers" else int(m[3]))
            to = f"input_blocks.{at}." + {"resnets": "0.", "attentions": "1.", "downsamplers": "0.op."}[m[2]] + (resnet(m[4]) if m[2] == "resnets" else m[4].removeprefix("conv.") if m[2] == "downsamplers" else m[4])
        else:
            m = re.match(r"up_blocks\.(\d+)\.(resnets|attentions|upsamplers)\.(\d+)\.(.*)", k)
            at = int(m[1]) * per + (layers if m[2] == "upsamplers" else int(m[3]))
            to = f"output_blocks.{at}." + {"resnets": "0.", "attentions": "1.", "upsamplers": "2." if int(m[1]) in attentive else "1."}[m[2]] + (resnet(m[4]) if m[2] == "resnets" else m[4])
        out["model.diffusion_model." + to] = shape
    return out


def vae(keys, prefix):
    levels, out = 1 + max(int(k.split(".")[2]) for k in keys if k.startswith("decoder.up_blocks")), {}
    for k, shape in keys.items():
        to = k.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out").replace("mid_block.resnets.0", "mid.block_1").replace("mid_block.resnets.1", "mid.block_2")
        if ".mid_block.attentions.0." in k:
            half, rest = k.split(".mid_block.attentions.0.")
            to = half + ".mid.attn_1." + rename(rest, [("group_norm.", "norm."), ("to_q.", "q."), ("to_k.", "k."), ("to_v.", "v."), ("to_out.0.", "proj_out.")])
            shape = shape + [1, 1] if rest.endswith("weight") and "norm" not in rest else shape
        elif m := re.match(r"encoder\.down_blocks\.(\d+)\.(resnets|downsamplers)\.(\d+)\.(.*)", to):
            to = f"encoder.down.{m[1]}." + (f"block.{m[3]}." if m[2] == "resnets" else "downsample.") + m[4]
        elif m := re.match(r"decoder\.up_blocks\.(\d+)\.(resnets|upsamplers)\.(\d+)\.(.*)", to):
            to = f"decoder.up.{levels - 1 - int(m[1])}." + (f"block.{m[3]}." if m[2] == "resnets" else "upsample.") + m[4]
        out[prefix + to] = shape
    return out


def joined(out, at, parts, shape):
    """Notes a layer that is several of diffusers'."""
    out[at] = [sum(parts)] + shape[1:]


def sd3(keys):
    out = {}
    simple = [("pos_embed.pos_embed", "pos_embed"), ("pos_embed.proj.", "x_embedder.proj."), ("time_text_embed.timestep_embedder.linear_1.", "t_embedder.mlp.0."),
              ("time_text_embed.timestep_embedder.linear_2.", "t_embedder.mlp.2."), ("time_text_embed.text_embedder.linear_1.", "y_embedder.mlp.0."),
              ("time_text_embed.text_embedder.linear_2.", "y_embedder.mlp.2."), ("context_embedder.", "context_embedder."), ("norm_out.linear.", "final_layer.adaLN_modulation.1."), ("proj_out.", "final_layer.linear.")]
    block = [("attn.norm_q.", "x_block.attn.ln_q."), ("attn.norm_k.", "x_block.attn.ln_k."), ("attn.norm_added_q.", "context_block.attn.ln_q."), ("attn.norm_added_k.", "context_block.attn.ln_k."),
             ("attn.to_out.0.", "x_block.attn.proj."), ("attn.to_add_out.", "context_block.attn.proj."), ("attn2.norm_q.", "x_block.attn2.ln_q."), ("attn2.norm_k.", "x_block.attn2.ln_k."),
             ("attn2.to_out.0.", "x_block.attn2.proj."), ("norm1.linear.", "x_block.adaLN_modulation.1."), ("norm1_context.linear.", "context_block.adaLN_modulation.1."),
             ("ff.net.0.proj.", "x_block.mlp.fc1."), ("ff.net.2.", "x_block.mlp.fc2."), ("ff_context.net.0.proj.", "context_block.mlp.fc1."), ("ff_context.net.2.", "context_block.mlp.fc2.")]
    for k, shape in keys.items():
        if m := re.match(r"transformer_blocks\.(\d+)\.(.*)", k):
            at = f"joint_blocks.{m[1]}."
            if q := re.match(r"(attn2?)\.to_([qkv])\.(.*)", m[2]):
                joined(out, at + f"x_block.{q[1]}.qkv.{q[3]}", [shape[0]] * 3, shape)
            elif q := re.match(r"attn\.add_([qkv])_proj\.(.*)", m[2]):
                joined(out, at + f"context_block.attn.qkv.{q[2]}", [shape[0]] * 3, shape)
            else:
                out[at + rename(m[2], block)] = shape
        else:
            out[rename(k, simple)] = shape
    return {"model.diffusion_model." + k: v for k, v in out.items()}


def flux(keys):
    out = {}
    simple = [("time_text_embed.timestep_embedder.linear_1.", "time_in.in_layer."), ("time_text_embed.timestep_embedder.linear_2.", "time_in.out_layer."), ("time_text_embed.text_embedder.linear_1.", "vector_in.in_layer."),
              ("time_text_embed.text_embedder.linear_2.", "vector_in.out_layer."), ("time_text_embed.guidance_embedder.linear_1.", "guidance_in.in_layer."), ("time_text_embed.guidance_embedder.linear_2.", "guidance_in.out_layer."),
              ("context_embedder.", "txt_in."), ("x_embedder.", "img_in."), ("norm_out.linear.", "final_layer.adaLN_modulation.1."), ("proj_out.", "final_layer.linear.")]
    double = [("norm1.linear.", "img_mod.lin."), ("norm1_context.linear.", "txt_mod.lin."), ("attn.norm_q.weight", "img_attn.norm.query_norm.scale"), ("attn.norm_k.weight", "img_attn.norm.key_norm.scale"),
              ("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"), ("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"), ("ff.net.0.proj.", "img_mlp.0."), ("ff.net.2.", "img_mlp.2."),
              ("ff_context.net.0.proj.", "txt_mlp.0."), ("ff_context.net.2.", "txt_mlp.2."), ("attn.to_out.0.", "img_attn.proj."), ("attn.to_add_out.", "txt_attn.proj.")]
    alone = [("norm.linear.", "modulation.lin."), ("attn.norm_q.weight", "norm.query_norm.scale"), ("attn.norm_k.weight", "norm.key_norm.scale"), ("proj_out.", "linear2.")]
    for k, shape in keys.items():
        if m := re.match(r"transformer_blocks\.(\d+)\.(.*)", k):
            at = f"double_blocks.{m[1]}."
            if q := re.match(r"attn\.to_([qkv])\.(.*)", m[2]):
                joined(out, at + "img_attn.qkv." + q[2], [shape[0]] * 3, shape)
            elif q := re.match(r"attn\.add_([qkv])_proj\.(.*)", m[2]):
                joined(out, at + "txt_attn.qkv." + q[2], [shape[0]] * 3, shape)
            else:
                out[at + rename(m[2], double)] = shape
        elif m := re.match(r"single_transformer_blocks\.(\d+)\.(.*)", k):
            at = f"single_blocks.{m[1]}."
            if q := re.match(r"attn\.to_q\.(.*)", m[2]):
                joined(out, at + "linear1." + q[1], [7 * shape[0]], shape)
            elif not re.match(r"attn\.to_[kv]\.|proj_mlp", m[2]):
                out[at + rename(m[2], alone)] = shape
        else:
            out[rename(k, simple)] = shape
    return out


def wrapped(keys):
    """Names of transformers before it left the wrapper out."""
    return {k if k.startswith(("text_model.", "text_projection")) else "text_model." + k: v for k, v in keys.items()}


def open_clip(keys):
    out = {}
    layer = [("layer_norm1.", "ln_1."), ("layer_norm2.", "ln_2."), ("mlp.fc1.", "mlp.c_fc."), ("mlp.fc2.", "mlp.c_proj."), ("self_attn.out_proj.", "attn.out_proj.")]
    simple = [("text_model.embeddings.position_embedding.weight", "positional_embedding"), ("text_model.embeddings.token_embedding.", "token_embedding."), ("text_model.final_layer_norm.", "ln_final."), ("text_projection.weight", "text_projection")]
    for k, shape in wrapped(keys).items():
        if m := re.match(r"text_model\.encoder\.layers\.(\d+)\.(.*)", k):
            at = f"transformer.resblocks.{m[1]}."
            if q := re.match(r"self_attn\.[qkv]_proj\.(.*)", m[2]):
                joined(out, at + "attn.in_proj_" + q[1], [shape[0]] * 3, shape)
            else:
                out[at + rename(m[2], layer)] = shape
        elif to := rename(k, simple):
            out[to] = shape[::-1] if to == "text_projection" else shape
    return {**out, "logit_scale": []}


def below(prefix, keys):
    return {prefix + k: v for k, v in keys.items()}


def config(folder):
    return json.load(open(folder + "/config.json"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("models", "sd35", "out"):
        p.add_argument("--" + name, required=True)
    a = p.parse_args()
    at = lambda family, part: f"{a.models}/pipe_{family}/{part}"
    text = lambda *where: wrapped(shapes(at(*where)))
    narrow = config(at("flux", "transformer"))
    exec(inspect.getsource(u.convert_flux_transformer_checkpoint_to_diffusers).replace("3072", str(narrow["num_attention_heads"] * narrow["attention_head_dim"])), vars(u))

    def clip_l(checkpoint, prefix=None):
        return u.convert_ldm_clip_checkpoint(checkpoint, prefix)

    def eye(checkpoint):
        out = clip_l(checkpoint, "text_encoders.clip_l.transformer.")
        return {**out, "text_projection.weight": torch.eye(out["text_model.embeddings.position_embedding.weight"].shape[-1])}

    class bigG:  # what convert_open_clip_checkpoint reads of a model
        pass
    kinds = {
        "sd15": ({**unet(shapes(at("sd15", "unet")), config(at("sd15", "unet"))["layers_per_block"]), **vae(shapes(at("sd15", "vae")), "first_stage_model."), **below("cond_stage_model.transformer.", text("sd15", "text_encoder"))},
                 {"unet": lambda c: u.convert_ldm_unet_checkpoint(c, config(at("sd15", "unet"))), "vae": lambda c: u.convert_ldm_vae_checkpoint(c, config(at("sd15", "vae"))), "text_encoder": clip_l}),
        "sdxl": ({**unet(shapes(at("sdxl", "unet")), config(at("sdxl", "unet"))["layers_per_block"]), **vae(shapes(at("sdxl", "vae")), "first_stage_model."), **below("conditioner.embedders.0.transformer.", text("sdxl", "text_encoder")),
                  **below("conditioner.embedders.1.model.", open_clip(shapes(at("sdxl", "text_encoder_2"))))},
                 {"unet": lambda c: u.convert_ldm_unet_checkpoint(c, config(at("sdxl", "unet"))), "vae": lambda c: u.convert_ldm_vae_checkpoint(c, config(at("sdxl", "vae"))), "text_encoder": clip_l,
                  "text_encoder_2": lambda c: u.convert_open_clip_checkpoint(bigG, c, "conditioner.embedders.1.model.")}),
        "sd3": ({**sd3(shapes(a.sd35)), **vae(shapes(at("sd3", "vae")), "first_stage_model."), **below("text_encoders.clip_l.transformer.", text("sd3", "text_encoder")), **below("text_encoders.clip_g.transformer.", text("sd3", "text_encoder_2")),
                 **below("text_encoders.t5xxl.transformer.", shapes(at("sd3", "text_encoder_3")))},
                {"transformer": u.convert_sd3_transformer_checkpoint_to_diffusers, "vae": lambda c: u.convert_ldm_vae_checkpoint(c, config(at("sd3", "vae"))), "text_encoder": eye,
                 "text_encoder_2": lambda c: clip_l(c, "text_encoders.clip_g.transformer."), "text_encoder_3": u.convert_sd3_t5_checkpoint_to_diffusers}),
        "flux": (flux(shapes(at("flux", "transformer"))), {"transformer": u.convert_flux_transformer_checkpoint_to_diffusers}),
    }
    record = {"source": f"diffusers=={diffusers.__version__}: loaders/single_file_utils.py", "kinds": {}}
    for kind, (file, parts) in kinds.items():
        case = {"layers_per_block": config(at(kind, "unet"))["layers_per_block"] if kind in ("sd15", "sdxl") else 2, "file": file, "parts": {}}
        for part, convert in parts.items():
            made = convert({k: numbers(k, s) for k, s in file.items()})
            case["parts"][part] = {k: [list(t.shape), hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest()] for k, t in sorted(made.items())}
            print(kind, part, len(made))
        record["kinds"][kind] = case
    os.makedirs(a.out, exist_ok=True)
    with gzip.GzipFile(os.path.join(a.out, "converted.json.gz"), "wb", mtime=0) as f:
        f.write(json.dumps(record, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
