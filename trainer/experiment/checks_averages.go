package experiment

import "github.com/darkroom-rl/darkroom/trainer/loss"

// checkAverages: who reads a moving average needs one.
func (e *Experiment) checkAverages(r report) {
	l, o := e.Loss, e.Kind()
	if e.Optim.EMA > 0 {
		return
	}
	hint := "write optim.ema = 0.9, or leave this out"
	if l.KL.Reference == "ema" && (l.KL.Weight > 0 || o.Has(loss.Reference)) {
		r("loss.kl.reference|loss.kl", "there is no moving average of the weights", hint)
	}
	if l.KL.EMAWeight > 0 && o.Has(loss.AverageIfWeighted) {
		r("loss.kl.ema_weight|loss.kl", "there is no moving average of the weights", hint)
	}
}
