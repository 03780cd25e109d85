// Package enginetest has a server that draws tokens as vLLM and SGLang do, for tests: Serve speaks both protocols over
// a network of package conversations, and has every fault that an engine may have.
package enginetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/conversations/augment"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Server is an engine.
type Server struct {
	*httptest.Server

	one      sync.Mutex
	fault    string // which begins with request from of those that draw
	from     int
	open     func() (*chat.VLM, error)
	base     *chat.VLM
	loaded   map[string]*chat.VLM
	first    string // the adapter that was loaded first
	given    int    // adapters, those that were taken away included
	asked    int
	stop     chan struct{}
	problems []error
}

// Serve serves a folder's model, which open opens anew for every adapter.
func Serve(open func() (*chat.VLM, error)) (*Server, error) {
	s := &Server{open: open, loaded: map[string]*chat.VLM{}, stop: make(chan struct{})}
	var err error
	if s.base, err = open(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*chat.VLM, map[string]json.RawMessage) (any, error){
		"/generate": s.sglang, "/inference/v1/generate": s.vllm, "/v1/chat/completions/render": s.render,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, path, answer) })
	}
	for _, path := range []string{"/load_lora_adapter", "/v1/load_lora_adapter"} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.change(w, r, s.load) })
	}
	for _, path := range []string{"/unload_lora_adapter", "/v1/unload_lora_adapter"} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.change(w, r, s.unload) })
	}
	s.Server = httptest.NewServer(mux)
	return s, nil
}

