package eval

import (
	"context"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
)

// A try is a probe on a sample.
type try struct {
	probe  int
	prompt int
	text   string
	sample Sample
	key    rng.Key
}

// tries are all probes on the better sample of each pair that could be judged: one of each
// prompt, then the next of each, until there are enough.
func (e *examiner) tries(judged []judgedPair) []try {
	_, n := prompts(e.set.Pairs)
	waiting, text := make([][]Sample, n), make([]string, n)
	for _, p := range judged {
		s := p.A
		text[p.prompt] = p.Prompt
		switch p.Better {
		case Tie:
			continue
		case Second:
			s = p.B
		}
		if !slices.ContainsFunc(waiting[p.prompt], func(o Sample) bool { return o.Name == s.Name }) {
			waiting[p.prompt] = append(waiting[p.prompt], s)
		}
	}
	var out []try
	taken := 0
	for round := 0; taken < e.Probed; round++ {
		before := taken
		for prompt, samples := range waiting {
			if round >= len(samples) || taken == e.Probed {
				continue
			}
			for k, p := range Probes() {
				if p.fits(e.set.Of) {
					out = append(out, try{k, prompt, text[prompt], samples[round], e.key.With("try").Sample(taken).Attempt(k)})
				}
			}
			taken++
		}
		if taken == before {
			break
		}
	}
	return out
}

// probe tries them all. What is changed is made when it is asked about, and not kept.
func (e *examiner) probe(ctx context.Context, tries []try) []probed {
	answers := make([]answer, len(tries))
	list := Probes()
	call.Spread(len(tries), e.AtOnce, func(i int) {
		answers[i] = tries[i].ask(ctx, e.judge, list[tries[i].probe])
		e.done.step(e.Progress, e.all)
	})
	byProbe := make([]probed, len(list))
	asked := make([]bool, len(list))
	for i, t := range tries {
		p := &byProbe[t.probe]
		p.Probe, asked[t.probe] = list[t.probe], true
		if answers[i].missing != nil {
			p.missing++
			continue
		}
		p.prompt = append(p.prompt, t.prompt)
		p.cases = append(p.cases, Case{t.text, t.sample.Name, answers[i].a, answers[i].b, t.sample, p.Probe, t.key})
	}
	var out []probed
	for k, p := range byProbe {
		if asked[k] {
			out = append(out, p)
		}
	}
	return out
}

func (t try) ask(ctx context.Context, j rewards.Judge, p Probe) (a answer) {
	if a.missing = ctx.Err(); a.missing != nil {
		return a
	}
	item, err := t.sample.Open()
	if err != nil {
		a.missing = err
		return a
	}
	changed, against, err := p.apply(item, t.key)
	if err != nil {
		a.missing = err
		return a
	}
	return both(ctx, j, [2]rewards.Item{against, changed})
}
