package pipeline

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
)

// scheduler is scheduler_config.json. Flows have FlowMatchEulerDiscreteScheduler's settings;
// a ladder is sampled by DDIM with the folder's settings, whichever of upstream's schedulers
// wrote them, as DDIMScheduler.from_config takes them.
type scheduler struct {
	spec  scheduleSpec
	steps int // the usual number of them

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

// schedulerFile has the file's settings. Missing ones are upstream's defaults.
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

func openScheduler(f *folder, a *architecture) (*scheduler, error) {
	flow := a.schedule.flow
	dir, err := f.part("scheduler")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "scheduler_config.json")
	said := schedulerFile{Kind: "exponential", BaseTokens: 256, MaxTokens: 4096, Clip: true, ClipRange: 1, Prediction: string(sde.Epsilon)}
	s := &scheduler{spec: a.schedule, steps: a.defaults.Steps, flow: sde.DefaultFlow(), vp: sde.DefaultVP()}
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

// leastShare is far below the last share of any published schedule (0.0047 in Stable Diffusion).
const leastShare = 1e-12

// Flow reports whether the network predicts the velocity of a flow; else its noise process is variance-preserving.
func (s *scheduler) Flow() bool { return s.spec.flow }

// Schedule is the folder's times for a number of steps and a picture.
func (s *scheduler) Schedule(steps int, at Shape) (sde.Schedule, error) {
	if steps < 1 || steps > maxSteps {
		return sde.Schedule{}, fmt.Errorf("%d steps; 1 to %d are possible", steps, maxSteps)
	}
	if !s.spec.flow {
		ladder, _, err := sde.DDIMSteps(s.vp, steps)
		return ladder, err
	}
	if s.unipc != nil {
		return s.unipc.schedule(s.flow.Shift, steps), nil
	}
	var base []float64
	if s.spec.base != nil {
		base = s.spec.base(steps)
	}
	return sde.FlowFP32(s.flow, steps, base, s.dynamicShift(at, steps))
}

const maxSteps = 1000

// dynamicShift is by how much a flow's times are shifted for a picture, as a logarithm.
func (s *scheduler) dynamicShift(at Shape, steps int) float64 {
	if s.spec.shift != nil {
		return s.spec.shift(at.Tokens, steps)
	}
	return sde.DynamicShift(at.Tokens, s.baseTokens, s.maxTokens, s.baseShift, s.maxShift)
}

// Shift is by how much a flow's times are shifted for a picture, for grids of other solvers.
func (s *scheduler) Shift(at Shape) float64 {
	if !s.flow.Dynamic {
		return s.flow.Shift
	}
	mu := s.dynamicShift(at, s.steps)
	if s.flow.Linear {
		return mu
	}
	return portable.Exp(mu)
}

// Solver is the name of the folder's own solver.
func (s *scheduler) Solver() string {
	switch {
	case s.unipc != nil:
		return "unipc"
	case s.spec.flow:
		return "euler"
	}
	return "ddim"
}

// Prediction is the output of a ladder's network.
func (s *scheduler) Prediction() sde.Prediction { return s.prediction }

// Rows are the folder's own solver: Euler's steps of a flow, or DDIM with eta.
func (s *scheduler) Rows(schedule sde.Schedule, eta float64) ([]sde.Row, error) {
	if s.unipc != nil {
		return s.unipc.rows(schedule), nil
	}
	rows := make([]sde.Row, schedule.Steps())
	for i := range rows {
		switch {
		case !s.spec.flow:
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
func (s *scheduler) Shares() ([]float64, error) {
	_, shares, err := s.vp.NoiseLevels()
	return shares, err
}

// unipcFile is scheduler_config.json of a UniPCMultistepScheduler, as flows have it. Missing settings are upstream's
// defaults.
type unipcFile struct {
	Prediction string  `json:"prediction_type"`
	Flow       bool    `json:"use_flow_sigmas"`
	Shift      float64 `json:"flow_shift"`
	Order      int     `json:"solver_order"`
	Kind       string  `json:"solver_type"`
	Lower      bool    `json:"lower_order_final"`
	Final      string  `json:"final_sigmas_type"`
	Off        []int   `json:"disable_corrector"`
	Steps      int     `json:"num_train_timesteps"`
}

// unipc is the solver of such a folder.
type unipc struct {
	sde.UniPC
	keepLast bool
}

// openUniPC reads the file into s, which is a flow's scheduler.
func (s *scheduler) openUniPC(path string) error {
	said := unipcFile{Prediction: "epsilon", Shift: 1, Order: 2, Kind: "bh2", Lower: true, Final: "zero", Steps: 1000}
	if err := hub.JSON(path, &said); err != nil {
		return err
	}
	no, yes, none := []string{"false"}, []string{"true"}, []string{"null"}
	if err := hub.Only(path, map[string][]string{"use_karras_sigmas": no, "use_exponential_sigmas": no, "use_beta_sigmas": no,
		"use_dynamic_shifting": no, "thresholding": no, "predict_x0": yes, "solver_p": none, "shift_terminal": none,
		"sigma_min": none, "sigma_max": none}); err != nil {
		return err
	}
	switch {
	case said.Prediction != "flow_prediction" || !said.Flow:
		return fmt.Errorf("%s: \"prediction_type\" is %q and \"use_flow_sigmas\" %v; the network is a flow, which has \"flow_prediction\" and true", path, said.Prediction, said.Flow)
	case !(said.Shift > 0 && said.Shift < 1e6):
		return fmt.Errorf("%s: \"flow_shift\" is %v; it must be positive", path, said.Shift)
	case said.Order < 1 || said.Order > 3:
		return fmt.Errorf("%s: \"solver_order\" is %d; 1 to 3 are known", path, said.Order)
	case said.Kind != "bh1" && said.Kind != "bh2":
		return fmt.Errorf("%s: \"solver_type\" is %q; bh1 and bh2 are known", path, said.Kind)
	case !said.Lower:
		return fmt.Errorf("%s: \"lower_order_final\" is false; true is known", path)
	case said.Final != "zero" && said.Final != "sigma_min":
		return fmt.Errorf("%s: \"final_sigmas_type\" is %q; zero and sigma_min are known", path, said.Final)
	case said.Steps != 1000:
		return fmt.Errorf("%s: \"num_train_timesteps\" is %d; 1000 is known for UniPC", path, said.Steps)
	}
	s.flow.Shift = said.Shift
	s.unipc = &unipc{UniPC: sde.UniPC{Order: said.Order, BH1: said.Kind == "bh1", Off: slices.Clone(said.Off)}, keepLast: said.Final == "sigma_min"}
	return nil
}

// schedule is UniPC's grid, and rows its steps.
func (u *unipc) schedule(shift float64, steps int) sde.Schedule {
	return sde.UniPCFP32(shift, steps, u.keepLast)
}

func (u *unipc) rows(s sde.Schedule) []sde.Row {
	rows := make([]sde.Row, s.Steps())
	for i := range rows {
		rows[i] = u.Row(s, i)
	}
	return rows
}
