# What models of published sizes take, with random weights: whole MixGRPO iterations through 'darkroom train', steps and answers by
# realsteps, and diffusers and transformers beside them. A part of run.sh, whose functions it calls.
shapes=${SHAPES:-/dev/shm/shapes}
mkdir -p "$shapes"
for s in sd3.5-medium flux.1-dev wan2.1-1.3b qwen-image-6 qwen2.5-vl-7b; do
	[ -e "$shapes/$s" ] || step "shape-$s" 120 "$bin/shapes" --as "$s" --out "$shapes/$s"
done
# trained MODEL: seconds of its iterations.
trained() {
	step "train-$1" 200 "$bin/darkroom" train "$here/$1.toml" --set "model.path=$shapes/$1" --device cuda:0 --out "$out/train-$1"
	cat "$out/train-$1/timing.jsonl"
}
# steps MODEL OPTIONS...: a line of JSON a batch.
steps() {
	local model=$1
	shift
	LINES_OF_A_STEP=5 step "steps-$model$(printf %s "$*" | tr -c 'a-z0-9' -)" 90 "$bin/realsteps" --device cuda:0 --model "$shapes/$model" --repeat 3 "$@"
}
trained sd3.5-medium
trained flux.1-dev
steps sd3.5-medium --size 512 --batch 1,4,16
steps flux.1-dev --size 720 --rank 64 --batch 1,2,4
steps qwen-image-6 --size 512 --batch 1,4
steps wan2.1-1.3b --width 416 --height 240 --frames 33 --batch 1,4
steps wan2.1-1.3b --width 832 --height 480 --frames 81 --batch 1 --checkpoint
steps qwen2.5-vl-7b --talk --prompt 512 --answer 32 --batch 1,8,32
LINES_OF_A_STEP=30 step realpeer 240 "$python" "$here/realpeer.py"
