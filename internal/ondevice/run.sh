#!/usr/bin/env bash
# All that a CUDA device has to show, one thing after another: the conformance suite in every mode, recorded models, products,
# attention and iterations beside PyTorch's, and the quickstart. Nothing that fails keeps the rest from being run.
#
#   make device                            # here: the programs, into runs/device
#   runs/device/run.sh OUT [STEP...]       # there, from the repository's root: logs and JSON go to OUT
#
# Models and kernels are read from the repository. Where 64 MiB may travel and it has grown beyond 52, recorded cases of
# other things than models stay behind (git sparse-checkout disable brings them back):
#
#   git sparse-checkout set --no-cone '/*' '!/cmd/parity/testdata/*' '/cmd/parity/testdata/golden/models/'
#
# STEPs are suite parity kernels iteration quickstart profile real; the first five take about ten minutes. real.sh has the last,
# which takes six more, and 70 GB of /dev/shm (SHAPES names another folder). Where PyTorch is missing (PYTHON names a
# python that has it, with diffusers and peft for iterations) the times stand alone.
#
# "auto", which --device is by default, is cuda:0 on a Hopper. So work of the CPU that runs beside these steps needs
# --device cpu: otherwise it takes the device as well, and times of both are wrong.
set -uo pipefail
out=${1:?a folder for logs}; shift
steps=${*:-suite parity kernels iteration quickstart}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
mkdir -p "$out"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for f in all cuda.test; do
	xz -dc "$here/$f.xz" >"$bin/$f" || "$python" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$here/$f.xz" "$bin/$f"
	chmod +x "$bin/$f"
done
for f in darkroom parity shapes realsteps; do
	ln "$bin/all" "$bin/$f" # the one program does what its name says
done

# step NAME SECONDS COMMAND...: its output goes to a log, and the end of it here.
step() {
	local name=$1 limit=$2 start=$SECONDS status
	shift 2
	echo "=== $name: $*"
	timeout "$limit" "$@" >"$out/$name.log" 2>&1
	status=$?
	tail -n "${LINES_OF_A_STEP:-12}" "$out/$name.log" | cut -c1-200
	echo "--- $name: status $status, $((SECONDS - start)) s"
	return $status
}
# peer NAME: what PyTorch takes, as a file, and the flag that names it; nothing where it cannot be had.
against=()
peer() {
	against=()
	timeout 240 "$python" "$here/peer.py" "$1" >"$out/peer-$1.json" 2>"$out/peer-$1.log" && against=(--against "$out/peer-$1.json") ||
		{ echo "no times of PyTorch:"; tail -n 2 "$out/peer-$1.log"; }
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
LINES_OF_A_STEP=40 step doctor 60 "$bin/darkroom" doctor
for s in $steps; do
	case $s in
	suite) # the modes one by one: a kernel that hangs costs its own mode alone
		for mode in exact own,mma own lt; do
			step "suite-$mode" 100 "$bin/cuda.test" -test.run "Hardware/^$mode\$" -test.v -test.timeout 95s
			grep -E '^ *--- FAIL|panic|by wgmma|by mma|self-check|cuBLASLt' "$out/suite-$mode.log" | head -40
			printf '%s of its cases passed, %s failed\n' "$(grep -c -E '^ {8,}--- PASS' "$out/suite-$mode.log")" "$(grep -c -E '^ {8,}--- FAIL' "$out/suite-$mode.log")"
		done
		;;
	parity) step parity 200 "$bin/parity" --device cuda:0 cmd/parity/testdata/golden/models ;;
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
	profile) # what one iteration's kernels take, by name
		DARKROOM_CUDA=own step profile 200 ncu --clock-control none --metrics gpu__time_duration.sum --print-summary per-kernel --csv --log-file "$out/profile.csv" --launch-skip 2000 --launch-count 4000 \
			"$bin/darkroom" bench iteration --worker grpo:bf16 --device cuda:0 --repeat 1
		;;
	real) . "$here/real.sh" ;;
	quickstart) step quickstart 400 "$bin/darkroom" train --example quickstart --device cuda:0 --out "$out/quickstart" ;;
	*) echo "there is no step $s" ;;
	esac
done
