package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
	"github.com/darkroom-rl/darkroom/vision/mask2former"
)

func pretrainCommand() *cobra.Command {
	var o pretrainOptions
	cmd := &cobra.Command{
		Use:   "pretrain FILE.toml",
		Short: "Make a small model from a recipe, with nothing but drawn scenes",
		Long: `Make a small text-to-picture model from nothing but a recipe: scenes are drawn and
captioned by rule, an autoencoder and a transformer learn from them, and the result is a
folder in the layout of a StableDiffusion3Pipeline. The same command resumes a run that was
stopped.

--judge trains nothing. It draws held-out captions with a folder's model, with and without
guidance, and scores the pictures against the captions; for a CLIP it measures how well
captions find their pictures, for a detector how many objects it finds.`,
		Example: "  darkroom pretrain assets/tiny-sd3.toml --out models/tiny-sd3\n  darkroom pretrain --judge embed:tiny-sd3 --n 200",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.judge != "" && len(args) > 0:
				return fmt.Errorf("--judge makes nothing: leave %s out", args[0])
			case o.judge == "" && len(args) != 1:
				return fmt.Errorf("'%s' needs one file\nhint: see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.judge != "" {
				return o.judgeFolder(cmd.Context(), cmd)
			}
			return o.make(cmd.Context(), cmd, args[0])
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "the `FOLDER` of the model (default models/NAME OF THE FILE)")
	devices.CPUFlag(cmd, &o.device)
	cmd.Flags().StringArrayVar(&o.sets, "set", nil, "set `KEY=VALUE` over the file, as often as needed")
	cmd.Flags().StringVar(&o.judge, "judge", "", "judge the model of a `FOLDER`")
	cmd.Flags().IntVar(&o.n, "n", 200, "pictures that --judge draws")
	cmd.Flags().IntVar(&o.steps, "steps", 10, "of the sampler that --judge draws with")
	cmd.Flags().Float64Var(&o.guidance, "guidance", 3, "the guidance that --judge tries too")
	return cmd
}

type pretrainOptions struct {
	out, judge string
	device     string
	sets       []string
	n, steps   int
	guidance   float64
}

// make follows a recipe.
func (o *pretrainOptions) make(ctx context.Context, cmd *cobra.Command, file string) error {
	r, err := pretrain.Read(file, o.sets)
	var mistakes config.Mistakes
	switch {
	case errors.As(err, &mistakes):
		return exits.Usagef("%s\n%w", console.Plural(int64(len(mistakes)), "mistake"), err)
	case errors.Is(err, fs.ErrNotExist):
		return exits.Usagef("%s: no such file", file)
	case err != nil:
		return err
	}
	out := o.out
	if out == "" {
		out = filepath.Join("models", strings.TrimSuffix(filepath.Base(file), ".toml"))
	}
	be, err := devices.Open(o.device)
	if err != nil {
		return err
	}
	defer be.Close()
	began := time.Now()
	return pretrain.Run(r, out, pretrain.Hooks{Backend: be, Context: ctx, Log: func(line string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%6.0f s  %s\n", time.Since(began).Seconds(), strings.ReplaceAll(line, "\n", "\n          "))
	}})
}

// judgement is the result of --judge.
type judgement struct {
	Model       string                 `json:"model"`
	Steps       int                    `json:"steps"`
	Fidelity    *pretrain.Fidelity     `json:"reconstruction"`
	Evaluations []*pretrain.Evaluation `json:"verdicts"`
}

// judged prints the evaluation of a CLIP or a detector.
func judged[V fmt.Stringer](cmd *cobra.Command, v V, err error) error {
	if err != nil {
		return err
	}
	return console.Emit(cmd, v, func(w io.Writer) { fmt.Fprintln(w, v) })
}

// judgeable refuses a folder whose model makes clips or edits, and names the command that judges them. A folder that
// cannot be read is left to the reader of models and its message.
func judgeable(dir, model string) error {
	text, err := os.ReadFile(filepath.Join(dir, "model_index.json"))
	if err != nil {
		return nil
	}
	var index struct {
		Class string `json:"_class_name"`
	}
	if json.Unmarshal(text, &index) != nil {
		return nil
	}
	makes := ""
	switch {
	case strings.HasPrefix(index.Class, "Wan"):
		makes = "clips"
	case strings.Contains(index.Class, "Kontext"):
		makes = "edits"
	default:
		return nil
	}
	return exits.Usagef("--judge %s: a %s makes %s, and --judge draws pictures of captions alone\nhint: 'darkroom pretrain RECIPE' judges %s as the recipe's [judge] says; 'darkroom sample --model %s --image PICTURE --prompt TEXT --out FILE' makes one", model, index.Class, makes, makes, model)
}

func (o *pretrainOptions) judgeFolder(ctx context.Context, cmd *cobra.Command) error {
	if o.n < 1 || o.steps < 1 || o.guidance < 1 {
		return exits.Usagef("--n %d, --steps %d, --guidance %v: at least 1 each", o.n, o.steps, o.guidance)
	}
	dir, err := assets.Resolve(o.judge)
	if err != nil {
		return exits.Usage(err)
	}
	be, err := devices.Open(o.device)
	if err != nil {
		return err
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	if _, err := os.Stat(filepath.Join(dir, pretrain.HeadFile)); err == nil {
		v, err := pretrain.JudgeTowers(pool, dir, o.n)
		return judged(cmd, v, err)
	}
	if _, err := mask2former.ReadConfig(dir); err == nil {
		v, err := pretrain.JudgeDetector(ctx, pool, dir, o.n)
		return judged(cmd, v, err)
	}
	if err := judgeable(dir, o.judge); err != nil {
		return err
	}
	j := judgement{Model: o.judge, Steps: o.steps}
	if j.Fidelity, err = pretrain.Reconstruct(pool, dir, o.n); err != nil {
		return err
	}
	for _, w := range []float64{1, o.guidance} {
		v, err := pretrain.Judge(ctx, pool, dir, pretrain.HeldOut(o.n), o.steps, w)
		if err != nil {
			return err
		}
		j.Evaluations = append(j.Evaluations, v)
	}
	return console.Emit(cmd, j, func(w io.Writer) {
		fmt.Fprintln(w, j.Fidelity)
		for _, v := range j.Evaluations {
			fmt.Fprintln(w, v)
		}
	})
}
