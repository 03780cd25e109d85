package experiment

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Monitor is one [[monitor]]: a number of the ledger, its bound, and the action beyond it. Package ledger lists the
// numbers.
type Monitor struct {
	Watch      string   `toml:"watch,required" doc:"a number of the ledger: darkroom list monitors"`
	FallsBelow *float64 `toml:"falls_below" doc:"a share f of its value v at the start: below v - (1-f)|v|"`
	IsBelow    *float64 `toml:"is_below" doc:"its value"`
	RisesAbove *float64 `toml:"rises_above" doc:"its value"`
	For        int      `toml:"for" range:"[1,1e6]" doc:"measurements in a row in which it must be so"`
	Then       string   `toml:"then" enum:"warn,stop,rollback" doc:"what to do"`
	Run        []string `toml:"run,single" doc:"a program with its arguments, started when it fires; its standard input is JSON that says what happened"`
	Webhook    string   `toml:"webhook" doc:"an http address that the same JSON is posted to; Slack's and Discord's read it"`
	WebhookEnv string   `toml:"webhook_env" doc:"the variable of the environment that holds the address, where it is a secret"`
	Rollback   Rollback `toml:"rollback" doc:"how then = \"rollback\" goes on"`
}

// Rollback sets how a run goes on after it went back to a regular checkpoint, its last one or the best one by
// held-out numbers: with other draws, a smaller learning rate, and not for ever.
type Rollback struct {
	To      string  `toml:"to" enum:"last,best" doc:"which checkpoint is gone back to; one is kept of every best evaluation"`
	By      string  `toml:"by" doc:"the held-out number that says which is best, the higher the better"`
	LRScale float64 `toml:"lr_scale" range:"(0,1]" doc:"what the learning rate is multiplied with from then on, each time"`
	Most    int     `toml:"most" range:"[1,1000]" doc:"times; the next one stops the run"`
}

// SetDefaults has a monitor's defaults.
func (m *Monitor) SetDefaults() {
	*m = Monitor{For: 1, Then: "warn", Rollback: Rollback{To: "last", By: "heldout.total", LRScale: 0.5, Most: 3}}
}

// Rule is the monitor's rule in words, by which it is known.
func (m Monitor) Rule() string {
	var parts []string
	for _, x := range []struct {
		says  string
		bound *float64
	}{{"falls below %v of its start", m.FallsBelow}, {"is below %v", m.IsBelow}, {"rises above %v", m.RisesAbove}} {
		if x.bound != nil {
			parts = append(parts, fmt.Sprintf(x.says, *x.bound))
		}
	}
	return m.Watch + " " + strings.Join(parts, " or ")
}

// checkMonitors: they watch something that exists.
func (e *Experiment) checkMonitors(r report) {
	var names []string
	for _, n := range e.Watched() {
		names = append(names, n.Name)
	}
	for i, m := range e.Monitors {
		key := fmt.Sprintf("monitor[%d].", i)
		if m.Watch == "" {
			continue
		}
		kind, _, _ := strings.Cut(m.Watch, ".")
		if !slices.Contains(names, m.Watch) {
			said := fmt.Sprintf("the ledger has no number %q", m.Watch)
			if slices.ContainsFunc(Monitors(), func(n Name) bool { return n.Name == m.Watch }) || m.Watch == "entropy" {
				said = fmt.Sprintf("the ledger of this run will have no number %q", m.Watch)
			}
			if kind == "reward" || kind == "gold" {
				said = fmt.Sprintf("no reward is called %q", m.Watch)
			}
			near := config.Near(m.Watch, names)
			if m.Watch == "entropy" && e.Episode != nil {
				near = "episode.entropy is that of the tokens that were drawn; the loss has one of its own where loss.entropy_weight or entropy_share asks for it"
			} else if near != "" {
				near = fmt.Sprintf("did you mean %q?", near)
			} else if near = "what can be watched: " + strings.Join(e.watchedRewards(), ", "); kind != "reward" && kind != "gold" {
				near = "what can be watched: " + strings.Join(names, ", ")
			}
			r(key+"watch", said, near)
		}
		if m.FallsBelow == nil && m.IsBelow == nil && m.RisesAbove == nil {
			r(key+"watch", "nothing says when", "write falls_below, is_below or rises_above")
		}
		if strings.HasPrefix(m.Watch, "heldout.") && e.Evaluate.Every == 0 {
			r(key+"watch", "nothing is held out while the run goes on", "evaluate.every says how often it is measured")
		}
		m.checkWebhook(under(strings.TrimSuffix(key, "."), r))
		m.Rollback.check(under(key+"rollback", r), m.Then, e.Evaluate.Every > 0, names)
	}
}

