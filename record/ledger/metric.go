package ledger

import (
	"math"
	"slices"
	"strings"
)

// A Metric is a number of the line that monitors watch: its name, its card, the runs that have it, and its place in
// a line. Rewards and objectives add theirs.
type Metric struct {
	Name    string // reward.NAME and best_of.K are one for each reward, and for each number of samples
	Card    string
	Of      Runs
	ByRatio bool // 0 where every ratio is 1

	Value func(l *Line) (v float64, measured bool)
	Each  func(l *Line, name string) (v float64, measured bool) // of a number that there are several of, in place of Value
}

// Runs are those that have a number.
type Runs string

const (
	OfAll       Runs = ""
	OfPictures  Runs = "pictures"
	OfTokens    Runs = "tokens"
	OfDecisions Runs = "decisions" // tokens, and the steps of an objective with a ratio
	OfGreedy    Runs = "greedy"    // an estimator that compares with the likeliest answer
)

// Metrics are all of them.
func Metrics() []Metric {
	return []Metric{
		{Name: "total", Card: "Mean of what is trained on.", Value: func(l *Line) (float64, bool) { return l.Total.Mean, l.Total.Missing < l.Samples }},
		{Name: "reward.NAME", Card: "Mean of a trained reward over the iteration's samples.", Each: rewardMean},
		{Name: "gold.NAME", Card: "Mean of a reward that is only measured, over the iteration's samples.", Each: rewardMean},
		{Name: "heldout.NAME", Card: "Mean of a reward over held-out prompts, in iterations that evaluate; heldout.total is all trained ones.", Each: func(l *Line, name string) (float64, bool) {
			m, ok := l.HeldOut[name]
			return m.Mean, ok
		}},
		{Name: "missing", Card: "Share of samples without a total.", Value: func(l *Line) (float64, bool) { return l.share(l.Total.Missing), l.Samples > 0 }},
		{Name: "missing.NAME", Card: "Share of samples that a reward has no score for.", Each: func(l *Line, name string) (float64, bool) {
			s, ok := l.Rewards[name]
			return l.share(s.Missing), ok
		}},
		{Name: "dead_groups", Card: "Groups whose samples all have one total.", Value: func(l *Line) (float64, bool) { return float64(l.Dead), l.Samples > 0 }},
		{Name: "dead_share", Card: "The same, over the number of groups.", Value: func(l *Line) (float64, bool) { return float64(l.Dead) / float64(max(1, len(l.Prompts))), l.Samples > 0 }},
		{Name: "skipped", Card: "Updates that were skipped, since their numbers were infinite or none.", Value: func(l *Line) (float64, bool) { return float64(l.Skipped), true }},
		{Name: "spread_in_groups", Card: "Mean over groups of the deviation of totals.", Value: func(l *Line) (float64, bool) { return l.Spread, l.Total.Missing < l.Samples }},
		{Name: "diversity", Card: "Root mean squared difference of the latents of two samples of a prompt.", Value: func(l *Line) (float64, bool) { return l.Diversity, l.Samples > 0 }},
		{Name: "reward_modes", Card: "How many bins of the totals' histogram are in use, e to its entropy: 1 where all samples score alike. Bins are those of the first iteration.", Value: func(l *Line) (float64, bool) {
			if l.Histogram == nil || l.Total.Missing == l.Samples {
				return 0, false
			}
			return l.Histogram.Modes, true
		}},
		{Name: "best_of.K", Card: "Expected best total of K samples of a prompt: 2, 4, 8 and so on, up to the group.", Each: func(l *Line, name string) (float64, bool) {
			v, ok := l.BestOf[name]
			return v, ok
		}},
		{Name: "picture.brightness", Card: "Mean brightness of the rolled pictures, 0 to 255.", Of: OfPictures, Value: picture("brightness")},
		{Name: "picture.contrast", Card: "Their contrast.", Of: OfPictures, Value: picture("contrast")},
		{Name: "picture.saturation", Card: "Their saturation.", Of: OfPictures, Value: picture("saturation")},
		{Name: "picture.colourfulness", Card: "Their colourfulness.", Of: OfPictures, Value: picture("colourfulness")},
		{Name: "picture.entropy", Card: "Entropy of their grey levels.", Of: OfPictures, Value: picture("entropy")},
		{Name: "picture.clipped", Card: "Share of their values at either end.", Of: OfPictures, Value: picture("clipped")},
		{Name: "picture.sharpness", Card: "Variance of their Laplacian.", Of: OfPictures, Value: picture("sharpness")},
		{Name: "loss", Card: "Of the last update.", Value: ofLast(func(u *UpdateLine) (float64, bool) { return u.Loss, true })},
		{Name: "gradient", Card: "Norm of the last update's gradient, before it is clipped.", Value: ofLast(func(u *UpdateLine) (float64, bool) { return u.Gradient, true })},
		{Name: "lr", Card: "Learning rate of the last update.", Value: ofLast(func(u *UpdateLine) (float64, bool) { return u.Rate, true })},
		{Name: "ratio", Card: "How far any ratio of the last update is from 1.", Of: OfDecisions, ByRatio: true, Value: ofLast(func(u *UpdateLine) (float64, bool) { return math.Abs(u.RatioMost - 1), u.RatioMost != 0 })},
		{Name: "mismatch", Card: "Root mean squared log-ratio of the first update, when nothing has moved: 0 where rollout and training agree.", Of: OfDecisions, ByRatio: true, Value: func(l *Line) (float64, bool) {
			if len(l.Updates) == 0 {
				return 0, false
			}
			return l.Updates[0].Mismatch, l.Updates[len(l.Updates)-1].RatioMost != 0
		}},
		{Name: "clip_fraction", Card: "Share of decisions whose ratio is clipped, or that are left out.", Of: OfDecisions, ByRatio: true, Value: func(l *Line) (float64, bool) {
			if v, ok := l.metric("clipped"); ok {
				return v, true
			}
			return l.metric("masked_fraction")
		}},
		{Name: "noise_floor", Card: "What rounding to the run's precision does to log-probabilities (rms), at the start of every stage; of episodes: how far an engine's lie from the trainer's.", Of: OfDecisions, Value: func(l *Line) (float64, bool) {
			if l.Check == nil || l.Check.Floor == nil {
				return l.metric("noise_floor")
			}
			return *l.Check.Floor, true
		}},
		{Name: "episode.calls", Card: "Tools called, a mean over conversations.", Of: OfTokens, Value: episode("calls")},
		{Name: "episode.refused_calls", Card: "Share of the calls that were refused.", Of: OfTokens, Value: episode("refused_calls")},
		{Name: "episode.turns", Card: "The model's turns, a mean over conversations.", Of: OfTokens, Value: episode("turns")},
		{Name: "episode.pictures", Card: "Pictures that a conversation holds at its end.", Of: OfTokens, Value: episode("pictures")},
		{Name: "episode.tokens", Card: "The model's own tokens.", Of: OfTokens, Value: episode("tokens")},
		{Name: "episode.called", Card: "Share of conversations that call a tool.", Of: OfTokens, Value: episode("called")},
		{Name: "episode.score_called", Card: "Mean total of conversations that call a tool.", Of: OfTokens, Value: episode("score_called")},
		{Name: "episode.score_direct", Card: "Mean total of conversations that call none.", Of: OfTokens, Value: episode("score_direct")},
		{Name: "episode.answered", Card: "Share of conversations that end with an answer.", Of: OfTokens, Value: episode("answered")},
		{Name: "episode.over", Card: "Share of conversations that run into a limit.", Of: OfTokens, Value: episode("over")},
		{Name: "episode.defused", Card: "Special tokens that the model wrote into what came back to it, a mean over conversations.", Of: OfTokens, Value: rare("defused")},
		{Name: "episode.entropy", Card: "Entropy of what a token is drawn from, in nats, a mean over the tokens of all conversations.", Of: OfTokens, Value: episode("entropy")},
		{Name: "episode.lost", Card: "Share of conversations that are missing, since a tool outside failed.", Of: OfTokens, Value: rare("lost")},
		{Name: "episode.greedy", Card: "Mean total of the likeliest answer to each prompt, which remax compares with.", Of: OfGreedy, Value: episode("greedy")},
		{Name: "episode.given", Card: "Tokens that were not drawn, a mean over conversations: of its prompt's solution, or of the branch that it grew from.", Of: OfTokens, Value: rare("given")},
		{Name: "episode.cut", Card: "Share of conversations whose last turn is cut off.", Of: OfTokens, Value: episode("cut")},
	}
}

