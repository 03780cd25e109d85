package ref

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Draw, for rows lo to hi-1. With l the row's logits as they are punished and banned, and m = max l:
//
//	d = (l - m)·(1/Temperature), e = Exp(d)
//
// The key of a token is the bits of |d|: the smaller, the likelier. Its mass is e·2^42 cut to a whole number, so that
// sums of masses are exact in every order. Of the keys in ascending order, top-k keeps those up to the k-th's; top-p
// goes down from the largest of these, among equal keys from the smallest index, and drops while the sum of masses is
// at most (1-TopP)·(their sum), 1-TopP in units of 2^-32; min-p keeps e >= MinP. A dropped token has d = -Inf, e = 0.
//
// Blocks of 512 tokens are added along the tree of sum.go: s = sum(e), and h = dot(e, d), where e = 0 has no part;
// blocks one after another in float64: S and H. Then LogProb = d[token] - Log(S), Entropy = Log(S) - H/S, at least 0.
// The token is the first at which the running sum in float64, block by block and then token by token from the sum
// before the block, exceeds Uniform·S; the last that has e > 0 of the block that is come to, if rounding leaves none.
func Draw(a *kernels.Draw, lo, hi int) {
	w, n := DrawingOf(a), a.X.Cols
	d, e := make([]float32, n), make([]float32, n)
	sums, dots := make([]float32, DrawBlocks(n)), make([]float32, DrawBlocks(n))
	for r := lo; r < hi; r++ {
		LoadRow(d, a.X, r)
		w.Punish(d, r)
		m := largest(d)
		if why := DrawFailure(d, m); why != 0 {
			w.Fail(r, why)
			continue
		}
		for i, v := range d {
			d[i] = Mul(Sub(v, m), w.Inverse)
			e[i] = Exp(d[i])
		}
		w.keep(d, e)
		for b := range sums {
			from, to := b*DrawBlock, min(n, (b+1)*DrawBlock)
			sums[b], dots[b] = sum(e[from:to]), DotWeighted(e[from:to], d[from:to])
		}
		w.Finish(r, d, e, sums, dots)
	}
}

// DrawBlock is how many tokens are added up together.
const DrawBlock = 512

// DrawBlocks is how many blocks n tokens are.
func DrawBlocks(n int) int { return (n + DrawBlock - 1) / DrawBlock }

// Drawing is a Draw's settings as its loops take them.
type Drawing struct {
	*kernels.Draw
	Inverse float32 // of the temperature
	Penalty float32 // the repetition penalty
	Most    int     // how many tokens top-k keeps at least; 0: it is off
	Drop    uint32  // the share that top-p drops, in units of 2^-32
	TopP    bool    // it is on
}

// DrawingOf reads a Draw's settings.
func DrawingOf(a *kernels.Draw) Drawing {
	if a.X.Cols > kernels.MostDrawn {
		panic(fmt.Sprintf("kernels: Draw of %d columns; at most %d", a.X.Cols, kernels.MostDrawn))
	}
	w := Drawing{Draw: a, Inverse: 1, Penalty: 1, TopP: a.TopP != 0 && a.TopP != 1}
	if a.Temperature != 0 { // neither infinite nor zero, so that 0 stays 0 and -Inf stays -Inf
		w.Inverse = max(min(Div(1, a.Temperature), math.MaxFloat32), 0x1p-126)
	}
	if a.Repetition != 0 {
		w.Penalty = a.Repetition
	}
	if a.TopK < a.X.Cols {
		w.Most = a.TopK
	}
	if w.TopP {
		w.Drop = uint32(min(float64((1-a.TopP)*(1<<32)), 1<<32-1))
	}
	return w
}

// Punish applies the repetition penalty to a row's logits, and bans.
func (w *Drawing) Punish(l []float32, r int) {
	words := kernels.Words(len(l))
	if !w.Seen.Empty() {
		eachOf(w.Seen.I32()[r*words:][:words], len(l), func(i int) {
			if l[i] < 0 {
				l[i] = Mul(l[i], w.Penalty)
			} else {
				l[i] = Div(l[i], w.Penalty)
			}
		})
	}
	if !w.Banned.Empty() {
		eachOf(w.Banned.I32()[:words], len(l), func(i int) { l[i] = float32(math.Inf(-1)) })
	}
}

// eachOf calls f for every token of a set, of n.
func eachOf(set []int32, n int, f func(i int)) {
	for at, word := range set {
		for i := at * 32; word != 0 && i < n; i, word = i+1, int32(uint32(word)>>1) {
			if word&1 != 0 {
				f(i)
			}
		}
	}
}

