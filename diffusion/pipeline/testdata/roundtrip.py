"""Pictures of adapters by diffusers and PEFT, for TestRoundTripWithDiffusers.

    python roundtrip.py REQUEST.json

The request names a pipeline's folder, a prompt, latents to start at, adapters to load ("adapters": a PEFT
folder, a diffusers file) and adapters to make ("make": the same two, with drawn numbers). Into the file "out"
go the pictures [H, W, 3], 0 to 1, by the names of the adapters, and "base" without one.
"""
import json
import os
import sys

import torch


def main():
    import diffusers
    import peft
    import transformers
    from diffusers.training_utils import _collate_lora_metadata
    from peft.utils import get_peft_model_state_dict
    from safetensors.torch import load_file, save_file

    diffusers.utils.logging.disable_progress_bar()
    diffusers.utils.logging.set_verbosity_error()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    ask = json.load(open(sys.argv[1]))
    cls, component = getattr(diffusers, ask["class"]), ask["component"]
    latents = load_file(ask["latents"])["latents"]
    pictures = {}

    def fresh():
        pipe = cls.from_pretrained(ask["folder"], torch_dtype=torch.float32, local_files_only=True)
        pipe.set_progress_bar_config(disable=True)
        return pipe, getattr(pipe, component)

    def draw(name, pipe):
        with torch.no_grad():
            image = pipe(latents=latents.clone(), output_type="pt", **ask["call"]).images[0]
        pictures[name] = image.permute(1, 2, 0).contiguous()

    def scatter(net, seed):
        rng = torch.Generator().manual_seed(seed)
        for name, p in sorted(net.named_parameters()):
            if "lora_" in name:
                p.data = 0.1 * torch.randn(p.shape, generator=rng)

    pipe, _ = fresh()
    draw("base", pipe)

    for name, path in ask["adapters"].items():
        pipe, net = fresh()
        if os.path.isdir(path):
            peft.PeftModel.from_pretrained(net, path)  # its layers go into net itself
        else:
            pipe.load_lora_weights(path)
        assert any("lora_A" in n for n, _ in net.named_parameters()), name + ": no layer has an adapter"
        draw(name, pipe)

    for i, (name, path) in enumerate(ask["make"].items()):
        pipe, net = fresh()
        config = peft.LoraConfig(**ask["config"][name])
        if name.startswith("peft"):
            model = peft.get_peft_model(net, config)
            scatter(model, 11 + i)
            model.save_pretrained(path)
        else:
            net.add_adapter(config)
            scatter(net, 11 + i)
            said = {component + "_lora_layers": get_peft_model_state_dict(net)}
            if name.endswith("metadata"):
                said.update(_collate_lora_metadata({component: net}))
            cls.save_lora_weights(os.path.dirname(path), weight_name=os.path.basename(path), **said)
        draw(name, pipe)

    versions = {m.__name__: m.__version__ for m in (torch, diffusers, peft, transformers)}
    save_file(pictures, ask["out"], metadata=versions)


main()
