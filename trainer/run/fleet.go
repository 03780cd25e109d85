package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// Rolls by other processes (trainer/fleet): what a run tells them before their first job, and what they open. Only
// this file of the run knows of them.

// openFleet opens the model, whose rolls are shared out.
func (t *training) openFleet(o model.Options) error {
	if len(t.Further) > 0 {
		return errors.New("a run with workers trains on one device, and this one has several\nhint: run.device names one; each further device can be a worker of its own")
	}
	s, err := t.setup()
	if err != nil {
		return err
	}
	by, err := t.Fleet()
	if err != nil {
		return err
	}
	t.fleet = by.Rolls
	for _, f := range []*fleet.Fleet{by.Rolls, by.Scores, by.Networks} {
		if f != nil {
			f.Log = t.logJob
		}
	}
	if err := errors.Join(t.rewards.share(by.Scores, s, false), t.rewards.share(by.Networks, s, true)); err != nil {
		return err
	}
	t.model, err = t.fleet.Open(s, t.Experiment, o, t.planned, func(o model.Options) (model.Model, error) { return t.modality.Open(t.Experiment, o) })
	return err
}

// own is the model that computes here: a fleet's stands before it.
func (t *training) own() model.Model {
	if m, ok := t.model.(interface{ Own() model.Model }); ok {
		return m.Own()
	}
	return t.model
}

// replaced reports whether a check put other samples in the place of workers', which have to be judged again.
func replaced(err error) bool { return errors.Is(err, fleet.ErrReplaced) }

// planned is what an iteration to come will roll, as far as that does not depend on those before it.
func (t *training) planned(i int) (p fleet.Planned, err error) {
	if p.Turn, err = t.Turn(i); err != nil || p.Turn.Taught() || p.Turn.Rollout.Offline {
		return p, err
	}
	t.give(&p.Turn) // as much as now: with run.lag it stays
	now := t.now.turn
	defer func() { t.now.turn = now }()
	t.now.turn, p.Root = p.Turn, t.root()
	p.Keys = t.keys(i)
	return p, nil
}

// setup is what a worker opens.
func (t *training) setup() (s fleet.Setup, err error) {
	var config bytes.Buffer
	if err := t.Write(&config); err != nil {
		return s, err
	}
	dir, err := assets.Resolve(t.Model.Path)
	if err != nil {
		return s, err
	}
	files, err := modelFiles(dir)
	if err != nil {
		return s, err
	}
	networks, err := t.rewards.networkFiles(t.Rewards)
	if err != nil {
		return s, err
	}
	list, err := json.Marshal(files)
	return fleet.Setup{Networks: networks, Version: t.Version, Class: t.Class, Config: config.String(), Model: fleet.HashOf(list), Files: list, Train: t.train, HeldOut: t.heldOut, Lists: prompts.Stretches(slices.Concat(t.train, t.heldOut))}, err
}

// logJob writes down who did a job. It is no part of what has to be the same in every run.
func (t *training) logJob(e fleet.Entry) {
	if t.Job != nil {
		t.Job(e)
	}
	t.files.jobs.Lock()
	defer t.files.jobs.Unlock()
	e.At = float64(time.Now().UnixMilli()) / 1000
	if t.files.fleet == nil {
		lines, err := t.files.folder.AllLines(ledger.FleetFile)
		if err != nil {
			t.Say("warning: %s is not written: %v", ledger.FleetFile, err)
			return
		}
		t.files.fleet = lines
	}
	if err := t.files.fleet.Append(e); err != nil {
		t.Say("warning: %s: %v", ledger.FleetFile, err)
	}
}

// rollsAlone leaves of an experiment what its rolls need: conversations and pictures that are learned from are read by
// the trainer, whose stages without rolls have the prompts of one that rolls here.
func rollsAlone(e *experiment.Experiment) {
	rolled := e.Rollout.Prompts
	for _, at := range e.Turns() {
		if !at.Rollout.Offline {
			rolled = at.Rollout.Prompts
			break
		}
	}
	alone := func(r *experiment.Rollout) {
		if r.Lessons = ""; r.Offline {
			r.Prompts, r.Shares, r.Offline = rolled, nil, false
		}
	}
	alone(&e.Rollout)
	for i := range e.Stages {
		alone(&e.Stages[i].Rollout)
	}
}

// Elsewhere is what another machine has for a run.
type Elsewhere struct {
	Model  string // the model's folder; "": it has the name that it has there
	Memory string // what the model may take, in place of run.memory; "": that, or what is free
	Free   int64  // bytes
	Allowed
	Say func(format string, args ...any)
}

// OpenElsewhere opens the model of a run that another process trains.
func OpenElsewhere(s fleet.Setup, at Elsewhere, o model.Options) (model.Model, *experiment.Experiment, error) {
	var sets []string
	if at.Model != "" {
		sets = append(sets, fmt.Sprintf("model.path=%q", at.Model))
	}
	if at.Memory != "" {
		sets = append(sets, fmt.Sprintf("run.memory=%q", at.Memory))
	}
	e, err := experiment.Parse("the trainer's experiment", []byte(s.Config), sets)
	if err != nil {
		return nil, nil, err
	}
	if err := at.refuses(e.Demands()); err != nil {
		return nil, nil, err
	}
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, nil, err
	}
	var files []ModelFile
	if err := json.Unmarshal(s.Files, &files); err != nil {
		return nil, nil, fmt.Errorf("the run's setup: the model's files: %w", err)
	}
	has, err := modelFiles(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing the model with the trainer's: %w\nhint: --model names the model's folder on this machine", err)
	}
	if changed := changedFiles(dir, has, files); len(changed) > 0 {
		return nil, nil, fmt.Errorf("the model in %s is not the trainer's:\n  %s\nhint: copy the trainer's folder; --model says where it is", dir, strings.Join(changed, "\n  "))
	}
	e.Run.Lag = 0        // whose weights are sent
	e.Model.Teacher = "" // which is asked about samples, by the trainer
	rollsAlone(e)
	m := ModalityOf(e)
	if _, err := m.Ready(context.Background(), e); err != nil {
		return nil, nil, err
	}
	if at.Memory != "" || at.Free > 0 || e.Run.Memory != "" {
		o.Fit = fitted(m, computesOn(o.Backend, e), at.Free, 1, at.Say)
	}
	all := slices.Concat(s.Train, s.HeldOut)
	prompts.Restore(all, s.Lists)
	o.Train, o.HeldOut = all[:len(s.Train):len(s.Train)], all[len(s.Train):]
	opened, err := m.Open(e, o)
	return opened, e, err
}
