package fleet

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/fleet/natsio"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// train --listen: workers on this machine and others roll the run's samples (trainer/fleet).

// Options are the flags.
type Options struct {
	Listen    string
	workers   string
	creds     string
	advertise string
	metrics   string
	blobs     string
	ca        string
	until     string
	leave     bool
	audit     float64
}

// Flags adds them to a command.
func (o *Options) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "let workers in at `HOST:PORT` ('darkroom worker'); port 0 takes a free one")
	f.StringVar(&o.workers, "workers", "", "in place of --listen: let workers in by a NATS server or cluster of your own, with JetStream: `URL`s as nats+tls://HOST:PORT,HOST:PORT")
	f.StringVar(&o.creds, "creds", "", "the `FILE` of credentials for that server (with --workers)")
	f.StringVar(&o.ca, "ca", "", "the `FILE` of the authority of that server's certificate, PEM (with --workers; default: those that this machine trusts)")
	f.StringVar(&o.blobs, "blobs", "", "how weights and samples travel: a `FOLDER` that all machines share, or peer: from process to process, or peer:PORT (with --listen or --workers; default: through the server)")
	f.StringVar(&o.advertise, "advertise", "", "`HOST:PORT` by which workers reach this machine, where it is not one of its own (with --listen)")
	f.StringVar(&o.metrics, "metrics", "", "serve numbers of the workers for Prometheus at `HOST:PORT`/metrics (with --listen)")
	f.StringVar(&o.until, "join-until", "", "the last `DAY` on which the join file lets new workers in, as 2026-12-31, or a moment as 2026-12-31T18:00:00Z (with --listen or --workers; default: it has none)")
	f.BoolVar(&o.leave, "leave-rolls", false, "roll nothing here while workers are there (with --listen)")
	f.Float64Var(&o.audit, "audit", 0.01, "the `SHARE` of workers' results to recompute here and compare (with --listen)")
}

// any reports whether workers may come.
func (o *Options) any() bool { return o.Listen != "" || o.workers != "" }

// Check refuses flags that contradict each other.
func (o *Options) Check(cmd *cobra.Command, e *experiment.Experiment) error {
	switch {
	case o.Listen != "" && o.workers != "":
		return exits.Usagef("--listen is a server of the trainer's own, and --workers names another\nhint: leave one of them out")
	case o.workers == "" && (o.creds != "" || o.ca != "") || o.Listen == "" && o.advertise != "":
		return exits.Usagef("--creds and --ca go with --workers, and --advertise with --listen")
	case !o.any() && (o.leave || o.blobs != "" || o.advertise != "" || o.metrics != "" || cmd.Flags().Changed("audit")):
		return exits.Usagef("--leave-rolls, --audit, --blobs, --advertise and --metrics are about workers, and there are none without --listen or --workers")
	case o.until != "" && !o.any():
		return exits.Usagef("--join-until goes with --listen or --workers")
	case o.until != "" && o.lastMoment().IsZero():
		return exits.Usagef("--join-until %s: a day is needed, as 2026-12-31, or a moment, as 2026-12-31T18:00:00Z", o.until)
	case o.audit < 0 || o.audit > 1:
		return exits.Usagef("--audit %v: a share lies between 0 and 1", o.audit)
	case o.any() && e.Episode != nil && e.Episode.Engine != nil:
		return exits.Usagef("--listen and --workers: an engine draws this run's tokens ([episode.engine]), and what it draws cannot be drawn again to compare workers\nhint: leave the flag out, or [episode.engine]; an engine on several cards is one engine")
	case o.any() && (e.AllOffline() || e.AllSupervised()):
		return exits.Usagef("--listen and --workers: this experiment rolls nothing, so that workers have nothing to do\nhint: leave the flag out")
	case o.workers != "":
		if err := (natsio.Remote{URLs: o.workers, Blobs: o.blobs}).Check(); err != nil {
			return exits.Usage(err)
		}
	case o.Listen != "":
		if err := (natsio.Address{Listen: o.Listen, Advertised: o.advertise, Blobs: o.blobs}).Check(); err != nil {
			return exits.Usage(err)
		}
	}
	return nil
}

