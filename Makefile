# Short names for what is done often; plain make prints them. Nothing here is needed to build or test:
# go build ./... and go test ./... do that.

FUZZTIME ?= 30s

.PHONY: help quick check test curves coverage race noasm cross arm lint fuzz fuzz-calls bench bench-beside onnx-beside models kill peer memory methods device exports recipes fleet gradients homes attacks deploy gradients-time real shapes iterations homes-beside presets release hero docs faults soak ptx results nodes published site

help: ## these lines
	@grep -E '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F '\t' '{ printf "%-12s %s\n", $$1, $$2 }'

quick: ## the gate: less than five minutes of two quiet cores
	.ci/run quick

check: ## all that must hold before a change is taken; .ci/run list names the steps
	.ci/run

test: ## go test ./...
	go test ./...

curves: ## both iterations of every shipped experiment's curve, of which go test compares the first
	go test ./trainer/run -count=1 -run 'TestConfigs$$|TestEdit' -long

race: ## the race detector, where goroutines share something
	.ci/run race

noasm: ## kernels without assembly
	.ci/run noasm

cross: ## other systems and processors
	.ci/run cross

# Every kernel of 64-bit Arm, in qemu where this machine is another: all cases of every family beside
# ref, and random shapes. Hours in an emulator; SHAPES says how many.
SHAPES ?= 1000000
ARM_EXEC ?= $(if $(filter aarch64 arm64,$(shell uname -m)),,-exec qemu-aarch64-static)

arm: ## the conformance suite and SHAPES random products, rows and attentions on path neon
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go test $(ARM_EXEC) -count=1 -timeout 12h ./kernels/cpu/... ./video/flow
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go test $(ARM_EXEC) ./kernels/cpu -count=1 -timeout 12h -v -run RandomShapes -shapes $(SHAPES)

nodes: ## the official tests of ONNX's operators, from its Python package
	.ci/run nodes

published: ## networks that packages ship, by name and sum, against the recorded answers of their own runtimes
	.ci/run published

lint: ## staticcheck
	.ci/run staticcheck

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "=== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
		done; \
	done

# What strangers may send or write: ATTACKS changed experiments, and as many changed files of each kind.
ATTACKS ?= 1000

attacks: ## hundreds of changed results, experiments and files; forged words; hubs, rewards and tools that lie
	go test ./trainer/run -count=1 -v -timeout 60m -run TestChangedResults -attacks 646
	go test ./trainer/preflight -count=1 -v -timeout 60m -run 'TestChangedExperiments|TestChangedFiles' -attacks $(ATTACKS)
	go test -count=1 -v -run 'TestForged|TestBounds|TestConnections|TestLocked' ./trainer/fleet/natsio
	go test -count=1 -run TestDeclared ./data/prompts
	go test -count=1 -run 'TestFaults|TestLists|TestRedirect' ./cmd/darkroom/pull
	go test -count=1 -run 'TestExec|TestHTTP' ./rewards
	go test -count=1 -run 'Outside|Environment' ./trainer/conversations

fuzz-calls: ## a million broken calls of tools and a million conversations, the same ones every time
	go test ./vision/tools -count=1 -v -timeout 60m -run TestMutant -mutants 1000000

fleet: ## 100 kills; all fleets and objectives; broken networks; scaling; the scheduler to 1,000 workers, as a table
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run TestFleetKilled -kills 100
	go test ./trainer/run -count=1 -v -timeout 60m -run 'TestFleet$$|TestLag$$' -long
	go test ./trainer/fleet -count=1 -v -timeout 60m -run TestVirtual -long
	go test ./trainer/fleet/natsio -count=1 -v -run 'TestRates|TestCluster' -long
	go test ./trainer/run -count=1 -v -timeout 30m -run 'TestStrongScaling|TestSlowJudge' -long
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run 'TestFleetStreams|TestFleetSlowWire|TestFleetPartition' -long

