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
// OUT.from/N, as a model is; then their files are linked into OUT.from/whole, where state dicts of torch.save become
// safetensors, and that folder is renamed OUT.

// Reward fetches the weights of a reward, or continues a pull that was interrupted.
func Reward(ctx context.Context, k rewards.Kind, o Options) (*Report, error) {
	if k.Published == nil {
		return nil, fmt.Errorf("no weights of reward %q are known on the hub\nhint: 'darkroom list weights' has those that are", k.Name)
	}
	o.Out = cmp.Or(o.Out, filepath.FromSlash(k.Folder()))
	r := &Report{Repo: repositoriesOf(k.Published), Out: o.Out}
	if _, err := os.Lstat(o.Out); err == nil {
		have, err := readRecord(o.Out)
		if err != nil || have.Repo != r.Repo {
			return nil, fmt.Errorf("%s exists, and was not made by 'pull --reward %s'\nhint: name another folder with --out", o.Out, k.Name)
		}
		r.Commit = have.Commit
		r.There, err = there(o.Out, have)
		return r, err
	}
	from := o.Out + ".from"
	if err := begin(from, &record{Repo: r.Repo}); err != nil {
		return nil, err
	}
	if err := r.assemble(ctx, k.Published, from, o); err != nil {
		return nil, fmt.Errorf("%w\n%s stays, and the same command continues there", err, from)
	}
	return r, os.RemoveAll(from)
}

// assemble pulls each repository below from, gathers their files, and renames the folder.
func (r *Report) assemble(ctx context.Context, p *rewards.Published, from string, o Options) error {
	whole := filepath.Join(from, "whole")
	if err := os.RemoveAll(whole); err != nil {
		return err
	}
	var commits []string
	for i, repository := range p.From {
		one := o
		one.Repo, one.Only, one.Out = repository.Name, repository.Files, filepath.Join(from, strconv.Itoa(i))
		saves := repository.Saves
		if repository.Files == nil { // of an old repository without safetensors
			one.Pickle, saves = "pytorch_model.bin", rewards.Pickle{From: "pytorch_model.bin", To: "model.safetensors"}
		}
		if have, err := readRecord(one.Out); err == nil {
			one.Revision = have.Commit // it is complete, and the branch may have moved since
		}
		fetched, err := Run(ctx, one)
		if err != nil {
			return fmt.Errorf("%s: %w", repository.Name, err)
		}
		r.Files += fetched.Files
		r.Bytes += fetched.Bytes
		r.Fetched += fetched.Fetched
		r.Skipped += fetched.Skipped
		commits = append(commits, fetched.Commit)
		if err := gather(whole, one.Out, saves); err != nil {
			return fmt.Errorf("%s: %w", repository.Name, err)
		}
	}
	r.Commit = strings.Join(commits, " + ")
	files, err := filesOf(whole)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(record{Repo: r.Repo, Commit: r.Commit, Files: files}, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(whole, recordName), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(whole, r.Out)
}

// filesOf lists the files below a folder, with their sizes.
func filesOf(dir string) (files []File, err error) {
	return files, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, File{Path: filepath.ToSlash(name), Size: info.Size()})
		return err
	})
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

// largest bounds the bytes of a state dict's tensors, in sizes of its file: some may share a storage.
const largest = 8

// unpickle writes the tensors of a state dict as safetensors. Nothing that the pickle asks for is called.
func unpickle(to, from string) (err error) {
	f, err := torchfile.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var all []safetensors.Tensor
	bytes := int64(0)
	for _, name := range f.Names() {
		t, err := f.Shape(name)
		if err != nil {
			return err
		}
		n := int64(t.DType.Bits() / 8)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		if bytes += n; bytes > largest*f.Size() {
			return fmt.Errorf("%s: its tensors have more than %d times the bytes of the file", from, largest)
		}
		t.Fill = func(to *safetensors.Sink) error {
			made, err := f.Tensor(name)
			if err != nil {
				return err
			}
			_, err = to.Write(made.Data)
			return err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: it holds no tensor", from)
	}
	return safetensors.Write(to, all, map[string]string{"format": "pt"})
}

// repositoriesOf are the names of a reward's repositories, as the folder's record has them.
func repositoriesOf(p *rewards.Published) string {
	var names []string
	for _, r := range p.From {
		names = append(names, r.Name)
	}
	return strings.Join(names, " + ")
}
