package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Card: gradients on workers. run.shards = K parts the points of every question to the network into K runs, and a
// gradient is the sum of a binary tree over them (trainer/model): its bits depend on K, and on no number of devices or
// machines. Objectives stay with the trainer, since they compare all samples with each other, and are numbers; so
// there are two jobs, of steps of a sampler, noised samples and tokens alike:
//
//	outputs    of one set of weights at points, of a subtree of shards
//	gradient   of the current weights, from all points of an update and the gradients at their outputs, of a subtree:
//	           the subtree's sum, in fp32, and a digest of the outputs, which are to be the objective's (recall.go)
//
// An objective announces the questions of an update, whose outputs are asked for at once. The trainer collects points
// and gradients, and has jobs done when the optimiser asks for the norm. So an update waits twice for workers, or once
// where the roll knows the outputs (recall.go). The trainer adds the subtrees' sums in the order of the tree. It works
// as one of the workers, on all of its devices; without any it computes as it does alone, and no job is made. Points,
// gradients and weights are blobs, and a job names them: a further update has other weights, so other jobs, and nothing
// has to be said about its number. Jobs are hedged, compared and done again as rolls are.
//
// Lessons are files of the trainer's machine: it computes updates that learn from them, and those with points that
// cannot travel.
//
// Invariant (tests in trainer/run): with any number of workers, whichever of them fail or lie, a run leaves the bytes
// of one that nobody helps.

// Gradient is the question of a job about the network: about its outputs, or about its gradient.
type Gradient struct {
	Of     trainer.Weights `json:"of,omitempty"`   // whose outputs
	Base   bool            `json:"base,omitempty"` // of the model without its adapter
	Back   bool            `json:"back,omitempty"` // the gradient
	Lo     int             `json:"lo,omitempty"`   // the first shard
	Hi     int             `json:"hi"`             // the one after the last
	Shards int             `json:"shards"`         // of the whole gradient
	Parts  []Part          `json:"parts"`          // of one question after another, of each its shards in their order
}

// A Part is the points of a question that are a shard's.
type Part struct {
	Shard  int  `json:"shard"`
	Points Blob `json:"points"`
	Grads  Blob `json:"grads,omitzero"` // at their outputs
}

// gradients shares the questions and gradients of updates out.
type gradients struct {
	m       *Model
	fleet   *Fleet
	own     shardable
	open    *Batch // without a job, so that workers' events are taken
	lengths []int  // of the parameters that move
	begun   bool   // the update under way has asked a question
	far     bool   // it is shared out
	asked   []*question
	seen    map[*trainer.Point]*question // of the update, by their first points
	points  map[Hash][]trainer.Point     // of the update, by their blobs
	grads   map[Hash][][]float64         // at their outputs
	weights map[trainer.Weights]Blob
	answers []made        // jobs of the update about outputs of the current weights
	put     map[Hash]bool // blobs that are there until the next update is done, for workers that are late
	past    map[Hash]bool // those of the update before
}

// A shardable is a model whose gradient is summed in shards (ranks.Model).
type shardable interface {
	First() model.Model
	Receive(nodes []model.Node) error
	Node(t exchange.Subtree, of func(k int) ([]model.Pass, error)) (model.Node, error)
}

// A question is points of the network that an update was computed from.
type question struct {
	at      []trainer.Point
	grads   [][]float64
	said    [][]float64                     // the outputs that the gradients are at
	parts   []Part                          // empty: it cannot travel
	outputs map[trainer.Weights][][]float64 // that are known
}

