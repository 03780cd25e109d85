#!/usr/bin/env bash
# Compiles src/all.cu for devices, and src/hopper.cu for compute capability 9.0 alone, and writes images/*.xz and
# images/sources.sha256.
#
# It needs a C++ compiler, pip, unzip and xz, and fetches NVIDIA's compilers as Python wheels, of fixed
# versions (180 MB, kept in the cache). Nothing of them is needed to build or run the program.
#
# nvcc 13 writes PTX for drivers of CUDA 13. Our kernels need nothing newer than PTX 8.0, so its
# version line is lowered - which ptxas of CUDA 12.9 then checks - and its hints that are newer are
# left out. The machine code is that ptxas's too, and so runs on drivers from 525 (CUDA 12.0) on.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${XDG_CACHE_HOME:-$HOME/.cache}/darkroom-nvcc
if [ ! -x "$tools/nvidia/cu13/bin/nvcc" ]; then
	mkdir -p "$tools/wheels"
	pip download -q --no-deps --only-binary=:all: -d "$tools/wheels" nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 \
		nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvcc-cu12==12.9.86
	for wheel in "$tools"/wheels/*.whl; do unzip -qo "$wheel" -d "$tools"; done
	chmod +x "$tools"/nvidia/cu13/bin/* "$tools"/nvidia/cu13/nvvm/bin/* "$tools"/nvidia/cuda_nvcc/bin/*
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# -ftz, -prec-div, -prec-sqrt and -fmad are part of the arithmetic: see src/device.h.
compile() { # source, architecture, PTX
	"$tools/nvidia/cu13/bin/nvcc" -std=c++17 -O3 -ftz=true -prec-div=true -prec-sqrt=true -fmad=false \
		-gencode=arch=compute_$2,code=compute_$2 --ptx "src/$1.cu" -o "$work/new.ptx"
	# The hash in names of its own differs from folder to folder.
	sed -E -e 's/^\.version 9\.0/.version 8.0/' -e '/used_bytes_mask/d' -e 's/_INTERNAL_[0-9a-f]{8}_/_INTERNAL_/g' "$work/new.ptx" >"$work/$3"
}
compile all 80 ptx
compile all 90 ptx_90 # kernels that start beside the end of others: not shipped
compile hopper 90a ptx_90a
for arch in sm_80 sm_90 sm_100 sm_90a; do
	case $arch in
	sm_80) ptx=ptx ;;
	sm_90a) ptx=ptx_90a ;;
	*) ptx=ptx_90 ;;
	esac
	"$tools/nvidia/cuda_nvcc/bin/ptxas" -O3 -v -arch=$arch "$work/$ptx" -o "$work/$arch" 2>"$work/$arch.log"
	printf '%s: most registers %s, spilling kernels %s\n' $arch \
		"$(grep -o 'Used [0-9]*' "$work/$arch.log" | cut -d' ' -f2 | sort -n | tail -1)" \
		"$(grep -c ' [1-9][0-9]* bytes spill stores' "$work/$arch.log" || true)"
done
# Registers that do not change hands (C7508), products that wait for each other (C7510 and on), or a spill,
# would cost what these kernels are for.
if grep -E 'C75[0-9]+|[1-9][0-9]* bytes spill' "$work/sm_90a.log"; then exit 1; fi
mkdir -p images
# A dictionary as long as the longest image: kernels have much in common that lies far apart. Instructions have 16 bytes.
pack() { # xz's settings, images
	local settings=$1 image
	shift
	for image; do xz -c --lzma2=preset=9e,dict=8MiB,$settings "$work/$image" >images/$image.xz; done
}
pack pb=0 ptx ptx_90a
pack lc=0,lp=4,pb=4 sm_80 sm_90 sm_100 sm_90a
cat src/*.cu src/*.h gen/build.sh | sha256sum | cut -d' ' -f1 >images/sources.sha256
du -bc images/*.xz | tail -1
