package experiment

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Devices are the names in run.device, one a rank: "cuda:0,cuda:1" has two. Without run.shards, another number of ranks
// adds gradients in another order, so that a run goes on with as many as it was begun with. The devices may change, and
// two ranks may lie on one device.
func (run Run) Devices() []string {
	names := strings.Split(run.Device, ",")
	for i, n := range names {
		if names[i] = strings.TrimSpace(n); names[i] == "cuda" {
			names[i] = "cuda:0"
		}
	}
	return names
}

// Parted reports whether gradients are summed in shards, so that their bits do not depend on the number of devices.
func (run Run) Parted() bool { return run.Shards > 1 }

// TokenShares is run.tokens; 1 where nothing is said.
func (run Run) TokenShares() int {
	if run.Tokens == nil {
		return 1
	}
	return *run.Tokens
}

// Patience is run.rank_limit.
func (run Run) Patience() time.Duration { return time.Duration(run.RankLimit * float64(time.Second)) }

// checkDevices reports invalid names, and ranks that cannot work together.
func (run Run) checkDevices(r report) {
	names := run.Devices()
	for _, d := range names {
		switch {
		case d != "auto" && d != "cpu" && !strings.HasPrefix(d, "cuda:"):
			r("run.device", fmt.Sprintf("%q is no device", d), deviceHint(d))
		case d == "auto" && len(names) > 1:
			r("run.device", `"auto" stands for one device, and here are several`, `name each: "cuda:0,cuda:1", or "cpu,cpu"`)
		case (d == "cpu") != (names[0] == "cpu") && names[0] != "auto":
			r("run.device", fmt.Sprintf("%q and %q cannot train together: what one samples, another trains on, and their bits differ", names[0], d), "name devices of one kind")
		default:
			continue
		}
		return
	}
	if shares := run.TokenShares(); shares > 1 && shares < len(names) {
		r("run.tokens", fmt.Sprintf("%d devices, and tokens have %d shares", len(names), shares), fmt.Sprintf("run.tokens = %d, or fewer devices", len(names)))
	}
	if run.TokenShares() > 1 && run.Parted() {
		r("run.tokens|run.shards", "a gradient is summed either by shares of tokens or by shards of samples", "leave one of them out")
	}
	if run.Parted() && run.Shards < len(names) {
		r("run.shards", fmt.Sprintf("%d devices share %d shards of a gradient", len(names), run.Shards), fmt.Sprintf("run.shards = %d or more, or fewer devices", len(names)))
	}
}

// deviceHint is the remedy for an invalid device: other programs' names, and devices without kernels.
func deviceHint(name string) string {
	switch {
	case name == "gpu":
		return `write "cuda:0"`
	case strings.Trim(name, "0123456789") == "" && name != "":
		return fmt.Sprintf(`write "cuda:%s"`, name)
	case slices.Contains([]string{"mps", "metal", "rocm", "hip", "xpu", "npu", "tpu", "vulkan"}, strings.TrimRight(name, ":0123456789")):
		return `there are kernels for CPUs ("cpu") and for NVIDIA's GPUs ("cuda:0") alone`
	}
	return `write "auto", "cpu", or "cuda:0"; several train together: "cuda:0,cuda:1"`
}

// Quantization is model.quantize; "" where nothing is said.
func (m Model) Quantization() string {
	if m.Quantize == nil {
		return ""
	}
	return *m.Quantize
}

// Bytes is run.memory; 0 where nothing is said.
func (run Run) Bytes() int64 {
	n, _ := run.bytes() // refused when the file was read
	return n
}

// bytes reads run.memory.
func (run Run) bytes() (int64, error) {
	if run.Memory == "" {
		return 0, nil
	}
	for _, u := range []struct {
		name string
		of   float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}} {
		number, ok := strings.CutSuffix(run.Memory, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if all := n * u.of; err == nil && all >= 1<<20 && all < math.MaxInt64/2 {
			return int64(all), nil
		}
	}
	return 0, fmt.Errorf("%q is no amount of memory, of one MiB at least", run.Memory)
}

// Card: run.lag = k. The samples of iteration i are rolled by the weights of iteration i - k, whatever the speeds,
// and by the first ones before that: workers roll ahead while the trainer trains, and the run is a function of its
// file and k. A sample keeps the log-probabilities that it was drawn with, so that ratios are true; other objectives
// would take old samples for new ones.

