package plan

import (
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// A Document is a plan with the machine's memory for it.
type Document struct {
	*experiment.Plan
	Memory *memoryPlan `json:"memory,omitempty"`
	Why    string      `json:"memory_unknown,omitempty"` // why there is no prediction
	Time   *timePlan   `json:"time,omitempty"`           // where it was asked for

	Gradients *gradientPlan `json:"gradients,omitempty"` // of workers
}

// memoryPlan is a prediction in bytes.
type memoryPlan struct {
	Peak int64 `json:"peak"`
	model.Memory
}

// WithMemory predicts; an obstacle is a note, not a mistake of the file.
func WithMemory(e *experiment.Experiment, p *experiment.Plan, dry model.Dry) Document {
	if e.Run.Devices()[0] == "auto" { // as 'train' here will have it
		on := *e
		on.Run.Device, e = device.Settle("auto"), &on
	}
	ranks := 1 // that share this machine's memory
	if on := e.Run.Devices(); on[0] == "cpu" {
		ranks = len(on)
	}
	budget := e.Run.Bytes()
	if budget == 0 && e.Run.Devices()[0] == "cpu" {
		budget = int64(machine.Memory().Available)
	}
	need, err := run.Memory(e, dry, budget/int64(ranks))
	if err != nil {
		return Document{Plan: p, Why: err.Error()}
	}
	if e.Run.Memory != "" {
		budget += need.Rewards // which it does not speak of
	}
	if !need.Within(budget, ranks) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the run takes about %s, and may take %s: a smaller size, group or rank, or loss.noise_floor = \"off\" where the check takes most", console.Bytes(need.Taken(ranks)), console.Bytes(budget)))
	}
	if budget == 0 && need.Apart && need.Taken(1) > usualCard {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the run takes about %s of one card, more than the %s of most large ones%s", console.Bytes(need.Taken(1)), console.Bytes(usualCard), elsewhere(need.Rewards)))
	}
	return Document{Plan: p, Memory: &memoryPlan{need.Program() + need.PeakOf(ranks), *need}, Gradients: gradientsOf(e, need.Gradient)}
}

// usualCard is programs' memory on a card of 80 GB.
const usualCard = 79 << 30

// elsewhere says where rewards' networks may be instead.
func elsewhere(rewards int64) string {
	if rewards == 0 {
		return ""
	}
	return fmt.Sprintf(": %s are rewards' networks, which a server can have ([[reward]] url) or workers (--roles judge)", console.Bytes(rewards))
}

func (p Document) writeMemory(w io.Writer) {
	if p.Memory == nil {
		fmt.Fprintf(w, "\nmemory is not predicted: %s\n", p.Why)
		return
	}
	n := p.Memory.Memory
	fmt.Fprintf(w, "\nmemory, predicted: at most %s%s\n", peakWords(p.Memory), rewardWords(n.Rewards))
	if n.Tokens != nil {
		p.writeTokens(w)
		return
	}
	t := console.Table{Header: []string{">PROGRAM", ">TEXTS", ">SAMPLING", ">DECODING", ">CHECK", ">TRAINING", ">SAMPLES"}}
	t.Add(console.Bytes(model.ProgramBytes), console.Bytes(n.Texts), console.Bytes(n.Sampling), console.Bytes(n.Decoding), console.Bytes(n.Check), console.Bytes(n.Training), console.Bytes(n.Samples))
	t.Write(w)
	if n.Waiting > max(n.Texts, n.Sampling, n.Decoding, n.Check, n.Training) {
		fmt.Fprintf(w, "memory of one phase waits for the next: %s of all of them\n", console.Bytes(n.Waiting))
	}
	if n.EncoderBytes > 0 {
		fmt.Fprintf(w, "text encoders, %s on the disk: %s\n", console.Bytes(n.EncoderBytes), encoderWords[n.Encoders])
	}
	if n.Lean {
		fmt.Fprintln(w, "so that it fits: matrices that are trained are packed anew in every product")
	}
	if n.Micro > 0 {
		how := "passes are kept for backward"
		switch {
		case n.Checkpointing == autograd.AllBlocks:
			how = "backward computes passes again, block by block"
		case n.Checkpointing > 0:
			how = fmt.Sprintf("backward computes %d of %d blocks again", n.Checkpointing, autograd.AllBlocks)
		}
		fmt.Fprintf(w, "so that it fits: %s at once; %s\n", console.Plural(int64(n.Micro), "picture"), how)
	}
}

// writeTokens prints the memory of conversations, and the number of tokens that go through the network.
func (p Document) writeTokens(w io.Writer) {
	n := p.Memory.Memory
	t := console.Table{Header: []string{">PROGRAM", ">GENERATION", ">TRAINING", ">SAMPLES"}}
	t.Add(console.Bytes(n.Program()), console.Bytes(n.Sampling), console.Bytes(n.Training), console.Bytes(n.Samples))
	t.Write(w)
	k := n.Tokens
	fmt.Fprintf(w, "passes of an iteration, at most: generation %s; training %s forward and %s backward\n", tokensText(k.Generated), tokensText(k.Forward), tokensText(k.Backward))
	fmt.Fprintf(w, "the longest possible episode: %s, of which %d are the prompt's and %d are drawn\n", tokensText(int64(k.Episode)), k.Prompt, k.Drawn)
}

func tokensText(n int64) string { return console.Plural(n, "token") }

// peakWords say where the most of a run's memory is: on a device, samples lie beside it on the host.
func peakWords(m *memoryPlan) string {
	if m.Apart {
		return fmt.Sprintf("%s on the device, %s on the host", console.Bytes(m.Taken(1)), console.Bytes(m.Program()+m.Samples))
	}
	return console.Bytes(m.Peak)
}

// rewardWords say how rewards' networks are counted.
func rewardWords(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it rewards' networks by their files", console.Bytes(bytes))
}

// encoderWords describe the treatment of text encoders.
var encoderWords = map[string]string{
	"kept":  "kept in memory with the network",
	"freed": "loaded when prompts are drawn that were not read before, and freed",
	"lent":  "each matrix is read when prompts are drawn that were not read before, and none is kept",
}
