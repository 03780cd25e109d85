package pipeline

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/sde"
)

// unipcFile is scheduler_config.json of a UniPCMultistepScheduler, as flows have it. What it leaves out is
// upstream's default.
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
