#!/usr/bin/env bash
# All that a CUDA device has to show, in one call of at most 560 s (LIMIT names another number): what decides comes first,
# each step has a limit and a log of its own, and nothing that fails or hangs keeps the rest from being run.
#
#   make device                            # here: the bundle, into runs/device
#   runs/device/run.sh OUT [STEP...]       # there, from the repository's root: logs and JSON go to OUT
#
# STEPs, in the usual order: doctor own tiles flux lt steps sd3 talk wan nccl homes sanitizer ncu exact quickstart. Beside
# them, on a second call: trial verify long parity kernels iteration mma realpeer (PyTorch in turn, where PYTHON names one
# that has it with diffusers and peft).
#
# Folders of published sizes with random weights are drawn on the host meanwhile, into SHAPES (/dev/shm/shapes: 24 GB for
# FLUX, 15 for Qwen2.5-VL-7B). MOCK=1 takes embedded models in their place: it shows that each step starts, here with
# DARKROOM_LIBCUDA naming the double of the driver.
#
# Models and kernels are read from the repository. Where 64 MiB may travel and it has grown beyond 52, recorded cases of
# other things than models stay behind (git sparse-checkout disable brings them back):
#
#   git sparse-checkout set --no-cone '/*' '!/internal/golden/*' '/internal/golden/models/'
#
# "auto", which --device is by default, is cuda:0 on a Hopper. So work of the CPU that runs beside these steps needs
# --device cpu: otherwise it takes the device as well, and times of both are wrong.
set -uo pipefail
out=${1:?a folder for logs}; shift
steps=${*:-doctor own tiles flux lt steps sd3 talk wan nccl homes sanitizer ncu exact quickstart}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
mock=${MOCK:-}
limit=${LIMIT:-560}
shapes=${SHAPES:-/dev/shm/shapes}
mkdir -p "$out"
bin=$(mktemp -d)
drawing=
trap 'rm -rf "$bin"; [ -z "$drawing" ] || kill "$drawing" 2>/dev/null' EXIT
for f in all cuda.test; do
	xz -dc "$here/$f.xz" >"$bin/$f" || "$python" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$here/$f.xz" "$bin/$f"
	chmod +x "$bin/$f"
done
for f in darkroom parity shapes realsteps; do
	ln "$bin/all" "$bin/$f" # the one program does what its name says
done

# step NAME SECONDS COMMAND...: its output goes to a log, and the end of it here. No step goes on beyond the whole limit.
step() {
	local name=$1 most=$2 start=$SECONDS status
	shift 2
	[ "$most" -le $((limit - SECONDS)) ] || most=$((limit - SECONDS))
	if [ "$most" -lt 5 ]; then
		echo "--- $name: left out: $SECONDS of $limit s are over"
		return 1
	fi
	echo "=== $name: $*"
	timeout -k 5 "$most" "$@" >"$out/$name.log" 2>&1
	status=$?
	tail -n "${LINES_OF_A_STEP:-12}" "$out/$name.log" | cut -c1-200
	echo "--- $name: status $status, $((SECONDS - start)) s"
	return $status
}
# drawn NAME: waits until a folder is whole, and says so where it does not come.
drawn() {
	[ -n "$mock" ] && return
	for ((i = 0; i < 60 && SECONDS < limit - 30; i++)); do
		[ -e "$shapes/$1/whole" ] && return
		sleep 1
	done
	echo "--- $1: not drawn within a minute of waiting: $(tail -n 1 "$out/shapes.log")"
	return 1
}
# folder NAME: where a model lies.
folder() {
	case $mock$1 in
	1qwen*) echo "embed:tiny-vlm" ;;
	1wan*) echo "embed:tiny-wan" ;;
	1*) echo "embed:tiny-sd3" ;;
	*) echo "$shapes/$1" ;;
	esac
}
# trained NAME SECONDS OPTIONS...: an experiment of this folder; seconds of its iterations, and memory beside plan's.
trained() {
	local name=$1 most=$2 as=${3:-}
	shift 3
	drawn "$name" || return
	local small=()
	[ -z "$mock" ] || small=(--set sampler.width=64 --set sampler.height=64 --set sampler.steps=8 --set sampler.guidance=1 --set rollout.group=2 --set run.iterations=1)
	"$bin/darkroom" plan "$here/$name.toml" --set "model.path=$(folder "$name")" "${small[@]}" --json >"$out/plan-$name.json" 2>/dev/null
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 >"$out/memory-$name$as.txt" 2>/dev/null &
	local watching=$!
	step "train-$name$as" "$most" "$bin/darkroom" train "$here/$name.toml" --set "model.path=$(folder "$name")" "$@" "${small[@]}" --device cuda:0 --out "$out/train-$name$as"
	kill "$watching" 2>/dev/null
	cat "$out/train-$name$as/timing.jsonl" 2>/dev/null
	echo "most memory of the card: $(sort -n "$out/memory-$name$as.txt" | tail -n 1) MiB; plan, in bytes: $(grep -o '"peak": *[0-9]*' "$out/plan-$name.json" | head -n 1)"
}
# timed NAME LABEL SECONDS OPTIONS...: single steps of a model, a line of JSON a batch.
timed() {
	local name=$1 label=$2 most=$3
	shift 3
	drawn "$name" || return
	local path
	path=$(folder "$name")
	if [ -n "$mock" ]; then # realsteps opens folders alone
		"$bin/darkroom" inspect "$path" >/dev/null # which unpacks it
		path=$(ls -d "${XDG_CACHE_HOME:-$HOME/.cache}/darkroom/${path#embed:}"-* 2>/dev/null | head -n 1)
		set -- "$@" --size 64 --width 64 --height 64 --frames 5 --prompt 16 --answer 4 --batch 1 --rank 4
	fi
	LINES_OF_A_STEP=${LINES_OF_A_STEP:-6} step "steps-$label" "$most" "$bin/realsteps" --device cuda:0 --model "$path" "$@"
}
# peer NAME: what PyTorch takes, as a file, and the flag that names it; nothing where it cannot be had.
against=()
peer() {
	against=()
	timeout 240 "$python" "$here/peer.py" "$1" >"$out/peer-$1.json" 2>"$out/peer-$1.log" && against=(--against "$out/peer-$1.json") ||
		{ echo "no times of PyTorch:"; tail -n 2 "$out/peer-$1.log"; }
}
# suite MODE SECONDS: the conformance suite in one mode.
suite() {
	step "suite-$1" "$2" "$bin/cuda.test" -test.run "Hardware/^$1\$" -test.v
	grep -E '^ *--- FAIL|panic|by wgmma|by mma|self-check|cuBLASLt' "$out/suite-$1.log" | head -40
	printf '%s of its cases passed, %s failed\n' "$(grep -c -E '^ {8,}--- PASS' "$out/suite-$1.log")" "$(grep -c -E '^ {8,}--- FAIL' "$out/suite-$1.log")"
}

