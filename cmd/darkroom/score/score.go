// Package score is 'darkroom score': pictures, clips and replies judged by rewards.
package score

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/panel"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/rewards"
)

// Command is 'darkroom score'.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "score --reward NAME[,NAME] [--prompt TEXT | --items FILE.jsonl] FILES...",
		Short: "Judge pictures, clips and replies by rewards",
		Long: `Score files by rewards, a row a file, or with --json a line of JSON a file, with the
evidence of each score. A file that could not be judged is missing, with the reason, and
never 0. 'darkroom list rewards' has the names.

The prompt of a.png is in its text if 'darkroom sample' made it, or in a.txt beside it;
--prompt is for all files. --items names a file of lines {"file": "a.png", "prompt": "...",
"meta": {...}} or {"turns": [{"text": "..."}], "prompt": "...", "meta": {"answer": "..."}};
"image" names the pictures that an edit was made of, or that a conversation shows. File names
are relative to that file. Items of one prompt are judged together.

--draw writes copies of the pictures with the boxes that layout, geneval and others found, wanted
ones dashed, and copies of clips with the optical flow that motion, heading, camera and others read.

--serve answers the protocol of http rewards at an address, on this machine alone unless
a host is named. Requests have limits of bytes and pixels. Ctrl-C finishes the answers
under way first.`,
		Example: "  darkroom score --reward geneval --path models/mask2former-swin-small-coco-instance --items items.jsonl --draw boxes\n" +
			"  darkroom score --reward scene,ocr --prompt 'the word \"CAT\" in red on white' a.png b.png\n" +
			"  darkroom score --reward clip --path models/clip-vit-large-patch14 --json pictures/\n" +
			"  darkroom score --reward judge --url http://localhost:8000 --cache answers --items items.jsonl\n" +
			"  darkroom score --reward scene --serve :8080",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd, args); err != nil {
				return err
			}
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	o.Add(cmd)
	f.StringVar(&o.prompt, "prompt", "", "`TEXT` that the files should show")
	f.StringVar(&o.items, "items", "", "`FILE.jsonl` with a line an item")
	f.StringVar(&o.draw, "draw", "", "`FOLDER` for copies of the pictures with the boxes of each score's evidence, and of clips with their flow")
	f.StringVar(&o.serve, "serve", "", "`ADDRESS` to answer at, such as :8080")
	return cmd
}

// options are the flags.
type options struct {
	panel.Flags
	prompt, items, serve, draw string
}

// check finds all that is wrong with the flags alone.
func (o *options) check(cmd *cobra.Command, files []string) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	o.Flags.Check(must)
	must(utf8.ValidString(o.prompt), "--prompt %q is not UTF-8, in which prompts are written", o.prompt)
	must(o.serve == "" || o.draw == "", "--serve keeps no pictures: leave --draw out")
	if o.serve != "" {
		must(len(files) == 0 && o.items == "" && o.prompt == "", "--serve takes neither files nor --prompt and --items: each request brings its own")
		must(len(o.Names) <= 1, "--serve answers for one reward")
	} else {
		must(len(files) > 0 || o.items != "", "nothing to judge: name files, or --items")
		must(o.items == "" || len(files) == 0 && o.prompt == "", "--items says what to judge and for which prompts: give neither files nor --prompt")
	}
	if len(wrong) > 0 {
		return exits.Usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

func (o *options) run(cmd *cobra.Command, files []string) error {
	var shown []Line
	var err error
	switch {
	case o.items != "":
		shown, err = readItems(o.items)
	case o.serve == "":
		shown, err = readFiles(files, o.prompt)
	}
	if err != nil {
		return err
	}
	opened, err := o.Open(true)
	if err != nil {
		return err
	}
	defer panel.CloseAll(opened)
	if o.serve != "" {
		return serveReward(cmd, o.serve, o.Names[0], opened[0].Judge)
	}
	for i := range shown {
		shown[i].item.Share()
	}
	for k, r := range opened {
		judge(cmd.Context(), shown, o.Names[k], r.Judge)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if o.draw != "" {
		pictures, moving, err := draw(cmd.Context(), o.draw, shown, o.Names)
		if err != nil {
			return err
		}
		if cmd.PrintErrf("%d pictures with boxes are in %s\n", pictures, o.draw); moving > 0 {
			cmd.PrintErrf("%d clips with their flow are in %s\n", moving, o.draw)
		}
	}
	return o.print(cmd, shown, opened)
}

// judge asks a reward about all items, those of one prompt together.
func judge(ctx context.Context, all []Line, name string, j rewards.Judge) {
	groups := map[string][]int{}
	var order []string
	for i, s := range all {
		if s.missing != nil {
			all[i].add(name, rewards.Result{Missing: s.missing})
			continue
		}
		if groups[s.Prompt] == nil {
			order = append(order, s.Prompt)
		}
		groups[s.Prompt] = append(groups[s.Prompt], i)
	}
	for _, prompt := range order {
		var items []rewards.Item
		for _, i := range groups[prompt] {
			items = append(items, all[i].item)
		}
		for k, r := range j.Judge(ctx, items) {
			all[groups[prompt][k]].add(name, r)
		}
	}
}

// print writes a row or a line an item, and fails where a reward judged nothing at all.
func (o *options) print(cmd *cobra.Command, all []Line, opened []panel.Reward) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	out := &console.FirstError{W: cmd.OutOrStdout()}
	if asJSON {
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		for _, s := range all {
			if err := lines.Encode(s); err != nil {
				return fmt.Errorf("writing JSON: %w", err)
			}
		}
	} else {
		o.table(all, opened).Write(out)
		for _, s := range all {
			s.reasons(out, o.Names)
		}
	}
	if out.Err != nil {
		return fmt.Errorf("printing: %w", out.Err)
	}
	for _, name := range o.Names {
		if !slices.ContainsFunc(all, func(s Line) bool { return s.Scores[name].Missing == "" }) {
			why, _, more := strings.Cut(all[0].Scores[name].Missing, "\n")
			if more {
				why += " (all of it above)"
			}
			return fmt.Errorf("reward %s judged none of %d items: %s", name, len(all), why)
		}
	}
	return nil
}

func (o *options) table(all []Line, opened []panel.Reward) *console.Table {
	t := &console.Table{Header: []string{"FILE"}}
	for k, name := range o.Names {
		head := ">" + strings.ToUpper(name)
		if opened[k].Toy != "" {
			head += " (embedded toy)"
		}
		t.Header = append(t.Header, head)
	}
	for _, s := range all {
		row := []string{s.File}
		for _, name := range o.Names {
			cell := "missing"
			if r := s.Scores[name]; r.Missing == "" {
				cell = strconv.FormatFloat(*r.Value, 'g', 5, 64)
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	return t
}

// reasons are why scores are missing, a line each.
func (s Line) reasons(w io.Writer, names []string) {
	for _, name := range names {
		if why := s.Scores[name].Missing; why != "" {
			_, _ = fmt.Fprintf(w, "%s: %s is missing: %s\n", s.File, name, why) // the writer remembers
		}
	}
}

// drainTime is the time of requests in progress after an interrupt.
const drainTime = 30 * time.Second

// serveReward answers until it is interrupted, and then finishes the requests in progress.
func serveReward(cmd *cobra.Command, address, name string, j rewards.Judge) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return exits.Usagef("--serve %s: an address is :PORT or HOST:PORT", address)
	}
	if host == "" {
		host = "localhost"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--serve: %w", err)
	}
	cmd.PrintErrf("reward %s answers at http://%s\n", name, l.Addr())
	return rewards.Server{Judge: j}.Run(cmd.Context(), l, drainTime)
}
