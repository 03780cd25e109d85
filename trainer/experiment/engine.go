package experiment

import (
	"fmt"
	"os"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Engine is [episode.engine]: a server that draws the tokens of training's episodes. trainer/engine speaks with it, and
// trainer/conversations checks it before the first roll (engine.go there).
type Engine struct {
	URL       string  `toml:"url,required" doc:"where it listens: http://localhost:8000"`
	Kind      string  `toml:"kind" enum:"vllm,sglang" doc:"which requests it understands: vLLM's /inference/v1/generate, or SGLang's /generate"`
	Model     string  `toml:"model" doc:"of vllm: the name that it serves the model by; empty: model.path"`
	Folder    string  `toml:"folder" doc:"where adapters are written for it, a folder a version; it must see the same path. Empty: a temporary folder of this machine"`
	KeyEnv    string  `toml:"key_env" doc:"name of the environment variable that holds the key"`
	Timeout   float64 `toml:"timeout" range:"(0,inf)" doc:"seconds for one turn"`
	Tries     int     `toml:"tries" range:"[1,100]" doc:"requests before the episode is missing"`
	AtOnce    int     `toml:"at_once" range:"[1,4096]" doc:"episodes that it plays beside each other"`
	Tolerance float64 `toml:"tolerance" range:"(0,inf)" doc:"how far its log-probabilities may lie from ours, root mean square over the words of a question; beyond it is refused"`
}

// SetDefaults is what an engine is before its keys are read.
func (e *Engine) SetDefaults() {
	*e = Engine{Kind: "vllm", Timeout: 300, Tries: 3, AtOnce: 64, Tolerance: 0.2}
}

// correctEngine turns truncated importance sampling on where an engine draws the tokens and no key sets the correction.
// The distance from a teacher has no place for it.
func (e *Experiment) correctEngine() {
	if e.Kind().Has(loss.Teacher) {
		return
	}
	if e.Episode != nil && e.Episode.Engine != nil && !e.Given("loss.correction.weights") && !e.Given("loss.correction.reject") {
		e.Loss.Correction.Weights = "token"
	}
}

// correctStage is correctEngine for a stage, where that or the rest of the file learns from a teacher: what the rest
// has is then not the stage's.
func (e *Experiment) correctStage(prefix string, s *Stage) {
	if e.Episode == nil || e.Episode.Engine == nil || e.written(prefix+"loss.correction") {
		return
	}
	switch {
	case s.Loss.of(true).Has(loss.Teacher):
		s.Loss.Correction = loss.DefaultCorrection()
	case e.Kind().Has(loss.Teacher):
		s.Loss.Correction.Weights = "token"
	}
}

// checkEngine looks at [episode.engine].
func (e *Experiment) checkEngine(r report) {
	p := e.Episode
	if p.Engine == nil {
		return
	}
	if u := p.Engine.URL; !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
		r("episode.engine.url", fmt.Sprintf("%q is no address of a server", u), "for example http://localhost:8000")
	}
	if _, adapted := e.Model.Trained(); !adapted {
		r("episode.engine.url", "an engine is given what was trained as an adapter, and model.train trains the network itself", `model.train = ["lora"], or no [episode.engine]`)
	}
	if s := p.Sampling; s.TopK != 0 || s.TopP != 1 || s.MinP != 0 || s.Repetition != 1 {
		r("episode.engine.url", "an engine's log-probabilities are those of all tokens, and episode.sampling draws from some of them", "top_k = 0, top_p = 1, min_p = 0, repetition = 1")
	}
	if p.Noisy != nil {
		r("episode.noisy", "an engine is shown the pictures as they are", "leave it out, or [episode.engine]")
	}
}

// engineMissing is what an engine needs of the machine and is not there.
func (e *Engine) engineMissing() []string {
	if e == nil || e.KeyEnv == "" || os.Getenv(e.KeyEnv) != "" {
		return nil
	}
	return []string{fmt.Sprintf("the engine's key is read from the environment variable %s, which is empty here", e.KeyEnv)}
}
