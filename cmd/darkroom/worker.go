package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/fleet/natsio"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// darkroom worker: rolls samples of a run that another process trains.

type workerOptions struct {
	join, device, model, name string
}

func workerCommand() *cobra.Command {
	o := workerOptions{}
	cmd := &cobra.Command{
		Use:   "worker --join FILE",
		Short: "Roll samples for a run that trains elsewhere",
		Long: `Roll samples for a run that trains elsewhere: 'darkroom train --listen' writes the join file into
the run's folder, and whoever has a copy of it is let in. The model's folder must be here, too, with
the same files; experiment, prompts and weights come from the trainer.

A worker may come, leave and be killed at any moment: what it was at is done again, and the run
has the same bytes. It ends when the run is over, or by Ctrl-C.`,
		Example: "  darkroom worker --join runs/poster/join\n  darkroom worker --join join --device cuda:1 --model /nvme/stable-diffusion-3.5-medium",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.Flags().StringVar(&o.join, "join", "", "the join `FILE` of the run")
	cmd.Flags().StringVar(&o.model, "model", "", "the model's `FOLDER` on this machine, where it has another name than there")
	cmd.Flags().StringVar(&o.name, "name", "", "what the worker is called (default: machine and process)")
	deviceFlag(cmd, &o.device)
	return cmd
}

func (o *workerOptions) run(cmd *cobra.Command) (err error) {
	if o.join == "" {
		return usagef("--join FILE is needed: 'darkroom train --listen' writes it into the run's folder")
	}
	ticket, err := natsio.ReadTicket(o.join)
	if err != nil {
		return usageError{err}
	}
	log := cmd.ErrOrStderr()
	say := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	if natsio.Open(o.join) {
		say("warning: others than its owner may read %s, and whoever can joins the run (chmod 600 %s)", o.join, o.join)
	}
	be, err := openDevice(o.device)
	if err != nil {
		return err
	}
	defer be.Close()
	if o.name == "" {
		o.name = workerName()
	}
	link, err := natsio.Join(ticket, o.name, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, link.Close()) }()
	say("worker %s has joined run %s", o.name, ticket.Run)
	return o.work(cmd.Context(), link, be, log)
}

// work does jobs until the run is over or the command is interrupted.
func (o *workerOptions) work(ctx context.Context, link fleet.Link, be backend, log io.Writer) (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // nobody needs it
	}
	about := fleet.About{Host: host, Version: readBuild().String(), Class: arithmetic(be), Device: fmt.Sprint(be)}
	s := &fleet.Studio{Blobs: link, About: about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
		return run.OpenElsewhere(s, o.model, model.Options{Backend: be, Context: ctx, Cache: textCache()})
	}}
	defer func() { err = errors.Join(err, s.Close()) }()
	jobs, samples := 0, 0
	w := fleet.Worker{Name: o.name, Link: link, About: about, Beat: fleet.Usual().Beats(),
		Say: func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) },
		Do: func(ctx context.Context, j fleet.Job) ([]byte, error) {
			payload, err := s.Do(ctx, j)
			if err == nil {
				jobs, samples = jobs+1, samples+j.Samples()
			}
			return payload, err
		}}
	err = w.Run(ctx)
	if errors.Is(err, fleet.ErrOver) {
		err = nil
	}
	fmt.Fprintf(log, "%s, %s\n", plural(int64(jobs), "job"), plural(int64(samples), "sample"))
	return err
}

// workerName is that of this process.
func workerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%s-%d", clean, os.Getpid())
}
