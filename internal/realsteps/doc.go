// Command realsteps times one step of sampling and one of training on a pipeline's folder of a real model's size, and
// measures the peak memory of each: internal/shapes makes such folders. peer.py does the same in diffusers and PEFT.
//
//	go run ./internal/realsteps --model models/sd3.5-medium --size 512
//	python internal/realsteps/peer.py --model models/sd3.5-medium --size 512
//
// --device cuda:0 times a device, and --device count computes nothing and counts; --talk times a vision-language model
// that answers, as --talk of peer.py does. On a device internal/ondevice/realpeer.py is its counterpart.
//
// Both print a line of JSON a batch. Seconds are the clock's, and of all threads together: on a machine that does other
// work only the second can be compared. `make real` runs all in turn, and whole runs under several budgets; `make
// iterations` times work of all kinds beside PyTorch's.
package main
