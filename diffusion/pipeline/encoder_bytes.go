package pipeline

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// How much memory text encoders take, as their files say.

// EncoderBytes is what the encoders' files take.
func (p *Pipeline) EncoderBytes() (bytes int64) {
	for _, e := range p.encoders {
		if src := p.folder.inFile(e.part); src != nil {
			bytes += src.Bytes()
			continue
		}
		dir, err := p.folder.part(e.part)
		if err != nil {
			continue
		}
		if p.folder.bare && noWeights(dir) {
			bytes += p.absentBytes(e)
			continue
		}
		all, err := files(dir)
		if err != nil {
			continue
		}
		for _, f := range all {
			if strings.HasSuffix(f.Name(), ".safetensors") {
				bytes += f.Size()
			}
		}
	}
	return bytes
}

// absentBytes is what the file of an encoder would take that is not there.
func (p *Pipeline) absentBytes(e *encoder) (bytes int64) {
	n, err := p.load(e.part, p.Precision, nil, nil, func(params *nn.Params) { e.build(params) })
	if err != nil {
		return 0
	}
	for _, shape := range n.params.Asked() {
		size := int64(2)
		for _, d := range shape {
			size *= int64(d)
		}
		bytes += size
	}
	if err := n.close(); err != nil {
		return 0
	}
	p.Pool.Trim()
	return bytes
}

// files are those of a folder, for fingerprints.
func files(dir string) ([]os.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []os.FileInfo
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			all = append(all, info)
		}
	}
	return all, nil
}