// shareGradients lets workers compute the model's gradients, where it sums them in shards.
func (m *Model) shareGradients(s Setup, by *Fleet) error {
	if by == nil {
		return nil
	}
	own, ok := m.Model.(shardable)
	if !ok || !m.e.Run.Parted() {
		return m.idles(by, "run.shards sums the gradient as one\nhint: run.shards = 8 parts it, and workers compute the parts")
	}
	g := &gradients{m: m, fleet: by, own: own, seen: map[*trainer.Point]*question{}, points: map[Hash][]trainer.Point{}, grads: map[Hash][][]float64{}, weights: map[trainer.Weights]Blob{}, put: map[Hash]bool{}}
	for _, p := range own.First().Moved() {
		g.lengths = append(g.lengths, p.Len())
	}
	if size := model.GradientBytes(own.First().Moved()); size > model.MostGradient {
		by.Tell("warning: fleet: a gradient of this run has %.1f GB, and at most %.1f GB travel: it is computed here\nhint: model.train = \"lora\"", float64(size)/1e9, float64(model.MostGradient)/1e9)
		return m.idles(by, "the run's gradient is too large to travel")
	}
	data, err := s.pack()
	if err != nil {
		return err
	}
	if _, err = by.Hub.Put(context.Background(), data); err != nil {
		return fmt.Errorf("fleet: publishing the run's setup: %w", err)
	}
	if g.open, err = by.Begin(context.Background(), Work{}); err == nil {
		m.gradients = g
	}
	return err
}

// idles says to workers of gradients why the run has none for them.
func (m *Model) idles(by *Fleet, why string) (err error) {
	by.mu.Lock()
	by.idle = why
	by.mu.Unlock()
	m.unused, err = by.Begin(context.Background(), Work{}) // so that their events are taken
	return err
}

// close lets workers go unheard.
func (g *gradients) close() {
	if g != nil {
		g.forget()
		g.forget()
		g.open.Drop()
	}
}

// Eval is trainer.Policy's: workers answer, where some compute gradients.
func (m *Model) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	if g := m.gradients; g != nil && w != trainer.Teacher && g.shares(w) {
		return g.eval(w, at)
	}
	out, err := m.Model.Eval(w, at)
	if err == nil && w == trainer.Current {
		m.compare(at, out.Outputs)
	}
	return out, err
}

// shares reports whether a question is shared out. From an update's first question about the current weights on, all
// are, or none.
func (g *gradients) shares(w trainer.Weights) bool {
	if g.begun {
		return g.far
	}
	s := g.m.settings
	far := g.fleet.Workers() > 0 && !s.Supervised() && !s.Imitates()
	if w == trainer.Current {
		g.begun, g.far = true, far
		if far && g.m.recaller != nil {
			g.m.recaller.Remember(nil, nil, nil) // jobs done here ask the network
		}
	}
	return far
}

// Announce implements trainer.Announcer.
func (m *Model) Announce(questions func() ([]trainer.Question, error)) error {
	g := m.gradients
	if g == nil || !g.shares(trainer.Current) {
		return nil
	}
	all, err := questions()
	if err != nil {
		return err
	}
	return g.announce(context.Background(), all)
}

// announce has the outputs of several questions computed at once, as far as they can travel and are not known.
func (g *gradients) announce(ctx context.Context, all []trainer.Question) error {
	by := map[trainer.Weights][]*question{}
	for _, one := range all {
		if one.Of == trainer.Teacher || len(one.At) == 0 {
			continue
		}
		q, err := g.question(ctx, one.At)
		if err != nil {
			return err
		}
		if len(q.parts) > 0 && g.known(one.Of, q) == nil && !slices.Contains(by[one.Of], q) {
			by[one.Of] = append(by[one.Of], q)
		}
	}
	return g.outputs(ctx, by)
}

// question is the one about points; without parts it cannot travel.
func (g *gradients) question(ctx context.Context, at []trainer.Point) (*question, error) {
	if q := g.seen[&at[0]]; q != nil && len(q.at) == len(at) {
		return q, nil
	}
	q := &question{at: at, outputs: map[trainer.Weights][][]float64{}}
	if _, ok := howOf(g.m.e, g.m.settings, g.m.root, false); ok {
		if ok, err := g.part(ctx, q); err != nil {
			return nil, err
		} else if !ok {
			q.parts = nil
		}
	}
	g.seen[&at[0]] = q
	return q, nil
}

