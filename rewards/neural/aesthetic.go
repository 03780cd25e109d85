package neural

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/nn/torchfile"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

// Card: the aesthetic predictor (christophschuhmann/improved-aesthetic-predictor; flow_grpo
// and ddpo-pytorch use it as it is): linear layers on a picture's unit vector by CLIP, with no
// activation between them, so that all of them are one linear function,
//
//	reward = <w, x/|x|> + b,   w = W_1ᵀ ... W_nᵀ,   b = the layers applied to 0
//
// which Head holds; its rows are multiplied out in float64 when it is read. On the published weights it runs from
// about 1 to 10. It is not divided; some configs divide it by 10, which is a weight's business. Invariants (tests):
// Head agrees with the chain of layers; gradients agree with differences. Held to neural.aesthetic and
// neural.aesthetic_mlp_full.
type Aesthetic struct {
	Pictures Pictures
	Head     *Head
	Every    int // of a clip, one frame in this many is judged; 0: 1
}

// Images scores pictures.
func (a Aesthetic) Images(ctx context.Context, pictures []*vision.Image) ([]float64, error) {
	vectors, err := a.Pictures.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(vectors))
	for i, x := range vectors {
		u, _, err := unit(x)
		if err == nil {
			out[i], err = a.Head.Of(u)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i, err)
		}
	}
	return out, nil
}

// Gradient scores pictures of numbers, and says how each number changes its picture's score.
func (a Aesthetic) Gradient(ctx context.Context, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	return pointwise(ctx, a.Pictures, pictures, func(_ int, u []float64) (float64, []float64) {
		return dot(a.Head.Weights, u) + a.Head.Bias, a.Head.Weights
	})
}

// A Head is a linear function of vectors.
type Head struct {
	Weights []float64
	Bias    float64
}

// Of is the function.
func (h *Head) Of(u []float64) (float64, error) {
	if len(u) != len(h.Weights) {
		return 0, fmt.Errorf("the head reads vectors of %d, the tower gives %d: they belong to different networks", len(h.Weights), len(u))
	}
	return dot(h.Weights, u) + h.Bias, nil
}

// Pull is the function of x/|x| and its derivative with respect to x.
func (h *Head) Pull(x []float64) (float64, []float64, error) {
	u, norm, err := unit(x)
	if err != nil {
		return 0, nil, err
	}
	value, err := h.Of(u)
	if err != nil {
		return 0, nil, err
	}
	return value, back(u, norm, h.Weights), nil
}

// A Dense is a linear layer as it is stored: Weight is [Out, In].
type Dense struct {
	In, Out      int
	Weight, Bias []float64
}

// PublishedHead are the layers of the published head on CLIP's ViT-L/14, by number: the
// missing ones are dropouts.
var PublishedHead = []struct{ Number, In, Out int }{{0, 768, 1024}, {2, 1024, 128}, {4, 128, 64}, {6, 64, 16}, {7, 16, 1}}

// HeadFile is the name of a head's file in a folder.
const HeadFile = "aesthetic_mlp.safetensors"

// NewHead multiplies layers out.
func NewHead(layers ...Dense) (*Head, error) {
	if len(layers) == 0 {
		return nil, errors.New("a head without layers")
	}
	for i, l := range layers {
		switch {
		case l.In < 1 || l.Out < 1 || len(l.Weight) != l.In*l.Out || len(l.Bias) != l.Out:
			return nil, fmt.Errorf("layer %d of the head: %d and %d numbers for %d to %d", i, len(l.Weight), len(l.Bias), l.In, l.Out)
		case i > 0 && l.In != layers[i-1].Out:
			return nil, fmt.Errorf("layer %d of the head reads %d numbers, and the one before gives %d", i, l.In, layers[i-1].Out)
		}
	}
	last := layers[len(layers)-1]
	if last.Out != 1 {
		return nil, fmt.Errorf("the head gives %d numbers: one is needed", last.Out)
	}
	h := &Head{Weights: []float64{1}}
	for _, l := range slices.Backward(layers) {
		h.Bias += dot(h.Weights, l.Bias)
		w := make([]float64, l.In)
		for o, a := range h.Weights {
			for i, v := range l.Weight[o*l.In : (o+1)*l.In] {
				w[i] += float64(a * v)
			}
		}
		h.Weights = w
	}
	return h, nil
}

var layerName = regexp.MustCompile(`^layers\.(\d{1,4})\.(weight|bias)$`)

