// Package inspect is 'darkroom inspect': the contents of a model's file or folder.
package inspect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/video"
)

// Command is 'darkroom inspect'.
func Command() *cobra.Command {
	var tensors bool
	var flowTo string
	cmd := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Say what a .safetensors, .gguf or .onnx file, a model folder, a picture or a clip holds",
		Long: `Print what Darkroom understands of a .safetensors or .gguf file, an index of shards, or a folder
in the hub's layout: a pipeline (model_index.json), a model (config.json), an
adapter (adapter_config.json), a tokenizer. Headers are read and checked, weights are not.

Of an .onnx file: its inputs, outputs and operators. It is read whole, as the reward onnx reads it.

Of a picture: its size, and the prompt and settings it was sampled with.
Clips (.gif, .apng, .y4m, and what ffmpeg reads) are decoded. With --flow, a clip's motion
is measured, and drawn; a folder of PNG files is then a clip, too.`,
		Example: "  darkroom inspect model.safetensors\n  darkroom inspect stable-diffusion-3.5-medium\n  darkroom inspect --tensors --json stable-diffusion-3.5-medium/transformer\n  darkroom inspect clip.gif --flow motion.png",
		Args: func(cmd *cobra.Command, args []string) error {
			if flowTo != "" && len(args) > 1 {
				return fmt.Errorf("--flow draws one clip, not %d", len(args))
			}
			if len(args) == 0 {
				return fmt.Errorf("'%s' needs a file or a folder\nhint: see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all := []*Document{} // in JSON a list, also when it is empty
			var errs []error
			for _, path := range args {
				dir, err := assets.Resolve(path)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				look := func() (*Document, error) { return inspect(dir, tensors) }
				switch {
				case inputs.IsPicture(path) && flowTo == "":
					look = func() (*Document, error) { return inspectPicture(path) }
				case strings.EqualFold(filepath.Ext(path), ".onnx"):
					look = func() (*Document, error) { return inspectONNX(dir) }
				case flowTo != "" || video.Named(path):
					look = func() (*Document, error) { return inspectClip(cmd.Context(), path, flowTo) }
				}
				in, err := look()
				if err != nil {
					errs = append(errs, err)
				}
				if in != nil {
					all = append(all, in)
				}
			}
			err := console.Emit(cmd, all, func(w io.Writer) {
				for i, in := range all {
					if i > 0 {
						fmt.Fprintln(w)
					}
					in.write(w)
				}
			})
			return errors.Join(append(errs, err)...)
		},
	}
	cmd.Flags().StringVar(&flowTo, "flow", "", "FILE.png to draw a clip's motion in")
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list a folder's tensors, too (a file's always are)")
	return cmd
}

// A Document has the findings about one path, or about one part of a pipeline.
type Document struct {
	Name     string       `json:"name,omitempty"` // of a part
	Path     string       `json:"path"`
	Kind     string       `json:"kind"`              // file, weights, or the kind of a folder
	Class    string       `json:"class,omitempty"`   // as the folder's JSON says
	Library  string       `json:"library,omitempty"` // that wrote it
	Settings []setting    `json:"settings,omitempty"`
	Weights  *weightsInfo `json:"weights,omitempty"`
	Tensors  []tensorInfo `json:"tensors,omitempty"`
	Parts    []*Document  `json:"parts,omitempty"`
	Memory   []memoryNeed `json:"memory,omitempty"` // of a pipeline that can be sampled
	Notes    []string     `json:"notes,omitempty"`
	Error    string       `json:"error,omitempty"` // of a part that could not be read
}

// inspect returns its findings, and an error if they are not complete.
func inspect(path string, tensors bool) (*Document, error) {
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file or folder\nhint: %s", path, assets.Fetching(path))
	}
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return inspectFolder(path, tensors)
	}
	in := &Document{Path: path, Kind: "file"}
	if err := in.readWeights(path, true); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *Document) write(w io.Writer) {
	fmt.Fprintln(w, console.Bold(w, in.headline()))
	switch {
	case in.Kind == "pipeline":
		fmt.Fprintln(w)
		in.writeParts(w)
		in.writeMemory(w)
	case len(in.Settings) > 0:
		t := console.Table{}
		for _, s := range in.Settings {
			t.Add("  "+s.Key, s.text())
		}
		t.Write(w)
	}
	if len(in.Tensors) > 0 {
		fmt.Fprintln(w)
		in.writeTensors(w)
	}
	if in.Weights != nil {
		fmt.Fprintln(w)
		in.Weights.write(w)
	}
	for i, n := range in.Notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, "note: "+n)
	}
}

// headline: path: class (library), parameters, size, where the weights lie.
func (in *Document) headline() string {
	s := in.Path + ": " + in.Kind
	if in.Class != "" {
		s += " " + console.Printable(in.Class)
	}
	if in.Library != "" {
		s += " (" + console.Printable(in.Library) + ")"
	}
	total, have := in.Weights, in.Weights != nil
	if in.Kind == "pipeline" {
		total, have = in.sum(), true
	}
	if have {
		s += fmt.Sprintf(", %s, %s", console.Plural(total.Parameters, "parameter"), console.Bytes(total.Bytes))
	}
	return s
}

// writeParts prints a pipeline: its parts, then the sizes of each.
func (in *Document) writeParts(w io.Writer) {
	t := console.Table{Header: []string{"PART", "CLASS", "DTYPE", ">PARAMETERS", ">SIZE", "WEIGHTS"}}
	for _, p := range in.Parts {
		row := []string{console.Printable(p.Name), console.Printable(p.Class), "-", "-", "-", "-"}
		switch {
		case p.Error != "":
			row[5] = "cannot be read, see below"
		case p.Weights != nil:
			row = append(row[:2], p.Weights.dtypes(), console.Commas(p.Weights.Parameters), console.Bytes(p.Weights.Bytes), p.Weights.where())
		}
		t.Add(row...)
	}
	sum := in.sum()
	t.Add("total", "", sum.dtypes(), console.Commas(sum.Parameters), console.Bytes(sum.Bytes), console.Plural(int64(len(sum.Files)), "file"))
	t.Write(w)
	fmt.Fprintln(w)
	t = console.Table{Header: []string{"PART", "SETTING", "VALUE"}}
	addSettings := func(name string, all []setting) {
		for _, s := range all {
			t.Add(console.Printable(name), s.Key, s.text())
			name = ""
		}
	}
	for _, p := range in.Parts {
		addSettings(p.Name, p.Settings)
	}
	addSettings("(pipeline)", in.Settings)
	t.Write(w)
	for _, p := range in.Parts {
		if len(p.Tensors) > 0 {
			fmt.Fprintf(w, "\n%s\n", console.Bold(w, console.Printable(p.Name)))
			p.writeTensors(w)
		}
	}
}
