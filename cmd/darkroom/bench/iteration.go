package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/bench/iteration"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/outside/spent"
)

// iterationCommand is 'darkroom bench iteration'. Each part runs in a process of its
// own: peaks of memory are those of processes.
func iterationCommand() *cobra.Command {
	work, on, only, against, worker := iteration.Usual(), target{}, []string(nil), "", ""
	cmd := &cobra.Command{
		Use:   "iteration",
		Short: "Time iterations of training with random weights",
		Long: `Time iterations of training with random weights: a mid-size Stable Diffusion 3
transformer with adapters (sampling, training with and without checkpointing, whole
iterations), the decoder of its autoencoder, and a vision-language model that reads
prompts and answers, in f32 and bf16, with the peak of resident memory. Before it is
timed, a sampled step is trained on: its ratio must be 1. With --device, the calls of the
device are shown beside the times, and its memory beside the process's own.

With --against, FILE is the output of another run, or of a PyTorch program that
prints the same keys; the last column is how many times faster, or smaller, this is.`,
		Example: "  darkroom bench iteration --threads 2 --parts grpo:bf16,vae:bf16\n  darkroom bench iteration --heads 4 --layers 2 --latent 16 --json > small.json",
		Args:    exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := work.Check(); err != nil {
				return exits.Usage(err)
			}
			if worker != "" {
				return measure(cmd, iteration.Part(worker), work, on)
			}
			if err := on.settle(); err != nil {
				return err
			}
			for _, p := range only {
				if !slices.Contains(iteration.Parts(), iteration.Part(p)) {
					return exits.Usagef("--parts %s: there are %v", p, iteration.Parts())
				}
			}
			parts := slices.DeleteFunc(iteration.Parts(), func(p iteration.Part) bool { return len(only) > 0 && !slices.Contains(only, string(p)) })
			return measureParts(cmd, "iteration", parts, work, on, against)
		},
	}
	f := cmd.Flags()
	on.flags(cmd)
	f.StringSliceVar(&only, "parts", nil, "which parts, of "+fmt.Sprint(iteration.Parts())+"; all if none is named")
	f.IntVar(&work.Repeat, "repeat", work.Repeat, "timed runs of each row")
	f.IntVar(&work.Heads, "heads", work.Heads, "of the transformer, 64 wide each")
	f.IntVar(&work.Layers, "layers", work.Layers, "of the transformer")
	f.IntVar(&work.Latent, "latent", work.Latent, "side of the latents")
	f.IntVar(&work.Text, "text", work.Text, "tokens of text")
	f.IntVar(&work.Group, "group", work.Group, "pictures of an iteration; 0 leaves whole iterations out")
	f.IntVar(&work.Steps, "steps", work.Steps, "of the sampler")
	f.IntVar(&work.Window, "window", work.Window, "steps that are trained")
	f.IntVar(&work.Micro, "micro", work.Micro, "pictures in a run of the network")
	f.IntVar(&work.Vocabulary, "vocab", work.Vocabulary, "tokens of the language model")
	f.IntVar(&work.Rows, "vlm-batch", work.Rows, "answers at a time")
	f.IntVar(&work.Prompt, "vlm-prompt", work.Prompt, "tokens of a prompt")
	f.IntVar(&work.New, "vlm-new", work.New, "tokens of an answer")
	f.StringVar(&against, "against", "", "FILE of results to compare with")
	f.StringVar(&worker, "worker", "", "measure one part in this process")
	if err := f.MarkHidden("worker"); err != nil {
		panic(err) // the flag was just made
	}
	return cmd
}

// target is the path or device of parts.
type target struct {
	threads int
	device  string
	path    isa.Path
	name    string // the path's, or the device and the library of its products
}

func (o *target) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&o.threads, "threads", 0, "number of threads; 0: as many as the process may use")
	devices.CPUFlag(cmd, &o.device)
}

// settle settles the number of threads and the name. The device is free again when it returns: processes of their
// own are measured on it.
func (o *target) settle() error {
	be, err := o.open()
	if err != nil {
		return err
	}
	be.Close()
	return nil
}

// measure is one part, in the process made for it.
func measure(cmd *cobra.Command, p iteration.Part, work iteration.Work, on target) error {
	be, err := on.open()
	if err != nil {
		return err
	}
	defer be.Close()
	dry := func() pipeline.Dry { return cpu.NewDry(cpu.Options{Path: on.path, Threads: on.threads}) }
	result, err := p.Run(cmd.Context(), work, be, iteration.Process{Peak: machine.PeakMiB, Reset: machine.ResetPeak, CPU: func() float64 { return spent.CPU().Seconds() }, Dry: dry})
	if err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
}

// open opens it, and settles the number of threads and the name.
func (o *target) open() (devices.Backend, error) {
	if o.threads < 0 {
		return nil, exits.Usagef("--threads %d: at least 1 is needed, or 0 for all", o.threads)
	}
	var err error
	if o.path, err = isa.Choose(); err != nil {
		return nil, exits.Usage(err)
	}
	if devices.OnCPU(o.device) {
		be, err := devices.OpenCPU(o.threads)
		if err != nil {
			return nil, err
		}
		o.threads, o.name = be.Threads(), be.Path().String()
		return be, nil
	}
	be, err := devices.Open(o.device)
	if err == nil {
		o.name = fmt.Sprint(be)
	}
	return be, err
}