if [ -z "$mock" ]; then # in the order in which the steps ask for them
	for s in flux.1-dev sd3.5-medium qwen2.5-vl-7b wan2.1-1.3b; do
		[ -e "$shapes/$s/whole" ] || { rm -rf "${shapes:?}/$s" && "$bin/shapes" --as "$s" --out "$shapes/$s" && : >"$shapes/$s/whole"; }
	done >"$out/shapes.log" 2>&1 &
	drawing=$!
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm --format=csv,noheader
for s in $steps; do
	case $s in
	doctor)
		LINES_OF_A_STEP=40 step doctor 30 "$bin/darkroom" doctor
		df -h /dev/shm | tail -n 1
		"$python" -m pip list 2>/dev/null | grep -i -E '^(torch|diffusers|peft|transformers) ' || echo "no Python packages of the peer"
		ldconfig -p 2>/dev/null | grep -E 'libnccl|libcublasLt' || echo "no libnccl, no libcublasLt by the loader's search"
		;;
	own) suite own 90 ;; # keys' kernels, all tiles, the defaults: where this fails, the rest means little
	mma) suite own,mma 90 ;;
	exact) suite exact 60 ;;
	verify) LINES_OF_A_STEP=30 step verify 90 "$bin/darkroom" doctor --verify --probe=false ;; # the suite as users run it
	tiles) # the tile of 128 x 192 and epilogues, of some 40 shapes: keep it or leave it out
		step tiles 40 "$bin/cuda.test" -test.run 'HopperTimes$' -test.v -times "$out/tiles.csv" -times-of 6
		;;
	trial) # what is asked for by name (DARKROOM_CUDA=trial): the suite with it, and its times beside the default's and PyTorch's
		suite own,trial 100
		LINES_OF_A_STEP=60 step trial-times 60 "$bin/cuda.test" -test.run 'TrialTimes$' -test.v -times 1
		LINES_OF_A_STEP=30 step trial-peer 60 "$python" "$here/peer.py" gradients
		;;
	flux) trained flux.1-dev 110 "" --set run.iterations=2 ;; # the second is without first costs
	lt) DARKROOM_CUDA=lt trained flux.1-dev 60 -lt --set run.iterations=1 ;;
	steps)
		timed flux.1-dev flux 45 --size 720 --rank 64 --batch 1,2,4 --repeat 3
		DARKROOM_CUDA=times LINES_OF_A_STEP=45 timed flux.1-dev flux-times 30 --size 720 --rank 64 --batch 2
		;;
	sd3) # decode's share, a judge in fp32 beside it, two pools of memory
		trained sd3.5-medium 45 "" --set run.iterations=3
		trained sd3.5-medium 30 -clip --set run.iterations=1 --set 'reward=[{name="clip", path="embed:tiny-clip"}]'
		;;
	talk)
		timed qwen2.5-vl-7b talk 40 --talk --prompt 512 --answer 32 --batch 1,8,32,128
		timed qwen2.5-vl-7b talk-draw 35 --talk --prompt 512 --answer 32 --batch 1,8,32,128 --draw
		timed qwen2.5-vl-7b talk-draw-p 35 --talk --prompt 512 --answer 32 --batch 1,8,32,128 --draw --top-p 0.9
		DARKROOM_CUDA=times LINES_OF_A_STEP=30 timed qwen2.5-vl-7b talk-times 20 --talk --prompt 64 --answer 20 --batch 32 --draw --top-p 0.9
		;;
	wan)
		timed wan2.1-1.3b wan 45 --width 832 --height 480 --frames 33 --batch 1 --checkpoint --decode
		;;
	nccl)
		step nccl 20 "$bin/cuda.test" -test.run 'NCCLAlone$' -test.v
		step two-processes 30 bash -c "'$bin/darkroom' train --example quickstart --device cuda:0 --set run.iterations=1 --out '$out/one' & '$bin/darkroom' train --example quickstart --device cuda:0 --set run.iterations=1 --out '$out/two'; wait"
		[ -s "$out/one/ledger.jsonl" ] && cmp "$out/one/ledger.jsonl" "$out/two/ledger.jsonl" && echo "two processes on one device: the same ledger"
		;;
	homes) # weights from pinned memory: copies, and products beside them
		size=1
		[ -z "$mock" ] || size=small
		LINES_OF_A_STEP=30 step homes 60 "$bin/cuda.test" -test.run 'HomesTimes$' -test.v -homes "$size"
		;;
	sanitizer) # what no double sees
		tool=$(command -v compute-sanitizer) || { echo "--- sanitizer: there is no compute-sanitizer"; continue; }
		step memcheck 40 "$tool" --tool memcheck "$bin/cuda.test" -test.run 'Hardware/^own$/Gemm'
		# One attention of each kind: all of them take racecheck minutes.
		step racecheck 60 "$tool" --tool racecheck "$bin/cuda.test" -test.run 'Hardware/^own,mma$/Attention/^bf16$/^bf16$/(33x80x64|2x80x80x64)' -test.v
		;;
	ncu) # tensor pipe, bytes and stalls of products and attention; other kernels pass by unprofiled
		tool=$(command -v ncu) || { echo "--- ncu: there is no ncu"; continue; }
		step ncu 75 "$tool" --clock-control none --section SpeedOfLight --section WarpStateStats --section Occupancy --csv --log-file "$out/ncu.csv" \
			-k 'regex:hopper' --launch-skip "${SKIP:-60}" --launch-count 16 "$bin/darkroom" bench gemm attention --device cuda:0 --mode own --repeat 1
		;;
	long) # 200 iterations: the same bytes after a stop, memory flat, no handle lost
		drawn sd3.5-medium || continue
		side=256
		[ -z "$mock" ] || side=64
		brief=(--set "model.path=$(folder sd3.5-medium)" --set sampler.width=$side --set sampler.height=$side --set sampler.steps=4
			--set sampler.guidance=1 --set rollout.group=4 --set run.iterations="${ITERATIONS:-200}" --set checkpoint.every=20 --device cuda:0)
		nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 500 >"$out/memory-long.txt" 2>/dev/null &
		watching=$!
		step long 90 "$bin/darkroom" train "$here/sd3.5-medium.toml" "${brief[@]}" --out "$out/long"
		kill "$watching" 2>/dev/null
		# Its middle and its end: the same where nothing is lost.
		echo "MiB of the card, every tenth of the run: $(awk '{all[NR]=$1} END{for(i=1;i<=10;i++) printf "%s ", all[int(NR*i/10)]}' "$out/memory-long.txt")"
		timeout -s INT "${STOP:-20}" "$bin/darkroom" train "$here/sd3.5-medium.toml" "${brief[@]}" --out "$out/stopped" >"$out/stopped.log" 2>&1
		wc -l "$out/stopped/ledger.jsonl"
		step long-resumed 90 "$bin/darkroom" train "$out/stopped" --resume --device cuda:0
		cmp "$out/long/ledger.jsonl" "$out/stopped/ledger.jsonl" && echo "after a stop: the same ledger"
		head -n 20 "$out/long/timing.jsonl" | tail -n 1
		tail -n 1 "$out/long/timing.jsonl"
		;;
	parity) step parity 200 "$bin/parity" --device cuda:0 internal/golden/models ;;
	kernels)
		peer kernels
		LINES_OF_A_STEP=120 step kernels 300 "$bin/darkroom" bench gemm attention --device cuda:0 --mode own --mode own,mma --mode lt "${against[@]}"
		;;
	iteration)
		peer iteration
		for mode in own own,mma lt; do
			LINES_OF_A_STEP=60 DARKROOM_CUDA=$mode step "iteration-$mode" 120 "$bin/darkroom" bench iteration --device cuda:0 --parts grpo:bf16 --repeat 7 "${against[@]}"
		done
		;;
	realpeer) LINES_OF_A_STEP=30 step realpeer 240 "$python" "$here/realpeer.py" ;;
	quickstart) step quickstart 120 "$bin/darkroom" train --example quickstart --device cuda:0 --out "$out/quickstart" ;;
	*) echo "there is no step $s" ;;
	esac
done
echo "all steps: $SECONDS of $limit s"
