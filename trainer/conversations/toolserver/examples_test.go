package toolserver

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// fakeVerifiers has the part of verifiers that the adapter uses, as its classic environments have it: a counter to be
// brought to the row's answer by tool add, in an environment that ends at the call "stop".
const fakeVerifiers = `
import json, logging
class Client:
    def __init__(self, client): pass
class Message:
    def __init__(self, role, content=None, tool_calls=None):
        self.role, self.content, self.tool_calls = role, content, tool_calls
def AssistantMessage(content=None, tool_calls=None): return Message("assistant", content, tool_calls)
class ToolCall:
    def __init__(self, id, name, arguments): self.id, self.name, self.arguments = id, name, arguments
class Rubric:
    async def score_rollout(self, state):
        said = [m for step in state["trajectory"] for m in step["completion"]]
        if said[-1].content == "raise":
            logging.getLogger("verifiers.rubrics").error("Error calling reward function right: boom")
        state["reward"] = float(state["count"] == state["input"]["answer"]) + 0.25 * len(said)
    async def cleanup(self, state): pass
class Env:
    requires_group_rollouts, rubric = False, Rubric()
    def get_dataset(self):
        return [{"prompt": [{"role": "user", "content": "to %d" % n}], "answer": n} for n in (3, 5)]
    async def init_state(self, row, client, model):
        assert isinstance(client, Client)
        return {"input": row, "trajectory": [], "trajectory_id": "a", "error": None, "final_env_response": None, "prompt": row["prompt"]}
    async def setup_state(self, state): state["count"] = 0
    async def add_trajectory_step(self, state, step): state["trajectory"].append(step)
    async def is_completed(self, state): return state["trajectory"][-1]["completion"][-1].content == "stop"
    async def get_prompt_messages(self, state):
        if not state["trajectory"]: return state["prompt"]
        last = state["trajectory"][-1]
        messages = last["prompt"] + last["completion"]
        for call in last["completion"][-1].tool_calls or []:
            state["count"] += json.loads(call.arguments)["by"]
            print("counting")  # to stdout, where no answer may be disturbed
        return messages + [Message("tool", [{"type": "text", "text": "at %d" % state["count"]},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,PICTURE"}}])]
    async def cleanup(self, state): pass
def load_environment(name, **args):
    assert name == "counter" and args == {"size": 2}
    return Env()
`

// fakeOpenEnv has the part of openenv that the adapter uses.
const fakeOpenEnv = `
class Result:
    def __init__(self, observation, reward, done): self.observation, self.reward, self.done = observation, reward, done
class GenericEnvClient:
    def __init__(self, base_url): assert base_url == "http://game"
    def sync(self): return self
    def connect(self): pass
    def close(self): pass
    def reset(self, seed, episode_id):
        self.at = seed
        return Result({"at": self.at, "screen": "PICTURE"}, None, False)
    def step(self, action):
        if "by" not in action: raise RuntimeError("Server error: by is missing (code: VALIDATION_ERROR)")
        if action["by"] == 13: raise RuntimeError("Server error: broken (code: SESSION_ERROR)")
        self.at += action["by"]
        return Result({"at": self.at}, 0.5, self.at > 9)
`

