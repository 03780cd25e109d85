package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// The reaction to a reward without a score. rewards/call has tried then, as often as its policy says; here [[reward]]
// on_failure decides:
//
//	skip   the samples are left out of their groups. If more than most_missing of an iteration's
//	       are, nothing is learned from that iteration, and after give_up such iterations in a row
//	       the run is saved and stops
//	wait   they are asked about again after a pause; after give_up rounds the run stops
//	stop   the run stops
//
// With on_failure = skip, a gold reward never blocks an iteration. One that has not answered even once since the
// program began stops the run at once: that is a mistake of the settings.

// A failure is why a run stops that could have gone on: it is saved first.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// errWaited says that the run was interrupted between two rounds of asking.
var errWaited = errors.New("interrupted while it waited")

// nothingScored is an error at the end of a run in which no iteration had enough scores to learn from: it came to its
// end before any reward had failed often enough to stop it.
func (s *rewardSet) nothingScored(iterations int) error {
	if len(s.failures) == 0 {
		return nil
	}
	failed := slices.Sorted(maps.Keys(s.failures))
	return fmt.Errorf("nothing was learned: in none of %d iterations had reward %s enough scores\nhint: the warnings above and samples.jsonl say what is missing; --restart begins anew once it is there",
		iterations, strings.Join(failed, ", "))
}

// tryPrograms asks every program of a run of pictures about a grey one, before the model is loaded, with the first
// prompt that has no pictures and weighs the reward: a program that cannot start fails here, before any picture is
// made. Its own word that it has no score is an answer. With on_failure = skip, a failure is a warning, since the
// program may fail on this picture alone: unless it fails in the same words when it is asked nothing.
func (s *rewardSet) tryPrograms(e *experiment.Experiment, list []prompts.Prompt) error {
	grey := vision.New(64, 64)
	for i := range grey.Pix {
		grey.Pix[i] = 128
	}
	for k := range s.all {
		r := &s.all[k]
		if e.Rewards[k].Name != "exec" || r.OnFailure == "wait" {
			continue
		}
		first := slices.IndexFunc(list, func(p prompts.Prompt) bool { return len(p.Image) == 0 && r.weighs(p) })
		if first < 0 {
			continue
		}
		all := r.Judge(s.ctx, []rewards.Item{ofPrompt(rewards.Item{Image: grey}, list[first])})
		var declined rewards.Declined
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case len(all) != 1:
			return fmt.Errorf("reward %s judged %d of 1 sample", r.name, len(all))
		case all[0].Missing == nil || errors.As(all[0].Missing, &declined):
			continue
		}
		err := fmt.Errorf("reward %s, asked about a grey picture before anything is made: %w", r.name, all[0].Missing)
		if r.OnFailure != "skip" || s.failsAlone(r, all[0].Missing) {
			return err
		}
		s.say("warning: %v", err)
	}
	return nil
}

// failsAlone reports whether the reward's program fails in the same words when it is asked nothing.
func (s *rewardSet) failsAlone(r *reward, asked error) bool {
	ctx, end := context.WithTimeout(s.ctx, mostStart)
	defer end()
	err := r.Starts(ctx)
	said := call.Output(asked) // a silent program may fail for other reasons
	return err != nil && said != "" && call.Output(err) == said
}

// mostStart is how long a program that is asked nothing is waited for.
const mostStart = time.Minute