// checkLag: methods that cannot learn from samples of earlier weights, or need the last iteration's end before the
// next one is rolled.
func (e *Experiment) checkLag(r report) {
	if e.Run.Lag == 0 || e.Supervised() {
		return
	}
	o, roll := e.Kind(), e.Rollout
	const hint = "run.lag = 0"
	switch {
	case roll.Offline:
		r("rollout.offline", "nothing is rolled, so that nothing can be rolled ahead (run.lag)", hint)
	case !o.Has(loss.Ratio) || !o.Has(loss.Advantages):
		r("loss.objective", fmt.Sprintf("objective %q takes samples for those of the current weights, and run.lag = %d has them rolled by earlier ones: objectives with a ratio correct for that", e.Loss.Objective, e.Run.Lag), hint)
	case e.Sampler.Tree != nil && e.Episode == nil:
		r("sampler.tree", "what branches are worth is compared as the current weights would part, and run.lag has them rolled by earlier ones", hint)
	case e.Loss.KL.Weight > 0 && e.Loss.KL.Reference == "old":
		r("loss.kl.reference", "old weights are those of the iteration before, and run.lag has samples rolled by others", hint)
	case e.Comparison().GreedyAnswer:
		r("advantage.estimator", "the likeliest answers are those of the current weights, and run.lag has samples rolled by earlier ones", hint)
	case e.Episode != nil && e.Episode.Guided != nil && e.Episode.Guided.Every > 0:
		r("episode.guided.every", "how much of a solution is given depends on the scores of the iteration before, and run.lag has samples rolled ahead", "every = 0, or run.lag = 0")
	case roll.Resample != nil || roll.Curriculum != nil || roll.Skip != nil || roll.Ban != nil || roll.More != nil:
		r("rollout.resample|rollout.curriculum|rollout.skip|rollout.ban|rollout.more", "which prompts are rolled depends on what the iteration before made of them, and run.lag has them rolled ahead", hint)
	case roll.Buffer != nil:
		r("rollout.buffer", "samples are learned from again, and run.lag has all of them from earlier weights", hint)
	}
}

// Card: where every ratio is exactly 1. Rollout and training run the same kernels, so the first update after a roll has
// ratios of exactly 1, and a ratio differs from 1 in a further update, or of a sample that earlier weights rolled. In a
// stage of one update, without lag and without a buffer there is neither: no clip range cuts a decision, a guard and a
// mask of ratios change nothing, and rounding cannot push a ratio over its range.

// OnPolicy reports whether every ratio of the experiment, or of one of its stages, is exactly 1.
func (e *Experiment) OnPolicy() bool {
	o, roll := e.Kind(), e.Rollout
	switch {
	case !o.Has(loss.Ratio) || !o.Has(loss.Advantages) || e.Optim.Updates > 1 || e.Run.Lag > 0 || roll.Buffer != nil:
		return false
	case e.Episode != nil && e.Episode.Noisy != nil: // learned from by its log-probabilities on other pictures
		return false
	}
	return true
}

// MeasuresFloor reports whether the noise of log-probabilities is measured as a stage begins: where a ratio may be cut
// by it, or a monitor watches it. Of episodes it takes no second network.
func (e *Experiment) MeasuresFloor() bool {
	switch {
	case e.Noised() || e.Loss.NoiseFloor == "off":
		return false
	case e.Episode != nil || !e.OnPolicy():
		return true
	}
	for _, m := range e.Monitors {
		if m.Watch == "noise_floor" {
			return true
		}
	}
	return false
}

// Track is [track]: train starts a process for each of As, which follows the run's folder. A process that fails
// costs the run nothing.
type Track struct {
	As    []string `toml:"as,single" doc:"what follows the run: tensorboard, trackio, wandb, csv, parquet, or mlflow=URL, a server"`
	Names string   `toml:"names" enum:"darkroom,verl,trl" doc:"what numbers are called there: as here, or as those projects call them"`
	Out   string   `toml:"out" doc:"the folder below which each of them writes; empty: the run's own"`
}

// Tracked are the formats in which a run can be followed.
func Tracked() []string {
	return []string{"tensorboard", "trackio", "wandb", "csv", "parquet", "mlflow=URL"}
}

// check: each is known, and there once.
func (t Track) check(r report) {
	for i, as := range t.As {
		switch {
		case slices.Contains(t.As[:i], as):
			r("as", fmt.Sprintf("%q is there twice", as), "leave one of them out")
		case strings.HasPrefix(as, "mlflow="):
			if u, err := url.Parse(strings.TrimPrefix(as, "mlflow=")); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				r("as", fmt.Sprintf("%q names no server", as), "write mlflow=http://HOST:5000")
			}
		case !slices.Contains(Tracked(), as) || as == "mlflow=URL":
			hint := "one of " + strings.Join(Tracked(), ", ")
			if near := config.Near(as, Tracked()); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			r("as", fmt.Sprintf("a run is not followed as %q", as), hint)
		}
	}
}
