package scorers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/faces"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// Card: whether the person of a source is the person that was drawn: the largest face of each, found and aligned by
// five points, as vectors of an ArcFace.
//
//	value = cosine of the two vectors, from -1 to 1; Missing where nothing that was drawn is a face
//
// A source without a face gives no score: the mistake is the prompt's. Of a clip the frames are
// judged one by one. Invariants (tests): the source itself has 1; a picture without a face has Missing.

// IdentityOptions are those of reward identity.
type IdentityOptions struct {
	Detector string  `toml:"detector" doc:"file of a face detector with five points: SCRFD as insightface exports it (det_10g.onnx)"`
	Side     int     `toml:"side" range:"[32,4096]" doc:"of the detector's square input, where its file leaves it open; a multiple of 32"`
	Least    float64 `toml:"least" range:"[0,1]" doc:"faces must be as sure as this"`
	Missing  float64 `toml:"missing" range:"[-1,1]" doc:"score of a picture without a face"`
	Flip     bool    `toml:"flip" doc:"the mirrored face's vector is added, as ArcFace's verification does"`
}

// SetDefaults are insightface's numbers.
func (o *IdentityOptions) SetDefaults() { *o = IdentityOptions{Side: 640, Least: 0.5} }

// Identity is the reward.
type Identity struct {
	Detector *faces.Detector
	Network  *faces.Network
	Missing  float64
}

// Score judges a picture beside its first source.
func (r Identity) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	if item.Image == nil {
		return rewards.Score{}, rewards.ErrNoImage
	}
	if len(item.Sources) == 0 {
		return rewards.Score{}, rewards.ErrNoSource
	}
	source, _, err := r.vector(ctx, item.Sources[0])
	if err != nil {
		return rewards.Score{}, fmt.Errorf("source: %w", err)
	}
	drawn, face, err := r.vector(ctx, item.Image)
	switch {
	case errors.Is(err, errNoFace):
		s := rewards.Score{Value: r.Missing}
		s.Because("face", "none")
		return s, nil
	case err != nil:
		return rewards.Score{}, err
	}
	v, err := faces.Cosine(source, drawn)
	if err != nil {
		return rewards.Score{}, err
	}
	return rewards.Score{Value: v, Evidence: []evidence.Reason{{What: "face", Box: (*boxes.Box)(&face.Box), Value: face.Score}}}, nil
}

var errNoFace = errors.New("there is no face")

// vector is that of a picture's largest face.
func (r Identity) vector(ctx context.Context, m *vision.Image) ([]float64, faces.Face, error) {
	found, err := r.Detector.Find(ctx, m)
	if err != nil {
		return nil, faces.Face{}, fmt.Errorf("face detector: %w", err)
	}
	face, ok := faces.Largest(found)
	if !ok {
		return nil, face, errNoFace
	}
	v, err := r.Network.Vector(ctx, m, face.Points)
	return v, face, err
}

// IdentityKey is the table of IdentityOptions.
type IdentityKey struct {
	Identity *IdentityOptions `toml:"identity" doc:"of reward identity: its face detector, and the score of a picture without a face"`
}

type identityKeys struct {
	rewards.PathKey
	rewards.FrameKeys
	IdentityKey
}

// isIResNet reports whether a path is that of an IResNet's weights: a folder of safetensors, or a file of tensors.
func isIResNet(path string) bool {
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		files, err := filepath.Glob(filepath.Join(path, "*.safetensors"))
		return err == nil && len(files) > 0
	}
	return slices.Contains([]string{".safetensors", ".pt", ".pth"}, filepath.Ext(path))
}

// onnxFile is the path of an existing file; the hint is the name of such a file.
func onnxFile(key, name, hint string) (string, error) {
	path, err := assets.Resolve(name)
	if err != nil {
		return "", err
	}
	switch at, err := os.Stat(path); {
	case name == "":
		return "", fmt.Errorf("there is no %s\nhint: %s = %q", key, key, hint)
	case err != nil:
		return "", fmt.Errorf("%s: no such file", name)
	case at.IsDir():
		return "", fmt.Errorf("%s is a folder\nhint: name the .onnx file in it", name)
	}
	return path, nil
}