gradients: ## gradients on workers: 30 kills an objective, and of a server beside; all fleets and objectives; a slow wire; virtual time
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run 'TestGradientsKilled|TestBrokerKilled' -kills 30
	go test ./trainer/fleet -count=1 -v -timeout 30m -run TestVirtualGradients -long
	go test ./trainer/run -count=1 -v -timeout 30m -run TestGradients -long
	go test ./cmd/darkroom -count=1 -v -timeout 30m -run TestGradientsSlowWire -long

gradients-time: ## an iteration with a worker on the second core, beside one without: five pairs on a quiet machine
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run TestGradientsTime -pairs 5

homes: ## frozen matrices in every home, on devices of the driver's double; every preset on compressed models
	go test ./trainer/run -count=1 -v -timeout 60m -run 'TestHomesOfDevices|TestPresetsQuantized' -long

# SCHEMAS are kubeconform's, where those of custom resources are elsewhere.
SCHEMAS ?= -schema-location default -schema-location 'https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'

deploy: ## deploy/ held to the tools of those who read it: kubeconform, shellcheck, hadolint, systemd-analyze, actionlint
	kubeconform -strict -summary $(SCHEMAS) deploy/kubernetes
	shellcheck deploy/slurm/*.sbatch
	hadolint deploy/Containerfile
	systemd-analyze verify deploy/systemd/*.service
	actionlint .github/workflows/*.yml

bench: ## times of this machine
	go run ./cmd/darkroom bench

bench-beside: ## operations of Darkroom and of PyTorch in turn, to docs/measured.md; PYTHON has torch
	go run ./internal/opsbeside -python $(PYTHON)

# Networks that packages ship (internal/oracle), with inputs of the sizes that they meet.
onnx-beside: ## ONNX files in our runner and in onnxruntime in turn; PYTHON has onnxruntime
	@set -e; out=$$(mktemp -d); trap 'rm -r "$$out"' EXIT; $(PYTHON) internal/oracle/published_networks.py "$$out"; \
	go run ./internal/onnxbeside -python $(PYTHON) detector=$$(ls "$$out"/ppocr_det/*.onnx):1x3x640x640 recogniser=$$(ls "$$out"/ppocr_rec/*.onnx):1x3x48x320 \
		classifier=$$(ls "$$out"/ppocr_cls/*.onnx):1x3x48x192 yolo=$$(ls "$$out"/nudenet/*.onnx):1x3x640x640 nsfw=$$(ls "$$out"/open_nsfw/*.onnx):1x224x224x3

# The embedded models, from their recipes: about six hours on two cores. What a folder has beside
# the model (state, pictures on the way) stays behind. tiny-wan-64-noisy goes on where tiny-wan-64 ends.
models: ## the embedded models, from their recipes: six hours
	@set -e; for m in tiny-sd3 tiny-clip tiny-vlm tiny-kontext tiny-wan tiny-wan-64 tiny-wan-64-noisy tiny-mask2former; do \
		if [ $$m = tiny-wan-64-noisy ] && [ ! -e models/$$m ]; then \
			cp -r models/tiny-wan-64 models/$$m; cp assets/$$m/recipe.toml models/$$m; \
		fi; \
		go run ./cmd/darkroom pretrain assets/$$m.toml --out models/$$m; \
		for f in $$(cd assets/$$m && find . -type f); do \
			case $$f in *.gz) gzip -9n < models/$$m/$${f%.gz} > assets/$$m/$$f;; *) cp models/$$m/$$f assets/$$m/$$f;; esac; \
		done; \
	done

release: ## runs/release: an archive for each system, SHA256SUMS, manifests of Homebrew and Scoop
	go run ./internal/release -out runs/release

# The picture of README.md, from a run of the quickstart: three to ten minutes where there is none yet.
hero: ## assets/quickstart.png
	test -f runs/quickstart/result.json || go run ./cmd/darkroom train
	go run ./internal/hero runs/quickstart assets/quickstart.png

docs: ## every command line of README.md and docs, in order, in an empty folder: half an hour of two cores
	go build -o runs/darkroom ./cmd/darkroom
	go run ./internal/pages -darkroom runs/darkroom

site: ## runs/site: README.md and docs as static pages, with search
	go run ./internal/site -out runs/site

faults: kill fuzz-calls ## the long campaigns of docs/faults.md: kills, pauses, little memory, 300 flipped bits, torn ends, a clock that jumps, workers, liars; hours
	go test ./cmd/darkroom -count=1 -v -timeout 120m -run 'TestFaults$$|TestClockJumps$$' -flips 300 -long
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run TestFleetKilled -kills 100
	go test -count=20 -timeout 120m -run 'Killed|Kills|Liar|Lies|Broken|Fails|Lost|Poison|Hedged|Rollback' ./record/folder ./trainer/fleet/... ./rewards/... ./trainer/run

# A run that goes on and on, servers, and runs of all kinds in turn, in one process, at a tenth of a core.
SOAK ?= 2h

soak: ## runs/soak: memory, open files and goroutines over SOAK, as lines and as a drawing
	GOMAXPROCS=1 go test ./cmd/darkroom -count=1 -v -timeout 0 -run 'TestSoak$$' -soak $(SOAK) -soak-out $(CURDIR)/runs/soak

kill: ## runs of pictures, episodes and clips, 40 iterations each, killed 30 times each
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run TestKilled -kills 30

# The same task in PyTorch, diffusers and PEFT beside ours, three seeds in turn: half an hour of a
# quiet machine. PYTHON names one that has them; internal/sidebyside/doc.go says how to make it.
PYTHON ?= peer/bin/python
PEER_OUT ?= runs/peer

peer: ## the same task in PyTorch beside ours
	go run ./internal/sidebyside -python $(PYTHON) -out $(PEER_OUT)

# The PTX that ships, interpreted: the conformance suite in exact mode and on tensor cores, as many cases of each operation
# as fit into so many millions of instructions of warps (MILLIONS), and what they cover.
MILLIONS ?= 20
ptx: ## the PTX that ships, interpreted
	go test ./internal/emulators/ptxtest -v -count=1 -timeout 2h -long
	go test ./kernels/cuda -run PTX -v -count=1 -timeout 6h -ptx $(MILLIONS) | grep -v 'RUN\|PASS: TestPTX.*/'

