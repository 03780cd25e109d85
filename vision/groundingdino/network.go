package groundingdino

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/swin"
)

// Card: Grounding DINO. Tokens of a text see their block alone, between full stops. In a layer of the encoder
// pixels and tokens look at each other, tokens at their block, pixels at few places of all maps:
//
//	v, t = norm(v), norm(t);  v += a · attention(v, t),  t += b · attention(t, v)        one matrix of scores
//	t = norm(t + attention(t + place)),  t = norm(t + mlp(t))
//	v = norm(v + places(v + place)),     v = norm(v + mlp(v))                            detr.Places
//
// The pixels with the surest tokens become boxes; learned queries look at each other, at the text, and around their
// boxes, which move layer by layer. A query's logits are its products with the text's tokens. Parts of a batch that
// hold no picture are hidden everywhere. Held to eyes.grounding_dino.

// Network is a GroundingDinoForObjectDetection.
type Network struct {
	c        Config
	backbone *swin.Network
	inputs   []input
	text     *bert
	project  *nn.Linear
	level    *autograd.Param
	encoder  []*encoderLayer
	memory   *nn.Linear
	memNorm  *nn.Norm
	propose  detr.Layers
	queries  *autograd.Param
	place    detr.Layers
	decoder  []*decoderLayer
	last     *nn.Norm
	box      detr.Layers
}

// input is a map's convolution and norm.
type input struct {
	conv *nn.Conv
	norm *nn.GroupNorm
}

type encoderLayer struct {
	normV, normT                                     *nn.Norm
	ofVision, ofText, vision, text, toVision, toText *nn.Linear
	gateV, gateT                                     *autograd.Param
	enhance                                          *nn.Attention
	enhanced, enhancedLast                           *nn.Norm
	enhanceMLP                                       *nn.MLP
	look                                             *look
	looked, last                                     *nn.Norm
	mlp                                              *nn.MLP
}

// look is attention to few places.
type look struct{ offsets, weights, value, out *nn.Linear }

type decoderLayer struct {
	self, text                    *nn.Attention
	look                          *look
	after, afterText, cross, last *nn.Norm
	mlp                           *nn.MLP
}

// New asks p for a network's parameters.
func New(p *nn.Params, c Config) *Network {
	p.Ignore("bbox_embed\\.[1-9].*", "model\\.decoder\\.bbox_embed\\..*", "class_embed\\..*", "model\\.special_tokens")
	m, w := p.Sub("model"), c.Width
	n := &Network{c: c, backbone: swin.New(m.Sub("backbone.conv_encoder.model"), c.Backbone), text: newBERT(m.Sub("text_backbone"), c.Text), project: m.Linear("text_projection", c.Text.Width, w, true),
		level: m.Vector("level_embed", c.Levels, w), memory: m.Linear("enc_output", w, w, true), memNorm: m.LayerNorm("enc_output_norm", w, c.Eps), propose: head(m.Sub("encoder_output_bbox_embed"), w, w, 4, 3),
		queries: m.Embedding("query_position_embeddings", c.Queries, w), place: head(m.Sub("decoder.reference_points_head"), 2*w, w, w, 2), last: m.LayerNorm("decoder.layer_norm", w, c.Eps), box: head(p.At("bbox_embed", 0), w, w, 4, 3)}
	channels := c.Backbone.Channels()
	for i := range c.Levels {
		shape := nn.Square(w, w, 3, 2, 1)
		switch {
		case i < len(channels):
			shape = nn.Square(channels[i], w, 1, 1, 0)
		case i == len(channels):
			shape = nn.Square(channels[i-1], w, 3, 2, 1)
		}
		n.inputs = append(n.inputs, input{m.Conv(fmt.Sprintf("input_proj_vision.%d.0", i), shape, true), m.GroupNorm(fmt.Sprintf("input_proj_vision.%d.1", i), w, groups, 1e-5)})
	}
	for i := range c.Encoder {
		n.encoder = append(n.encoder, newEncoderLayer(m.At("encoder.layers", i), c))
	}
	for i := range c.Decoder {
		l := m.At("decoder.layers", i)
		n.decoder = append(n.decoder, &decoderLayer{self: attention(l.Sub("self_attn"), w, c.DecoderHeads), text: attention(l.Sub("encoder_attn_text"), w, c.DecoderHeads), look: newLook(l.Sub("encoder_attn"), w, c.DecoderHeads*c.Levels*c.DecoderPoints),
			after: l.LayerNorm("self_attn_layer_norm", w, c.Eps), afterText: l.LayerNorm("encoder_attn_text_layer_norm", w, c.Eps), cross: l.LayerNorm("encoder_attn_layer_norm", w, c.Eps), last: l.LayerNorm("final_layer_norm", w, c.Eps),
			mlp: mlp(l, w, c.DecoderInner)})
	}
	return n
}