// known are a question's outputs, by the roll or since it was announced; nil: they are not known.
func (g *gradients) known(w trainer.Weights, q *question) [][]float64 {
	if w == trainer.Current {
		if outputs := g.m.recalled.all(q.at); outputs != nil {
			return outputs
		}
	}
	return q.outputs[w]
}

// eval has a question answered, where its outputs are not known.
func (g *gradients) eval(w trainer.Weights, at []trainer.Point) (out trainer.Forward, err error) {
	if len(at) == 0 {
		return g.m.Model.Eval(w, at)
	}
	ctx := context.Background()
	q, err := g.question(ctx, at)
	if err != nil {
		return out, err
	}
	if len(q.parts) > 0 && g.known(w, q) == nil {
		if err := g.outputs(ctx, map[trainer.Weights][]*question{w: {q}}); err != nil {
			return out, err
		}
	}
	travels := len(q.parts) > 0
	if out.Outputs = g.known(w, q); !travels || out.Outputs == nil {
		own, err := g.m.Model.Eval(w, at)
		if err != nil {
			return out, err
		}
		travels, out.Outputs = false, own.Outputs
	}
	if w == trainer.Current {
		out.Back = func(grads [][]float64) error {
			if len(grads) != len(at) {
				return fmt.Errorf("%d gradients for %d answers", len(grads), len(at))
			}
			back := &question{at: at, grads: grads, said: out.Outputs}
			if travels {
				back.parts = slices.Clone(q.parts)
			}
			g.asked = append(g.asked, back)
			return nil
		}
	}
	return out, nil
}

// part packs a question's points by shards; false: they cannot travel.
func (g *gradients) part(ctx context.Context, q *question) (bool, error) {
	shards, codec := g.m.e.Run.Shards, episodeCodec(g.m.Model)
	for k := range shards {
		lo, hi := exchange.Share(k, shards, len(q.at))
		if lo == hi {
			continue
		}
		data, err := PackPoints(q.at[lo:hi], codec)
		if err != nil {
			return false, nil //nolint:nilerr // it is computed here
		}
		b, err := g.keep(ctx, data)
		if err != nil {
			return false, err
		}
		g.points[b.Hash] = q.at[lo:hi]
		q.parts = append(q.parts, Part{Shard: k, Points: b})
	}
	return true, nil
}

// keep puts a blob where workers find it, until the update is done.
func (g *gradients) keep(ctx context.Context, data []byte) (Blob, error) {
	b := BlobOf(data)
	if g.put[b.Hash] || g.past[b.Hash] {
		g.put[b.Hash] = true
		return b, nil
	}
	if _, err := g.fleet.Hub.Put(ctx, data); err != nil {
		return b, fmt.Errorf("fleet: publishing points of an update: %w", err)
	}
	g.put[b.Hash] = true
	return b, nil
}

// of names a set of weights; false: it cannot travel.
func (g *gradients) of(ctx context.Context, w trainer.Weights) (b Blob, base, ok bool, err error) {
	if w == trainer.Reference && !g.m.Keeps(w) { // the model without its adapter
		return Blob{}, true, true, nil
	}
	if b, known := g.weights[w]; known {
		return b, false, true, nil
	}
	data, ok, err := g.m.pack(w)
	if err != nil || !ok {
		return b, false, false, err
	}
	if b, err = g.keep(ctx, data); err != nil {
		return b, false, false, err
	}
	g.weights[w] = b
	return b, false, true, nil
}

// subtrees are those that jobs are about: some more than there are workers, so that a fast one does several. Large ones
// come first: who is free at the end has a small one.
func (g *gradients) subtrees() []exchange.Subtree {
	shards := g.m.e.Run.Shards
	all := exchange.Owned(shards, min(shards, 2*(g.fleet.Workers()+1)))
	slices.SortStableFunc(all, func(a, b exchange.Subtree) int { return (b.Hi - b.Lo) - (a.Hi - a.Lo) })
	return all
}