# What a machine with a CUDA device needs to be asked everything at once, without Go: one program of at most 12 MiB, the
# suite of its kernels and scripts. internal/ondevice/run.sh says how, and what of the repository may stay behind.
device: ## runs/device: what a CUDA device is asked in one go
	go run ./internal/ondevice -out runs/device

# CHECK_TEMPLATES, where it names a folder with published chat templates (trl/chat_templates), asks folders of Qwen's too.
exports: ## what was trained, loaded by diffusers, transformers and PEFT
	go build -o runs/darkroom ./cmd/darkroom
	rm -rf runs/models
	go run ./internal/golden/pack -to runs/models internal/golden/models
	$(PYTHON) internal/exports/check.py runs/darkroom runs/models

recipes: ## every recipe planned from its model's published settings, and the memory of its card
	go test ./cmd/darkroom -count=1 -v -timeout 60m -run 'TestRecipesFit|TestCards' -long

presets: ## ten iterations of every preset on a small model of its kind
	go test ./trainer/run -count=1 -v -timeout 30m -run 'TestPresets$$' -long

coverage: ## an iteration of every row of docs/coverage.md that a file can ask for, on a small model of its kind
	go test ./trainer/run -count=1 -v -timeout 30m -run 'TestCoverage$$' -long

memory: ## peaks of whole runs beside those that plan predicts
	go test ./cmd/darkroom -count=1 -v -run TestPlanMemory -long
	go test ./diffusion/pipeline -count=1 -v -run 'TestNeed$$' -long

