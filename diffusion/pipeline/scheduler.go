package pipeline

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
)

// scheduler is scheduler_config.json. Flows have FlowMatchEulerDiscreteScheduler's settings;
// a ladder is sampled by DDIM with the folder's settings, whichever of upstream's schedulers
// wrote them, as DDIMScheduler.from_config takes them.
type scheduler struct {
	class string
	flow  sde.FlowOptions
	vp    sde.VPOptions

	baseShift, maxShift   float64 // dynamic shifts: a line through two numbers of tokens
	baseTokens, maxTokens int
	renoise               bool   // stochastic_sampling
	unipc                 *unipc // nil: Euler, or DDIM

	prediction sde.Prediction
	clip       float64 // bound of the clean prediction; 0: none
}

// schedulerFile is what the file says. What it leaves out is upstream's default.
type schedulerFile struct {
	Class      string   `json:"_class_name"`
	Kind       string   `json:"time_shift_type"`
	Terminal   *float64 `json:"shift_terminal"`
	BaseShift  *float64 `json:"base_shift"`
	MaxShift   *float64 `json:"max_shift"`
	BaseTokens int      `json:"base_image_seq_len"`
	MaxTokens  int      `json:"max_image_seq_len"`
	Stochastic bool     `json:"stochastic_sampling"`
	FlowSigmas bool     `json:"use_flow_sigmas"`

	Prediction   string    `json:"prediction_type"`
	Clip         bool      `json:"clip_sample"`
	ClipRange    float64   `json:"clip_sample_range"`
	Thresholding bool      `json:"thresholding"`
	Betas        []float64 `json:"trained_betas"`
}

func openScheduler(f *folder, flow bool) (*scheduler, error) {
	dir, err := f.part("scheduler")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "scheduler_config.json")
	said := schedulerFile{Kind: "exponential", BaseTokens: 256, MaxTokens: 4096, Clip: true, ClipRange: 1, Prediction: string(sde.Epsilon)}
	s := &scheduler{flow: sde.DefaultFlow(), vp: sde.DefaultVP()}
	into := []any{&said, &s.vp}
	if flow {
		into = []any{&said, &s.flow}
	}
	for _, v := range into {
		if err := hub.JSON(path, v); err != nil {
			return nil, err
		}
	}
	s.class, s.baseTokens, s.maxTokens = said.Class, said.BaseTokens, said.MaxTokens
	s.baseShift, s.maxShift = or(said.BaseShift, 0.5), or(said.MaxShift, 1.15)
	s.renoise, s.prediction = said.Stochastic, sde.Prediction(said.Prediction)
	if said.Clip {
		s.clip = said.ClipRange
	}
	if flow {
		no := []string{"false"}
		if s.class == "UniPCMultistepScheduler" {
			return s, s.openUniPC(path)
		}
		if err := hub.Only(path, map[string][]string{"use_karras_sigmas": no, "use_exponential_sigmas": no, "use_beta_sigmas": no}); err != nil {
			return nil, err
		}
		return s, s.checkFlow(path, said)
	}
	return s, s.checkLadder(path, said)
}

func or(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}

func (s *scheduler) checkFlow(path string, said schedulerFile) error {
	if s.class != "FlowMatchEulerDiscreteScheduler" && s.class != "" {
		return fmt.Errorf("%s: a %s is not known for a flow; FlowMatchEulerDiscreteScheduler and UniPCMultistepScheduler are", path, s.class)
	}
	s.flow.Linear, s.flow.Terminal = said.Kind == "linear", or(said.Terminal, 0)
	switch o := s.flow; {
	case said.Kind != "linear" && said.Kind != "exponential":
		return fmt.Errorf("%s: \"time_shift_type\" is %q; exponential and linear are known", path, said.Kind)
	case !(o.Shift > 0 && o.Shift < 1e6):
		return fmt.Errorf("%s: \"shift\" is %v; it must be positive", path, o.Shift)
	case o.TrainSteps < 1 || o.TrainSteps > 1<<20:
		return fmt.Errorf("%s: \"num_train_timesteps\" is %d; it must be positive", path, o.TrainSteps)
	case o.Dynamic && !(math.Abs(s.baseShift) <= 30 && math.Abs(s.maxShift) <= 30):
		return fmt.Errorf("%s: \"base_shift\" is %v and \"max_shift\" %v; they are logarithms, and must lie between -30 and 30", path, s.baseShift, s.maxShift)
	case o.Dynamic && s.baseTokens == s.maxTokens:
		return fmt.Errorf("%s: \"base_image_seq_len\" and \"max_image_seq_len\" are both %d", path, s.maxTokens)
	case o.Terminal < 0 || o.Terminal >= 1:
		return fmt.Errorf("%s: \"shift_terminal\" is %v; it must lie between 0 and 1", path, o.Terminal)
	case o.Invert:
		return fmt.Errorf("%s: \"invert_sigmas\" is for networks whose input is the clean share; this one is not", path)
	}
	return nil
}