// job is the one of a subtree, with the parts of questions that are its shards'; false: it has none.
func (g *gradients) job(t exchange.Subtree, how How, weights Blob, as Gradient, of []*question) (j Job, ok bool) {
	as.Lo, as.Hi, as.Shards = t.Lo, t.Hi, g.m.e.Run.Shards
	for _, q := range of {
		for _, p := range q.parts {
			if p.Shard >= t.Lo && p.Shard < t.Hi {
				as.Parts = append(as.Parts, p)
			}
		}
	}
	return Job{Setup: g.m.setup, Weights: weights, How: how, Gradient: &as}, len(as.Parts) > 0
}

// do has jobs done.
func (g *gradients) do(ctx context.Context, w Work) (payloads [][]byte, by []Entry, err error) {
	w.Here = g.here
	jobs := w.Jobs
	payloads, by, err = g.fleet.DoBy(ctx, w)
	names := make([]Hash, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name()
	}
	if forgot := g.fleet.Forget(ctx, names); err == nil {
		err = forgot
	}
	return payloads, by, err
}

// lengthsAt are the numbers of outputs at a job's points.
func (g *gradients) lengthsAt(j Job) (all []int) {
	for _, part := range j.Gradient.Parts {
		for _, p := range g.points[part.Points.Hash] {
			all = append(all, outputsOf(p))
		}
	}
	return all
}