// OpenHead reads a head's file (layers.N.weight, layers.N.bias) as safetensors or as a .pth, or that file of a folder.
func OpenHead(path string) (*Head, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = headFile(path)
	}
	f, err := openHead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	layers, err := readLayers(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	h, err := NewHead(layers...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// headFile is the file of a folder: HeadFile, or the only state dict that torch.save wrote.
func headFile(dir string) string {
	at := filepath.Join(dir, HeadFile)
	if _, err := os.Stat(at); err == nil {
		return at
	}
	if pickles, err := filepath.Glob(filepath.Join(dir, "*.pth")); err == nil && len(pickles) == 1 {
		return pickles[0]
	}
	return at
}

// A headSource is a file of layers.
type headSource interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, error)
	Close() error
}

func openHead(path string) (headSource, error) {
	if filepath.Ext(path) == ".pth" {
		return torchfile.Open(path)
	}
	return safetensors.Open(path)
}

// mostLayers is more than any head has.
const mostLayers = 64

func readLayers(f headSource) ([]Dense, error) {
	byNumber := map[int]*Dense{}
	for _, name := range f.Names() {
		parts := layerName.FindStringSubmatch(name)
		if parts == nil {
			return nil, fmt.Errorf("%s: the head of an aesthetic predictor has layers.N.weight and layers.N.bias alone", name)
		}
		n, _ := strconv.Atoi(parts[1])
		if byNumber[n] == nil {
			byNumber[n] = &Dense{}
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		narrow, err := t.Float32(nil)
		if err != nil {
			return nil, err
		}
		l, x := byNumber[n], make([]float64, len(narrow))
		for i, v := range narrow {
			x[i] = float64(v)
		}
		if parts[2] == "bias" {
			l.Bias = x
			continue
		}
		if len(t.Shape) != 2 {
			return nil, fmt.Errorf("%s: its shape is %v; [out, in] was expected", name, t.Shape)
		}
		l.Out, l.In, l.Weight = t.Shape[0], t.Shape[1], x
	}
	var layers []Dense
	for n := range byNumber {
		layers = append(layers, Dense{In: n})
	}
	if len(layers) == 0 || len(layers) > mostLayers {
		return nil, fmt.Errorf("%d layers: 1 to %d are possible", len(layers), mostLayers)
	}
	slices.SortFunc(layers, func(a, b Dense) int { return a.In - b.In })
	for i, l := range layers {
		n := l.In
		layers[i] = *byNumber[n]
		switch l := layers[i]; {
		case l.Weight == nil:
			return nil, fmt.Errorf("layers.%d.weight: missing", n)
		case l.Bias == nil:
			return nil, fmt.Errorf("layers.%d.bias: missing", n)
		case len(l.Bias) != l.Out:
			return nil, fmt.Errorf("layers.%d.bias: its shape is [%d], the weight's is [%d %d]", n, len(l.Bias), l.Out, l.In)
		}
	}
	return layers, nil
}

type aestheticKeys struct {
	rewards.NetworkKeys
	rewards.FrameKeys
}

// AestheticKind is reward aesthetic.
var AestheticKind = rewards.Kind{
	Name:  "aesthetic",
	Card:  "A head on CLIP's features that predicts how much people like a picture; path holds its weights, and without it an embedded toy judges the embedded models' drawings.",
	Paper: "LAION-Aesthetics V2 (Schuhmann et al., 2022)",
	Cases: []string{"neural.aesthetic", "neural.aesthetic_mlp_full"},
	Published: &rewards.Published{From: []rewards.Repository{
		{Name: "trl-lib/ddpo-aesthetic-predictor", Files: []string{"aesthetic-model.pth"}, Saves: rewards.Pickle{From: "aesthetic-model.pth", To: HeadFile}},
		publishedCLIP.From[0]}, Licence: "Apache-2.0, MIT", Numbers: 428_540_082},
	Judges:  rewards.Pictures,
	Traits:  rewards.Averages | rewards.Weights | rewards.Slopes,
	Toy:     towersToy,
	Remedy:  fmt.Sprintf(towersFor, "aesthetic"),
	Options: aestheticKeys{},
	Open: rewards.Opens(func(k aestheticKeys, b rewards.Bench) (rewards.Opened, error) {
		if k.Path == "" {
			k.Path = TinyCLIP
		}
		dir, d, err := opening(k.NetworkKeys, b)
		if err != nil {
			return rewards.Opened{}, err
		}
		head, err := OpenHead(dir)
		if err != nil {
			return rewards.Opened{}, err
		}
		t, err := clip.Open(dir, clip.Options{Device: d, NoTexts: true})
		if err != nil {
			return rewards.Opened{}, err
		}
		if len(head.Weights) != t.Width {
			t.Close()
			return rewards.Opened{}, fmt.Errorf("%s: the head reads vectors of %d, the tower gives %d: they belong to different networks", dir, len(head.Weights), t.Width)
		}
		return closing(Aesthetic{Pictures: t, Head: head}, t.Close), nil
	}),
}
