// Package quantize is 'darkroom quantize': a model's matrices in 4 or 8 bits.
//
// Start at Command. modules.go chooses matrices, write.go compresses them one after another, and reads the result once
// more. Package quant has the formats.
package quantize

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// forms are the words of --as.
var forms = []string{"nf4", "fp4", "fp8", "int8"}

type options struct {
	model, as, out string
	keep, parts    []string
	nested         bool

	kept []*regexp.Regexp
}

// Command is 'darkroom quantize'.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "quantize MODEL --as FORM --out DIR",
		Short: "Write a model with its matrices in 4 or 8 bits",
		Long: `Write a model with its matrices compressed. MODEL is a pipeline's folder (model_index.json), a
network's folder (config.json), or a .safetensors file with the names of its authors.

  nf4, fp4  bitsandbytes, 4 bits, a scale of 64 values. diffusers and transformers open the folder.
  int8      folders: bitsandbytes' LLM.int8, a scale of a row. Files: ComfyUI's int8_tensorwise.
  fp8       files and diffusers' folders: ComfyUI's fp8_scaled. transformers' folders: its fp8, a scale of
            128 x 128 values.

Norms, biases, embeddings and the head of a language model stay as they are, and so do the layers that
diffusers and transformers keep in fp32 (wo of T5, time_embedder of Wan). Of fp8, and of int8 in files, matrices
outside of the numbered blocks stay, too. --keep keeps more. Of a pipeline the denoiser is compressed,
or the folders that --parts names; the others are copied.

A matrix at a time is in memory. The result is read again and compared. The error is the root of the
mean square of the changes, over that of the values.`,
		Example: "  darkroom quantize FLUX.1-dev --as nf4 --out FLUX.1-dev-nf4\n" +
			"  darkroom quantize FLUX.1-dev --as nf4 --parts transformer,text_encoder_2 --out FLUX.1-dev-nf4\n" +
			"  darkroom quantize flux1-dev.safetensors --as fp8 --keep 'double_blocks\\.0\\.' --out flux1-dev-fp8.safetensors",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("'%s' takes one folder or file of a model, got %d\nhint: see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.model, err = assets.Resolve(args[0]); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return exits.Usage(err)
			}
			bar := console.NewProgress(cmd.ErrOrStderr(), "quantizing")
			w := writer{options: o, said: bar.Set, stopped: cmd.Context().Err}
			r, err := w.run()
			bar.End()
			if err != nil {
				return err
			}
			return console.Emit(cmd, r, r.write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.as, "as", "", "`FORM`: "+strings.Join(forms, ", "))
	f.StringVar(&o.out, "out", "", "`PATH` to write: a folder, or of a file a .safetensors; it must not exist")
	f.StringArrayVar(&o.keep, "keep", nil, "keep matrices whose names match the regular expression `RE`; may be given more than once")
	f.StringSliceVar(&o.parts, "parts", nil, "`NAMES` of the pipeline's folders to compress (default: its denoisers)")
	f.BoolVar(&o.nested, "nested", true, "of nf4 and fp4: scales in 8 bits, too (double quantisation)")
	return cmd
}

func (o *options) check() error {
	var wrong []string
	if !slices.Contains(forms, o.as) {
		wrong = append(wrong, fmt.Sprintf("--as %q: one of %s", o.as, strings.Join(forms, ", ")))
	}
	if o.out == "" {
		wrong = append(wrong, "--out is missing: the folder to write")
	}
	for _, text := range o.keep {
		re, err := regexp.Compile(text)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("--keep %q is no regular expression: %v", text, err))
			continue
		}
		o.kept = append(o.kept, re)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s\nhint: see 'darkroom quantize --help'", strings.Join(wrong, "\n"))
	}
	return nil
}

// A Report is the result.
type Report struct {
	Out      string   `json:"out"`
	As       string   `json:"as"`
	Before   int64    `json:"before"` // bytes of weights
	After    int64    `json:"after"`
	Matrices int      `json:"matrices"`         // that were compressed
	Plain    int      `json:"plain"`            // tensors as they were
	Error    float64  `json:"error"`            // relative, of all compressed values
	Worst    []Layer  `json:"worst"`            // the largest errors first
	Copied   []string `json:"copied,omitempty"` // parts of a pipeline
	Notes    []string `json:"notes,omitempty"`

	squares, layers float64
}

// A Layer is a matrix and its error.
type Layer struct {
	Name  string  `json:"name"`
	Error float64 `json:"error"`
}

// add counts a matrix.
func (r *Report) add(name string, off float64, values int) {
	r.Matrices++
	r.squares += float64(off*off) * float64(values)
	r.layers += float64(values)
	r.Worst = append(r.Worst, Layer{name, off})
}

// sort ends the count.
func (r *Report) sort() {
	if r.layers > 0 {
		r.Error = math.Sqrt(r.squares / r.layers)
	}
	slices.SortStableFunc(r.Worst, func(a, b Layer) int {
		switch {
		case a.Error > b.Error:
			return -1
		case a.Error < b.Error:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	r.Worst = r.Worst[:min(5, len(r.Worst))]
}

func (r *Report) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %s in the place of %s; %s compressed, %s as before\n", r.Out, r.As, console.Bytes(r.After), console.Bytes(r.Before),
		matrices(r.Matrices), console.Plural(int64(r.Plain), "tensor"))
	if len(r.Copied) > 0 {
		fmt.Fprintf(w, "copied: %s\n", strings.Join(r.Copied, ", "))
	}
	fmt.Fprintf(w, "relative error %.2f %%; the largest:\n", 100*r.Error)
	t := console.Table{}
	for _, l := range r.Worst {
		t.Add("  "+l.Name, fmt.Sprintf("%.2f %%", 100*l.Error))
	}
	t.Write(w)
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	if filepath.Ext(r.Out) != ".safetensors" {
		fmt.Fprintf(w, "look at it  darkroom inspect %s\n", r.Out)
	}
}

func matrices(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return fmt.Sprintf("%d matrices", n)
}