// DrawFailure says why no token can be drawn, of the logits and the largest of them; 0: one can.
func DrawFailure(l []float32, most float32) int32 {
	switch {
	case most > math.MaxFloat32 || slices.ContainsFunc(l, func(v float32) bool { return v != v }):
		return kernels.DrawNotFinite
	case most < -math.MaxFloat32:
		return kernels.DrawNoToken
	}
	return 0
}

// Fail writes that a row has no token.
func (w *Drawing) Fail(r int, why int32) { w.write(r, why, 0, 0) }

func (w *Drawing) write(r int, token int32, logProb, entropy float32) {
	w.Token.I32()[r] = token
	if !w.LogProb.Empty() {
		w.LogProb.F32()[r] = logProb
	}
	if !w.Entropy.Empty() {
		w.Entropy.F32()[r] = entropy
	}
}

// DrawKey is a token's place in the order: the smaller, the likelier.
func DrawKey(d float32) uint32 { return math.Float32bits(d) &^ (1 << 31) }

// DrawMass is a token's weight in sums that are exact.
func DrawMass(e float32) uint64 { return uint64(int64(e * (1 << 42))) }

// DrawLimit is the most that top-p drops of a mass.
func (w *Drawing) DrawLimit(all uint64) uint64 {
	return all>>32*uint64(w.Drop) + all&(1<<32-1)*uint64(w.Drop)>>32
}

// keep drops the filtered tokens, by a sort.
func (w *Drawing) keep(d, e []float32) {
	if w.Most == 0 && !w.TopP && w.MinP == 0 {
		return
	}
	order := make([]int, len(d)) // from the least likely up
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return int(DrawKey(d[j])) - int(DrawKey(d[i])) })
	if w.Most > 0 {
		last := DrawKey(d[order[len(d)-w.Most]])
		for DrawKey(d[order[0]]) > last {
			drop(d, e, order[0])
			order = order[1:]
		}
	}
	if w.TopP {
		all, sum := uint64(0), uint64(0)
		for _, i := range order {
			all += DrawMass(e[i])
		}
		for _, i := range order {
			if sum += DrawMass(e[i]); sum > w.DrawLimit(all) {
				break
			}
			drop(d, e, i)
		}
	}
	for i, x := range e {
		if x < w.MinP {
			drop(d, e, i)
		}
	}
}

func drop(d, e []float32, i int) { d[i], e[i] = float32(math.Inf(-1)), 0 }

// DotWeighted is the sum of e·d, in which e = 0 has no part.
func DotWeighted(e, d []float32) float32 {
	var l Lanes
	for i, v := range e {
		if v != 0 {
			l[i%64] = FMA(v, d[i], l[i%64])
		}
	}
	return l.Total()
}

// Finish draws a row's token, by its blocks' sums.
func (w *Drawing) Finish(r int, d, e, sums, dots []float32) {
	total, weighted := 0.0, 0.0
	for b, s := range sums {
		total += float64(s)
		weighted += float64(dots[b])
	}
	s := float32(total)
	log := Log(s)
	entropy := max(0, Sub(log, Div(float32(weighted), s)))
	token := -1
	if !w.Given.Empty() {
		token = int(w.Given.I32()[r])
	}
	switch {
	case token >= len(d):
		w.write(r, int32(token), float32(math.Inf(-1)), entropy)
		return
	case token >= 0:
	case w.Uniform.Empty():
		token = slices.IndexFunc(d, func(v float32) bool { return v == 0 })
	default:
		token = pick(float64(w.Uniform.F64()[r]*total), e, sums)
	}
	w.write(r, int32(token), Sub(d[token], log), entropy)
}

// pick is the token at which the running sum exceeds a number.
func pick(at float64, e, sums []float32) int {
	block, below, sum := 0, 0.0, 0.0
	for b, s := range sums {
		if s == 0 {
			continue
		}
		block, below = b, sum
		if sum += float64(s); sum > at {
			break
		}
	}
	token := 0
	for i := block * DrawBlock; i < min(len(e), (block+1)*DrawBlock); i++ {
		if e[i] == 0 {
			continue
		}
		token = i
		if below += float64(e[i]); below > at {
			break
		}
	}
	return token
}

// Draw draws every row's token.
func (Backend) Draw(a *kernels.Draw) { Draw(a, 0, a.X.Rows) }
