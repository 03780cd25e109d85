#!/usr/bin/env bash
# Work of all kinds, ours and PyTorch's in turn, with the folders below $REAL (make iterations): steps of published and
# smaller shapes, answers of a vision-language model, and whole iterations on the embedded model.
steps=beside.jsonl turns=${TURNS:-2}
. internal/realsteps/turns.sh
beside "SD3, 6 layers, 256 x 256, two" sd3-6 --size 256 --batch 2 --repeat 2
beside "SD3.5-medium" sd3.5-medium
beside "SD3.5-medium, a quarter of blocks again" sd3.5-medium -- --again 1
beside "SD3.5-medium, half of blocks again" sd3.5-medium -- --again 2
beside "SD3.5-medium, fp32" sd3.5-medium --precision f32
beside "SD1.5 in full" sd1.5 --full
beside "SD1.5 in full, lean" sd1.5 --full -- --lean
beside "Wan 1.3B, 17 frames of 256 x 256" wan2.1-1.3b --size 256 --frames 17
beside "Qwen-Image, 6 layers" qwen-image-6
beside "Qwen2.5-VL, 4 layers of 7B" qwen2.5-vl-4 --talk --repeat 2

"$python" internal/realsteps/table.py "$steps" | tee "$out/beside.md"
rm -rf "$out/beside-tiny"
go run ./internal/sidebyside -python "$python" -seeds 1 -iterations 12 -out "$out/beside-tiny" | tee -a "$out/beside.md"
uptime >&2
