package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/fleet/natsio"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// darkroom worker: rolls samples of a run that another process trains, asks its rewards, or computes gradients.

type workerOptions struct {
	join, device, model, name string
	memory, home              string
	blobs, creds              string
	roles, env                []string
	programs                  bool
}

// allowed is the run's permissions here beside computing.
func (o *workerOptions) allowed() run.Allowed { return run.Allowed{Programs: o.programs, Env: o.env} }

// WorkerCommand is 'darkroom worker'.
func WorkerCommand() *cobra.Command {
	o := workerOptions{}
	cmd := &cobra.Command{
		Use:   "worker --join FILE",
		Short: "Roll samples for a run that trains elsewhere, ask its rewards, or compute gradients",
		Long: `Roll samples for a run that trains elsewhere: 'darkroom train --listen' writes the join file into
the run's folder, and anyone with a copy of it can join. The model's folder must be here, too, with
the same files, and pictures that prompts name under the same paths; experiment, prompts and weights
come from the trainer.

--roles score asks the run's rewards that wait for a server or a program, a group of samples at a
time, and needs no model: their keys (--env NAME) and programs (--allow-programs) must be here.
--roles judge computes the rewards that are networks: their folders must be here under the names
that the experiment has. --roles gradient computes gradients of a run with run.shards above 1, of
which the trainer computes its part. One worker may have several roles: --roles roll,gradient.

--device cuda:0,cuda:1 is a worker on each of a machine's cards, by one command: they do jobs side by
side, and where one ends with an error, the others go on. Servers and programs are asked once a
machine.

A worker starts no program that the run names, and hands over no environment variable of this
machine, unless --allow-programs and --env say so. Whoever trains, or has the run's folder, then
runs programs here as you. A job that needs more is refused, and the trainer gives it to another
worker or does it itself.

A worker may come, leave and be killed at any moment: its unfinished jobs are done again, and the
run has the same bytes. It ends when the run is over, or by Ctrl-C.`,
		Example: "  darkroom worker --join runs/poster/join\n  darkroom worker --join join --device cuda:1 --model /nvme/stable-diffusion-3.5-medium\n  darkroom worker --join join --device cuda:0,cuda:1 --roles roll,gradient\n  darkroom worker --join join --roles score",
		Args:    exits.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.Flags().StringVar(&o.join, "join", "", "the join `FILE` of the run")
	cmd.Flags().StringVar(&o.model, "model", "", "the model's `FOLDER` on this machine, where it has another name than there")
	cmd.Flags().StringVar(&o.memory, "memory", "", "what the model may take here, such as 16GiB: on each card, and of CPUs together (default: the experiment's run.memory, or what is free)")
	cmd.Flags().StringVar(&o.home, "home", "", "where frozen matrices lie here while no product reads them: device, host or disk (default: the experiment's model.home, or by the memory); no bit depends on it")
	cmd.Flags().StringVar(&o.blobs, "blobs", "", "where the `FOLDER` that 'train --blobs' names is on this machine (default: under the same name); peer:PORT where that is peer, and others may have what is here at a port of your choice")
	cmd.Flags().StringVar(&o.creds, "creds", "", "the `FILE` of credentials for the server that 'train --workers' names")
	cmd.Flags().StringVar(&o.name, "name", "", "what the worker is called (default: machine and process)")
	cmd.Flags().StringSliceVar(&o.roles, "roles", []string{"roll"}, "what it does: roll, score, judge, gradient, or several of them")
	cmd.Flags().BoolVar(&o.programs, "allow-programs", false, "start programs that the run names: exec rewards, tools of episodes, and what runs the code that a model writes")
	cmd.Flags().StringArrayVar(&o.env, "env", nil, "hand over the environment variable `NAME` where the run asks for it (key_env, env); may be repeated")
	devices.Flag(cmd, &o.device)
	cmd.Flags().Lookup("device").Usage += "; several, as cuda:0,cuda:1, have a worker each"
	return cmd
}

// devices are the names of a worker's devices.
func (o *workerOptions) devices() ([]string, error) {
	names := experiment.Run{Device: o.device}.Devices()
	for i, name := range names {
		switch {
		case len(names) > 1 && name == "auto":
			return nil, exits.Usagef("--device %s: \"auto\" stands for one device, and here are several\nhint: name each: cuda:0,cuda:1, or cpu,cpu", o.device)
		case name != "cpu" && slices.Contains(names[:i], name):
			return nil, exits.Usagef("--device %s: %s is there twice, and a card has one worker\nhint: name each card once", o.device, name)
		}
	}
	return names, nil
}

// crewsOn are the workers of a command, a crew a device. Each has a key of its own: one that is dismissed does not
// take the others along. Servers and programs are asked once a machine; beside several devices a crew without one does.
func (o *workerOptions) crewsOn(names []string, ticket natsio.Ticket, say func(format string, args ...any)) (all []*crew, err error) {
	cpus := 0
	for _, name := range names {
		if name == "cpu" {
			cpus++
		}
	}
	free := sync.OnceValue(func() int64 { return int64(machine.Memory().Available) }) // before the first model is loaded
	add := func(own workerOptions) (err error) {
		c := &crew{workerOptions: &own, say: say, done: map[string]int{}, cpus: 1}
		if own.device == "cpu" && cpus > 1 {
			c.cpus, c.free = cpus, free
		}
		if c.ticket, err = ticket.WithKey(); err != nil {
			return err
		}
		if len(all) > 0 {
			c.ticket = c.ticket.Further()
		}
		c.bench = sync.OnceValues(func() (_ devices.Backend, err error) {
			c.opened, err = devices.OpenRank(c.workerOptions.device, len(names))
			return c.opened, err
		})
		c.opens = sync.OnceValues(c.openModel)
		all = append(all, c)
		return nil
	}
	computes := slices.Clone(o.roles)
	if len(names) > 1 {
		computes = slices.DeleteFunc(computes, func(r string) bool { return r == "score" })
	}
	for i, name := range names {
		own := *o
		own.device, own.roles = name, computes
		if len(names) > 1 {
			own.name = fmt.Sprintf("%s-%s", o.name, strings.ReplaceAll(name, ":", ""))
			if name == "cpu" {
				own.name += fmt.Sprint(i)
			}
		}
		if len(computes) == 0 {
			continue
		}
		if err := add(own); err != nil {
			return nil, err
		}
	}
	if len(computes) < len(o.roles) {
		own := *o
		own.device, own.roles = "", []string{"score"}
		if err := add(own); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// crew is the workers on a device, one a role.
type crew struct {
	*workerOptions // without a device: servers and programs alone
	ticket         natsio.Ticket
	say            func(format string, args ...any)
	cpus           int          // crews that share the CPU
	free           func() int64 // unused bytes that they share; nil: the device's
	mu             sync.Mutex
	done           map[string]int // jobs by role
	opened         devices.Backend
	bench          func() (devices.Backend, error) // the device, opened once, for the roles that compute
	opens          func() (*executor, error)       // the run's model, for rolls and gradients
	device         sync.Mutex                      // of which one computes at a time
}

// called is a crew among others.
func (c *crew) called() string {
	if on := c.workerOptions.device; on != "" {
		return "device " + on
	}
	return "role " + c.roles[0]
}

// failures are the errors of crews, each text once.
func failures(crews []*crew, errs []error) error {
	if len(crews) == 1 {
		return errs[0]
	}
	var all []error
	where := map[string][]string{}
	for i, err := range errs {
		if err == nil {
			continue
		}
		if where[err.Error()] == nil {
			all = append(all, err)
		}
		where[err.Error()] = append(where[err.Error()], crews[i].called())
	}
	for i, err := range all {
		all[i] = fmt.Errorf("%s: %w", strings.Join(where[err.Error()], ", "), err)
	}
	return errors.Join(all...)
}

// homes are those of a worker's frozen matrices.
var homes = []string{nn.Device.String(), nn.Host.String(), nn.Disk.String()}

// distinct are the names, each once.
func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func (o *workerOptions) run(cmd *cobra.Command) (err error) {
	if o.join == "" {
		return exits.Usagef("--join FILE is needed: 'darkroom train --listen' writes it into the run's folder")
	}
	var known []string
	for _, d := range fleet.Duties() {
		known = append(known, d.Name)
	}
	if len(o.roles) == 0 || len(o.roles) != len(distinct(o.roles)) || slices.ContainsFunc(o.roles, func(r string) bool { return !slices.Contains(known, r) }) {
		return exits.Usagef("--roles %s: %s and several of them, as roll,score, are possible", strings.Join(o.roles, ","), strings.Join(known, ", "))
	}
	if o.memory != "" && (experiment.Run{Memory: o.memory}).Bytes() == 0 {
		return exits.Usagef("--memory %s: a number and a unit are needed, such as 16GiB", o.memory)
	}
	if o.home != "" && !slices.Contains(homes, o.home) {
		return exits.Usagef("--home %s: %s are possible\nhint: each device of a worker has all matrices; the run chooses how matrices are compressed (model.quantize)", o.home, strings.Join(homes, ", "))
	}
	ticket, err := natsio.ReadTicket(o.join)
	if err != nil {
		return exits.Usage(err)
	}
	names, err := o.devices()
	if err != nil {
		return err
	}
	ticket.Credentials = o.creds
	switch {
	case o.creds != "" && ticket.Space == "":
		return exits.Usagef("--creds: the server of this run is the trainer's own, and the join file has all that it asks for")
	case o.blobs != "" && ticket.Blobs == "":
		return exits.Usagef("--blobs: blobs of this run go through its server\nhint: 'darkroom train --blobs FOLDER' shares a folder")
	case o.blobs != "" && natsio.ByPeers(o.blobs) != natsio.ByPeers(ticket.Blobs):
		return exits.Usagef("--blobs %s: blobs of this run go by %s, as 'darkroom train --blobs' says", o.blobs, ticket.Blobs)
	case o.blobs != "":
		ticket.Blobs = o.blobs
	}
	log := cmd.ErrOrStderr()
	var writing sync.Mutex
	say := func(format string, args ...any) {
		writing.Lock()
		defer writing.Unlock()
		fmt.Fprintf(log, format+"\n", args...)
	}
	if natsio.Open(o.join) {
		say("warning: other users can read %s, and so join the run: chmod 600 %s", o.join, o.join)
	}
	if o.name == "" {
		o.name = workerName()
	}
	cpu.Spare()
	crews, err := o.crewsOn(names, ticket, say)
	if err != nil {
		return err
	}
	errs := make([]error, len(crews))
	var all sync.WaitGroup
	var others atomic.Int64
	others.Store(int64(len(crews)))
	for i, c := range crews {
		all.Go(func() {
			errs[i] = c.work(cmd.Context())
			if left := others.Add(-1); errs[i] != nil && left > 0 {
				say("error: %s: %v; the others go on", c.called(), errs[i])
			}
			if c.opened != nil {
				c.opened.Close()
			}
		})
	}
	all.Wait()
	for _, r := range o.roles {
		done := 0
		for _, c := range crews {
			done += c.done[r]
		}
		say("%s (%s)", console.Plural(int64(done), "job"), r)
	}
	return failures(crews, errs)
}

// work does jobs until the run is over or the command is interrupted. Where one role fails, the others end, too.
func (c *crew) work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(c.roles))
	var all sync.WaitGroup
	for i, r := range c.roles {
		all.Go(func() {
			if errs[i] = c.as(ctx, r); errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// A trade is a worker's part for one role.
type trade struct {
	role  fleet.Role
	name  string
	about fleet.About
	do    func(ctx context.Context, l fleet.Link, j fleet.Job) ([]byte, error)
	moved func() time.Time // when a job last went on; nil: nobody sees
	close func() error
}

// An executor is the run's model on the worker's device, of all its roles that need one.
type executor struct {
	*fleet.Executor
	about fleet.About
}

// openModel opens a device for rolling and for gradients.
func (c *crew) openModel() (*executor, error) {
	be, err := c.bench()
	if err != nil {
		return nil, err
	}
	about := aboutHere()
	about.Class, about.Device = devices.Arithmetic(be), fmt.Sprint(be)
	var s *fleet.Executor
	s = &fleet.Executor{About: about, Open: func(ctx context.Context, setup fleet.Setup) (model.Model, *experiment.Experiment, error) {
		free := (&devices.Ranks{All: []devices.Backend{be}}).Free
		if c.free != nil {
			free = c.free
		}
		at := run.Worker{Model: c.model, Memory: c.memory, Home: c.home, Free: free(), Ranks: c.cpus, Logf: c.say, Allowed: c.allowed()}
		return run.OpenWorker(setup, at, model.Options{Backend: be, Context: ctx, Progress: s.Passed, Cache: devices.TextCache(), Arithmetic: about.Class, Ahead: s.Ahead})
	}}
	return &executor{s, about}, nil
}

// computes is for rolling, or for gradients.
func (c *crew) computes(role fleet.Role) (*trade, error) {
	s, err := c.opens()
	if err != nil {
		return nil, err
	}
	name := c.name
	if role != fleet.Rolls {
		name += "-" + string(role)
	}
	return c.alone(&trade{role: role, name: name, about: s.about, moved: s.Moved,
		do: func(ctx context.Context, l fleet.Link, j fleet.Job) ([]byte, error) {
			s.Blobs = l
			return s.Do(ctx, j)
		},
		close: s.Close}), nil
}

// alone is a trade that has the device to itself while it does a job, or frees memory there: a backend is used by one
// goroutine at a time. Its worker goes on saying that it is at the job while it waits for the other role.
func (c *crew) alone(t *trade) *trade {
	do, end := t.do, t.close
	t.do = func(ctx context.Context, l fleet.Link, j fleet.Job) ([]byte, error) {
		c.device.Lock()
		defer c.device.Unlock()
		if err := ctx.Err(); err != nil { // it was withdrawn meanwhile
			return nil, err
		}
		return do(ctx, l, j)
	}
	t.close = func() error {
		c.device.Lock()
		defer c.device.Unlock()
		return end()
	}
	return t
}

// scores is for asking rewards outside.
func (c *crew) scores(about fleet.About) *trade {
	return c.panel(fleet.Scorers, about, func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
		return run.OpenRewards(s, nil, c.allowed())
	})
}

// judges is for computing rewards that are networks.
func (c *crew) judges(about fleet.About) (*trade, error) {
	be, err := c.bench()
	if err != nil {
		return nil, err
	}
	about.Class, about.Device = devices.Arithmetic(be), fmt.Sprint(be)
	return c.alone(c.panel(fleet.Judges, about, func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
		if err := fleet.SameClass(s, about); err != nil {
			return nil, nil, err
		}
		return run.OpenRewards(s, be, c.allowed())
	})), nil
}

func (c *crew) panel(role fleet.Role, about fleet.About, open func(fleet.Setup) (map[string]rewards.Judge, func() error, error)) *trade {
	p := &fleet.Panel{About: about, Open: open}
	return &trade{role: role, name: c.name + "-" + string(role), about: about, close: p.Close,
		do: func(ctx context.Context, l fleet.Link, j fleet.Job) ([]byte, error) {
			p.Blobs = l
			return p.Do(ctx, j)
		}}
}

// aboutHere is this machine and program.
func aboutHere() fleet.About {
	host, err := os.Hostname()
	if err != nil {
		host = "" // nobody needs it
	}
	return fleet.About{Host: host, Version: version.Read().String()}
}

// trade opens the part for a role, by the name of its duty.
func (c *crew) trade(role string) (*trade, error) {
	switch role {
	case "roll":
		return c.computes(fleet.Rolls)
	case "gradient":
		return c.computes(fleet.Gradients)
	case "judge":
		return c.judges(aboutHere())
	case "score":
		return c.scores(aboutHere()), nil
	}
	return nil, fmt.Errorf("a worker has no part for role %s", role)
}

// as works in a role.
func (c *crew) as(ctx context.Context, role string) (err error) {
	t, err := c.trade(role)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ticket := c.ticket
	if role != c.roles[0] {
		ticket = ticket.Further()
	}
	link, err := natsio.Join(ctx, ticket, t.name, t.role, c.say)
	switch {
	case errors.Is(err, fleet.ErrOver): // while it waited for the trainer
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, link.Close()) }()
	c.say("worker %s has joined run %s: %s", t.name, c.ticket.Run, c.allowed())
	w := fleet.Worker{Name: t.name, Link: link, About: t.about, Beat: fleet.Usual().Beats(), Moved: t.moved, Hang: fleet.Usual().Unknown, Logf: c.say,
		Do: func(ctx context.Context, j fleet.Job) ([]byte, error) {
			payload, err := t.do(ctx, link, j)
			if err == nil {
				c.mu.Lock()
				c.done[role]++
				c.mu.Unlock()
			}
			return payload, err
		}}
	if err = w.Run(ctx); errors.Is(err, fleet.ErrOver) {
		err = nil
	}
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
