package preflight

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNeeds: a reward's requirements on the prompts and on the disk, and other files of a file, are checked before
// anything is rolled, at their place in the file.
func TestNeeds(t *testing.T) {
	empty := t.TempDir()
	says := func(meta string) string {
		return written(t, "p.jsonl", `{"prompt": "what is it?", "meta": `+meta+`}`+"\n"+`{"prompt": "and that?", "meta": `+meta+"}\n")
	}
	answered := says(`{"answer": "yes", "solution": "It is so. "}`)
	plain := written(t, "two.txt", "a cat\na dog\n")
	reward := func(lines string) string { return "[[reward]]\nlabel = \"more\"\n" + lines + "\n" }
	talk := func(lines string) string { return "[episode]\n" + reward(lines) }
	served := func(line string) string {
		return "[episode]\nprotocol = \"darkroom\"\n[[episode.tool]]\nname = \"find\"\n" + line + "\n"
	}
	sources := func(width, height int) string { // of three prompts; the second one's picture has this size, and is invalid without one
		dir := t.TempDir()
		for _, one := range []struct {
			name          string
			width, height int
		}{{"a.png", 64, 64}, {"b.png", width, height}, {"c.png", 70, 90}} {
			var file bytes.Buffer
			if one.width > 0 {
				if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, one.width, one.height))); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, one.name), file.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		list := filepath.Join(dir, "sources.jsonl")
		text := `{"prompt": "make it a", "image": "a.png"}` + "\n" + `{"prompt": "make it b", "image": "b.png"}` + "\n" + `{"prompt": "make it c", "image": ["c.png", "a.png"]}` + "\n"
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return list
	}
	const judge = "name = \"judge\"\nurl = \"http://localhost:1/v1\"\n"
	for _, c := range []struct {
		model, prompts, rest string
		sets                 []string
		want                 string // "" is right
	}{
		// The disk.
		{"embed:tiny-sd3", plain, reward("name = \"clip\"\npath = \"nofolder\""), nil, "nofolder: no such folder"},
		{"embed:tiny-sd3", plain, reward("name = \"clip\"\npath = \"" + empty + "\""), nil, "neither config.json"},
		{"embed:tiny-sd3", plain, reward("name = \"imagereward\"\npath = \"" + empty + "\""), nil, "med_config.json"},
		{"embed:tiny-sd3", plain, reward("name = \"hpsv3\"\npath = \"nofolder\""), nil, "nofolder: no such folder"},
		{"embed:tiny-sd3", plain, reward("name = \"clip\"\npath = \"embed:tiny-clip\""), nil, ""},
		{"embed:tiny-sd3", plain, reward("name = \"judge\"\npath = \"" + empty + "\""), nil, "config.json"},
		{"embed:tiny-sd3", plain, reward("name = \"judge\"\npath = \"embed:tiny-vlm\""), nil, ""},
		{"embed:tiny-sd3", plain, reward("name = \"exec\"\ncommand = \"no-such-program x\""), nil, "no-such-program"},
		{"embed:tiny-sd3", plain, reward("name = \"exec\"\ncommand = \"sh nosuch.sh\""), nil, "sh has no script nosuch.sh"},
		{"embed:tiny-sd3", plain, reward("name = \"exec\"\ncommand = [\"sh\", \"-c\", \"cat x.y\"]"), nil, ""},
		{"embed:tiny-sd3", plain, "", []string{"model.teacher=nowhere", "loss.objective=distill"}, `"model.teacher": nowhere: no such folder`},
		{"embed:tiny-sd3", plain, "", []string{"rollout.filter={path='no-such-file'}"}, "no-such-file: no such file"},
		{"embed:tiny-vlm", answered, served("command = [\"no-such-program\"]"), nil, `"episode.tool[0].command": tool find: the program: exec: "no-such-program"`},
		{"embed:tiny-vlm", answered, served("command = [\"python3\", \"nosuch.py\"]"), nil, "python3 has no script nosuch.py"},
		{"embed:tiny-vlm", answered, served("command = [\"cat\"]"), nil, ""},
		{"embed:tiny-vlm", answered, "[episode]\nprotocol = \"pyvision\"\nexec = { command = [\"no-such-program\", \"-\"] }\n", nil, `"episode.exec.command": what runs the model's code: exec: "no-such-program"`},
		{recorded + "pipe_flux/transformer", plain, "", nil, "it is one part of a pipeline, a FluxTransformer2DModel: name the folder that has it and model_index.json"},
		{recorded + "unet_sdxl", plain, "", nil, "it is one part of a pipeline, a UNet2DConditionModel"},
		// The prompts.
		{"embed:tiny-sd3", plain, reward(`name = "preserve"`), nil, `reward "more" can read none of the prompts of `},
		{"embed:tiny-sd3", plain, reward(judge + `judge = { form = "editscore", model = "m" }`), nil, "prompts name one by image"},
		{"embed:tiny-sd3", plain, reward(judge + `judge = { form = "question", model = "m", question = "Is {prompt} like {truth}?" }`), nil, "meta.answer"},
		{"embed:tiny-sd3", plain, reward("name = \"geneval\"\nurl = \"http://localhost:1\""), nil, "meta.geneval"},
		{"embed:tiny-sd3", plain, reward("name = \"layout\"\nurl = \"http://localhost:1\""), nil, "meta.boxes"},
		{recorded + "pipe_flux2_klein", sources(64, 64), "", nil, ""},
		{recorded + "pipe_flux2_klein", sources(64, 48), "", nil, `1 of 3 prompts do not fit; the first: prompt "make it b": picture 1: a picture of 64 x 48: FLUX.2 reads those of 64 pixels a side and more`},
		{recorded + "pipe_flux2_klein", sources(64, 520), "", nil, "a picture more than eight times as long as wide"},
		{recorded + "pipe_flux2_klein", sources(0, 0), "", nil, `picture "b.png": neither PNG, JPEG, GIF nor WebP`},
		{"embed:tiny-vlm", answered, talk(`name = "accuracy"`), nil, ""},
		{"embed:tiny-vlm", answered, talk(`name = "tools"`), nil, ""},
		{"embed:tiny-vlm", answered, talk(`name = "mini_o3"`), nil, ""},
		{"embed:tiny-vlm", answered, talk(`name = "repetition"`), nil, ""},
		{"embed:tiny-vlm", answered, talk(`name = "calls"`), nil, ""},
		{"embed:tiny-vlm", answered, talk("name = \"accuracy\"\nrule = \"grounding\""), nil, "meta.seen"},
		{"embed:tiny-vlm", answered, talk("name = \"accuracy\"\nrule = \"key_steps\""), nil, "meta.key_steps"},
		{"embed:tiny-vlm", answered, talk("name = \"accuracy\"\nrule = \"map\""), nil, "has no ```json block of boxes"},
		{"embed:tiny-vlm", answered, talk(`name = "look"`), nil, "meta.target"},
		{"embed:tiny-vlm", says(`{"answer": ["a"]}`), "[episode]\n", nil, "meta.answer of the prompt is no text"},
		{"embed:tiny-vlm", says(`{"else": 1}`), "[episode]\n", nil, "meta.answer"},
		{"embed:tiny-vlm", says(`{"else": 1}`), talk(judge + `judge = { form = "deepeyes_visual", model = "m" }`), nil, "meta.answer"},
		{"embed:tiny-vlm", answered, "[episode]\nguided = {}\n", nil, ""},
		{"embed:tiny-vlm", says(`{"answer": "a"}`), "[episode]\nguided = {}\n", nil, "has meta.solution"},
	} {
		_, _, err := checked(t, c.model, c.prompts, c.rest, c.sets...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %q: %v", c.rest, c.sets, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.toml:") && !strings.Contains(err.Error(), "--set")):
			t.Errorf("%s %q: %v, want %q", c.rest, c.sets, err, c.want)
		}
	}
	script := filepath.Join(empty, "reward.sh")
	if err := os.WriteFile(script, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := checked(t, "embed:tiny-sd3", plain, reward("name = \"exec\"\ncommand = [\"sh\", \""+script+"\"]")); err != nil {
		t.Error(err)
	}
	if _, notes, err := checked(t, "embed:tiny-sd3", plain, reward("name = \"http\"\nurl = \"http://localhost:1\"\nkey_env = \"NO_SUCH_KEY\"")); err != nil || !strings.Contains(strings.Join(notes, "\n"), "NO_SUCH_KEY") {
		t.Errorf("%q, %v", notes, err)
	}
}