func (s *scheduler) checkLadder(path string, said schedulerFile) error {
	switch {
	case said.FlowSigmas:
		return fmt.Errorf("%s: \"use_flow_sigmas\": a U-Net of Stable Diffusion is no flow", path)
	case said.Thresholding:
		return fmt.Errorf("%s: \"thresholding\" is not known", path)
	case len(said.Betas) > 0:
		return fmt.Errorf("%s: \"trained_betas\" are not known; beta_start, beta_end and beta_schedule are", path)
	case said.Clip && !(said.ClipRange > 0):
		return fmt.Errorf("%s: \"clip_sample_range\" is %v; it must be positive", path, said.ClipRange)
	case !(s.vp.BetaStart >= 0 && s.vp.BetaStart < 1 && s.vp.BetaEnd > 0 && s.vp.BetaEnd < 1):
		return fmt.Errorf("%s: \"beta_start\" is %v and \"beta_end\" %v; they must lie between 0 and 1", path, s.vp.BetaStart, s.vp.BetaEnd)
	}
	s0, _, err := sde.DDIMSteps(s.vp, 1)
	if err == nil {
		_, err = sde.DDIM(s0, 0, 0, s.prediction, false)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, shares, _ := s.vp.NoiseLevels(); !s.vp.ZeroSNR && shares[len(shares)-1] < leastShare {
		return fmt.Errorf("%s: \"beta_start\" %v and \"beta_end\" %v leave %.2g of the signal at the last of %d steps, too little to divide by", path, s.vp.BetaStart, s.vp.BetaEnd, shares[len(shares)-1], s.vp.TrainSteps)
	}
	return nil
}

// leastShare is far below what any published schedule leaves (0.0047 in Stable Diffusion).
const leastShare = 1e-12

// Schedule is the folder's times for a number of steps and a picture.
func (p *Pipeline) Schedule(steps int, at Shape) (sde.Schedule, error) {
	if steps < 1 || steps > maxSteps {
		return sde.Schedule{}, fmt.Errorf("%d steps; 1 to %d are possible", steps, maxSteps)
	}
	s := p.schedule
	if !p.family.schedule.flow {
		ladder, _, err := sde.DDIMSteps(s.vp, steps)
		return ladder, err
	}
	if s.unipc != nil {
		return s.unipc.schedule(s.flow.Shift, steps), nil
	}
	var base []float64
	if p.family.schedule.base != nil {
		base = p.family.schedule.base(steps)
	}
	return sde.FlowFP32(s.flow, steps, base, p.dynamicShift(at, steps))
}

const maxSteps = 1000

// dynamicShift is by how much a flow's times are shifted for a picture, as a logarithm.
func (p *Pipeline) dynamicShift(at Shape, steps int) float64 {
	if p.family.schedule.shift != nil {
		return p.family.schedule.shift(at.Tokens, steps)
	}
	s := p.schedule
	return sde.DynamicShift(at.Tokens, s.baseTokens, s.maxTokens, s.baseShift, s.maxShift)
}

// Shift is by how much a flow's times are shifted for a picture, for grids of other solvers.
func (p *Pipeline) Shift(at Shape) float64 {
	s := p.schedule
	if !s.flow.Dynamic {
		return s.flow.Shift
	}
	mu := p.dynamicShift(at, p.family.defaults.Steps)
	if s.flow.Linear {
		return mu
	}
	return portable.Exp(mu)
}

// Solver is the name of the folder's own solver.
func (p *Pipeline) Solver() string {
	switch {
	case p.schedule.unipc != nil:
		return "unipc"
	case p.family.schedule.flow:
		return "euler"
	}
	return "ddim"
}

// Prediction is what a ladder's network puts out.
func (p *Pipeline) Prediction() sde.Prediction { return p.schedule.prediction }

// Rows are the folder's own solver: Euler's steps of a flow, or DDIM with eta.
func (p *Pipeline) Rows(schedule sde.Schedule, eta float64) ([]sde.Row, error) {
	s := p.schedule
	if s.unipc != nil {
		return s.unipc.rows(schedule), nil
	}
	rows := make([]sde.Row, schedule.Steps())
	for i := range rows {
		switch {
		case !p.family.schedule.flow:
			r, err := sde.DDIM(schedule, i, eta, s.prediction, s.clip > 0)
			if err != nil {
				return nil, err
			}
			if r.Clamp != nil {
				r.Clamp.Bound = s.clip
			}
			rows[i] = r
		case s.renoise:
			rows[i] = sde.EulerStochastic(schedule, i)
		default:
			rows[i] = sde.Euler(schedule, i)
		}
	}
	return rows, nil
}

// Shares are a ladder's products of alphas, one a training step.
func (p *Pipeline) Shares() ([]float64, error) {
	_, shares, err := p.schedule.vp.NoiseLevels()
	return shares, err
}