func mlp(p *nn.Params, w, inner int) *nn.MLP {
	return &nn.MLP{Up: p.Linear("fc1", w, inner, true), Down: p.Linear("fc2", inner, w, true), Act: kernels.ReLU}
}

func attention(p *nn.Params, w, heads int) *nn.Attention {
	return &nn.Attention{Heads: heads, Q: p.Linear("query", w, w, true), K: p.Linear("key", w, w, true), V: p.Linear("value", w, w, true), Out: p.Linear("out_proj", w, w, true)}
}

func newLook(p *nn.Params, w, points int) *look {
	return &look{p.Linear("sampling_offsets", w, 2*points, true), p.Linear("attention_weights", w, points, true), p.Linear("value_proj", w, w, true), p.Linear("output_proj", w, w, true)}
}

// head is linear layers of one width inside.
func head(p *nn.Params, in, inside, out, layers int) (all detr.Layers) {
	for i := range layers {
		to := inside
		if i == layers-1 {
			to = out
		}
		all, in = append(all, p.Linear(fmt.Sprintf("layers.%d", i), in, to, true)), to
	}
	return all
}

func newEncoderLayer(p *nn.Params, c Config) *encoderLayer {
	w, inner := c.Width, c.EncoderInner/2
	f, t, d := p.Sub("fusion_layer"), p.Sub("text_enhancer_layer"), p.Sub("deformable_layer")
	a := f.Sub("attn")
	return &encoderLayer{normV: f.LayerNorm("layer_norm_vision", w, c.Eps), normT: f.LayerNorm("layer_norm_text", w, c.Eps),
		ofVision: a.Linear("vision_proj", w, inner, true), ofText: a.Linear("text_proj", w, inner, true), vision: a.Linear("values_vision_proj", w, inner, true), text: a.Linear("values_text_proj", w, inner, true),
		toVision: a.Linear("out_vision_proj", inner, w, true), toText: a.Linear("out_text_proj", inner, w, true), gateV: f.Vector("vision_param", w), gateT: f.Vector("text_param", w),
		enhance: attention(t.Sub("self_attn"), w, c.EncoderHeads/2), enhanced: t.LayerNorm("layer_norm_before", w, c.Eps), enhancedLast: t.LayerNorm("layer_norm_after", w, c.Eps), enhanceMLP: mlp(t, w, inner),
		look: newLook(d.Sub("self_attn"), w, c.EncoderHeads*c.Levels*c.EncoderPoints), looked: d.LayerNorm("self_attn_layer_norm", w, c.Eps), last: d.LayerNorm("final_layer_norm", w, c.Eps), mlp: mlp(d, w, c.EncoderInner)}
}

// scene is the parts of a batch, and its texts.
type scene struct {
	b, pixels, tokens int
	sizes             []detr.Size
	inside            [][]detr.Size // of each picture, for each level
	lengths           []int32       // of texts
	end               [][]int
	places            []int32
}

func (s *scene) padded() bool {
	for _, levels := range s.inside {
		for l, in := range levels {
			if in != s.sizes[l] {
				return true
			}
		}
	}
	return false
}

// each calls f for every pixel of every picture, in order.
func (s *scene) each(f func(picture, level, y, x int, inside bool)) {
	for i := range s.b {
		for l, size := range s.sizes {
			for y := range size.H {
				for x := range size.W {
					f(i, l, y, x, y < s.inside[i][l].H && x < s.inside[i][l].W)
				}
			}
		}
	}
}

