// Package preferences reads pairs of pictures, clips or replies of which people say which is better: lines of our own,
// and published collections as they are published. Rewards are tested on them (rewards/eval). Start with Read.
package preferences

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/eval"
	"github.com/darkroom-rl/darkroom/video"
)

// maxLine is the longest line of a file of pairs, in bytes.
const maxLine = 16 << 20

// Unopened is why no list was opened: it is missing, or several are possible.
type Unopened struct{ Err error }

func (u Unopened) Error() string { return u.Err.Error() }
func (u Unopened) Unwrap() error { return u.Err }

// Read reads an embedded set, a published collection, or a file with a line a pair. A published collection may have the
// name of its layout before it (hpdv2:FILE): then another layout is an error. An error of a line has its number;
// pictures are opened when they are asked about.
func Read(name string) (eval.Set, error) {
	layout, file := named(name)
	set, err := read(file)
	switch before, _, ok := strings.Cut(name, ":"); {
	case errors.Is(err, fs.ErrNotExist) && ok && layout == "" && !strings.HasPrefix(name, assets.Prefix):
		return set, Unopened{fmt.Errorf("%w\nhint: %q is not a layout of collections: these are %s", err, before, layoutNames())}
	case err != nil || layout == "":
		return set, err
	case set.Layout == "":
		return set, fmt.Errorf("%s: pairs of one's own, and not %s's layout", file, layout)
	case set.Layout != layout:
		return set, fmt.Errorf("%s: %s's layout, and not %s's\nhint: write %s:%s, or the name of the file alone", file, set.Layout, layout, set.Layout, file)
	}
	set.Name = layout + ":" + set.Name
	return set, nil
}

// read reads a file, or an embedded set.
func read(name string) (eval.Set, error) {
	if strings.HasPrefix(name, assets.Prefix) {
		set, err := eval.Embedded(name)
		if err != nil {
			return set, Unopened{err}
		}
		return set, nil
	}
	if set, ok, err := publishedPairs(name); ok {
		return set, err
	}
	f, err := regular.Open(name)
	if err != nil {
		return eval.Set{}, Unopened{err}
	}
	defer func() { _ = f.Close() }() // it was only read
	set := eval.Set{Name: filepath.Base(name)}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		p, of, err := readPair(line, filepath.Dir(name))
		if err == nil && set.Of != "" && of != set.Of {
			err = fmt.Errorf("a pair of %s among pairs of %s: give each a file of its own", of, set.Of)
		}
		if err != nil {
			return set, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		set.Of = of
		set.Pairs = append(set.Pairs, p)
	}
	if err := lines.Err(); err != nil {
		return set, fmt.Errorf("%s: %w", name, err)
	}
	if len(set.Pairs) == 0 {
		return set, fmt.Errorf("%s holds no pairs", name)
	}
	return set, nil
}

// pairLine is a line of a file of pairs.
type pairLine struct {
	Prompt string          `json:"prompt"`
	Meta   rewards.Meta    `json:"meta"`
	A      json.RawMessage `json:"a"`
	B      json.RawMessage `json:"b"`
	Better string          `json:"better"`
	Kind   string          `json:"kind"`
}

func readPair(line []byte, folder string) (p eval.Pair, of string, err error) {
	var l pairLine
	if err := prompts.CheckRecord(line); err != nil {
		return p, "", err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return p, "", fmt.Errorf("not a pair: %w", err)
	}
	p = eval.Pair{Prompt: l.Prompt, Kind: l.Kind}
	if p.Better, err = eval.ParseBetter(l.Better); err != nil {
		return p, "", err
	}
	a, of, err := readSample("a", l.A, l, folder)
	if err != nil {
		return p, "", err
	}
	b, other, err := readSample("b", l.B, l, folder)
	if err == nil && other != of {
		err = fmt.Errorf("a is one of %s, b one of %s", of, other)
	}
	p.A, p.B = a, b
	return p, of, err
}

// readSample reads a sample: the name of a file, looked for beside the list and nowhere else, or {"turns": [{"text":
// "..."}]}.
func readSample(key string, raw json.RawMessage, l pairLine, folder string) (eval.Sample, string, error) {
	item := rewards.Item{Prompt: l.Prompt, Meta: l.Meta}
	var reply struct {
		Turns []rewards.Turn `json:"turns"`
	}
	var file string
	switch {
	case len(raw) == 0:
		return eval.Sample{}, "", fmt.Errorf("%q is missing: the name of a file, or an object with turns", key)
	case raw[0] == '{':
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&reply); err != nil || reply.Turns == nil {
			return eval.Sample{}, "", errors.Join(fmt.Errorf("%q is no reply: it reads like {\"turns\": [{\"text\": \"...\"}]}", key), err)
		}
		item.Transcript = &rewards.Transcript{Turns: reply.Turns}
		return eval.Held(string(raw), item), eval.Replies, nil
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return eval.Sample{}, "", fmt.Errorf("%q is neither the name of a file nor an object with turns", key)
	}
	at, err := safetensors.Locate(folder, file)
	if err != nil {
		return eval.Sample{}, "", fmt.Errorf("%s: %w", key, err)
	}
	of := eval.Pictures
	if video.Named(file) {
		of = eval.Moving
	}
	return eval.Sample{Name: file, Open: func() (rewards.Item, error) {
		item := item
		err := item.Open(at)
		return item, err
	}}, of, nil
}
