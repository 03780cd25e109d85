package model

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// EvaluatedBytes is about how much memory the held-out samples take that are evaluated at once.
const EvaluatedBytes = 256 << 20

// Dry is a backend that computes nothing, and counts the memory that it is asked for.
type Dry interface {
	kernels.Backend
	Peak() int
	ResetPeak()
	Operations() float64 // of products and attention
	Apart(apart bool)
	Until(ctx context.Context)
	Over() error // the context's, asked between iterations
}

// Memory is bytes beside the program itself: the most in each phase of an iteration, in their order, and the host's
// memory of its samples. Rewards that are networks come on top.
type Memory struct {
	Texts    int64 `json:"texts"`
	Sampling int64 `json:"sampling"`
	Decoding int64 `json:"decoding"`
	Check    int64 `json:"check"` // the network in fp32, as a stage begins
	Training int64 `json:"training"`
	Waiting  int64 `json:"waiting,omitempty"` // the most of an iteration where memory of one phase waits for the next
	Samples  int64 `json:"samples"`
	Rewards  int64 `json:"rewards,omitempty"`       // of networks, by their files: one copy a device; on CPUs, all copies
	Apart    bool  `json:"samples_apart,omitempty"` // on the host, which is not the device's memory

	// The treatment of text encoders between prompts: "kept" beside the network, "freed" and loaded again, or "lent",
	// each matrix read when a product needs it. EncoderBytes is the size of their files.
	Encoders     string `json:"encoders,omitempty"`
	EncoderBytes int64  `json:"encoder_bytes,omitempty"`

	Tokens *Tokens `json:"tokens,omitempty"` // of episodes; nil of pictures and clips
	Sent   int64   `json:"sent,omitempty"`   // of each sample in a pass forward and backward, by a rank that shares tokens

	Host       int64       `json:"host,omitempty"`         // frozen matrices in the host's memory, once for all devices
	Homes      []Candidate `json:"homes,omitempty"`        // of frozen matrices that were tried, in this order
	HostStates int64       `json:"states_host,omitempty"`  // the host's memory of states of trained parameters, once for all devices
	Tried      []Candidate `json:"states_tried,omitempty"` // homes of states, in this order
	Rows       Rows        `json:"rows,omitzero"`
	Inputs     int64       `json:"checkpoints,omitempty"` // of blocks that backward computes again, in the host's memory

	Work Work `json:"operations,omitzero"`

	Own      int64 `json:"-"` // the program's memory without the model; 0: ProgramBytes
	Gradient int64 `json:"-"` // of the parameters that move
	Point    int64 `json:"-"` // of a point of the network with the gradient at its output, on a wire; 0: of text
	Fit
}

// Work is operations of products and attention, two a multiply-add: of a pass of the network with a sample, and of one
// forward and backward.
type Work struct {
	Pass  float64 `json:"pass"`
	Train float64 `json:"train"`
}

// Tokens are those of the longest possible episode, and those that go through the network in an iteration of such.
type Tokens struct {
	Prompt    int   `json:"prompt"`
	Drawn     int   `json:"drawn"`   // by the model
	Episode   int   `json:"episode"` // prompt and observations included
	Generated int64 `json:"generated"`
	Forward   int64 `json:"forward"` // in updates, before a reference's weights, too
	Backward  int64 `json:"backward"`
}

// Rows are how many rows the products of a pass have, at least: a matrix that is fetched serves all of them.
type Rows struct {
	Sampling int `json:"sampling"`
	Training int `json:"training"`
}

// Fit is how a model keeps to a memory. No bit depends on it.
type Fit struct {
	Micro         int     `json:"micro_batch"`                   // samples in a pass of the network; 0: the model's own choice
	Lean          bool    `json:"lean,omitempty"`                // no packed copies of trained parameters lie beside their gradients
	Checkpointing int     `json:"checkpointing"`                 // of four blocks, how many backward computes again (autograd.AllBlocks)
	Aside         bool    `json:"checkpoints_on_host,omitempty"` // the inputs of blocks that backward computes again lie on the host
	Home          nn.Home `json:"home,omitempty"`                // where frozen matrices lie while no product reads them
	StatesHome    nn.Home `json:"states,omitempty"`              // where states of trained parameters lie: device, ranks or host
	KeepEncoders  bool    `json:"-"`                             // text encoders stay beside the network, however large they are
	Held          int     `json:"-"`                             // bytes that a pool holds at most while some of them wait (tensor.Pool.Limit); 0: any
}

// Homes are those of frozen matrices that an experiment may take, the fastest first: the one that it names. Of several
// devices' shares an experiment has to name them.
func Homes(e *experiment.Experiment) (all []nn.Home) {
	if e.Model.Home != nil {
		home, _ := nn.HomeNamed(*e.Model.Home) // whose name was checked when the file was read
		return []nn.Home{home}
	}
	all = []nn.Home{nn.Device}
	if Apart(e) {
		all = append(all, nn.Host)
	}
	if e.Model.Quantize == nil { // of a quantised model no file has the codes
		all = append(all, nn.Disk)
	}
	return all
}

// Apart reports whether the device's memory is not the host's.
func Apart(e *experiment.Experiment) bool {
	device := e.Run.Devices()[0]
	return device != "cpu" && device != "auto"
}

// AtStates predicts for one home of states after another, until all fits into the budget, and states into the host's
// memory. Where it fits nowhere, the least counts.
func AtStates(e *experiment.Experiment, budget int64, predict func(nn.Home) (*Memory, error)) (*Memory, error) {
	return atStates(e, budget, int64(machine.Memory().Available), predict)
}

