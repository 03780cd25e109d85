package main

import (
	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/iteration"
)

// benchDecodeCommand is 'darkroom bench decode': the parts of 'bench iteration' in which a
// vision-language model answers.
func benchDecodeCommand() *cobra.Command {
	work, on, against := iteration.Usual(), benchOn{}, ""
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
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := work.Check(); err != nil {
				return usageOf(err)
			}
			if err := on.settle(); err != nil {
				return err
			}
			return benchParts(cmd, "iteration", []iteration.Part{"vlm:fp32", "vlm:bf16"}, work, on, against)
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
