package pretrain

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A step of conversations: all of them in one pass, and what the assistant says is learnt.

// talk is lessons of conversations.
func (t *Talker) talk(of func(key rng.Key) conversation) func(k *conversations.Speaker, s *stage, key rng.Key) (float64, error) {
	return func(k *conversations.Speaker, s *stage, key rng.Key) (float64, error) {
		return t.converse(k, s, key, of)
	}
}

// converse is a step of these, all at once.
func (t *Talker) converse(k *conversations.Speaker, s *stage, key rng.Key, of func(key rng.Key) conversation) (float64, error) {
	var all []vlm.Stretch
	var rows, tokens []int32
	var grad []float32
	at := 0
	spoken, err := prepared(s.Batch, func(i int) (said, error) { return of(key.Sample(i)).say(k) })
	if err != nil {
		return 0, err
	}
	for _, c := range spoken {
		for row, next := range c.next {
			if next >= 0 {
				rows, tokens, grad = append(rows, int32(at+row)), append(tokens, next), append(grad, float32(-c.weight/float64(s.Batch)))
			}
		}
		all, at = append(all, c.Stretch), at+len(c.IDs)
	}
	tp := s.tape()
	defer tp.Reset()
	hidden, err := k.Model.HiddenAll(tp, all)
	if err != nil {
		return 0, err
	}
	return taught(tp, k.Model.LogProbs(tp, hidden, rows, tokens, 1), grad), nil
}

// taught leaves the gradient of a sum of log-probabilities, and returns it.
func taught(tp *autograd.Tape, lp *autograd.Value, weights []float32) (sum float64) {
	for i, x := range lp.F32() {
		sum += float64(float64(x) * float64(weights[i]))
	}
	tp.Backward(autograd.Seed{Of: lp, Grad: weights})
	return sum
}

// prepared are n lessons, made side by side: pictures take as long as what is learnt from them.
func prepared[T any](n int, one func(i int) (T, error)) ([]T, error) {
	all, errs := make([]T, n), make([]error, n)
	var next atomic.Int64
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				all[i], errs[i] = one(i)
			}
		})
	}
	done.Wait()
	return all, errors.Join(errs...)
}