// lastMoment is the last one of --join-until; zero: it has none, or an invalid date.
func (o *Options) lastMoment() time.Time {
	if day, err := time.ParseInLocation(time.DateOnly, o.until, time.Local); err == nil {
		return day.AddDate(0, 0, 1).Add(-time.Second)
	}
	at, err := time.Parse(time.RFC3339, o.until)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Workers is a run's workers, once its folder is open.
type Workers struct {
	Options
	Dir, Run string
	Logf     func(format string, args ...any)
	fleet    *fleet.Fleet
	broker   *natsio.Broker
	numbers  *http.Server // nil: nobody asks
}

// Into sets a run's options for them.
func (a *Workers) Into(o run.Options) run.Options {
	if a.any() {
		o.Fleet = a.open
	}
	return o
}

// open lets workers in.
func (a *Workers) open() (by run.Fleets, err error) {
	cpu.Spare()
	if a.workers != "" {
		a.broker, err = natsio.Attach(natsio.Remote{URLs: a.workers, Credentials: a.creds, Authority: a.ca, Dir: a.Dir, Run: a.Run, Blobs: a.blobs,
			Until: a.lastMoment(), Logf: a.later})
	} else {
		a.broker, err = natsio.Listen(natsio.Address{Listen: a.Listen, Dir: a.Dir, Run: a.Run, Blobs: a.blobs, Advertised: a.advertise,
			Until: a.lastMoment(), Logf: a.later})
	}
	if err != nil {
		return by, err
	}
	for _, path := range natsio.OpenFiles(a.Dir) {
		a.Logf("warning: other users can read %s, and its keys: chmod 600 %s", path, path)
	}
	var salt fleet.Hash
	if _, err := rand.Read(salt[:]); err != nil {
		return by, err
	}
	switch {
	case a.workers != "" && a.creds != "":
		a.Logf("workers join with: darkroom worker --join %s --creds FILE", a.broker.Join)
	case a.workers != "":
		a.Logf("workers join with: darkroom worker --join %s", a.broker.Join)
	default:
		a.Logf("workers join with: darkroom worker --join %s  (port %s)", a.broker.Join, a.broker.Port())
	}
	a.fleet = fleet.New(fleet.Options{Hub: a.broker.Hub, Rules: fleet.Usual(), Local: !a.leave, Audit: a.audit, Salt: salt, Logf: a.Logf})
	by = run.Fleets{Rolls: a.fleet,
		Scores:    fleet.New(fleet.Options{Hub: a.broker.Hub.As(fleet.Scorers), Rules: fleet.Patient(), Logf: a.fleet.Tell}),
		Networks:  fleet.New(fleet.Options{Hub: a.broker.Hub.As(fleet.Judges), Rules: fleet.Patient(), Audit: a.audit, Salt: salt, Logf: a.fleet.Tell}),
		Gradients: fleet.New(fleet.Options{Hub: a.broker.Hub.As(fleet.Gradients), Rules: fleet.Usual(), Local: true, Audit: a.audit, Salt: salt, Logf: a.fleet.Tell})}
	if a.metrics != "" {
		err = a.serve(by)
	}
	return by, err
}

// later says something of a fleet that is at something.
func (a *Workers) later(format string, args ...any) { go a.fleet.Tell(format, args...) }

// serve says the fleets' numbers to Prometheus.
func (a *Workers) serve(by run.Fleets) error {
	at, err := net.Listen("tcp", a.metrics)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = fleet.WriteMetrics(w, []string{"roll", "score", "judge", "gradient"}, []*fleet.Fleet{by.Rolls, by.Scores, by.Networks, by.Gradients}) // who asks has gone
	})
	a.numbers = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	a.Logf("numbers of the workers: http://%s/metrics", at.Addr())
	go func() { _ = a.numbers.Serve(at) }() // until it is closed
	return nil
}

// Close lets workers go. They end where the run is over; otherwise they wait for the trainer to come back.
func (a *Workers) Close(over bool) error {
	if a.broker == nil {
		return nil
	}
	var err error
	if a.numbers != nil {
		err = a.numbers.Close()
	}
	if over {
		err = errors.Join(err, a.broker.Hub.Over())
	}
	if a.fleet != nil {
		c := a.fleet.Counts()
		a.Logf("fleet: %s, %d given to a second worker, %d offered again, %d results that differed", console.Plural(int64(c.Done), "job"), c.Hedged, c.Expired+c.Lost+c.Failed, c.Differed)
	}
	return errors.Join(err, a.broker.Close())
}