// outputs has those of questions computed, by the weights that are asked; of weights that cannot travel none.
func (g *gradients) outputs(ctx context.Context, by map[trainer.Weights][]*question) error {
	how, _ := howOf(g.m.e, g.m.settings, g.m.root, false)
	var jobs []Job
	for _, w := range slices.Sorted(maps.Keys(by)) {
		weights, base, ok, err := g.of(ctx, w)
		if err != nil {
			return err
		}
		for _, t := range g.subtrees() {
			if j, some := g.job(t, how, weights, Gradient{Of: w, Base: base}, by[w]); some && ok {
				jobs = append(jobs, j)
			}
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	known := map[Hash][]int{}
	for _, j := range jobs {
		known[j.Name()] = g.lengthsAt(j)
	}
	payloads, did, err := g.do(ctx, Work{Jobs: jobs, Check: func(j Job, payload []byte) error {
		_, err := UnpackLists(payload, known[j.Name()])
		return err
	}, Most: func(j Job) int64 {
		most := int64(64 << 10)
		for _, n := range known[j.Name()] {
			most += 8*int64(n) + 512
		}
		return most
	}})
	if err != nil {
		return err
	}
	for i, j := range jobs {
		if j.Gradient.Of == trainer.Current {
			g.answers = append(g.answers, made{Job: j, by: did[i].Worker, payload: did[i].Payload})
		}
		lists, err := UnpackLists(payloads[i], known[j.Name()])
		if err != nil {
			return err
		}
		for _, q := range by[j.Gradient.Of] {
			lists = g.take(j.Gradient, q, lists)
		}
	}
	return nil
}

// take gives a question its outputs of a job, and returns the others.
func (g *gradients) take(of *Gradient, q *question, lists [][]float64) [][]float64 {
	all := q.outputs[of.Of]
	if all == nil {
		all = make([][]float64, len(q.at))
		q.outputs[of.Of] = all
	}
	for _, p := range q.parts {
		if p.Shard >= of.Lo && p.Shard < of.Hi {
			lo, hi := exchange.Share(p.Shard, of.Shards, len(q.at))
			lists = lists[copy(all[lo:hi], lists):]
		}
	}
	return lists
}

// norm has the gradient of the update's questions computed, before its length is asked for.
func (g *gradients) norm(ctx context.Context) error {
	asked := g.asked
	g.asked = nil
	if len(asked) == 0 {
		return nil
	}
	if slices.ContainsFunc(asked, func(q *question) bool { return len(q.parts) == 0 }) {
		return g.replay(asked)
	}
	said := map[Hash]Hash{} // digests of the objective's outputs, by their points
	for _, q := range asked {
		shards := g.m.e.Run.Shards
		for i := range q.parts {
			lo, hi := exchange.Share(q.parts[i].Shard, shards, len(q.at))
			said[q.parts[i].Points.Hash] = digestOf(q.said[lo:hi])
			data, err := PackLists(q.grads[lo:hi])
			if err == nil {
				q.parts[i].Grads, err = g.keep(ctx, data)
			}
			if err != nil {
				return err
			}
			g.grads[q.parts[i].Grads.Hash] = q.grads[lo:hi]
		}
	}
	how, _ := howOf(g.m.e, g.m.settings, g.m.root, false)
	weights, _, ok, err := g.of(ctx, trainer.Current)
	if err != nil {
		return err
	}
	if !ok {
		return g.replay(asked)
	}
	var jobs []Job
	nodes := []model.Node{}
	for _, t := range g.subtrees() {
		if j, some := g.job(t, how, weights, Gradient{Back: true}, asked); some {
			jobs = append(jobs, j)
		} else {
			nodes = append(nodes, model.Node{Subtree: t, Sums: make([][]float32, len(g.lengths))})
		}
	}
	size := int64(64 << 10)
	for _, n := range g.lengths {
		size += 4*int64(n) + 512
	}
	payloads, _, err := g.do(ctx, Work{Jobs: jobs, Check: func(j Job, payload []byte) error {
		if _, err := UnpackDigests(payload, len(j.Gradient.Parts)); err != nil {
			return err
		}
		_, err := UnpackSums(payload, g.lengths)
		return err
	}, Most: func(j Job) int64 { return size + 128*int64(len(j.Gradient.Parts)) }, Doubts: func(j Job, payload []byte) bool {
		wrong, err := others(j, payload, said)
		return err == nil && len(wrong) > 0
	}})
	if err != nil {
		return err
	}
	var wrong []Part
	for i, j := range jobs {
		sums, err := UnpackSums(payloads[i], g.lengths)
		if err != nil {
			return err
		}
		parts, err := others(j, payloads[i], said)
		if err != nil {
			return err
		}
		wrong = append(wrong, parts...)
		nodes = append(nodes, model.Node{Subtree: exchange.Subtree{Lo: j.Gradient.Lo, Hi: j.Gradient.Hi}, Sums: sums})
	}
	for _, q := range asked { // of which a worker answered points that a roll knows, beside others
		for _, p := range q.parts {
			lo, hi := exchange.Share(p.Shard, g.m.e.Run.Shards, len(q.at))
			if len(g.m.differing(q.at[lo:hi], q.said[lo:hi])) > 0 {
				wrong = append(wrong, p)
			}
		}
	}
	if len(wrong) > 0 {
		return g.misled(ctx, wrong)
	}
	return g.own.Receive(nodes)
}

// others are the parts of a job whose result has other outputs than the objective had.
func others(j Job, payload []byte, said map[Hash]Hash) (wrong []Part, err error) {
	outputs, err := UnpackDigests(payload, len(j.Gradient.Parts))
	for i, x := range outputs {
		if p := j.Gradient.Parts[i]; x != said[p.Points.Hash] {
			wrong = append(wrong, p)
		}
	}
	return wrong, err
}

// misled dismisses workers that gave the objective false outputs, at parts of which the trainer, or a worker that was
// compared with it, has others.
func (g *gradients) misled(ctx context.Context, wrong []Part) error {
	defer g.fleet.Flush()
	dismissed := false
	for _, j := range g.answers {
		if j.by == Here || !slices.ContainsFunc(j.Gradient.Parts, func(p Part) bool {
			return slices.ContainsFunc(wrong, func(w Part) bool { return w.Points == p.Points })
		}) {
			continue
		}
		payload, err := g.here(ctx, j.Job)
		if err != nil {
			return err
		}
		if HashOf(payload) != j.payload {
			dismissed = true
			if err := g.fleet.Differs(j.by, j.Job); err != nil {
				return err
			}
		}
	}
	if dismissed {
		return trainer.ErrRetracted
	}
	for _, p := range wrong {
		forward, err := g.m.Model.Eval(trainer.Current, g.points[p.Points.Hash])
		if err != nil {
			return err
		}
		g.m.compare(g.points[p.Points.Hash], forward.Outputs)
	}
	if err := g.m.settle(ctx); err != nil {
		return err
	}
	return model.ErrOtherwise
}

// replay computes an update of which some points cannot travel.
func (g *gradients) replay(asked []*question) error {
	for _, q := range asked {
		forward, err := g.m.Model.Eval(trainer.Current, q.at)
		if err == nil {
			g.m.compare(q.at, forward.Outputs)
			err = forward.Back(q.grads)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// here does a job with the trainer's own model, on all of its devices.
func (g *gradients) here(ctx context.Context, j Job) (payload []byte, err error) {
	defer kernels.Recover(&err)
	return j.Gradient.compute(ctx, g.m.Model, g.own.Node, func(b Blob) ([]trainer.Point, error) {
		if points, known := g.points[b.Hash]; known {
			return points, nil
		}
		return nil, fmt.Errorf("fleet: points %s are of another update", b.Hash.Short())
	}, func(b Blob, _ []int) ([][]float64, error) {
		if grads, known := g.grads[b.Hash]; known {
			return grads, nil
		}
		return nil, fmt.Errorf("fleet: gradients %s are of another update", b.Hash.Short())
	})
}

// nodes computes the gradient of a subtree.
type nodes func(t exchange.Subtree, of func(k int) ([]model.Pass, error)) (model.Node, error)

// compute is a job's result, by a model with the job's weights. The contents of blobs come by points and grads, which
// is given how many numbers there are at each point.
func (q *Gradient) compute(ctx context.Context, m model.Model, node nodes, points func(b Blob) ([]trainer.Point, error), grads func(b Blob, lengths []int) ([][]float64, error)) ([]byte, error) {
	if !q.Back {
		var at []trainer.Point
		for _, p := range q.Parts {
			some, err := points(p.Points)
			if err != nil {
				return nil, err
			}
			at = append(at, some...)
		}
		var forward trainer.Forward
		if err := model.Attempt(m, func() (err error) {
			forward, err = m.Eval(q.Of, at)
			return err
		}); err != nil {
			return nil, err
		}
		return PackLists(forward.Outputs)
	}
	outputs := make([]Hash, len(q.Parts))
	n, err := node(exchange.Subtree{Lo: q.Lo, Hi: q.Hi}, func(k int) (all []model.Pass, err error) {
		for i, p := range q.Parts {
			if p.Shard != k {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			at, err := points(p.Points)
			if err != nil {
				return nil, err
			}
			lengths := make([]int, len(at))
			for n := range at {
				lengths[n] = outputsOf(at[n])
			}
			by, err := grads(p.Grads, lengths)
			if err != nil {
				return nil, err
			}
			all = append(all, model.Pass{At: at, Grads: by, Outputs: func(now [][]float64) { outputs[i] = digestOf(now) }})
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	return PackSums(n.Sums, outputs)
}

// forget lets go of all that an update was computed from, and of the blobs of the one before.
func (g *gradients) forget() {
	g.begun, g.far, g.asked, g.answers = false, false, nil, nil
	clear(g.seen)
	for _, name := range slices.SortedFunc(maps.Keys(g.past), func(a, b Hash) int { return slices.Compare(a[:], b[:]) }) {
		if !g.put[name] && !slices.ContainsFunc(g.m.weights, func(b Blob) bool { return b.Hash == name }) { // which rolls need
			_ = g.fleet.Hub.Drop(context.Background(), name) // one that stays does no harm
		}
	}
	g.past, g.put = g.put, map[Hash]bool{}
	clear(g.points)
	clear(g.grads)
	clear(g.weights)
}

// sharedParams are weights whose gradient may come from workers.
type sharedParams struct {
	trainer.Params
	g *gradients
}

// Norm has the gradient computed first.
func (p sharedParams) Norm() (float64, error) {
	if err := p.g.norm(context.Background()); err != nil {
		return 0, err
	}
	return p.Params.Norm()
}

func (p sharedParams) Move(scale, rate float64) {
	p.g.forget()
	p.Params.Move(scale, rate)
}

func (p sharedParams) Skip() {
	p.g.forget()
	p.Params.Skip()
}

func (p sharedParams) Follow(w trainer.Weights, decay float64) {
	p.g.forget()
	p.Params.Follow(w, decay)
}

// The worker's side.

// mostPoints bounds the blobs whose points a worker keeps, in bytes.
const mostPoints = 1 << 30

// An askedIteration is a worker's points of an iteration.
type askedIteration struct {
	how    How
	points map[Hash][]trainer.Point
	bytes  int64
}

// gradient does a job about the network.
func (s *Executor) gradient(ctx context.Context, j Job) ([]byte, error) {
	q := j.Gradient
	if err := q.valid(); err != nil {
		return nil, err
	}
	settings, err := j.How.settings(s.e)
	if err != nil {
		return nil, err
	}
	s.unseen.Store(true) // no pass of it is reported
	if err := s.model.Begin(settings, j.How.Root, 1); err != nil {
		return nil, err
	}
	if err := s.takeAs(ctx, j); err != nil {
		return nil, err
	}
	if s.iteration.points == nil || s.iteration.how != j.How {
		s.iteration = askedIteration{how: j.How, points: map[Hash][]trainer.Point{}}
	}
	return q.compute(ctx, s.model, func(t exchange.Subtree, of func(k int) ([]model.Pass, error)) (model.Node, error) {
		return model.NodeOf(s.model, t, of)
	}, func(b Blob) ([]trainer.Point, error) { return s.pointsOf(ctx, b) }, func(b Blob, lengths []int) ([][]float64, error) {
		data, err := s.Blobs.Get(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("fetching gradients %s: %w", b.Hash.Short(), err)
		}
		return UnpackLists(data, lengths)
	})
}

// valid refuses questions that make no sense.
func (q *Gradient) valid() error {
	if q.Lo < 0 || q.Hi <= q.Lo || q.Hi > q.Shards || q.Back && (q.Of != trainer.Current || q.Base) || q.Base && q.Of != trainer.Reference {
		return fmt.Errorf("shards %d to %d of %d, of weights %d", q.Lo+1, q.Hi, q.Shards, q.Of)
	}
	for _, p := range q.Parts {
		if p.Shard < q.Lo || p.Shard >= q.Hi {
			return fmt.Errorf("points of shard %d in a job of shards %d to %d", p.Shard+1, q.Lo+1, q.Hi)
		}
	}
	return nil
}

// takeAs has the weights of a question.
func (s *Executor) takeAs(ctx context.Context, j Job) error {
	q := j.Gradient
	switch {
	case q.Base:
		delete(s.others, q.Of)
		return s.model.Forget(q.Of)
	case q.Of == trainer.Current:
		return s.take(ctx, j.Weights)
	case s.others[q.Of] == j.Weights:
		return nil
	}
	if err := s.take(ctx, j.Weights); err != nil {
		return err
	}
	s.model.Params().Follow(q.Of, 0)
	if s.others == nil {
		s.others = map[trainer.Weights]Blob{}
	}
	s.others[q.Of] = j.Weights
	return nil
}

// pointsOf are the points of a blob.
func (s *Executor) pointsOf(ctx context.Context, b Blob) ([]trainer.Point, error) {
	if points, known := s.iteration.points[b.Hash]; known {
		return points, nil
	}
	data, err := s.Blobs.Get(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("fetching points %s: %w", b.Hash.Short(), err)
	}
	points, err := UnpackPoints(data, episodeCodec(s.model))
	if err != nil {
		return nil, err
	}
	if s.iteration.bytes += b.Size; s.iteration.bytes > mostPoints {
		clear(s.iteration.points)
		s.iteration.bytes = b.Size
	}
	s.iteration.points[b.Hash] = points
	return points, nil
}
