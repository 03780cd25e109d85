package chat

import (
	"hash/maphash"
	"sync"

	"github.com/darkroom-rl/darkroom/vision"
)

// resized keeps the last pictures at the processor's size. An iteration reads an episode in every pass, and a group's
// episodes begin with one picture; resizing takes longer than a small model's pass. Pictures are found by their
// content, so a picture that was changed in place is another one.
type resized struct {
	mu    sync.Mutex
	seed  maphash.Seed
	by    map[content]*vision.Image
	bytes int
}

// content is a picture's size and the hash of its pixels.
type content struct {
	width, height, channels int
	hash                    uint64
}

// mostResized bounds the bytes of kept pictures. Beyond it all are dropped.
const mostResized = 32 << 20

// resize is Resize of the processor, once for a content.
func (k *VLM) resize(r *vision.Raster) (*vision.Image, error) {
	c := &k.resized
	c.mu.Lock()
	if c.by == nil {
		c.by, c.seed = map[content]*vision.Image{}, maphash.MakeSeed()
	}
	seed := c.seed
	c.mu.Unlock()
	key := content{r.Width, r.Height, r.Channels, maphash.Bytes(seed, r.Pix)}
	c.mu.Lock()
	m := c.by[key]
	c.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := k.Processor.Resize(r)
	if err != nil || m.Width == r.Width && m.Height == r.Height {
		return m, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.by[key]; other != nil { // meanwhile
		return other, nil
	}
	if c.bytes += len(m.Pix); c.bytes > mostResized {
		clear(c.by)
		c.bytes = len(m.Pix)
	}
	c.by[key] = m
	return m, nil
}
