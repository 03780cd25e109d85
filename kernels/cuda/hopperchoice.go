package cuda

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Whether a Hopper's attention goes by wgmma, decided when a backend opens.
//
// The kernels for Hopper have run on one model of device, so nothing takes them unseen: some small attentions, forward
// and backward, are computed by them and by the mma.sync kernels. One that is off by more than
// the roundings of weights may make it (as the conformance suite allows), or that has other bits the second time,
// leaves them all out, and the backend's String says why. What cannot be told by results - a wait that is missing and
// did no harm this time - is the suite's and the double's to find.

// hopperCase is an attention of the check: a whole tile, ragged ones, hidden keys, grouped heads.
type hopperCase struct {
	batch, sq, sk, h, kh, d int
	causal                  bool
	lens                    []int32
}

var hopperCases = []hopperCase{
	{batch: 1, sq: 128, sk: 128, h: 1, kh: 1, d: 128},
	{batch: 2, sq: 70, sk: 140, h: 2, kh: 1, d: 40, causal: true, lens: []int32{140, 131}},
	{batch: 1, sq: 140, sk: 150, h: 1, kh: 1, d: 80, causal: true, lens: []int32{133}},
}

// chooseHopper decides. The error is a device that can go on no more.
func (b *Backend) chooseHopper() (err error) {
	w := &b.hopper
	if w.module == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", errHopper, err)
		}
	}()
	defer kernels.Recover(&err)
	for _, c := range hopperCases {
		w.attention.fail(b.checkHopper(c))
	}
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		w.products.fail(b.checkHopperProduct(layout))
	}
	w.attention.use, w.products.use = w.attention.why == "", w.products.why == ""
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		for _, c := range checkPairs {
			if w.products.use {
				w.pairs.fail(b.checkHopperPair(layout, c.n, c.terms))
			}
		}
	}
	w.pairs.use = w.products.use && w.pairs.why == ""
	return nil
}

// fail says why kernels are left out, if anything does; what was said first stays.
func (f *family) fail(why string) {
	if why != "" && f.why == "" {
		f.why = "the check of wgmma kernels failed: " + why
	}
}

// checkHopper says what is wrong with a case, "" where nothing is.
func (b *Backend) checkHopper(c hopperCase) string {
	const op = "Open"
	nq, nk, stats := c.batch*c.sq*c.h*c.d, c.batch*c.sk*c.kh*c.d, c.batch*c.h*c.sq
	room := b.scratch(op, 2*nq, 2*nk, 2*nk, 2*nq, 4*nq, 4*stats, 4*stats, 4*nq, 4*nk, 4*nk)
	defer b.giveBack(room)
	span := func(i, n int, d kernels.DType) kernels.Span { return spanAt(room[i], n, d) }
	for i, n := range []int{nq, nk, nk, nq} {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: span(i, n, kernels.BF16)})
	}
	query := func(i int, d kernels.DType) kernels.Heads {
		return kernels.NewHeads(span(i, nq, d), c.batch, c.sq, c.h, c.d)
	}
	key := func(i int, d kernels.DType) kernels.Heads {
		return kernels.NewHeads(span(i, nk, d), c.batch, c.sk, c.kh, c.d)
	}
	a := &kernels.AttentionBackward{Attention: kernels.Attention{Math: kernels.MathBF16, Scale: float32(1 / math.Sqrt(float64(c.d))), Causal: c.causal, KeyLens: c.lens,
		Q: query(0, kernels.BF16), K: key(1, kernels.BF16), V: key(2, kernels.BF16), O: query(4, kernels.F32), LSE: span(5, stats, kernels.F32)},
		DO: query(3, kernels.BF16), Delta: span(6, stats, kernels.F32), DQ: query(7, kernels.F32), DK: key(8, kernels.F32), DV: key(9, kernels.F32)}
	play := func(use bool) (all [][]byte) {
		defer func() { b.hopper.attention.use = false }()
		for b.hopper.attention.use = use; len(all) < 5; {
			b.Attention(&a.Attention)
			b.AttentionBackward(a)
			for _, s := range []kernels.Span{a.O.Span, a.LSE, a.DQ.Span, a.DK.Span, a.DV.Span} {
				raw := make([]byte, 4*s.Len)
				b.Download(raw, s)
				all = append(all, raw)
			}
		}
		return all
	}
	own, got, again := play(false), play(true), play(true)
	for i, name := range []string{"O", "LSE", "DQ", "DK", "DV"} {
		if at := unlike(got[i], own[i], hopperNear); at >= 0 {
			return fmt.Sprintf("%s[%d] is %g and not %g (%d queries, %d keys, head dimension %d)", name, at, number(got[i], at), number(own[i], at), c.sq, c.sk, c.d)
		}
		if string(again[i]) != string(got[i]) {
			return name + " has other bits the second time"
		}
	}
	return ""
}

// hopperAlike leaves the kernels out of all ranks where one is without.
func hopperAlike(ranks []*Backend) {
	for _, without := range ranks {
		for _, b := range ranks {
			b.hopper.attention.follow(&without.hopper.attention, without)
			b.hopper.products.follow(&without.hopper.products, without)
			b.hopper.pairs.follow(&without.hopper.pairs, without)
		}
	}
}

// follow leaves kernels out that another rank is without.
func (f *family) follow(other *family, rank *Backend) {
	if f.use && !other.use {
		f.use, f.why = false, rank.Name()+" is without wgmma: "+other.why
	}
}

// hopperNear is what the rounding of weights to bf16 under another maximum may change of numbers about 1.
const hopperNear = 1e-2

// unlike is the first number that is not near the other's, within so much of its size, -1 where there is none.
func unlike(got, want []byte, near float64) int64 {
	for i := range int64(len(want) / 4) {
		x, y := float64(number(got, i)), float64(number(want, i))
		if x != y && !(math.Abs(x-y) <= near*(1+math.Abs(y))) {
			return i
		}
	}
	return -1
}
