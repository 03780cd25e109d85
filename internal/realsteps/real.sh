#!/usr/bin/env bash
# Steps of ours and of diffusers in turn, and whole runs under several budgets, on the folders below $REAL (make real).
set -euo pipefail
out=${REAL:?names the folder of shapes} python=${PYTHON:?names one with torch, diffusers and peft}
go build -o "$out/darkroom" ./cmd/darkroom
go build -o "$out/realsteps" ./internal/realsteps

uptime | tee -a "$out/steps.jsonl" >&2
steps() { # MODEL OPTIONS...
	local model=$1
	shift
	"$out/realsteps" --model "$out/$model" "$@" | tee -a "$out/steps.jsonl"
	"$python" internal/realsteps/peer.py --model "$out/$model" "$@" | tee -a "$out/steps.jsonl"
}
steps sd3.5-medium --precision bf16
steps sd3.5-medium --precision f32
steps sd1.5 --precision bf16 --full
steps qwen-image-6 --precision f32
steps wan2.1-1.3b --precision bf16 --size 256 --frames 17 --decode --decoder f32 --repeat 2

# trained FILE MEMORY: its peak beside the plan's, and the sums of what it wrote.
trained() {
	local run=$out/run-$2
	"$out/darkroom" plan internal/realsteps/"$1" --set model.path="$out/sd3.5-medium" --set run.memory="$2" | grep -A3 '^memory' || true
	rm -rf "$run"
	"$out/darkroom" train internal/realsteps/"$1" --set model.path="$out/sd3.5-medium" --set run.memory="$2" --out "$run" &
	local process=$! peak=0 now
	while now=$(awk '/VmHWM/ { print $2 }' "/proc/$process/status" 2>/dev/null) && [ -n "$now" ]; do
		peak=$now
		sleep 1
	done
	wait "$process"
	echo "run.memory = $2: peak $((peak / 1024)) MiB"
	(cd "$run" && find . -name 'adapter_model.safetensors' -o -name ledger.jsonl | sort | xargs sha256sum)
}
for memory in 16GiB 10GiB 6GiB; do
	trained mixgrpo.toml "$memory" | tee "$out/budget-$memory.txt"
done
sums() { grep -E '^[0-9a-f]{64} ' "$out/budget-$1.txt"; }
for memory in 10GiB 6GiB; do
	if [ "$(sums 16GiB)" = "$(sums "$memory")" ]; then
		echo "16GiB and $memory: the same bytes"
	else
		echo "16GiB and $memory: other bytes" >&2
		exit 1
	fi
done | tee "$out/budgets.txt"
