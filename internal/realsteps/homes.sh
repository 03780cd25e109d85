#!/usr/bin/env bash
# Steps on FLUX.1-dev's shape with 2 + 4 blocks in NF4, ours and those of diffusers, bitsandbytes and PEFT in turn
# (make homes-beside): the same folder below $REAL, of each side TURNS processes.
steps=homes.jsonl turns=${TURNS:-3}
. internal/realsteps/turns.sh
for size in ${SIZES:-256 512}; do
	beside "FLUX.1-dev, 2 + 4 blocks in NF4, $size x $size" flux-2-nf4 --size "$size"
done
"$python" internal/realsteps/table.py "$steps" | tee "$out/homes.md"
uptime >&2
