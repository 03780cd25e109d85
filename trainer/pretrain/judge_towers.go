package pretrain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// TowerVerdict is how good towers are on scenes whose captions no training saw.
type TowerVerdict struct {
	Pictures   int                `json:"pictures"`
	Captions   int                `json:"captions"`   // different ones
	Retrieved  float64            `json:"retrieved"`  // share of pictures whose own caption is the likest of all
	Captioned  float64            `json:"captioned"`  // share of captions whose likest picture is one of theirs
	Attributes float64            `json:"attributes"` // share of pictures liker to their caption than to one with a wrong attribute
	ByFamily   map[string]float64 `json:"attributes_by_family"`
	Ranked     float64            `json:"ranked"` // share of pictures that the head puts above themselves damaged
	ByDamage   map[string]float64 `json:"ranked_by_damage"`
}

func (v *TowerVerdict) String() string {
	list := func(m map[string]float64) string {
		var out []string
		for k, x := range m {
			out = append(out, fmt.Sprintf("%s %.3f", k, x))
		}
		slices.Sort(out)
		return strings.Join(out, "  ")
	}
	return fmt.Sprintf("%d pictures: own caption of %d %.3f  own picture %.3f\n  right attribute %.3f  %s\n  drawn above damaged %.3f  %s",
		v.Pictures, v.Captions, v.Retrieved, v.Captioned, v.Attributes, list(v.ByFamily), v.Ranked, list(v.ByDamage))
}

// share is a mean of yes and no by name.
type share map[string]*mean

func (s share) add(name string, yes bool) {
	if s[name] == nil {
		s[name] = &mean{}
	}
	v := 0.0
	if yes {
		v = 1
	}
	s[name].add(v)
}

func (s share) means() map[string]float64 {
	out := map[string]float64{}
	for k, m := range s {
		out[k] = m.take()
	}
	return out
}

// JudgeTowers judges a folder's towers and head on n held-out pictures.
func JudgeTowers(pool *tensor.Pool, dir string, n int) (*TowerVerdict, error) {
	g, err := openTowers(dir, pool, nil)
	if err != nil {
		return nil, err
	}
	defer g.free()
	key := rng.New(1).With("judge of towers")
	var c contrast
	var families []string
	var captions []string // different ones
	for i, s := range HeldOut(n) {
		c.add(s, s.Draw(scenes.Jitter(key.With("jitter").Sample(i).Draw())), key.Sample(i))
		families = append(families, string(s.Family))
		if !slices.Contains(captions, s.Prompt) {
			captions = append(captions, s.Prompt)
		}
	}
	embed := func(f func(tp *autograd.Tape, lo, hi int) *autograd.Value, n int) (all [][]float64) {
		for lo := 0; lo < n; lo += 64 {
			tp := autograd.New(pool, autograd.Options{DType: kernels.F32, Math: kernels.MathF32})
			all = append(all, rows(f(tp, lo, min(lo+64, n)))...)
			tp.Reset()
		}
		return all
	}
	pictures := embed(func(tp *autograd.Tape, lo, hi int) *autograd.Value { return g.embedPictures(tp, c.pictures[lo:hi]) }, n)
	damaged := embed(func(tp *autograd.Tape, lo, hi int) *autograd.Value { return g.embedPictures(tp, c.damaged[lo:hi]) }, n)
	all := append(append([]string(nil), captions...), c.wrong...)
	texts := embed(func(tp *autograd.Tape, lo, hi int) *autograd.Value { return g.embedCaptions(tp, all[lo:hi]) }, len(all))

	units, _ := clip.Units(append(append([][]float64(nil), pictures...), damaged...))
	tp := autograd.New(pool, autograd.Options{DType: kernels.F32, Math: kernels.MathF32})
	ranks := g.ranks(tp, units).F32()
	tp.Reset()
	like := clip.Similarity(pictures, texts, 0).Logits
	v := &TowerVerdict{Pictures: n, Captions: len(captions)}
	retrieval, attributes, damages := share{}, share{}, share{}
	best := make([]int, len(captions)) // the likest picture
	for i, row := range like {
		own := slices.Index(captions, c.captions[i])
		first := 0
		for j := range captions {
			if row[j] > row[first] {
				first = j
			}
			if row[j] > like[best[j]][j] {
				best[j] = i
			}
		}
		retrieval.add("picture", first == own)
		right := row[own] > row[len(captions)+i]
		retrieval.add("attribute", right)
		attributes.add(families[i], right)
		above := ranks[i] > ranks[n+i]
		retrieval.add("ranked", above)
		damages.add(c.kinds[i], above)
	}
	for j, i := range best {
		retrieval.add("caption", c.captions[i] == captions[j])
	}
	m := retrieval.means()
	v.Retrieved, v.Captioned, v.Attributes, v.Ranked = m["picture"], m["caption"], m["attribute"], m["ranked"]
	v.ByFamily, v.ByDamage = attributes.means(), damages.means()
	return v, nil
}
