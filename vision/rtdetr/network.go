package rtdetr

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: RT-DETR. The backbone's maps become one width; the pixels of the coarsest attend to each other; maps are
// mixed from coarse to fine and back. Of all their pixels those with the likeliest classes become queries, with a
// box each, around the pixel. A layer of the decoder is
//
//	x   = norm(x + attention(x + place, x + place, x)),   place = mlp(box)
//	x   = norm(x + places(x + place, maps | box))         detr.Places
//	x   = norm(x + mlp(x))
//	box = sigmoid(mlp(x) + logit(box))
//
// and the last layer's classes and boxes are the answer. Version 2 scales offsets by decoder_offset_scale, and may
// read the nearest pixel. Held to eyes.rt_detr and eyes.rt_detr_v2.

// Network is an RTDetrForObjectDetection or a DFineForObjectDetection.
type Network struct {
	c         Config
	backbone  trunk
	inputs    []*nn.Conv
	attention [][]*encoderLayer
	lateral   []*nn.Conv
	fine      []mixer
	down      []halver
	coarse    []mixer
	maps      []*nn.Conv // nil: maps are read as they are

	memory     *nn.Linear
	memoryNorm *nn.Norm
	score      *nn.Linear
	box        detr.Layers
	learned    *autograd.Param // nil: queries are the pixels themselves
	place      detr.Layers
	decoder    []*decoderLayer
	first      detr.Layers // of D-FINE: the box that distances are measured from
	distances  distances   // of D-FINE
}

// A trunk gives maps of a picture, from fine to coarse.
type trunk interface {
	forward(tp *autograd.Tape, x *autograd.Value) []*autograd.Value
}

// A mixer makes one map of two that lie beside each other.
type mixer interface {
	apply(tp *autograd.Tape, act kernels.UnaryOp, x *autograd.Value) *autograd.Value
}

// halver is act(conv(x)), or of D-FINE deep(conv(x)), of half the sides.
type halver struct {
	conv *nn.Conv
	deep *detr.Depthwise
}

type encoderLayer struct {
	attention   *nn.Attention
	after, last *nn.Norm
	mlp         *nn.MLP
}

type decoderLayer struct {
	attention                    *nn.Attention
	offsets, weights, value, out *nn.Linear // value and out are nil in D-FINE
	after, cross, last           *nn.Norm   // cross is nil in D-FINE
	gate                         *gate      // of D-FINE
	mlp                          *nn.MLP
	classes                      *nn.Linear
	box                          detr.Layers
	quality                      detr.Layers // of D-FINE
}

// mix is a CSPRep layer: conv3(blocks(conv1(x)) + conv2(x)).
type mix struct {
	first, second, third *nn.Conv // third is nil where widths agree
	blocks               [][2]*nn.Conv
}

// New asks p for a network's parameters; batch norms are in the convolutions before them (detr.Folded).
func New(p *nn.Params, c Config) *Network {
	p.Ignore("(?:class_embed|bbox_embed)\\..*", "model\\.denoising_class_embed\\..*", "model\\.(?:anchors|valid_mask)", ".*\\.num_batches_tracked", ".*\\.n(?:um)?_points_scale")
	m := p.Sub("model")
	n := &Network{c: c}
	if at := m.Sub("backbone.model"); c.Backbone.Kind == "hgnet_v2" {
		n.backbone = newHGNet(at, c.Backbone)
	} else {
		n.backbone = newResNet(at, c.Backbone)
	}
	e, h, fine := m.Sub("encoder"), c.Hidden, c.fine()
	for i, in := range c.Backbone.Channels() {
		n.inputs = append(n.inputs, m.Conv(fmt.Sprintf("encoder_input_proj.%d.0", i), nn.Square(in, h, 1, 1, 0), true))
		if fine && c.Width == c.DecoderIn[len(c.DecoderIn)-1] {
			continue
		}
		n.maps = append(n.maps, m.Conv(fmt.Sprintf("decoder_input_proj.%d.0", i), nn.Square(c.DecoderIn[i], c.Width, 1, 1, 0), true))
	}
	for i := range c.Project {
		var layers []*encoderLayer
		for k := range c.Encoder {
			l := e.Sub(fmt.Sprintf("encoder.%d.layers.%d", i, k))
			layers = append(layers, &encoderLayer{attention: selfAttention(l, h, c.EncoderHead), after: l.LayerNorm("self_attn_layer_norm", h, c.Eps), last: l.LayerNorm("final_layer_norm", h, c.Eps),
				mlp: &nn.MLP{Up: l.Linear("fc1", h, c.EncoderFF, true), Down: l.Linear("fc2", c.EncoderFF, h, true), Act: acts[c.EncoderAct]}})
		}
		n.attention = append(n.attention, layers)
	}
	for i := range len(c.EncoderIn) - 1 {
		n.lateral = append(n.lateral, e.Conv(fmt.Sprintf("lateral_convs.%d.conv", i), nn.Square(h, h, 1, 1, 0), true))
		down := e.At("downsample_convs", i)
		if fine {
			n.fine, n.coarse = append(n.fine, newElan(e.At("fpn_blocks", i), c)), append(n.coarse, newElan(e.At("pan_blocks", i), c))
			n.down = append(n.down, halver{down.Conv("conv1.conv", nn.Square(h, h, 1, 1, 0), true), detr.NewDepthwise(down, "conv2.conv", h, 3, 2)})
			continue
		}
		inside := int(float64(h) * c.Expansion)
		n.fine, n.coarse = append(n.fine, newMix(e.At("fpn_blocks", i), 2*h, inside, h, 3)), append(n.coarse, newMix(e.At("pan_blocks", i), 2*h, inside, h, 3))
		n.down = append(n.down, halver{conv: down.Conv("conv", nn.Square(h, h, 3, 2, 1), true)})
	}
	w := c.Width
	n.memory, n.memoryNorm, n.score, n.box = m.Linear("enc_output.0", w, w, true), m.LayerNorm("enc_output.1", w, c.Eps), m.Linear("enc_score_head", w, len(c.Labels), true), head(m.Sub("enc_bbox_head"), w, w, 4, 3)
	if c.Learned {
		n.learned = m.Embedding("weight_embedding", c.Queries, w)
	}
	d := m.Sub("decoder")
	n.place = head(d.Sub("query_pos_head"), 4, 2*w, w, 2)
	if fine {
		n.first = head(d.Sub("pre_bbox_head"), w, w, 4, 3)
		n.distances = newDistances(c.Bins, float64(number(d, "up", float32(c.Up))), float64(number(d, "reg_scale", float32(c.Scale))))
	}
	for i := range c.Decoder {
		n.decoder = append(n.decoder, newDecoderLayer(d.At("layers", i), d, c, i))
	}
	return n
}

