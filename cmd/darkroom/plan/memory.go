package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
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
	Cost   *cost       `json:"cost,omitempty"`

	Absent       []Absent `json:"not_here_yet,omitempty"`
	RewardsLater int64    `json:"memory_of_absent_rewards,omitempty"`

	Gradients *gradientPlan `json:"gradients,omitempty"` // of workers
	Shares    int           `json:"-"`                   // of the tokens of a sample
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
	ranks := 1 // that share a memory
	switch on, shares := e.Run.Devices(), e.Run.TokenShares(); {
	case on[0] == "cpu":
		ranks = max(len(on), shares)
	case shares > 1:
		ranks = (shares + len(on) - 1) / len(on)
	}
	budget := e.Run.Bytes()
	if budget == 0 && e.Run.Devices()[0] == "cpu" {
		budget = int64(machine.Memory().Available)
	}
	need, err := run.Memory(e, dry, budget, ranks)
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
	if need.Homes, err = homes(e, dry, budget, ranks, need); err != nil {
		return Document{Plan: p, Why: err.Error()}
	}
	if need.Tried, err = states(e, dry, budget, ranks, need); err != nil {
		return Document{Plan: p, Why: err.Error()}
	}
	return Document{Plan: p, Memory: &memoryPlan{need.Program() + need.PeakOf(ranks), *need}, Gradients: gradientsOf(e, need.Gradient, pointsOf(p, need.Point)), Shares: e.Run.TokenShares()}
}

// homes are the homes of frozen matrices that were tried, and the others, where there is a limit, or one is named.
func homes(e *experiment.Experiment, dry model.Dry, budget int64, ranks int, need *model.Memory) ([]model.Candidate, error) {
	all := need.Homes
	if len(all) == 0 || len(all) == 1 && e.Run.Memory == "" && e.Model.Home == nil {
		return nil, nil
	}
	for h := nn.Device; h <= nn.Disk; h++ {
		tried := slices.ContainsFunc(all, func(c model.Candidate) bool { return c.Home == h })
		if tried || h == nn.Host && !need.Apart || h == nn.Ranks && (!need.Apart || len(e.Run.Devices()) == 1) {
			continue
		}
		there, name, of := *e, h.String(), need.StatesHome.String()
		there.Model.Home, there.Run.States = &name, &of
		n, err := run.Memory(&there, dry, budget, ranks)
		if err != nil {
			return nil, err
		}
		all = append(all, n.Homes...)
	}
	for i := range all {
		all[i].Waiting = waiting(all[i], need)
	}
	slices.SortFunc(all, func(a, b model.Candidate) int { return cmp.Compare(a.Home, b.Home) })
	return all, nil
}

// states are the homes of trained parameters' states that were tried, and the others.
func states(e *experiment.Experiment, dry model.Dry, budget int64, ranks int, need *model.Memory) ([]model.Candidate, error) {
	all := need.Tried
	if _, adapted := e.Model.Trained(); adapted || len(all) == 0 && e.Run.Memory == "" {
		return all, nil
	}
	for h := nn.Device; h <= nn.Ranks; h++ {
		tried := slices.ContainsFunc(all, func(c model.Candidate) bool { return c.Home == h })
		if tried || h == nn.Host && !need.Apart || h == nn.Ranks && len(e.Run.Devices()) == 1 {
			continue
		}
		there, name := *e, h.String()
		there.Run.States = &name
		n, err := run.Memory(&there, dry, budget, ranks)
		if err != nil {
			return nil, err
		}
		all = append(all, n.Tried...)
	}
	slices.SortFunc(all, func(a, b model.Candidate) int { return cmp.Compare(a.Home, b.Home) })
	return all, nil
}

// Rates of copies, and of products, in bytes and operations a second: of a disk, a bus, a CPU with 16 cores, a card.
// Measured ones differ; their ratio decides how much of a pass waits.
const (
	diskRate  = 2e9
	busRate   = 24e9
	cpuSpeed  = 2e12
	cardSpeed = 400e12
)

// waiting is the expected share of a training pass in which products wait for matrices of 16 bits.
func waiting(c model.Candidate, need *model.Memory) float64 {
	rate, speed := 0.0, cpuSpeed
	switch c.Home {
	case nn.Host, nn.Ranks:
		rate = busRate
	case nn.Disk:
		rate = diskRate
	default:
		return 0
	}
	if need.Apart {
		speed = cardSpeed
	}
	return max(0, 1-float64(need.Rows.Training)*rate/speed)
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
	writeHomes(w, n)
	writeStates(w, n)
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
	if n.Sent > 0 {
		fmt.Fprintf(w, "%d ranks share the tokens of every sample: each sends %s of it in a pass forward and backward\n", p.Shares, console.Bytes(n.Sent))
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
		case n.Fit.Aside:
			how = fmt.Sprintf("backward computes passes again, block by block, whose inputs take %s of the host's memory", console.Bytes(n.Inputs))
		case n.Checkpointing == autograd.AllBlocks:
			how = "backward computes passes again, block by block"
		case n.Checkpointing > 0:
			how = fmt.Sprintf("backward computes %d of %d blocks again", n.Checkpointing, autograd.AllBlocks)
		}
		fmt.Fprintf(w, "so that it fits: %s at once; %s\n", console.Plural(int64(n.Micro), "picture"), how)
	}
}

// writeHomes prints the homes of frozen matrices, and why one was chosen.
func writeHomes(w io.Writer, n model.Memory) {
	if len(n.Homes) == 0 {
		return
	}
	why := "none fits, and it takes the least"
	t := console.Table{Header: []string{"FROZEN MATRICES", ">MEMORY", ">ON THE HOST", "FITS", ">WAITING"}}
	for _, c := range n.Homes {
		fits := "no"
		if c.Fits {
			fits = "yes"
		}
		if c.Fits && c.Home == n.Home {
			why = "the first that fits, or the one that the file names"
		}
		t.Add(c.Home.String(), console.Bytes(c.Taken), console.Bytes(c.Host), fits, fmt.Sprintf("%.0f %%", 100*c.Waiting))
	}
	t.Write(w)
	fmt.Fprintf(w, "frozen matrices lie on: %s, %s; waiting is of a training pass, at %.0f GB/s of the disk or %.0f of the bus\n", n.Home, why, diskRate/1e9, busRate/1e9)
}

// writeStates prints the homes of trained parameters' states, and why one was chosen.
func writeStates(w io.Writer, n model.Memory) {
	if len(n.Tried) == 0 {
		return
	}
	why := "none fits, and it takes the least"
	t := console.Table{Header: []string{"STATES", ">MEMORY", ">ON THE HOST", "FITS"}}
	for _, c := range n.Tried {
		fits := "no"
		if c.Fits {
			fits = "yes"
		}
		if c.Fits && c.Home == n.StatesHome {
			why = "the first that fits, or the one that the file names"
		}
		t.Add(c.Home.String(), console.Bytes(c.Taken), console.Bytes(c.Host), fits)
	}
	t.Write(w)
	fmt.Fprintf(w, "states of what is trained (fp32 values, averages of gradients) lie on: %s, %s\n", n.StatesHome, why)
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
		return fmt.Sprintf("%s on the device, %s on the host", console.Bytes(m.Taken(1)), console.Bytes(m.Program()+m.Samples+m.HostStates))
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
