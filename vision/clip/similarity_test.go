package clip

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSimilarityGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(rows, cols int) [][]float64 {
		m := make([][]float64, rows)
		for i := range m {
			for range cols {
				m[i] = append(m[i], r.NormFloat64())
			}
		}
		return m
	}
	images, texts, g, scale := random(3, 5), random(2, 5), random(3, 2), 0.7
	loss := func() (sum float64) {
		for i, row := range Similarity(images, texts, scale).Logits {
			for j, l := range row {
				sum += l * g[i][j]
			}
		}
		return sum
	}
	di, dt, ds := Similarity(images, texts, scale).Gradients(g)
	check := func(name string, x *float64, got float64) {
		const h = 1e-5
		old := *x
		*x = old + h
		up := loss()
		*x = old - h
		down := loss()
		*x = old
		if want := (up - down) / (2 * h); math.Abs(got-want) > 1e-8*(1+math.Abs(want)) {
			t.Errorf("%s: %g, finite differences say %g", name, got, want)
		}
	}
	for i := range images {
		for k := range images[i] {
			check("image", &images[i][k], di[i][k])
		}
	}
	for i := range texts {
		for k := range texts[i] {
			check("text", &texts[i][k], dt[i][k])
		}
	}
	check("scale", &scale, ds)
}