func selfAttention(p *nn.Params, w, heads int) *nn.Attention {
	a := p.Sub("self_attn")
	return &nn.Attention{Heads: heads, Q: a.Linear("q_proj", w, w, true), K: a.Linear("k_proj", w, w, true), V: a.Linear("v_proj", w, w, true), Out: a.Linear("out_proj", w, w, true)}
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

func newMix(p *nn.Params, in, inside, out, blocks int) *mix {
	one := func(name string, in, out int) *nn.Conv {
		return p.Conv(name+".conv", nn.Square(in, out, 1, 1, 0), true)
	}
	m := &mix{first: one("conv1", in, inside), second: one("conv2", in, inside)}
	for i := range blocks {
		b := p.At("bottlenecks", i)
		m.blocks = append(m.blocks, [2]*nn.Conv{b.Conv("conv1.conv", nn.Square(inside, inside, 3, 1, 1), true), b.Conv("conv2.conv", nn.Square(inside, inside, 1, 1, 0), true)})
	}
	if inside != out {
		m.third = one("conv3", inside, out)
	}
	return m
}

func newDecoderLayer(p, d *nn.Params, c Config, i int) *decoderLayer {
	w, a := c.Width, p.Sub("encoder_attn")
	points, sides := 0, 4
	for _, each := range c.points() {
		points += c.DecoderHead * each
	}
	if c.fine() {
		sides *= c.Bins + 1
	}
	l := &decoderLayer{attention: selfAttention(p, w, c.DecoderHead), offsets: a.Linear("sampling_offsets", w, 2*points, true), weights: a.Linear("attention_weights", w, points, true),
		after: p.LayerNorm("self_attn_layer_norm", w, c.Eps), last: p.LayerNorm("final_layer_norm", w, c.Eps),
		mlp:     &nn.MLP{Up: p.Linear("fc1", w, c.DecoderFF, true), Down: p.Linear("fc2", c.DecoderFF, w, true), Act: acts[c.DecoderAct]},
		classes: d.Linear(fmt.Sprintf("class_embed.%d", i), w, len(c.Labels), true), box: head(d.At("bbox_embed", i), w, w, sides, 3)}
	if c.fine() {
		l.gate = newGate(p.Sub("gateway"), w)
		l.quality = head(d.At("lqe_layers", i).Sub("reg_conf"), 4*(c.Surest+1), c.QualityWidth, 1, c.QualityLayers)
		return l
	}
	l.value, l.out, l.cross = a.Linear("value_proj", w, w, true), a.Linear("output_proj", w, w, true), p.LayerNorm("encoder_attn_layer_norm", w, c.Eps)
	return l
}

// Forward is the logits [B, queries, classes] and the boxes [B, queries, 4] of pictures [B, H, W, 3].
func (n *Network) Forward(tp *autograd.Tape, pictures *autograd.Value) (logits, boxes []float32) {
	var maps []*autograd.Value
	for i, m := range n.mixed(tp, n.backbone.forward(tp, pictures)) {
		if n.maps != nil {
			m = n.maps[i].Apply(tp, m, nil)
		}
		maps = append(maps, m)
	}
	sizes := detr.Sizes(maps...)
	var flat []*autograd.Value
	for _, m := range maps {
		flat = append(flat, detr.Flat(tp, m))
	}
	source := tp.Concat(1, flat...)
	x, boxes := n.queries(tp, source, sizes)
	if n.c.fine() {
		return n.refined(tp, x, source, sizes, boxes)
	}
	b := pictures.Dim(0)
	for i, l := range n.decoder {
		looks := n.looks(sizes, boxes, b)
		place := n.place.Apply(tp, tp.Upload("boxes", boxes, b, n.c.Queries, 4))
		x = l.forward(tp, x, place, source, looks)
		boxes = moved(boxes, l.box.Apply(tp, x).F32())
		if i == len(n.decoder)-1 {
			logits = l.classes.Apply(tp, x, autograd.With{}).F32()
		}
	}
	return logits, boxes
}

// moved are boxes whose logits are by further away.
func moved(boxes, by []float32) []float32 {
	next := make([]float32, len(boxes))
	for k, v := range by {
		next[k] = float32(detr.Sigmoid(float64(v) + detr.Logit(float64(boxes[k]))))
	}
	return next
}

// looks are the attention to maps around boxes.
func (n *Network) looks(sizes []detr.Size, boxes []float32, b int) detr.Places {
	p := detr.Places{Levels: sizes, Heads: n.c.DecoderHead, Coordinates: 4}
	spread := 0.5
	if n.c.Kind != "rt_detr" {
		spread, p.Nearest = n.c.Offset, n.c.Method == "discrete"
	}
	p.Points = n.c.points()
	for _, each := range p.Points {
		p.Spread = append(p.Spread, slices.Repeat([]float32{float32(spread / float64(each))}, each)...)
	}
	for q := range b * n.c.Queries {
		for range sizes {
			p.Refs = append(p.Refs, boxes[4*q:][:4]...)
		}
	}
	return p
}

// halved is a map of half the sides.
func (n *Network) halved(tp *autograd.Tape, h halver, x *autograd.Value) *autograd.Value {
	y := h.conv.Apply(tp, x, nil)
	if h.deep != nil {
		return h.deep.Apply(tp, y)
	}
	return tp.Unary(acts[n.c.Act], y)
}

func (m *mix) apply(tp *autograd.Tape, act kernels.UnaryOp, x *autograd.Value) *autograd.Value {
	y := tp.Unary(act, m.first.Apply(tp, x, nil))
	for _, b := range m.blocks {
		y = tp.Unary(act, b[0].Apply(tp, y, b[1].Apply(tp, y, nil)))
	}
	y = tp.Add(y, tp.Unary(act, m.second.Apply(tp, x, nil)))
	if m.third != nil {
		y = tp.Unary(act, m.third.Apply(tp, y, nil))
	}
	return y
}

// mixed is the backbone's maps, from fine to coarse, each knowing the others.
func (n *Network) mixed(tp *autograd.Tape, from []*autograd.Value) []*autograd.Value {
	var maps []*autograd.Value
	for i, m := range from {
		maps = append(maps, n.inputs[i].Apply(tp, m, nil))
	}
	for i, at := range n.c.Project {
		maps[at] = n.attend(tp, n.attention[i], maps[at])
	}
	last, act := len(maps)-1, acts[n.c.Act]
	fine := make([]*autograd.Value, len(maps))
	fine[last] = maps[last]
	for i := range last {
		at := last - i
		if fine[at] = n.lateral[i].Apply(tp, fine[at], nil); !n.c.fine() {
			fine[at] = tp.Unary(act, fine[at])
		}
		fine[at-1] = n.fine[i].apply(tp, act, tp.Concat(3, tp.Upsample(fine[at], 2), maps[at-1]))
	}
	out := []*autograd.Value{fine[0]}
	for i := range last {
		out = append(out, n.coarse[i].apply(tp, act, tp.Concat(3, n.halved(tp, n.down[i], out[i]), fine[i+1])))
	}
	return out
}

// attend lets the pixels of a map attend to each other.
func (n *Network) attend(tp *autograd.Tape, layers []*encoderLayer, m *autograd.Value) *autograd.Value {
	s, b, h := detr.Sizes(m)[0], m.Dim(0), n.c.Hidden
	x := detr.Flat(tp, m)
	for _, l := range layers {
		y := x
		if n.c.Before {
			y = l.after.Apply(tp, y)
		}
		q := y
		if len(n.c.EvalSize) == 0 {
			q = tp.Add(y, tp.Upload("places", detr.Repeat(places(s, h, n.c.Temperature), b), b, s.H*s.W, h))
		}
		x = attention(tp, l.attention, q, y, x)
		if n.c.Before {
			x = l.mlp.Apply(tp, l.last.Apply(tp, x), autograd.With{Residual: x})
			continue
		}
		x = l.after.Apply(tp, x)
		x = l.last.Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))
	}
	return tp.Reshape(x, b, s.H, s.W, h)
}

