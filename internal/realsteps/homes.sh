#!/usr/bin/env bash
# Steps on FLUX.1-dev's shape with 2 + 4 blocks in NF4, ours and those of diffusers, bitsandbytes and PEFT in turn
# (make homes-beside): the same folder below $REAL, of each side TURNS processes.
set -euo pipefail
out=${REAL:?names the folder of shapes} python=${PYTHON:?names one with torch, diffusers, bitsandbytes and peft} turns=${TURNS:-3}
go build -o "$out/realsteps" ./internal/realsteps
steps=$out/homes.jsonl
rm -f "$steps"
uptime >&2
for size in ${SIZES:-256 512}; do
	echo "{\"name\": \"FLUX.1-dev, 2 + 4 blocks in NF4, $size x $size\", \"variant\": false}" >> "$steps"
	for _ in $(seq "$turns"); do
		"$out/realsteps" --model "$out/flux-2-nf4" --size "$size" >> "$steps"
		"$python" internal/realsteps/peer.py --model "$out/flux-2-nf4" --size "$size" >> "$steps"
	done
done
"$python" internal/realsteps/table.py "$steps" | tee "$out/homes.md"
uptime >&2