// Close ends it. The error is a request that no client should have sent.
func (s *Server) Close() error {
	close(s.stop)
	s.Server.Close()
	errs := append(s.problems, s.base.Close())
	for _, k := range s.loaded {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}

// Commit makes it commit a fault from request n on of those that draw, counted from 0; "" ends it.
func (s *Server) Commit(fault string, n int) {
	s.one.Lock()
	defer s.one.Unlock()
	s.fault, s.from = fault, n
}

// Loaded is how many adapters it holds.
func (s *Server) Loaded() int {
	s.one.Lock()
	defer s.one.Unlock()
	return len(s.loaded)
}

// Adapters is how many adapters it was ever given.
func (s *Server) Adapters() int {
	s.one.Lock()
	defer s.one.Unlock()
	return s.given
}

// serve answers one request at a time: the network is not shared.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, path string, answer func(*chat.VLM, map[string]json.RawMessage) (any, error)) {
	var body map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fault := ""
	s.one.Lock()
	if s.asked >= s.from {
		fault = s.fault
	}
	if !strings.HasSuffix(path, "render") {
		s.asked++
	}
	s.one.Unlock()
	switch fault {
	case "slow":
		select {
		case <-r.Context().Done():
		case <-s.stop:
		}
		return
	case "dies":
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
		return
	case "garbage":
		fmt.Fprint(w, "<html>all is well</html>")
		return
	}
	s.one.Lock()
	defer s.one.Unlock()
	k, name := s.base, text(body["lora_path"])+text(body["model"])
	if on, ok := s.loaded[name]; ok {
		k = on
	} else if strings.HasPrefix(name, "darkroom-") {
		http.Error(w, fmt.Sprintf("no adapter %q", name), http.StatusNotFound)
		return
	}
	if fault == "stale weights" {
		k = s.loaded[s.first]
	}
	if body["fault"], _ = json.Marshal(fault); fault == "stale name" {
		body["model"], _ = json.Marshal("darkroom-0-old")
	}
	reply, err := answer(k, body)
	if err != nil {
		s.problems = append(s.problems, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// change loads or unloads.
func (s *Server) change(w http.ResponseWriter, r *http.Request, do func(name, path string) error) {
	var body struct {
		Name string `json:"lora_name"`
		Path string `json:"lora_path"`
	}
	s.one.Lock()
	defer s.one.Unlock()
	err := json.NewDecoder(r.Body).Decode(&body)
	if err == nil {
		err = do(body.Name, body.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, `{"success": true}`)
}

func (s *Server) load(name, path string) error {
	if s.loaded[name] != nil {
		return fmt.Errorf("the adapter %q has already been loaded", name)
	}
	k, err := s.open()
	if err != nil {
		return err
	}
	file, err := chat.Known(k.Params).Open(path)
	if err != nil {
		return errors.Join(err, k.Close())
	}
	defer file.Close()
	if _, err := file.AddTo(k.Params); err != nil {
		return errors.Join(err, k.Close())
	}
	s.given++
	if s.loaded[name] = k; s.first == "" {
		s.first = name
	}
	return nil
}

func (s *Server) unload(name, _ string) error {
	k, ok := s.loaded[name]
	if !ok {
		return fmt.Errorf("no adapter %q", name)
	}
	if name == s.first && s.fault == "stale weights" {
		return nil
	}
	delete(s.loaded, name)
	return k.Close()
}

// pictures are read from data URLs, or base64 alone.
func pictures(addresses []string) (all []*vision.Image, err error) {
	for _, a := range addresses {
		_, data, _ := strings.Cut(a, "base64,")
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, err
		}
		m, err := vision.Decode(raw, vision.Limits{})
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// encoded is a picture as the fake's vLLM keeps it: its PNG.
func encoded(m *vision.Image) (string, error) {
	var file bytes.Buffer
	err := vision.EncodePNG(&file, m)
	return "base64," + base64.StdEncoding.EncodeToString(file.Bytes()), err
}

// How tokens are drawn, and the faults of those that draw them.

// drawn are tokens with their log-probabilities.
type drawn struct {
	ids    []int32
	logs   []float64
	cut    bool
	read   int
	prompt []float64 // of the question's tokens, NaN first
	asked  []int32
}

// asking is a request, whatever its protocol.
type asking struct {
	ids         []int32 // with all places
	pictures    []*vision.Image
	most        int
	temperature float64
	end         int32
	banned      map[string]float64
	fault       string
	score       bool // the question's own tokens, too
}

// draw draws.
func (s *Server) draw(k *chat.VLM, a asking) (d drawn, err error) {
	d.asked, d.read = a.ids, len(a.ids)
	if a.fault == "grey pictures" {
		a.pictures = augment.Grey(a.pictures)
	}
	if a.score {
		if d.prompt, err = k.Scores(a.ids, a.pictures, 1); err != nil {
			return d, err
		}
		d.prompt[0] = math.NaN()
	}
	most := a.most
	if a.fault == "too many tokens" {
		most += 3
	}
	shown, err := k.Patches(a.pictures)
	if err != nil {
		return d, err
	}
	decoder := k.Model.NewDecoder(k.Options.Pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16}, 1)
	defer decoder.Close()
	free, err := decoder.Extend(0, vlm.Stretch{IDs: a.ids, Pictures: shown})
	if err != nil {
		return d, err
	}
	key := rng.New(uint64(s.asked))
	for d.cut = true; len(d.ids) < most; {
		last := slices.Clone(free)
		for id := range last {
			if _, ok := a.banned[fmt.Sprint(id)]; ok && a.fault != "banned" {
				last[id] = float32(math.Inf(-1))
			}
		}
		u, sum, at, all := key.Step(len(d.ids)).Draw().Float64(), 0.0, 0, logSum(last, a.temperature)
		for id, x := range last {
			if math.IsInf(float64(x), -1) {
				continue
			}
			if p := portable.Exp(float64(x)/a.temperature - all); p > 0 {
				at = id
				if sum += p; u < sum {
					break
				}
			}
		}
		if at == int(a.end) && a.fault == "too many tokens" {
			at = 0
		}
		t := a.temperature
		if a.fault == "temperature" {
			t = 1
		}
		lp := float64(free[at])/t - logSum(free, t)
		d.ids, d.logs = append(d.ids, int32(at)), append(d.logs, lp)
		if at == int(a.end) {
			d.cut = false
			break
		}
		rows, err := decoder.Step([]int{0}, d.ids[len(d.ids)-1:])
		if err != nil {
			return d, err
		}
		free = rows[0]
	}
	switch a.fault {
	case "wrong ids":
		d.ids[0] = int32(k.Model.Text.Vocabulary)
	case "another tokenizer":
		d.asked = slices.Clone(d.asked)
		d.asked[len(d.asked)-2]++
	case "another precision":
		for i := range d.prompt {
			d.prompt[i] += float64(i%3) - 1
		}
	}
	return d, nil
}

// logSum is the logarithm of Σ e^(x/t).
func logSum(row []float32, t float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range row {
		top = max(top, float64(x)/t)
	}
	for _, x := range row {
		if math.IsInf(float64(x), -1) {
			continue
		}
		sum += portable.Exp(float64(x)/t - top)
	}
	return top + portable.Log(sum)
}