// attention is of queries and keys with places, and of values without.
func attention(tp *autograd.Tape, a *nn.Attention, q, v, residual *autograd.Value) *autograd.Value {
	y := tp.Attention(a.Q.Apply(tp, q, autograd.With{}), a.K.Apply(tp, q, autograd.With{}), a.V.Apply(tp, v, autograd.With{}), autograd.Attend{Heads: a.Heads})
	return a.Out.Apply(tp, y, autograd.With{Residual: residual})
}

// places are sines and cosines of a pixel's row, then of its column, [H·W, width].
func places(s detr.Size, width int, temperature float64) []float32 {
	quarter := width / 4
	waves := func(n int) [][]float32 {
		all := make([][]float32, n)
		for i := range all {
			all[i] = make([]float32, 2*quarter)
			for k := range quarter {
				angle := float64(i) * (1 / portable.Pow(temperature, float64(k)/float64(quarter)))
				all[i][k], all[i][quarter+k] = float32(portable.Sin(angle)), float32(portable.Cos(angle))
			}
		}
		return all
	}
	rows, columns := waves(s.H), waves(s.W)
	out := make([]float32, 0, s.H*s.W*width)
	for y := range s.H {
		for x := range s.W {
			out = append(append(out, rows[y]...), columns[x]...)
		}
	}
	return out
}