// checkWebhook: an address is one, and there once.
func (m Monitor) checkWebhook(r report) {
	switch u, err := url.Parse(m.Webhook); {
	case m.Webhook == "":
	case m.WebhookEnv != "":
		r("webhook", "there are two addresses", "webhook_env names one, too: leave one of them out")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r("webhook", fmt.Sprintf("%q is no http address", m.Webhook), "write https://HOST/PATH")
	}
}

// check: the number that decides the best checkpoint is measured.
func (b Rollback) check(r report, then string, measured bool, names []string) {
	switch {
	case b.To != "best" || then != "rollback":
	case !measured:
		r("to", "nothing says which checkpoint is the best: nothing is held out while the run goes on", "evaluate.every says how often it is measured")
	case !strings.HasPrefix(b.By, "heldout.") || !slices.Contains(names, b.By):
		var held []string
		for _, n := range names {
			if strings.HasPrefix(n, "heldout.") {
				held = append(held, n)
			}
		}
		r("by", fmt.Sprintf("nothing held out is called %q", b.By), "what is: "+strings.Join(held, ", "))
	}
}

// The ledger's numbers, which can be watched.

// Monitors are the numbers that runs have, by their names.
func Monitors() []Name {
	return named(ledger.Metrics(), func(n ledger.Metric) Name { return Name{Name: n.Name, Card: n.Card} })
}

// measures reports whether the experiment has a number.
func (e *Experiment) measures(n ledger.Metric) bool {
	switch n.Of {
	case ledger.OfPictures:
		return e.Episode == nil
	case ledger.OfTokens:
		return e.Episode != nil
	case ledger.OfDecisions:
		return e.Episode != nil || e.Kind().Has(loss.Ratio)
	case ledger.OfGreedy:
		return e.Comparison().GreedyAnswer
	}
	return true
}

// objectiveNumbers are the objective's numbers beside those of all runs.
func (e *Experiment) objectiveNumbers() []string {
	if e.Episode == nil || e.Supervised() {
		return e.Kind().Numbers
	}
	all := []string{"kl", "ppo_kl", "clipped", "clipped_dual"}
	if e.Loss.EntropyWeight != 0 || e.Loss.Keep.Entropy > 0 && e.Loss.Keep.Entropy < 1 {
		all = append(all, "entropy")
	}
	if e.Comparison().ValueHead {
		all = append(all, "value_loss", "value_clipped", "value_explained")
	}
	if e.Loss.Perception.On() {
		all = append(all, "perception")
	}
	if e.Imitates() {
		all = append(all, "nll", "token_probability", "imitated")
	}
	if e.Loss.Correction.On() {
		all = append(all, loss.Disagreement()...)
	}
	return all
}

// Watched are the numbers that this experiment's ledger will have.
func (e *Experiment) Watched() []Name {
	var all []Name
	turns := e.EachStage()
	add := func(name, card string) {
		if !slices.ContainsFunc(all, func(n Name) bool { return n.Name == name }) {
			all = append(all, Name{Name: name, Card: card})
		}
	}
	for _, n := range ledger.Metrics() {
		switch n.Name {
		case "reward.NAME":
			for _, name := range e.watchedRewards() {
				add(name, n.Card)
			}
		case "heldout.NAME":
			if e.Evaluate.Prompts == "" {
				continue
			}
			add("heldout.total", n.Card)
			for _, w := range e.Rewards {
				add("heldout."+w.Called(), n.Card)
			}
		case "missing.NAME":
			for _, w := range e.Rewards {
				add("missing."+w.Called(), n.Card)
			}
		case "best_of.K":
			for _, at := range turns {
				for _, k := range BestOfs(at.Rollout.Group) {
					add(fmt.Sprintf("best_of.%d", k), n.Card)
				}
			}
		case "gold.NAME":
		default:
			if slices.ContainsFunc(turns, func(at *Experiment) bool { return at.measures(n) }) {
				add(n.Name, n.Card)
			}
		}
	}
	for _, at := range turns {
		for _, name := range at.objectiveNumbers() {
			add(name, "Mean over the last update, of objective "+at.Loss.Objective+".")
		}
	}
	return all
}

// watchedRewards are the rewards by the names that monitors call them: of one that some stages train on and
// others only measure, both.
func (e *Experiment) watchedRewards() []string {
	var names []string
	for i := range e.Rewards {
		for _, at := range e.EachStage() {
			name := "gold." + at.Rewards[i].Called()
			if at.Rewards[i].Train {
				name = "reward." + at.Rewards[i].Called()
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// BestOfs are the numbers of samples whose best the ledger has: doubled up to the group.
func BestOfs(group int) []int {
	var all []int
	for k := 2; k < group; k *= 2 {
		all = append(all, k)
	}
	if group > 1 {
		all = append(all, group)
	}
	return all
}