// Forward asks about prepared pictures and a text for each.
func (n *Network) Forward(tp *autograd.Tape, batch detr.Batch, texts [][]int32) []Answer {
	s := &scene{b: len(texts)}
	ids := s.read(texts)
	c, w := n.c, n.c.Width
	t := n.project.Apply(tp, n.text.forward(tp, ids, s.places, s.b, s.tokens, func(heads int) *autograd.Value { return s.blockBias(tp, heads) }), autograd.With{})

	var flat []*autograd.Value
	var sines [][]float32
	var of []int32
	maps := n.backbone.Forward(tp, tp.Upload("pictures", batch.Pixels, s.b, batch.Size.H, batch.Size.W, 3))
	s.inside = make([][]detr.Size, s.b)
	for l, in := range n.inputs {
		from := maps[min(l, len(maps)-1)]
		x := in.norm.Apply(tp, in.conv.Apply(tp, from, nil), kernels.Identity)
		if l >= len(maps) {
			maps = append(maps, x)
		}
		size := detr.Sizes(x)[0]
		s.sizes, flat = append(s.sizes, size), append(flat, detr.Flat(tp, x))
		for i, inside := range batch.Inside {
			in := detr.Size{H: shrunk(inside.H, batch.Size.H, size.H), W: shrunk(inside.W, batch.Size.W, size.W)}
			s.inside[i] = append(s.inside[i], in)
			sines = append(sines, detr.MaskedSines(size, in, w/2, c.Temperature, 0))
		}
		of = append(of, detr.Numbers(l, l+1, size.H*size.W)...)
	}
	v := tp.Concat(1, flat...)
	s.pixels = v.Dim(1)
	var all []float32
	var level []int32
	for i := range s.b {
		for l := range s.sizes {
			all = append(all, sines[l*s.b+i]...)
		}
		level = append(level, of...)
	}
	place := tp.Add(tp.Upload("places", all, s.b, s.pixels, w), tp.Embedding(n.level, level, s.b, s.pixels))
	keep := s.keep(tp, w)
	looks := detr.Places{Levels: s.sizes, Heads: c.EncoderHeads, Points: repeat(c.EncoderPoints, c.Levels), Refs: s.grid(), Coordinates: 2}
	textPlace := tp.Upload("places of tokens", waves(s.places, w), s.b, s.tokens, w)
	for _, l := range n.encoder {
		v, t = l.forward(tp, s, v, t, place, textPlace, keep, looks)
	}
	x, boxes := n.proposals(tp, s, v, t, keep)
	return n.decode(tp, s, x, v, t, keep, boxes)
}

func repeat(x, times int) []int {
	all := make([]int, times)
	for i := range all {
		all[i] = x
	}
	return all
}

// shrunk is how many of n pixels, of all from, lie inside: torch's nearest.
func shrunk(inside, from, n int) (count int) {
	for i := range n {
		if int(math.Floor(float64(float32(i)*(float32(from)/float32(n))))) < inside {
			count++
		}
	}
	return count
}

// read pads texts to one length.
func (s *scene) read(texts [][]int32) (ids []int32) {
	for _, t := range texts {
		s.tokens = max(s.tokens, len(t))
	}
	for _, t := range texts {
		s.lengths = append(s.lengths, int32(len(t)))
		row := append(append([]int32(nil), t...), make([]int32, s.tokens-len(t))...)
		end, place := blocks(row)
		s.end, s.places, ids = append(s.end, end), append(s.places, place...), append(ids, row...)
	}
	return ids
}

// hidden is added to scores of pairs that do not see each other.
var hidden = float32(math.Inf(-1))

func input32(tp *autograd.Tape, x []float32, shape ...int) *autograd.Value {
	t := tp.Pool().FromF32(kernels.F32, x, shape...)
	defer t.Free()
	return tp.Input(t)
}

// blockBias lets tokens see their block, and themselves.
func (s *scene) blockBias(tp *autograd.Tape, heads int) *autograd.Value {
	var bias []float32
	for _, end := range s.end {
		for range heads {
			for q := range s.tokens {
				for k := range s.tokens {
					v := hidden
					if q == k || end[q] >= 0 && end[q] == end[k] {
						v = 0
					}
					bias = append(bias, v)
				}
			}
		}
	}
	return input32(tp, bias, s.b, heads, s.tokens, s.tokens)
}

// pixelBias hides pixels outside of pictures from tokens; nil where all pixels are inside.
func (s *scene) pixelBias(tp *autograd.Tape, heads int) *autograd.Value {
	if !s.padded() {
		return nil
	}
	one := make([][]float32, s.b)
	s.each(func(i, _, _, _ int, inside bool) {
		v := hidden
		if inside {
			v = 0
		}
		one[i] = append(one[i], v)
	})
	var bias []float32
	for i := range s.b {
		bias = append(bias, detr.Repeat(one[i], heads*s.tokens)...)
	}
	return input32(tp, bias, s.b, heads, s.tokens, s.pixels)
}

// keep is 1 for pixels of pictures, 0 for others; nil where all pixels are inside.
func (s *scene) keep(tp *autograd.Tape, w int) *autograd.Value {
	if !s.padded() {
		return nil
	}
	var mask []float32
	s.each(func(_, _, _, _ int, inside bool) {
		v := float32(0)
		if inside {
			v = 1
		}
		mask = append(mask, detr.Repeat([]float32{v}, w)...)
	})
	return tp.Upload("inside", mask, s.b, s.pixels, w)
}

