package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/pull"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	all "github.com/darkroom-rl/darkroom/rewards/kinds"
)

// 'darkroom pull': flags and words around package pull, which does the work. It is here so that a model's
// folder can be had without Python.

func pullCommand() *cobra.Command {
	var o pull.Options
	var reward string
	cmd := &cobra.Command{
		Use:   "pull {OWNER/NAME | --reward NAME}",
		Short: "Fetch a model's folder, or a reward's weights, from a hub",
		Long: `Fetch a model's folder from Hugging Face, or from a hub that speaks its protocol.

Darkroom fetches what it reads: settings, tokenizers and one set of safetensors a
network, compressed or not. Of a repository of GGUF files --include chooses one.
Every file is compared with the hub's hash. The folder appears when it is complete;
an interrupted pull resumes where it ended.

--reward fetches the weights of a reward ('darkroom list weights') from their
repositories into one folder. State dicts of torch.save (.pt, .pth) become
safetensors; nothing that their pickles ask for is called.

HF_TOKEN is the token for models that are private or gated, HF_ENDPOINT the address
of another hub.`,
		Example: "  darkroom pull stabilityai/stable-diffusion-3.5-medium\n" +
			"  darkroom pull Qwen/Qwen2.5-VL-3B-Instruct --revision main --out models/qwen\n" +
			"  darkroom pull --reward pickscore",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case reward != "" && len(args) > 0:
				return fmt.Errorf("'%s' takes one repository, OWNER/NAME, or --reward, not both", cmd.CommandPath())
			case reward != "" && (cmd.Flags().Changed("revision") || cmd.Flags().Changed("include") || cmd.Flags().Changed("variant")):
				return fmt.Errorf("'%s' knows the files of a reward: --reward goes without --revision, --include and --variant", cmd.CommandPath())
			case reward == "" && len(args) != 1:
				return fmt.Errorf("'%s' takes one repository, OWNER/NAME, got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if reward != "" {
				return pullReward(cmd, reward, o)
			}
			o.Repo = args[0]
			o.Out = cmp.Or(o.Out, filepath.Join("models", path.Base(o.Repo)))
			o.Endpoint, o.Token = os.Getenv("HF_ENDPOINT"), os.Getenv("HF_TOKEN")
			if err := o.Check(); err != nil {
				return exits.Usage(err)
			}
			if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
				return err
			}
			bar := console.NewProgress(cmd.ErrOrStderr(), "pulling MiB")
			o.Progress = pullProgress(bar)
			r, err := pull.Run(cmd.Context(), o)
			bar.End()
			if err != nil {
				return err
			}
			return console.Emit(cmd, r, func(w io.Writer) { writePulled(w, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&reward, "reward", "", "the reward `NAME`, whose weights are fetched")
	f.StringVar(&o.Revision, "revision", "main", "branch, tag or commit `REV`")
	f.StringVar(&o.Out, "out", "", "folder `DIR` to make (default: models/NAME, or as the reward's page has it)")
	f.StringVar(&o.Variant, "variant", "", "the weights' variant `NAME`, such as fp16, where there is one")
	f.StringSliceVar(&o.Include, "include", nil, "fetch files that match `PATTERN`, too, such as '*.md'")
	return cmd
}

// pullReward fetches the weights of a reward.
func pullReward(cmd *cobra.Command, name string, o pull.Options) error {
	k, ok := all.Named(name)
	if !ok {
		return exits.Usagef("no reward %q\nhint: 'darkroom list weights' has the rewards whose weights are on the hub", name)
	}
	o.Endpoint, o.Token = os.Getenv("HF_ENDPOINT"), os.Getenv("HF_TOKEN")
	bar := console.NewProgress(cmd.ErrOrStderr(), "pulling MiB")
	o.Progress = pullProgress(bar)
	r, err := pull.Reward(cmd.Context(), k, o)
	bar.End()
	if err != nil {
		return err
	}
	return console.Emit(cmd, r, func(w io.Writer) {
		if r.There {
			fmt.Fprintf(w, "%s is complete: %s\n", r.Out, r.Repo)
		} else {
			fmt.Fprintf(w, "%s: %s, %s, of %s\n", r.Out, console.Plural(int64(r.Files), "file"), console.Bytes(r.Bytes), r.Repo)
		}
		fmt.Fprintf(w, "in an experiment's file:\n\n[[reward]]\nname = %q\npath = %q\n", name, r.Out)
	})
}

// pullProgress shows bytes as a bar of MiB. Downloads call it from several goroutines.
func pullProgress(bar *console.Progress) func(done, all int64) {
	var lock sync.Mutex
	return func(done, all int64) {
		lock.Lock()
		defer lock.Unlock()
		bar.Set(int(done>>20), max(1, int(all>>20)))
	}
}

func writePulled(w io.Writer, r *pull.Report) {
	if r.There {
		fmt.Fprintf(w, "%s is complete: %s at %.12s\n", r.Out, r.Repo, r.Commit)
		return
	}
	fmt.Fprintf(w, "%s: %s, %s, of %s at %.12s (%s not read here)\n", r.Out, console.Plural(int64(r.Files), "file"), console.Bytes(r.Bytes),
		r.Repo, r.Commit, console.Plural(int64(r.Skipped), "file"))
	fmt.Fprintf(w, "look at it  darkroom inspect %s\n", r.Out)
}
