package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/nn/torchfile"
	"github.com/darkroom-rl/darkroom/rewards"
)

// A reward's folder is made of several repositories: weights of one, a tokenizer of another. Each is pulled into
// OUT.from/N, as a model is; then their files are linked into OUT.part, where state dicts of torch.save become
// safetensors, and the folder gets its name.

// Reward fetches the weights of a reward.
func Reward(ctx context.Context, k rewards.Kind, o Options) (*Report, error) {
	if k.Published == nil {
		return nil, fmt.Errorf("no weights of reward %q are known on the hub\nhint: 'darkroom list weights' has those that are", k.Name)
	}
	o.Out = cmp.Or(o.Out, filepath.FromSlash(k.Folder()))
	r := &Report{Repo: repositoriesOf(k.Published), Out: o.Out}
	if _, err := os.Lstat(o.Out); err == nil {
		if have, err := readRecord(o.Out); err != nil || have.Repo != r.Repo {
			return nil, fmt.Errorf("%s exists, and was not made by 'pull --reward %s'\nhint: name another folder with --out", o.Out, k.Name)
		}
		r.There = true
		return r, nil
	}
	from, part := o.Out+".from", o.Out+".part"
	var parts []string
	for i, repository := range k.Published.From {
		one := o
		one.Repo, one.Only, one.Out = repository.Name, repository.Files, filepath.Join(from, strconv.Itoa(i))
		if err := os.MkdirAll(from, 0o755); err != nil {
			return nil, err
		}
		fetched, err := Run(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", repository.Name, err)
		}
		r.Files += fetched.Files
		r.Bytes += fetched.Bytes
		r.Fetched += fetched.Fetched
		r.Skipped += fetched.Skipped
		r.Commit = cmp.Or(r.Commit, fetched.Commit)
		parts = append(parts, one.Out)
	}
	if err := os.RemoveAll(part); err != nil {
		return nil, err
	}
	for i, dir := range parts {
		if err := gather(part, dir, k.Published.From[i].Saves); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Published.From[i].Name, err)
		}
	}
	text, err := json.MarshalIndent(record{Repo: r.Repo, Commit: r.Commit}, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(part, recordName), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(part, o.Out)
	}
	return r, errors.Join(err, os.RemoveAll(from))
}

// gather links a folder's files into another, except those that are there; a pickle becomes safetensors.
func gather(into, dir string, saves rewards.Pickle) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == recordName {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		pickle := saves.From != "" && filepath.ToSlash(name) == saves.From
		if pickle {
			name = filepath.FromSlash(saves.To)
		}
		to := filepath.Join(into, name)
		if _, err := os.Lstat(to); err == nil {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if pickle {
			return unpickle(to, path)
		}
		if err := os.Link(path, to); err == nil {
			return nil
		}
		return copied(to, path)
	})
}

func copied(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// unpickle writes the tensors of a state dict as safetensors. Nothing that the pickle asks for is called.
func unpickle(to, from string) (err error) {
	f, err := torchfile.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var all []safetensors.Tensor
	var unread error
	for _, name := range f.Names() {
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		t.Data = nil
		t.Make = func() []byte {
			again, err := f.Tensor(name)
			unread = errors.Join(unread, err)
			return again.Data
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: it holds no tensor", from)
	}
	return errors.Join(safetensors.Write(to, all, map[string]string{"format": "pt"}), unread)
}

// repositoriesOf are the names of a reward's repositories, as the folder's record has them.
func repositoriesOf(p *rewards.Published) string {
	var names []string
	for _, r := range p.From {
		names = append(names, r.Name)
	}
	return strings.Join(names, " + ")
}