// IdentityKind is reward identity.
var IdentityKind = rewards.Kind{
	Name:    "identity",
	Card:    "Whether the person of the source is the person that was drawn: the cosine of ArcFace's vectors of the largest faces, aligned by five points. ArcFace is an ONNX file, or an IResNet in safetensors.",
	Paper:   "Deng et al. 2019, arXiv:1801.07698; Guo et al. 2021, arXiv:2105.04714",
	Cases:   []string{"eyes.face_matrix", "eyes.face_crop", "eyes.face_similarity", "eyes.iresnet", "eyes.iresnet_full"},
	Judges:  rewards.Pictures,
	Traits:  rewards.Weights,
	Options: identityKeys{},
	Takes:   rewards.With(identityKeys.takes),
	Open: rewards.Opens(func(k identityKeys, b rewards.Bench) (rewards.Opened, error) {
		be, err := cpu.New()
		if err != nil {
			return rewards.Opened{}, err
		}
		r, err := k.open(be, b.Device)
		if err != nil {
			be.Close()
			return rewards.Opened{}, err
		}
		opened := rewards.One(r)
		opened.Close = func() error { r.Network.Close(); be.Close(); return nil }
		return opened, nil
	}),
}

// open opens the networks: ONNX files on a backend of their own, an IResNet on the device.
func (k identityKeys) open(be *cpu.Backend, device func() (*features.Device, error)) (r Identity, err error) {
	path, err := assets.Resolve(k.Path)
	if err != nil {
		return r, err
	}
	iresnet := isIResNet(path)
	if !iresnet {
		if path, err = onnxFile("path", k.Path, "w600k_r50.onnx"); err != nil {
			return r, err
		}
	}
	o := config.Filled(k.Identity)
	finder, err := onnxFile("identity.detector", o.Detector, "det_10g.onnx")
	if err != nil {
		return r, err
	}
	options := onnx.Options{Backend: be, Threads: be.Threads()}
	if !iresnet {
		return OpenIdentity(path, finder, o, options)
	}
	if r, err = openFinder(finder, o, options); err != nil {
		return r, err
	}
	d, err := device()
	if err != nil {
		return r, err
	}
	e, err := faces.OpenIResNet(path, d)
	if err != nil {
		return r, err
	}
	r.Network = e.Network()
	r.Network.Flip = o.Flip
	if err := r.Network.Try(context.Background()); err != nil {
		r.Network.Close()
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// takes is the detector's numbers, and the most memory of a run of either network.
func (k identityKeys) takes() int64 {
	be, err := cpu.New()
	if err != nil {
		return 0
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	r, err := k.open(be, func() (*features.Device, error) { return features.On(pool, features.F32), nil })
	if err != nil {
		return 0
	}
	defer r.Network.Close()
	pool.ResetPeak()
	weights := pool.Stats().InUse
	if r.Network.Try(context.Background()) != nil {
		return 0
	}
	return r.Detector.Bytes() + max(r.Detector.Peak(), r.Network.Peak(), int64(pool.Stats().Peak-weights))
}

// OpenIdentity opens two networks of ONNX files.
func OpenIdentity(path, finder string, o IdentityOptions, options onnx.Options) (Identity, error) {
	r, err := openFinder(finder, o, options)
	if err != nil {
		return r, err
	}
	if r.Network, err = faces.OpenNetwork(path, options); err != nil {
		return r, err
	}
	r.Network.Flip = o.Flip
	return r, nil
}

// openFinder opens the detector.
func openFinder(path string, o IdentityOptions, options onnx.Options) (Identity, error) {
	r := Identity{Missing: o.Missing}
	var err error
	if r.Detector, err = faces.OpenDetector(path, o.Side, options); err == nil {
		r.Detector.Least = o.Least
	}
	return r, err
}
