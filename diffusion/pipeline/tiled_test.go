package pipeline

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// decoded is a picture of drawn latents.
func decoded(t *testing.T, dir string, tile, height, width int) ([]float32, []float64, Shape) {
	t.Helper()
	p := open(t, dir, Options{Tile: tile})
	at, err := p.Shape(height, width)
	if err != nil {
		t.Fatal(err)
	}
	z := make([]float32, at.Len())
	rng.New(12).Normal(z, 0)
	x := widened(z)
	picture, err := p.Decode(x, at)
	if err != nil {
		t.Fatal(err)
	}
	return picture, x, at
}

// Tiles change a picture a little, and only one that is larger than a tile; each of several pictures is the same as
// alone. (Tiles of clips' autoencoders have a size of their own.)
func TestTiles(t *testing.T) {
	for _, name := range []string{"pipe_sd3", "pipe_flux", "pipe_sd15"} {
		dir := filepath.Join(recorded, name)
		whole, x, at := decoded(t, dir, 0, 160, 112)
		tiled, _, _ := decoded(t, dir, UsualTile, 160, 112) // 64 pixels, as the folder says
		if slices.Equal(whole, tiled) {
			t.Errorf("%s: a picture larger than a tile was decoded whole", name)
		}
		if far, _ := apart(Pixels(whole), Pixels(tiled)); far > 0.9 {
			t.Errorf("%s: tiles move pixels by %v", name, far)
		}
		if again, _, _ := decoded(t, dir, 64, 160, 112); !slices.Equal(again, tiled) {
			t.Errorf("%s: the folder's tiles are not those of 64 pixels", name)
		}
		if one, _, _ := decoded(t, dir, 160, 160, 112); !slices.Equal(one, whole) {
			t.Errorf("%s: a picture of one tile is another", name)
		}
		y := slices.Clone(x)
		slices.Reverse(y)
		p := open(t, dir, Options{Tile: 64})
		both, err := p.DecodeAll([][]float64{y, x}, at)
		if err != nil || !slices.Equal(both[1], tiled) {
			t.Errorf("%s: two pictures at once: %v", name, err)
		}
	}
}

func TestTilesRefuse(t *testing.T) {
	for _, side := range []int{-2, 8, 100, 48} {
		p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{Tile: side})
		at, err := p.Shape(64, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Decode(make([]float64, at.Len()), at); err == nil || !strings.Contains(err.Error(), "multiples of 32") {
			t.Errorf("tiles of %d: %v", side, err)
		}
	}
}

func TestTilesAreThoseOfDiffusers(t *testing.T) {
	interpreter := python(t)
	for _, c := range []struct {
		name                string
		side, height, width int
	}{{"pipe_sd3", 0, 160, 112}, {"pipe_sd3", 32, 96, 176}, {"pipe_sd15", 0, 80, 144}, {"pipe_sd15", 96, 208, 64}, {"pipe_flux", 32, 48, 64}} {
		t.Run(fmt.Sprintf("%s tiles of %d in %d x %d", c.name, c.side, c.width, c.height), func(t *testing.T) {
			dir := filepath.Join(recorded, c.name)
			work := t.TempDir()
			tile := c.side
			if tile == 0 {
				tile = UsualTile
			}
			ours := map[string][]float32{}
			var x []float64
			var at Shape
			ours["tiled"], x, at = decoded(t, dir, tile, c.height, c.width)
			ours["whole"], _, _ = decoded(t, dir, 0, c.height, c.width)
			p := open(t, dir, Options{})
			channels := p.layout.channels
			grid := p.Grid(x, at)
			latents, pictures := filepath.Join(work, "latents.safetensors"), filepath.Join(work, "pictures.safetensors")
			planes := upstream(widened(grid), Shape{Rows: at.Rows, Cols: at.Cols, Latents: []int{at.Rows, at.Cols, channels}})
			if err := safetensors.Write(latents, []safetensors.Tensor{planes}, nil); err != nil {
				t.Fatal(err)
			}
			run := exec.Command(interpreter, "testdata/tiled.py", filepath.Join(dir, "vae"), fmt.Sprint(c.side), latents, pictures)
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			f, err := safetensors.Open(pictures)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for name, got := range ours {
				stored, err := f.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				want, err := stored.Float32(nil)
				if err != nil {
					t.Fatal(err)
				}
				size, far := 0.0, 0.0
				for i, v := range want {
					size, far = max(size, math.Abs(float64(v))), max(far, math.Abs(float64(v-got[i])))
				}
				t.Logf("%s: at most %.1e apart, of %.1f", name, far, size)
				if !(far <= 2e-5*size) || len(got) != len(want) {
					t.Errorf("%s: the pictures are %v apart, of %v", name, far, size)
				}
			}
			if slices.Equal(ours["tiled"], ours["whole"]) {
				t.Error("nothing was tiled")
			}
		})
	}
}
