# The head of beside.sh and homes.sh, which set `steps`, the file of what is measured, and `turns`, and source it.
set -euo pipefail
out=${REAL:?names the folder of shapes} python=${PYTHON:?names one with torch, diffusers, transformers and peft}
go build -o "$out/realsteps" ./internal/realsteps
steps=$out/$steps
rm -f "$steps"
uptime >&2

beside() { # NAME MODEL OPTIONS..., and -- OPTIONS of ours alone
	local name=$1 model=$2 both=()
	shift 2
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		both+=("$1")
		shift
	done
	local variant=false
	if [ $# -gt 0 ]; then
		shift
		variant=true # left out of means
	fi
	for _ in $(seq "$turns"); do
		echo "$name" >&2
		echo "{\"name\": \"$name\", \"variant\": $variant}" >> "$steps"
		"$out/realsteps" --model "$out/$model" "${both[@]}" "$@" >> "$steps"
		"$python" internal/realsteps/peer.py --model "$out/$model" "${both[@]}" >> "$steps"
	done
}
