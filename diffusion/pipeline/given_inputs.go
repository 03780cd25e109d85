package pipeline

import (
	"errors"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// timesOf is what the network is told of a question's time: one number, or one a frame of latents, where
// a frame that is given stands at 0.
func (p *Pipeline) timesOf(q Question, at Shape) []float32 {
	if !p.family.network.timePerFrame {
		return []float32{float32(q.Time)}
	}
	times := make([]float32, max(1, at.Times))
	for i := range times {
		times[i] = float32(q.Time)
	}
	if q.Given != nil && q.Given.first != nil {
		times[0] = 0
	}
	return times
}

// putGiven puts on the tape what rows are given of pictures.
func (p *Pipeline) putGiven(tp *autograd.Tape, in *inputs, rows []Question) error {
	if p.family.pictures.read == besideTokens {
		return p.putSources(tp, in, rows)
	}
	var channels, tokens []float32
	for _, q := range rows {
		switch g := q.Given; {
		case p.family.pictures.read == besideLatents && (g == nil || g.channels == nil):
			return errors.New("this network reads a picture with every clip: give one (Give)")
		case p.family.pictures.read == noPictures && g != nil:
			return errors.New("a picture was given to a network that reads none")
		case p.family.pictures.read == besideLatents:
			channels, tokens = append(channels, g.channels...), append(tokens, g.tokens...)
		}
	}
	if channels == nil {
		return nil
	}
	at, n := in.at, len(rows)
	wide := len(channels) / (n * at.Times * at.Rows * at.Cols)
	in.beside = tp.Upload("given frames", channels, n, at.Times, at.Rows, at.Cols, wide)
	if tokens != nil {
		seen := rows[0].Given.seen
		in.seen = tp.Upload("tokens of pictures", tokens, n, seen, len(tokens)/(n*seen))
	}
	return nil
}

// Reads is what the network is given at a question: numbers [Times, Rows, Cols, channels], those of latents
// first, and times as it is told them, one, or one a frame of latents.
func (p *Pipeline) Reads(q Question, at Shape) (numbers, times []float32) {
	latents := narrowed(q.Given.Finish(q.Latents))
	if q.Given == nil || q.Given.channels == nil {
		return latents, p.timesOf(q, at)
	}
	c, pixels := p.family.latents.channels, at.Times*at.Rows*at.Cols
	wide := len(q.Given.channels) / pixels
	for i := range pixels {
		numbers = append(append(numbers, latents[i*c:(i+1)*c]...), q.Given.channels[i*wide:(i+1)*wide]...)
	}
	return numbers, p.timesOf(q, at)
}

// putSources puts on the tape the latents of pictures that rows are made of.
func (p *Pipeline) putSources(tp *autograd.Tape, in *inputs, rows []Question) error {
	var all []float32
	for _, q := range rows {
		switch g := q.Given; {
		case !SameSizes(g, rows[0].Given):
			return errors.New("pictures of different sizes are given in one batch: ask for each size by itself")
		case g == nil || len(g.grids) == 0:
			if p.family.pictures.sources.must {
				return errors.New("this network makes pictures of pictures: give one (Source)")
			}
		default:
			all = append(all, g.sources...)
		}
	}
	if all == nil {
		return nil
	}
	width := in.at.Latents[len(in.at.Latents)-1]
	in.sources, in.grids = tp.Upload("pictures", all, len(rows), len(all)/(len(rows)*width), width), rows[0].Given.grids
	return nil
}
