package optim

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Learning rates over the updates i = 0, 1, ... of N, as in diffusers and
// transformers (get_scheduler). With w updates of warm-up and p = (i-w)/(N-w):
//
//	i < w                  lr i/w: the first update does nothing
//	constant               lr
//	linear                 lr (1-p), 0 after N
//	cosine                 lr (1 + cos πp)/2; after N it rises again
//	cosine_with_restarts   lr (1 + cos π(p·cycles mod 1))/2, 0 after N
//	polynomial             end + (lr-end) (1-p)^power, end after N
//
// The upstream's "constant_with_warmup" is constant with a warm-up.
//
// Invariant (test): every schedule is lr at i = w, falls up to N where it has no
// restarts, and linear is polynomial with power 1 and end 0.

// Rate is the learning rate of an update. Steps must be set where the schedule
// needs it.
func (o Options) Rate(update int) float64 {
	if update < o.Warmup {
		return o.LR * float64(update) / float64(o.Warmup)
	}
	p := float64(update-o.Warmup) / float64(max(1, o.Steps-o.Warmup))
	switch o.Schedule {
	case "linear":
		return o.LR * max(0, 1-p)
	case "cosine":
		return o.LR * (1 + portable.Cos(math.Pi*p)) / 2
	case "cosine_with_restarts":
		if p >= 1 {
			return 0
		}
		return o.LR * (1 + portable.Cos(math.Pi*math.Mod(p*float64(o.Cycles), 1))) / 2
	case "polynomial":
		return o.End + float64((o.LR-o.End)*portable.Pow(max(0, 1-p), o.Power))
	}
	return o.LR
}