# Every method with three seeds, one after another, and a table of all: held-out reward before and
# after, its gain with an interval over seeds, seconds of an iteration and of its parts. About a
# minute or two a run on two quiet cores, two hours in all; what is finished is not run again.
METHODS ?= $(filter $(basename $(notdir $(wildcard assets/configs/*.toml))),quickstart flow_grpo flow_grpo_fast mixgrpo mixgrpo_flash branchgrpo \
	tempflow dance cps grpo_guard flow_dppo nft awm flow_dpo dpo_offline rwr srpo staged)
SEEDS ?= 3
BUDGET ?=

methods: ## runs/methods/table.md: every method with three seeds
	@set -e; mkdir -p runs/methods; go build -o runs/methods/darkroom ./cmd/darkroom; \
	for m in $(METHODS); do \
		echo "=== $$m"; \
		runs/methods/darkroom ablate assets/configs/$$m.toml --vary model.path=embed:tiny-sd3 --seeds $(SEEDS) $(if $(BUDGET),--budget $(BUDGET)) --out runs/methods/$$m --markdown > runs/methods/$$m.md; \
	done; \
	cd runs/methods && awk 'BEGIN { FS = OFS = "|" } FNR > 2 || NR < 3 { NF = 10; m = FILENAME; sub(/.md$$/, "", m); $$2 = NR == 2 ? "---" : NR == 1 ? " method " : " " m " "; print $$0 OFS }' $(addsuffix .md,$(METHODS)) > table.md; cat table.md

# Every preset with SEEDS seeds under one configuration (internal/methods), and docs/results.md of all runs that are finished: seed 1
# of all presets comes first, and what is finished is not run again. PRESETS=cps,nft runs these alone. Several minutes of
# two quiet cores a run.
PRESETS ?=

results: ## runs/results, docs/results.md
	mkdir -p runs/results
	go build -o runs/results/darkroom ./cmd/darkroom
	go run ./internal/methods -darkroom runs/results/darkroom -out runs/results -seeds $(SEEDS) -only "$(PRESETS)"

# Folders of published sizes with random weights (internal/shapes), and what real models take on them: single steps beside
# diffusers and PEFT in turn, then two iterations of MixGRPO under budgets of 16, 10 and 6 GiB, whose samples and adapters
# must be the same bytes. Hours of a quiet machine with 16 GiB and 25 GB of disk; what is there is not made again.
REAL ?= runs/real

shapes: $(addprefix $(REAL)/,$(addsuffix /model_index.json,sd3.5-medium sd1.5 qwen-image-6 wan2.1-1.3b))

# Steps of all kinds beside PyTorch's, TURNS of each in turn, and iterations of the quickstart's task: an hour or two of a
# quiet machine with 24 GiB and 35 GB of disk. PYTHON has torch, diffusers, transformers and PEFT.
TURNS ?= 2

iterations: shapes $(REAL)/sd3-6/model_index.json $(REAL)/qwen2.5-vl-4/config.json ## runs/real/beside.md: steps, answers and iterations beside PyTorch
	REAL=$(REAL) PYTHON=$(PYTHON) TURNS=$(TURNS) internal/realsteps/beside.sh

homes-beside: $(REAL)/flux-2-nf4/model_index.json ## runs/real/homes.md: steps on frozen weights in NF4 beside bitsandbytes; PYTHON has it
	REAL=$(REAL) PYTHON=$(PYTHON) TURNS=$(TURNS) internal/realsteps/homes.sh

$(REAL)/flux-2-nf4/model_index.json:
	mkdir -p $(REAL)
	rm -rf $(@D) $(REAL)/flux-2
	go run ./internal/shapes --as flux.1-dev --layers 2 --out $(REAL)/flux-2
	go run ./cmd/darkroom quantize $(REAL)/flux-2 --as nf4 --out $(@D)
	rm -rf $(REAL)/flux-2

$(REAL)/sd3-6/model_index.json:
	mkdir -p $(REAL)
	rm -rf $(@D)
	go run ./internal/shapes --as sd3-medium --layers 6 --out $(@D)

$(REAL)/qwen2.5-vl-4/config.json:
	mkdir -p $(REAL)
	rm -rf $(@D)
	go run ./internal/shapes --as qwen2.5-vl-7b --layers 4 --out $(@D)

$(REAL)/%/model_index.json:
	mkdir -p $(REAL)
	rm -rf $(@D)
	go run ./internal/shapes --as $* --out $(@D)

real: shapes ## runs/real/steps.jsonl and runs/real/budgets.txt; PYTHON has torch, diffusers and PEFT
	REAL=$(REAL) PYTHON=$(PYTHON) internal/realsteps/real.sh
