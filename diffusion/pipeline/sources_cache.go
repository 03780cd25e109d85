package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
)

// Latents of pictures that pictures are made of lie on the disk beside texts (cache.go): a file a picture, named by its
// pixels, the autoencoder, the precision and the device's arithmetic.

// latentsOf is a prepared picture's latents as the network reads them.
func (p *Pipeline) latentsOf(m *vision.Image, at Shape) ([]float32, error) {
	path, err := p.picturePath(m)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if x, err := readLatents(path); err == nil && len(x) == at.Len() {
			touch(path)
			return x, nil
		}
	}
	pixels := vision.Floats(nil, m, vision.Signed, vision.ChannelsLast)
	latents, err := p.EncodeAll([][]float32{pixels}, at)
	if err != nil {
		return nil, err
	}
	x := narrowed(latents[0])
	if path != "" {
		err = p.store(path, []safetensors.Tensor{tensorOf("latents", x, at.Latents...)}, map[string]string{"picture": fmt.Sprintf("%d x %d", m.Width, m.Height)})
	}
	return x, err
}

// picturePath is the file of a picture's latents; "": they are not kept.
func (p *Pipeline) picturePath(m *vision.Image) (string, error) {
	if p.Cache.Dir == "" {
		return "", nil
	}
	if p.pictureMark == "" {
		h := sha256.New()
		fmt.Fprintln(h, "pictures, form 2", p.folder.class, p.Precision, p.Cache.Arithmetic)
		if err := p.folder.markParts(h, "vae"); err != nil {
			return "", err
		}
		p.pictureMark = hex.EncodeToString(h.Sum(nil))
	}
	h := sha256.New()
	fmt.Fprintln(h, p.pictureMark, m.Width, m.Height)
	h.Write(m.Pix)
	return filepath.Join(p.Cache.Dir, hex.EncodeToString(h.Sum(nil)[:16])+".safetensors"), nil
}

func readLatents(path string) ([]float32, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	latents, err := f.Tensor("latents")
	if err != nil {
		return nil, err
	}
	return latents.Float32(nil)
}
