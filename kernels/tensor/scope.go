package tensor

import "github.com/darkroom-rl/darkroom/kernels"

// Scope frees, at its end, the tensors that were made in it and are still alive.
type Scope struct {
	pool *Pool
	own  []*Tensor
}

// Scope begins one. End it with defer.
func (p *Pool) Scope() *Scope { return &Scope{pool: p} }

// New is a tensor that lives to the scope's end.
func (s *Scope) New(d kernels.DType, shape ...int) *Tensor { return s.Own(s.pool.New(d, shape...)) }

// Own hands a tensor to the scope.
func (s *Scope) Own(t *Tensor) *Tensor {
	s.own = append(s.own, t)
	return t
}

// Keep takes a tensor out of the scope: it is the caller's to free.
func (s *Scope) Keep(t *Tensor) *Tensor {
	for i, o := range s.own {
		if o == t {
			s.own = append(s.own[:i], s.own[i+1:]...)
			break
		}
	}
	return t
}

// End frees what the scope still owns. The scope may be used again.
func (s *Scope) End() {
	for _, t := range s.own {
		if t.Alive() {
			t.Free()
		}
	}
	clear(s.own)
	s.own = s.own[:0]
}