// measureParts measures parts one after another, and prints them beside another run's.
func measureParts(cmd *cobra.Command, name string, parts []iteration.Part, work iteration.Work, on target, against string) error {
	other, err := readTree(against)
	if err != nil {
		return err
	}
	report := map[string]any{"bench": name, "threads": on.threads, "path": on.name, "build": version.Read()}
	for _, p := range parts {
		result, err := measurePart(cmd, p, work, on)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		report[p.Key()] = result
		if asked, _ := cmd.Flags().GetBool("json"); !asked {
			printPart(cmd.OutOrStdout(), p.Key(), result, other[p.Key()])
		}
	}
	return console.Emit(cmd, report, func(io.Writer) {})
}

// measurePart measures a part in a process of its own.
func measurePart(cmd *cobra.Command, p iteration.Part, w iteration.Work, on target) (map[string]any, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"bench", "iteration", "--worker", string(p), "--threads", strconv.Itoa(on.threads), "--device", cmp.Or(on.device, "cpu")}
	for name, n := range map[string]int{"repeat": w.Repeat, "heads": w.Heads, "layers": w.Layers, "latent": w.Latent, "text": w.Text, "group": w.Group, "steps": w.Steps, "window": w.Window, "micro": w.Micro,
		"vocab": w.Vocabulary, "vlm-batch": w.Rows, "vlm-prompt": w.Prompt, "vlm-new": w.New} {
		args = append(args, "--"+name, strconv.Itoa(n))
	}
	child := exec.CommandContext(cmd.Context(), self, args...)
	child.Args[0] = "darkroom"
	child.Stderr = cmd.ErrOrStderr()
	text, err := child.Output()
	if err != nil {
		return nil, err
	}
	var result map[string]any
	return result, json.Unmarshal(text, &result)
}

// printPart prints a part's numbers, and how they compare with another run's.
func printPart(w io.Writer, name string, result map[string]any, other any) {
	t := console.Table{Header: []string{strings.ToUpper(name), ">HERE", ">THERE", ">TIMES BETTER"}}
	var walk func(prefix string, a, b any)
	walk = func(prefix string, a, b any) {
		theirs, _ := b.(map[string]any)
		switch a := a.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(a)) {
				walk(strings.TrimPrefix(prefix+"."+key, "."), a[key], theirs[key])
			}
		case float64:
			if !strings.Contains(prefix, "device.") && !strings.HasSuffix(prefix, "_s") && !strings.HasSuffix(prefix, "_mb") && !strings.Contains(prefix, "_s_per_") && !strings.HasSuffix(prefix, "_per_s") {
				return
			}
			row := []string{prefix, strconv.FormatFloat(a, 'g', -1, 64), "", ""}
			if b, ok := b.(float64); ok && a > 0 && b > 0 {
				better := b / a
				if strings.HasSuffix(prefix, "_per_s") {
					better = a / b
				}
				row[2], row[3] = strconv.FormatFloat(b, 'g', -1, 64), fmt.Sprintf("%.2f", better)
			}
			t.Add(row...)
		}
	}
	walk("", result, other)
	t.Write(w)
	fmt.Fprintln(w)
}

// readTree reads the results of another run.
func readTree(file string) (map[string]any, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, exits.Usagef("--against: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, exits.Usagef("--against: %s is not the JSON of a benchmark: %w", file, err)
	}
	return doc, nil
}

// decodeCommand is 'darkroom bench decode': the parts of 'bench iteration' in which a
// vision-language model answers.
func decodeCommand() *cobra.Command {
	work, on, against := iteration.Usual(), target{}, ""
	cmd := &cobra.Command{
		Use:   "decode",
		Short: "Time a vision-language model that reads prompts and answers",
		Long: `Time a vision-language model of random weights that reads prompts and answers, in
f32 and bf16: tokens a second of prompts and of answers with kept keys and values,
seconds for a picture of 224 x 224, and the peak of resident memory. Before it is
timed, a token that is read by itself must have the bits of one read with its prompt.

With --against, FILE is the output of another run, or of a PyTorch program that
prints the same keys; the last column is how many times faster, or smaller, this is.`,
		Example: "  darkroom bench decode --threads 2\n  darkroom bench decode --vocab 1000 --vlm-batch 2 --vlm-prompt 16 --vlm-new 4 --json > small.json",
		Args:    exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := work.Check(); err != nil {
				return exits.Usage(err)
			}
			if err := on.settle(); err != nil {
				return err
			}
			return measureParts(cmd, "iteration", []iteration.Part{"vlm:fp32", "vlm:bf16"}, work, on, against)
		},
	}
	f := cmd.Flags()
	on.flags(cmd)
	f.IntVar(&work.Repeat, "repeat", work.Repeat, "timed runs of each row")
	f.IntVar(&work.Vocabulary, "vocab", work.Vocabulary, "tokens of the language model")
	f.IntVar(&work.Rows, "vlm-batch", work.Rows, "answers at a time")
	f.IntVar(&work.Prompt, "vlm-prompt", work.Prompt, "tokens of a prompt")
	f.IntVar(&work.New, "vlm-new", work.New, "tokens of an answer")
	f.StringVar(&against, "against", "", "FILE of results to compare with")
	return cmd
}
