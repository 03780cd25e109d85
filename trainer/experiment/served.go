package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Served is one [[episode.tool]]: a tool behind a server, or a program.
// trainer/conversations/outside.go has its protocol.
type Served struct {
	Name    string   `toml:"name,required" doc:"as the model calls it: search"`
	About   string   `toml:"about" doc:"what it does, for the model: protocol darkroom tells it, with the name and the parameters"`
	Schema  string   `toml:"parameters" doc:"JSON schema of its arguments, for the model; empty: any object"`
	URL     string   `toml:"url" doc:"where calls are POSTed: {version, tool, arguments} in, {text, images} or {error} out"`
	Command []string `toml:"command" doc:"a program in its place, with its arguments: a call is a line of JSON that it reads, {n, version, tool, arguments}, and its answer a line that it writes, with the same n; it is kept, and started anew where it fails"`
	Env     []string `toml:"env" doc:"names of environment variables that the program is given beside what every program needs"`
	KeyEnv  string   `toml:"key_env" doc:"name of the environment variable that holds the key"`
	Timeout float64  `toml:"timeout" range:"(0,inf)" doc:"seconds for one answer"`
	Tries   int      `toml:"tries" range:"[1,100]" doc:"calls before the episode is missing"`
	AtOnce  int      `toml:"at_once" range:"[1,1024]" doc:"calls beside each other, and copies of a program; no bit depends on it"`
	State   bool     `toml:"state" doc:"an environment: it gets a request as an episode begins and ends, and returns its reward at the end, which reward environment reads; its answers are not kept"`
	Cache   bool     `toml:"cache" doc:"answers are kept by tool and arguments, beside what else may be computed again, so that the same call has the same answer in every run; false for a tool that has a state"`
}

// SetDefaults is what a tool is before its keys are read.
func (s *Served) SetDefaults() { *s = Served{Timeout: 60, Tries: 4, AtOnce: 8, Cache: true} }

// Place is where the tool lies, for what is published: a server's address without keys, or a program without its
// arguments.
func (s Served) Place() string {
	if len(s.Command) > 0 {
		return filepath.Base(s.Command[0])
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "a server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// tool is how the model knows it.
func (s Served) tool() tools.Tool {
	t := tools.OutsideTool(s.Name)
	t.About, t.Parameters = s.About, cmp.Or(s.Schema, `{"type": "object"}`)
	return t
}

// isObject is whether a text is a JSON object.
func isObject(text string) bool {
	var all map[string]any
	return json.Unmarshal([]byte(text), &all) == nil
}

// checkServed looks at the tools behind servers.
func (e *Experiment) checkServed(r report) {
	protocol, err := tools.Named(e.Episode.Protocol)
	if err != nil {
		return // episode.protocol is reported
	}
	var names []string
	for i, s := range e.Episode.Served {
		key := fmt.Sprintf("episode.tool[%d].", i)
		switch {
		case !protocol.Open && !slices.Contains(protocol.Asks, s.Name):
			hint := `protocol = "darkroom"`
			if len(protocol.Asks) > 0 {
				hint += ", or one that it asks: " + strings.Join(protocol.Asks, ", ")
			}
			r(key+"name", fmt.Sprintf("%s has the tools that were published with it, and %q is none that it asks", e.Episode.Protocol, s.Name), hint)
		case slices.Contains(names, s.Name):
			r(key+"name", fmt.Sprintf("two tools are called %q", s.Name), "each needs a name of its own")
		case (s.URL == "") == (len(s.Command) == 0):
			r(key+"name", fmt.Sprintf("tool %q is behind one server or one program", s.Name), `url = "http://localhost:8000/search", or command = ["python3", "search.py"]`)
		case len(s.Command) > 0 && s.KeyEnv != "":
			r(key+"key_env", "a key is sent to a server, and a program reads its environment", fmt.Sprintf("env = [%q]", s.KeyEnv))
		case s.Schema != "" && !isObject(s.Schema):
			r(key+"parameters", fmt.Sprintf("%q is no JSON object", s.Schema), `parameters = '{"type": "object", "properties": {"query": {"type": "string"}}}'`)
		case len(s.Command) == 0 && len(s.Env) > 0:
			r(key+"env", "a server has an environment of its own", `leave it out, or command in place of url`)
		case len(s.Command) > 0:
		case !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://"):
			r(key+"url", fmt.Sprintf("%q is no address of a server", s.URL), "for example http://localhost:8000/search")
		}
		names = append(names, s.Name)
	}
	stateful := slices.ContainsFunc(e.Episode.Served, func(s Served) bool { return s.State })
	for i, w := range e.Rewards {
		if w.Name == "environment" && !stateful {
			r(fmt.Sprintf("reward[%d].name", i), "no environment says what an episode was worth", `[[episode.tool]] name = "game", state = true, url = "http://localhost:8000"`)
		}
	}
}
