// Sidebyside trains the embedded model twice on one machine: with Darkroom, and with peer.py, a
// program of PyTorch, diffusers and PEFT that does the same. It prints one table: the seconds of an
// iteration, by part, of both, and the held-out reward of both after equal times of training.
//
//	make peer                                        # three seeds, 60 iterations: on a quiet machine
//	go run ./internal/sidebyside -python peer/bin/python -seeds 1 -iterations 3
//	go run ./internal/sidebyside -python peer/bin/python -ours 150    # the comparison at equal times
//
// Both start from the same files and get the same captions, split, rewards, sigmas, learning rates,
// and in every iteration the same prompts and the same window: peer.toml has all of it, and job.go writes it for the
// other program. Each has its own random numbers (noise, the adapter's start). Seeds are run one after another and the
// programs in turn, so that neither has the machine to itself for longer than the other. Evaluations do not count as
// time, on either side.
//
// The other program needs
//
//	python3 -m venv peer && peer/bin/pip install torch diffusers transformers peft numpy scipy safetensors
package main