// answers asks a reward about groups of n samples, as often as on_failure says. Samples of other groups are
// not asked about.
func (s *rewardSet) answers(sent *requests, r *reward, item func(i int) rewards.Item, groups [][]int, n int) ([]rewards.Result, error) {
	all := make([]rewards.Result, n)
	for i := range all {
		all[i].Missing = errNotAsked
	}
	asked := 0
	for _, g := range groups {
		asked += len(g)
	}
	for round := 0; ; round++ {
		if err := r.round(sent, all, item, groups, round > 0); err != nil {
			return nil, err
		}
		missing, why := missingOf(all)
		r.answered = r.answered || missing < asked
		none := fmt.Errorf("reward %s has no score for %d of %d samples; the first: %w", r.name, missing, asked, why)
		switch {
		case sent.ctx.Err() != nil:
			return nil, sent.ctx.Err()
		case missing == 0:
			return all, nil
		case r.OnFailure == "stop" || r.OnFailure == "wait" && round == r.GiveUp:
			return nil, failure{none}
		case r.OnFailure == "skip" && !r.answered:
			return nil, none
		case r.OnFailure == "skip":
			return all, nil
		}
		s.say("%v\nasking again in %v, round %d of %d", none, r.pause(), round+1, r.GiveUp)
		select {
		case <-s.ctx.Done():
			return nil, fmt.Errorf("%w for reward %s", errWaited, r.name)
		case <-time.After(r.pause()):
		}
	}
}

// round asks about every group, or about those that still miss something, of which only that is
// taken.
func (r *reward) round(sent *requests, all []rewards.Result, item func(i int) rewards.Item, groups [][]int, again bool) error {
	var open [][]int
	for _, g := range groups {
		if !again || slices.ContainsFunc(g, func(i int) bool { return all[i].Missing != nil }) {
			open = append(open, g)
		}
	}
	sent.send(r, item, open)
	sent.spread(r, item, open)
	for _, g := range open {
		results := sent.answer(r, item, g)
		if len(results) != len(g) {
			return fmt.Errorf("reward %s judged %d of %d samples", r.name, len(results), len(g))
		}
		for k, i := range g {
			if !again || all[i].Missing != nil {
				all[i] = results[k]
			}
		}
	}
	return nil
}

func (r *reward) pause() time.Duration { return time.Duration(r.Pause * float64(time.Second)) }

// missingOf counts missing scores, and returns the reason of the first.
func missingOf(all []rewards.Result) (n int, why error) {
	for _, r := range all {
		if r.Missing != nil && r.Missing != errNotAsked {
			if n++; why == nil {
				why = r.Missing
			}
		}
	}
	return n, why
}

// tooFew is why an iteration has too few scores of a reward that is trained on, and counts how often in a row; "": it
// has enough. A reward that has given up is an error.
func (s *rewardSet) tooFew(e *experiment.Experiment, scored *scores, iteration int) (says string, err error) {
	for k, r := range s.all {
		missing, why := missingOf(scored.results[r.name])
		n := len(scored.results[r.name])
		if !e.Rewards[k].Train || r.OnFailure != "skip" || float64(missing) <= r.MostMissing*float64(n) {
			delete(s.failures, r.name)
			continue
		}
		says = fmt.Sprintf("reward %s has no score for %d of %d samples", r.name, missing, n)
		if s.failures[r.name]++; s.failures[r.name] >= r.GiveUp {
			return says, failure{fmt.Errorf("%s, in %d iterations in a row; the first: %w", says, s.failures[r.name], why)}
		}
		s.say("warning: iteration %d: %s, so no sample is learned from (%d of at most %d in a row); the first: %v", iteration, says, s.failures[r.name], r.GiveUp, why)
	}
	return says, nil
}

// A sample is lost where something outside of the program failed while it was rolled. No reward judges it: it is left
// out of its group, and every reward counts it as missing.

// lost is why a sample cannot be judged; nil: it can.
func lost(item rewards.Item) error {
	if item.Transcript == nil {
		return nil
	}
	return item.Transcript.Lost
}

// withoutLost are groups without the samples that are lost.
func withoutLost(items []rewards.Item, groups [][]int) (kept [][]int) {
	for _, g := range groups {
		var some []int
		for _, i := range g {
			if lost(items[i]) == nil {
				some = append(some, i)
			}
		}
		if len(some) > 0 {
			kept = append(kept, some)
		}
	}
	return kept
}

// markLost makes the results of lost samples missing.
func markLost(items []rewards.Item, results []rewards.Result) {
	for i := range items {
		if why := lost(items[i]); why != nil {
			results[i] = rewards.Result{Missing: why}
		}
	}
}