// ratio is the part of a level's map that shows a picture.
func (s *scene) ratio(picture, level int) (w, h float64) {
	in, size := s.inside[picture][level], s.sizes[level]
	return float64(in.W) / float64(size.W), float64(in.H) / float64(size.H)
}

// grid is a place for each pixel, on each level.
func (s *scene) grid() (refs []float32) {
	s.each(func(i, l, y, x int, _ bool) {
		w, h := s.ratio(i, l)
		px, py := (float64(x)+0.5)/float64(w*float64(s.sizes[l].W)), (float64(y)+0.5)/float64(h*float64(s.sizes[l].H))
		for k := range s.sizes {
			w, h := s.ratio(i, k)
			refs = append(refs, float32(px*w), float32(py*h))
		}
	})
	return refs
}

// waves are sines and cosines of whole numbers, times 2π.
func waves(places []int32, w int) (all []float32) {
	for _, p := range places {
		all = append(all, detr.Waves(float64(p), w, 10000)...)
	}
	return all
}

// gate is the epilogue that scales a branch, channel by channel, and adds it to x.
func gate(tp *autograd.Tape, p *autograd.Param, x *autograd.Value) autograd.With {
	b, w := x.Dim(0), x.Dim(-1)
	return autograd.With{Residual: x, Gate: tp.AddParam(tp.Upload("scale", make([]float32, b*w), b, w), p)}
}

// attend is of queries and keys with places, and of values without.
func attend(tp *autograd.Tape, a *nn.Attention, q, k, v *autograd.Value, o autograd.Attend, residual *autograd.Value) *autograd.Value {
	o.Heads = a.Heads
	y := tp.Attention(a.Q.Apply(tp, q, autograd.With{}), a.K.Apply(tp, k, autograd.With{}), a.V.Apply(tp, v, autograd.With{}), o)
	return a.Out.Apply(tp, y, autograd.With{Residual: residual})
}

func (l *look) apply(tp *autograd.Tape, q, source, keep, residual *autograd.Value, p detr.Places) *autograd.Value {
	b, n, points := q.Dim(0), q.Dim(1), l.weights.W.Shape[0]
	value := l.value.Apply(tp, source, autograd.With{})
	if keep != nil {
		value = tp.Mul(value, keep)
	}
	weights := tp.Softmax(tp.Reshape(l.weights.Apply(tp, q, autograd.With{}), b, n*p.Heads, points/p.Heads))
	y := p.Apply(tp, value, l.offsets.Apply(tp, q, autograd.With{}), tp.Reshape(weights, b, n, points))
	return l.out.Apply(tp, y, autograd.With{Residual: residual})
}

func (l *encoderLayer) forward(tp *autograd.Tape, s *scene, v, t, place, textPlace, keep *autograd.Value, looks detr.Places) (vision, text *autograd.Value) {
	heads, plain := l.enhance.Heads, autograd.With{}
	v, t = l.normV.Apply(tp, v), l.normT.Apply(tp, t)
	of, to := l.ofVision.Apply(tp, v, plain), l.ofText.Apply(tp, t, plain)
	dv := tp.Attention(of, to, l.text.Apply(tp, t, plain), autograd.Attend{Heads: heads, KeyLens: s.lengths})
	dt := tp.Attention(to, of, l.vision.Apply(tp, v, plain), autograd.Attend{Heads: heads, Bias: s.pixelBias(tp, heads)})
	v, t = l.toVision.Apply(tp, dv, gate(tp, l.gateV, v)), l.toText.Apply(tp, dt, gate(tp, l.gateT, t))

	q := tp.Add(t, textPlace)
	t = l.enhanced.Apply(tp, attend(tp, l.enhance, q, q, t, autograd.Attend{Bias: s.blockBias(tp, heads)}, t))
	t = l.enhancedLast.Apply(tp, l.enhanceMLP.Apply(tp, t, autograd.With{Residual: t}))

	v = l.looked.Apply(tp, l.look.apply(tp, tp.Add(v, place), v, keep, v, looks))
	return l.last.Apply(tp, l.mlp.Apply(tp, v, autograd.With{Residual: v})), t
}

// logits are products of rows with the text's tokens, those of the text alone.
func (s *scene) logits(tp *autograd.Tape, x, t *autograd.Value) [][]float32 {
	all, rows := tp.Products(x, t).F32(), x.Dim(1)
	var out [][]float32
	for i := range s.b * rows {
		out = append(out, all[i*s.tokens:][:s.lengths[i/rows]])
	}
	return out
}