// Value is a number of the line by the name that monitors watch it by, and whether it was
// measured.
func (l *Line) Value(name string) (float64, bool) {
	kind, rest, several := strings.Cut(name, ".")
	all := Metrics()
	if i := slices.IndexFunc(all, func(n Metric) bool { return n.Name == name && n.Value != nil }); i >= 0 {
		return all[i].Value(l)
	}
	if i := slices.IndexFunc(all, func(n Metric) bool { return n.Each != nil && strings.HasPrefix(n.Name, kind+".") }); i >= 0 && several {
		return all[i].Each(l, rest)
	}
	switch { // of another version
	case !several:
		return l.metric(name)
	case kind == "episode":
		return episode(rest)(l)
	case kind == "picture":
		return picture(rest)(l)
	}
	return 0, false
}

// share is a part of the line's samples.
func (l *Line) share(of int) float64 { return float64(of) / float64(max(1, l.Samples)) }

// rewardMean is a reward's mean over the samples that have a score.
func rewardMean(l *Line, name string) (float64, bool) {
	s, ok := l.Rewards[name]
	return s.Mean, ok && s.Missing < l.Samples
}

func picture(name string) func(*Line) (float64, bool) {
	return func(l *Line) (float64, bool) {
		v, ok := l.Pictures[name]
		return v, ok
	}
}

func episode(name string) func(*Line) (float64, bool) {
	return func(l *Line) (float64, bool) {
		v, ok := l.Episodes[name]
		return v, ok
	}
}

// rare is a number of episodes that is written where it is not 0.
func rare(name string) func(*Line) (float64, bool) {
	return func(l *Line) (float64, bool) { return l.Episodes[name], l.Episodes != nil }
}

// ofLast is a number of the last update.
func ofLast(of func(u *UpdateLine) (float64, bool)) func(*Line) (float64, bool) {
	return func(l *Line) (float64, bool) {
		if len(l.Updates) == 0 {
			return 0, false
		}
		return of(&l.Updates[len(l.Updates)-1])
	}
}

// metric is a number that the objective measured in the last update.
func (l *Line) metric(name string) (float64, bool) {
	return ofLast(func(u *UpdateLine) (float64, bool) {
		v, ok := u.Metrics[name]
		return v, ok
	})(l)
}