func atStates(e *experiment.Experiment, budget, unused int64, predict func(nn.Home) (*Memory, error)) (least *Memory, err error) {
	var tried []Candidate
	for _, home := range StatesOf(e) {
		need, err := predict(home)
		if err != nil {
			return nil, err
		}
		need.StatesHome = home
		room := need.HostStates == 0 || need.HostStates+need.Host <= unused/4*3 || e.Run.States != nil
		one := Candidate{home, need.Taken(1), need.HostStates, need.Within(budget, 1) && room, 0}
		tried = append(tried, one)
		if room && (least == nil || one.Taken < least.Taken(1)) {
			least = need
		}
		if one.Fits {
			break
		}
	}
	if len(tried) > 1 || e.Run.States != nil {
		least.Tried = tried
	}
	return least, nil
}

// HomeOf is where matrices lie: where the experiment says, or else the fit.
func (f Fit) HomeOf(e *experiment.Experiment) nn.Home {
	if e.Model.Home != nil {
		return Homes(e)[0]
	}
	return f.Home
}

// A Candidate is a home, and a run's memory where matrices lie there.
type Candidate struct {
	Home  nn.Home `json:"home"`
	Taken int64   `json:"taken"`          // of the memory that the run computes in
	Host  int64   `json:"host,omitempty"` // of the host's memory, by matrices
	Fits  bool    `json:"fits"`
	// Waiting is the expected share of a training pass in which products wait for matrices; a plan's.
	Waiting float64 `json:"waiting,omitempty"`
}

// AtHome predicts for one home after another, until all fits into the budget, and matrices into the host's memory.
// Where it fits nowhere, the least counts.
func AtHome(e *experiment.Experiment, budget int64, predict func(nn.Home) (*Memory, error)) (least *Memory, err error) {
	return atHome(e, budget, int64(machine.Memory().Available), predict)
}

// atHome is AtHome beside a host's unused bytes; 0: unknown.
func atHome(e *experiment.Experiment, budget, unused int64, predict func(nn.Home) (*Memory, error)) (least *Memory, err error) {
	var tried []Candidate
	named := e.Model.Home != nil
	for _, home := range Homes(e) {
		need, err := predict(home)
		if err != nil {
			return nil, err
		}
		room := need.Host <= unused/4*3 || named
		one := Candidate{home, need.Taken(1), need.Host, need.Within(budget, 1) && room, 0}
		tried = append(tried, one)
		if room && (least == nil || one.Taken < least.Taken(1)) {
			least = need
		}
		if one.Fits {
			break
		}
	}
	least.Homes = tried
	return least, nil
}

// worthGivingBack is a phase's memory above which memory that waits goes back to the system between phases. Its pages
// are cleared when they are asked for again, which iterations of a small model would feel.
const worthGivingBack = 1 << 30

// IsLarge reports whether pools give memory back that waits.
func (n Memory) IsLarge() bool {
	n.Waiting = 0 // which is a small one's
	return n.phase() >= worthGivingBack
}

// Kept is the fit, with pools that hold no more than the largest phase takes: memory of one phase does not wait
// through the next.
func (n Memory) Kept() Fit {
	fit := n.Fit
	if n.IsLarge() && fit.Held == 0 {
		fit.Held = int(n.phase())
	}
	return fit
}

// ProgramBytes is about the program's memory without a model: itself, kernels' scratch, and buffers of checkpoints
// and pages. Measured (LOG.md).
const ProgramBytes = 124 << 20

// Within reports whether this number of ranks fit into a budget of the memory that they compute in, the program with
// them where that is the host's; 0: into any.
func (n Memory) Within(budget int64, ranks int) bool {
	return budget == 0 || n.Taken(ranks) <= budget
}

// Taken is the memory of this number of ranks.
func (n Memory) Taken(ranks int) int64 {
	if n.Apart {
		return int64(ranks)*n.phase() + n.Rewards
	}
	return n.Program() + n.PeakOf(ranks)
}

// Program is the program's memory without the model.
func (n Memory) Program() int64 {
	if n.Own == 0 {
		return ProgramBytes
	}
	return n.Own
}

// Peak is the most at once, on device and host together.
func (n Memory) Peak() int64 { return n.PeakOf(1) }

// PeakOf is that of several ranks which share a memory. Each holds the model, and asks it as much at
// once as one alone.
func (n Memory) PeakOf(ranks int) int64 {
	return int64(ranks)*(n.phase()+n.Inputs) + n.Samples + n.Rewards + n.Host + n.HostStates
}

// phase is the most of an iteration's phases, with waiting memory of those before where nothing is given back.
func (n Memory) phase() int64 {
	return max(n.Texts, n.Sampling, n.Decoding, n.Check, n.Training, n.Waiting)
}

// HoldShards gives parameters the gradients of a rank's further shards, which lie beside the one under way until all
// are added: a dry run counts them.
func HoldShards(r experiment.Run, moved []*autograd.Param) {
	if !r.Parted() {
		return
	}
	most := 0
	for _, own := range Runs(r.Shards, len(r.Devices()), moved) {
		most = max(most, own.Hi-own.Lo)
	}
	for _, p := range moved {
		for k := 1; k < most; k++ {
			p.Shard(k)
			p.AnyGrad()
		}
		p.Shard(0)
	}
}