// TestExamples: the programs of examples/environments speak to environments of verifiers and OpenEnv and to VRAG's
// search engine, and a failure there loses the episode.
func TestExamples(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to run the examples with")
	}
	var shown bytes.Buffer
	if err := png.Encode(&shown, image.NewRGBA(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"verifiers.py": fakeVerifiers, "openenv/core.py": fakeOpenEnv, "openenv/__init__.py": ""} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		text = strings.ReplaceAll(text, "PICTURE", base64.StdEncoding.EncodeToString(shown.Bytes()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PYTHONPATH", dir)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	open := func(t *testing.T, tool string, state bool, program string, arguments ...string) Tools {
		s := experiment.Served{}
		s.SetDefaults()
		s.Name, s.State, s.Tries, s.Env = tool, state, 1, []string{"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
		s.Command = append([]string{python, filepath.Join("..", "..", "..", "examples", "environments", program)}, arguments...)
		o, err := Open(&experiment.Episode{Served: []experiment.Served{s}}, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
		return o
	}
	begin := func(o Tools, name string, meta string) *Session {
		of := Episode{Name: name, Prompt: "Win.", Seed: 4}
		if meta != "" {
			of.Meta = object(t, meta)
		}
		return o.Begin(t.Context(), of, func(int, int) error { return nil }, nil)
	}
	says := func(t *testing.T, asks *Session, tool, arguments, want string, pictures int) {
		t.Helper()
		a, err := asks.Answer(tool, object(t, arguments))
		if err != nil || a.Text+a.Refused != want || len(a.Pictures) != pictures {
			t.Errorf("%s: %q with %d pictures, %v, want %q", arguments, a.Text+a.Refused, len(a.Pictures), err, want)
		}
	}

	t.Run("verifiers", func(t *testing.T) {
		o := open(t, "add", true, "verifiers_env.py", "counter", "--args", `{"size": 2}`)
		a, b := begin(o, "a", `{"row": 0}`), begin(o, "b", `{"row": 1}`)
		says(t, a, "add", `{"by": 2}`, "at 2", 1)
		says(t, b, "add", `{"tool": "add", "arguments": {"by": 4}}`, "at 4", 1)
		says(t, a, "add", `{"by": 1}`, "at 3", 1)
		says(t, b, "add", `{"text": "stop"}`, "the environment has ended", 0)
		says(t, b, "add", `{"by": 1}`, "the environment has ended: give your answer", 0)
		if got := a.End("three"); got["add"] != 1.75 { // right, and three things were said
			t.Errorf("an episode is worth %v, lost: %v", got, a.Lost())
		}
		if got := b.End("four"); got["add"] != 0.5 {
			t.Errorf("another is worth %v, lost: %v", got, b.Lost())
		}
		for meta, want := range map[string]string{`{"row": 0}`: "boom", `{"row": 7}`: "cannot begin"} {
			c := begin(o, "c"+meta, meta)
			if worth := c.End("raise"); worth != nil || c.Lost() == nil || !strings.Contains(c.Lost().Error(), want) {
				t.Errorf("%s: worth %v, lost: %v", meta, worth, c.Lost())
			}
			var again struct{ Error string }
			if err := c.notify("add", []string{"end"}, pytext.Object{"end": true}, &again); err != nil || !strings.Contains(again.Error, "did not begin here") {
				t.Errorf("%s: the program keeps an episode whose end failed: %q, %v", meta, again.Error, err)
			}
		}
	})
	t.Run("openenv", func(t *testing.T) {
		o := open(t, "game", true, "openenv_env.py", "http://game", "--image", "screen")
		a := begin(o, "a", "")
		says(t, a, "game", `{}`, `{"at": 4}`, 1)
		says(t, a, "game", `{"up": 1}`, "Server error: by is missing (code: VALIDATION_ERROR)", 0)
		says(t, a, "game", `{"by": 2}`, `{"at": 6}`, 0)
		says(t, a, "game", `{"by": 4}`, "{\"at\": 10}\nThe environment has ended: give your answer.", 0)
		says(t, a, "game", `{"by": 4}`, "the environment has ended: give your answer", 0)
		if got := a.End("x"); got["game"] != 1 {
			t.Errorf("an episode is worth %v, lost: %v", got, a.Lost())
		}
		b := begin(o, "b", "")
		if _, err := b.Answer("game", object(t, `{"by": 13}`)); err == nil || !strings.Contains(err.Error(), "SESSION_ERROR") || b.End("x") != nil {
			t.Errorf("a session that broke: %v, lost: %v", err, b.Lost())
		}
	})
	t.Run("vrag", func(t *testing.T) {
		pages := t.TempDir()
		for i, name := range []string{"a.png", "b.png"} {
			var page bytes.Buffer
			if err := png.Encode(&page, image.NewRGBA(image.Rect(0, 0, 60+i, 50))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(pages, name), page.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			found := `[[{"idx": 0, "image_file": "./search_engine/corpus/img/a.png"}, {"idx": 1, "image_file": "./search_engine/corpus/img/b.png"}]]`
			switch q := r.URL.Query()["queries"]; {
			case len(q) == 1 && q[0] == "nothing & all":
				found = `[[]]`
			case len(q) != 1 || q[0] != "a cat":
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(found)) // to a recorder
		}))
		defer engine.Close()
		o := open(t, "search", false, "vrag_search.py", engine.URL, "--pages", pages)
		asks := begin(o, "", "")
		p, s := tools.VRAG(false), &tools.State{Album: tools.NewAlbum(), Outside: asks}
		for i, want := range []int{60, 61, 60} { // the best page that was not shown yet
			r := p.Step(s, "<search> a cat </search>")
			if _, err := r.Make(s.Album); err != nil || len(s.Album.Pictures) != i+1 || s.Album.Pictures[i].Width != want || strings.Count(r.Observation(), "<|image_pad|>") != 1 {
				t.Errorf("search %d: %v, %d pictures, %q", i, err, len(s.Album.Pictures), r.Observation())
			}
		}
		if r := p.Step(s, "<search>nothing & all</search>"); !strings.Contains(r.Observation(), "Your previous action is invalid") || asks.Lost() != nil {
			t.Errorf("nothing was found: %q, lost: %v", r.Observation(), asks.Lost())
		}
		if p.Step(s, "<search>dogs</search>"); asks.Lost() == nil || !strings.Contains(asks.Lost().Error(), "500") {
			t.Errorf("the engine failed: lost: %v", asks.Lost())
		}
	})
}

func object(t *testing.T, text string) pytext.Ordered {
	t.Helper()
	v, err := pytext.OrderedJSON(text)
	o, ok := v.(pytext.Ordered)
	if err != nil || !ok {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}