// kept is a source whose pixels with boxes at the border are zeros.
func kept(tp *autograd.Tape, source *autograd.Value, inside []bool) *autograd.Value {
	b, w := source.Dim(0), source.Dim(2)
	mask := make([]float32, 0, len(inside)*w)
	for _, ok := range inside {
		v := float32(0)
		if ok {
			v = 1
		}
		mask = append(mask, slices.Repeat([]float32{v}, w)...)
	}
	return tp.Mul(source, tp.Upload("inside", detr.Repeat(mask, b), b, len(inside), w))
}

// likeliest are the rows of the pixels with the largest numbers, a row for each query.
func likeliest(best []float32, b, queries int) (rows []int32) {
	pixels := len(best) / b
	for i := range b {
		order := detr.Falling(best[i*pixels:][:pixels])
		for k := range queries {
			rows = append(rows, int32(i*pixels+order[min(k, pixels-1)]))
		}
	}
	return rows
}

// queries are the pixels with the likeliest classes, and their boxes.
func (n *Network) queries(tp *autograd.Tape, source *autograd.Value, sizes []detr.Size) (x *autograd.Value, boxes []float32) {
	b, pixels := source.Dim(0), source.Dim(1)
	anchors, inside := detr.Anchors(sizes)
	memory := n.memoryNorm.Apply(tp, n.memory.Apply(tp, kept(tp, source, inside), autograd.With{}))
	best := detr.Most(n.score.Apply(tp, memory, autograd.With{}).F32(), len(n.c.Labels))
	rows := likeliest(best, b, n.c.Queries)
	seen := tp.Gather(tp.Reshape(memory, b*pixels, n.c.Width), rows, b, n.c.Queries)
	for k, v := range n.box.Apply(tp, seen).F32() {
		boxes = append(boxes, float32(detr.Sigmoid(float64(v)+float64(anchors[int(rows[k/4])%pixels*4+k%4]))))
	}
	if n.learned != nil {
		seen = tp.Embedding(n.learned, detr.Numbers(0, n.c.Queries, b), b, n.c.Queries)
	}
	return seen, boxes
}

func (l *decoderLayer) forward(tp *autograd.Tape, x, place, source *autograd.Value, looks detr.Places) *autograd.Value {
	x = l.after.Apply(tp, attention(tp, l.attention, tp.Add(x, place), x, x))
	q, b, n := tp.Add(x, place), x.Dim(0), x.Dim(1)
	points := l.weights.W.Shape[0]
	weights := tp.Softmax(tp.Reshape(l.weights.Apply(tp, q, autograd.With{}), b, n*looks.Heads, points/looks.Heads))
	if l.value != nil {
		source = l.value.Apply(tp, source, autograd.With{})
	}
	y := looks.Apply(tp, source, l.offsets.Apply(tp, q, autograd.With{}), tp.Reshape(weights, b, n, points))
	if l.gate != nil {
		x = l.gate.apply(tp, x, y)
	} else {
		x = l.cross.Apply(tp, l.out.Apply(tp, y, autograd.With{Residual: x}))
	}
	return l.last.Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))
}
