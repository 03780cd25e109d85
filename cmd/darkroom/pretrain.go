package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"os"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
)

func pretrainCommand() *cobra.Command {
	var out string
	var sets []string
	cmd := &cobra.Command{
		Use:   "pretrain FILE.toml",
		Short: "Make a small model from a recipe, with nothing but drawn scenes",
		Long: `Make a small text-to-picture model from nothing but a recipe: scenes are drawn and
captioned by rule, an autoencoder and a transformer learn from them, and a folder in the
layout of a StableDiffusion3Pipeline comes out. A run that was stopped goes on when the
command is given again.`,
		Example: "  darkroom pretrain assets/tiny-sd3.toml --out models/tiny-sd3",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := pretrain.Read(args[0], sets)
			var mistakes config.Mistakes
			switch {
			case errors.As(err, &mistakes):
				return usagef("%s\n%w", plural(int64(len(mistakes)), "mistake"), err)
			case errors.Is(err, fs.ErrNotExist):
				return usagef("%s: no such file", args[0])
			case err != nil:
				return err
			}
			if out == "" {
				out = filepath.Join("models", strings.TrimSuffix(filepath.Base(args[0]), ".toml"))
			}
			be, err := cpu.New()
			if err != nil {
				return err
			}
			defer be.Close()
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			began := time.Now()
			return pretrain.Run(r, out, pretrain.Hooks{Backend: be, Context: ctx, Say: func(line string) {
				fmt.Fprintf(cmd.OutOrStdout(), "%6.0f s  %s\n", time.Since(began).Seconds(), line)
			}})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the `FOLDER` of the model (default models/NAME OF THE FILE)")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set `KEY=VALUE` over the file, as often as needed")
	return cmd
}