// proposals are the boxes around the pixels with the surest tokens, and learned queries.
func (n *Network) proposals(tp *autograd.Tape, s *scene, v, t, keep *autograd.Value) (x *autograd.Value, boxes []float32) {
	w := n.c.Width
	var mask, anchors []float32
	s.each(func(i, l, y, x int, inside bool) {
		in, side := s.inside[i][l], 0.05*float64(int(1)<<l)
		b := [4]float64{(float64(x) + 0.5) / float64(in.W), (float64(y) + 0.5) / float64(in.H), side, side}
		for _, v := range b {
			inside = inside && v > 0.01 && v < 0.99
		}
		one := float32(0)
		for _, v := range b {
			if inside {
				one = 1
				anchors = append(anchors, float32(portable.Log(v/(1-v))))
			} else {
				anchors = append(anchors, float32(math.Inf(1)))
			}
		}
		mask = append(mask, detr.Repeat([]float32{one}, w)...)
	})
	memory := n.memNorm.Apply(tp, n.memory.Apply(tp, tp.Mul(v, tp.Upload("anchored", mask, s.b, s.pixels, w)), autograd.With{}))
	scores := s.logits(tp, memory, t)
	var rows []int32
	for i := range s.b {
		best := make([]float32, s.pixels)
		for k := range best {
			best[k] = detr.Most(scores[i*s.pixels+k], len(scores[i*s.pixels+k]))[0]
		}
		order := detr.Falling(best)
		for k := range n.c.Queries {
			rows = append(rows, int32(i*s.pixels+order[min(k, s.pixels-1)]))
		}
	}
	seen := tp.Gather(tp.Reshape(memory, s.b*s.pixels, w), rows, s.b, n.c.Queries)
	for k, d := range n.propose.Apply(tp, seen).F32() {
		boxes = append(boxes, float32(detr.Sigmoid(float64(d)+float64(anchors[4*int(rows[k/4])+k%4]))))
	}
	return tp.Embedding(n.queries, detr.Numbers(0, n.c.Queries, s.b), s.b, n.c.Queries), boxes
}

// moved are boxes after deltas of their logits.
func moved(boxes, delta []float32) []float32 {
	out := make([]float32, len(boxes))
	for i, d := range delta {
		out[i] = float32(detr.Sigmoid(float64(d) + detr.Logit(float64(boxes[i]))))
	}
	return out
}

func (n *Network) decode(tp *autograd.Tape, s *scene, x, v, t, keep *autograd.Value, boxes []float32) (answers []Answer) {
	c, w := n.c, n.c.Width
	for i, l := range n.decoder {
		p := detr.Places{Levels: s.sizes, Heads: c.DecoderHeads, Points: repeat(c.DecoderPoints, c.Levels), Coordinates: 4}
		for range c.Levels * c.DecoderPoints {
			p.Spread = append(p.Spread, float32(0.5/float64(c.DecoderPoints)))
		}
		var places []float32
		for q := range s.b * c.Queries {
			for k := range c.Levels {
				rw, rh := s.ratio(q/c.Queries, k)
				b := [4]float64{float64(boxes[4*q]) * rw, float64(boxes[4*q+1]) * rh, float64(boxes[4*q+2]) * rw, float64(boxes[4*q+3]) * rh}
				for _, v := range b {
					p.Refs = append(p.Refs, float32(v))
				}
				if k == 0 {
					for _, at := range []int{1, 0, 2, 3} {
						places = append(places, detr.Waves(float64(b[at]), w/2, 10000)...)
					}
				}
			}
		}
		place := n.place.Apply(tp, tp.Upload("places of boxes", places, s.b, c.Queries, 2*w))
		q := tp.Add(x, place)
		x = l.after.Apply(tp, attend(tp, l.self, q, q, x, autograd.Attend{}, x))
		x = l.afterText.Apply(tp, attend(tp, l.text, tp.Add(x, place), t, t, autograd.Attend{KeyLens: s.lengths}, x))
		x = l.cross.Apply(tp, l.look.apply(tp, tp.Add(x, place), v, keep, x, p))
		x = l.last.Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))
		if i < len(n.decoder)-1 {
			boxes = moved(boxes, n.box.Apply(tp, x).F32())
		}
	}
	x = n.last.Apply(tp, x)
	boxes = moved(boxes, n.box.Apply(tp, x).F32())
	logits := s.logits(tp, x, t)
	for i := range s.b {
		a := Answer{Boxes: boxes[4*i*c.Queries:][:4*c.Queries]}
		for _, row := range logits[i*c.Queries:][:c.Queries] {
			whole := append([]float32(nil), row...)
			for len(whole) < c.MostText {
				whole = append(whole, hidden)
			}
			a.Logits = append(a.Logits, whole)
		}
		answers = append(answers, a)
	}
	return answers
}
