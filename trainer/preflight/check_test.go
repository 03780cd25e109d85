package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// recorded holds tiny pipelines in the hub's layout.
var recorded = golden.Folder("models") + "/"

// file is an experiment whose files are there; %s is the model, the prompts, and the rest.
const file = `[run]
name = "x"
iterations = 3
[model]
path = %q
[rollout]
prompts = %q
prompts_per_iteration = 2
group = 4
[[reward]]
name = "jpeg"
%s`

func checked(t *testing.T, model, prompts, rest string, sets ...string) (*experiment.Experiment, []string, error) {
	t.Helper()
	text := fmt.Sprintf(file, model, prompts, rest)
	if strings.Contains(rest, "[episode]") {
		text = strings.Replace(text, `"jpeg"`, `"accuracy"`, 1)
	}
	e, err := experiment.Parse("x.toml", []byte(text), sets)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := Check(e, cpu.NewDry(cpu.Options{}))
	return e, notes, err
}

// written puts prompts in a file.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefused: a mistake that a run would have refused is reported with its place, before anything is computed.
func TestRefused(t *testing.T) {
	two := written(t, "two.txt", "a cat\na dog\n")
	scene := written(t, "scene.txt", "a red circle on white\na cat\n")
	asks := written(t, "asks.jsonl", `{"prompt": "what?", "meta": {"picture": "no.png", "answer": "1"}}`+"\n"+`{"prompt": "that?", "meta": {"picture": "embed:cards/1"}}`+"\n")
	broken := written(t, "broken.jsonl", `{"prompt": "a", "meta": 3}`)
	weighed := written(t, "weighed.jsonl", `{"prompt": "a", "weights": {"jpeg": 2}}`+"\n"+`{"prompt": "b", "weights": {"jepg": 2}}`+"\n")
	heavier := written(t, "heavier.jsonl", `{"prompt": "a", "weights": {"size": 2}}`+"\n"+`{"prompt": "b", "weights": {"size": -1, "jpeg": 0}}`+"\n")
	size := "[[reward]]\nname = \"jpeg\"\nlabel = \"size\"\n"
	sized := written(t, "sized.jsonl", `{"prompt": "a cat"}`+"\n"+`{"prompt": "a dog", "width": 36, "height": 32}`+"\n")
	long := written(t, "long.jsonl", `{"prompt": "a cat", "frames": 5}`+"\n"+`{"prompt": "a dog", "frames": 6}`+"\n")
	alone := written(t, "alone.jsonl", `{"prompt": "a cat"}`+"\n"+`{"prompt": "a dog", "frames": 1}`+"\n")
	clips := "[sampler]\nframes = 9\nwidth = 32\nheight = 32\nsteps = 3\nwindow = { kind = \"frozen\", size = 1 }\n"
	ladder := "[sampler]\nsolver = \"ddim\"\noutside = \"ddim\"\neval_solver = \"ddim\"\nschedule = { kind = \"ddpm\" }\n"
	for _, c := range []struct {
		model, prompts, rest string
		sets                 []string
		want                 string // begins so; "" is right
	}{
		{"embed:tiny-sd3", two, "", nil, ""},
		{"embed:tiny-vlm", "embed:zoom", "[episode]\n", nil, ""},
		{recorded + "pipe_wan22_t2v", long, clips, []string{"sampler.guidance=1", "sampler.guidance_2=1"}, `x.toml:7:11: "rollout.prompts": ` + long + `: prompt "a dog": a clip of 6 frames: `},
		{recorded + "pipe_wan22_t2v", alone, clips, []string{"sampler.guidance=1", "sampler.guidance_2=1"}, `x.toml:7:11: "rollout.prompts": ` + alone + `: prompt "a dog": a prompt's frames are 1, where others have 9`},
		{recorded + "pipe_sd15", two, ladder, nil, ""},
		{recorded + "pipe_sd15", two, "", nil, `x.toml:5:8: "model.path": flow-sde is for a flow, and the model in`},
		{recorded + "pipe_sd15", two, "[sampler]\nsolver = \"dance\"\n", nil, `x.toml:13:10: "sampler.solver": dance is for a flow, and the model in`},
		{recorded + "pipe_sd15", two, ladder, []string{"sampler.prediction=v_prediction"}, `--set: "sampler.prediction": the network in ` + recorded + `pipe_sd15 puts out epsilon, and v_prediction`},
		{"embed:tiny-sd3", two, ladder, nil, `x.toml:13:10: "sampler.solver": ddim is for a variance-preserving ladder, and the model in embed:tiny-sd3 is a flow`},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 3\n[stage.sampler]\nguidance_kind = \"embedded\"\n", nil, `x.toml:15:17: "stage[0].sampler.guidance_kind": the network in embed:tiny-sd3 takes no scale of guidance`},
		{"embed:tiny-sd3", weighed, "", nil, `x.toml:7:11: "rollout.prompts": prompt 2, "b": it weighs "jepg", and no reward that is trained on is called so`},
		{"embed:tiny-sd3", heavier, size, nil, ""},
		{"embed:tiny-sd3", heavier, size, []string{"rewards.combine=product"}, `x.toml:7:11: "rollout.prompts": prompt 2, "b": the weight of "size" is -1, and rewards that are combined by "product"`},
		{"embed:tiny-sd3", heavier, size, []string{"advantage.combine=advantages"}, `x.toml:7:11: "rollout.prompts": prompt 1, "a": it has weights of its own`},
		{recorded + "pipe_sd15/unet/diffusion_pytorch_model.safetensors", two, ladder, nil, `x.toml:5:8: "model.path": ` + recorded + `pipe_sd15/unet/diffusion_pytorch_model.safetensors: one file holds weights, and neither settings nor tokenizers`},
		{recorded + "pipe_sd15", two, ladder, []string{"model.base=" + recorded + "pipe_sd15"}, `x.toml:5:8: "model.path": ` + recorded + `pipe_sd15 is no .safetensors file`},
		{"nowhere", two, "", nil, `x.toml:5:8: "model.path": nowhere: no such folder`},
		{"embed:tiny-sd3", "missing.txt", "", nil, `x.toml:7:11: "rollout.prompts": missing.txt: no such file`},
		{"embed:tiny-sd3", broken, "", nil, `x.toml:7:11: "rollout.prompts": `},
		{"embed:tiny-sd3", two, "[evaluate]\nprompts = \"gone.txt\"\n", nil, `x.toml:13:11: "evaluate.prompts": gone.txt: no such file`},
		{"embed:tiny-sd3", two, "", []string{"rollout.prompts_per_iteration=3"}, `--set: "rollout.prompts_per_iteration": 3 prompts an iteration, and `},
		{"embed:tiny-sd3", two, "[[reward]]\nname = \"scene\"\n", nil, `x.toml:13:8: "reward[1].name": reward "scene" can read none of the prompts of `},
		{"embed:tiny-sd3", two, "[[reward]]\nname = \"ocr\"\n", nil, `x.toml:13:8: "reward[1].name": reward "ocr" can read none of the prompts of `},
		{recorded + "pipe_flux", scene, "[[reward]]\nname = \"scene\"\n", nil, `x.toml:13:8: "reward[1].name": reward "scene" judges the program's own scenes of 64 x 64, and this model's pictures have `},
		{recorded + "pipe_flux_kontext", "embed:edits", "[sampler]\nwidth = 64\nheight = 64\n[[reward]]\nname = \"edit\"\n", []string{"model.source_area=-1"}, ""},
		{recorded + "pipe_flux_kontext", "embed:edits", "[sampler]\nwidth = 32\nheight = 32\n[[reward]]\nname = \"edit\"\n", []string{"model.source_area=-1"}, ""},
		{recorded + "pipe_flux_kontext", "embed:edits", "[sampler]\nwidth = 16\nheight = 16\n[[reward]]\nname = \"edit\"\n", []string{"model.source_area=-1"}, `x.toml:16:8: "reward[1].name": reward "edit" judges the program's own scenes of 64 x 64, and this model's pictures have 16 x 16`},
		{recorded + "pipe_flux_kontext", "embed:scenes", "[sampler]\nwidth = 64\nheight = 64\n[[reward]]\nname = \"edit_done\"\n", []string{"model.source_area=-1"}, `x.toml:16:8: "reward[1].name": reward "edit_done" can read none of the prompts of `},
		{"embed:tiny-kontext", "embed:edits", "", nil, ""}, // without one of the usual targets
		{"embed:tiny-sd3", two, "", []string{`model.lora.targets=["attn.to_q","attn.nope"]`}, `--set: "model.lora.targets": "attn.nope" matches no layer, though others do`},
		{"embed:tiny-sd3", two, "", []string{`model.lora.targets="self_attn.q_proj"`}, `--set: "model.lora.targets": LoRA: "self_attn.q_proj" matches no layer`},
		{"embed:tiny-sd3", two, "", []string{`model.train="blokcs.*"`}, `--set: "model.train": `},
		{"embed:tiny-vlm", "embed:zoom", "[episode]\n", []string{`model.lora.targets="attn.to_q"`}, `--set: "model.lora.targets": LoRA: "attn.to_q" matches no layer`},
		{"embed:tiny-vlm", "embed:zoom", "[episode]\n", []string{`model.new_tokens="<tool_call>"`, `model.train='model\.layers.*'`}, `--set: "model.new_tokens": model.embed_tokens.weight is not trained`},
		{"embed:tiny-vlm", written(t, "by.jsonl", `{"prompt": "what?", "meta": {"protocol": "zoomer"}}`), "[episode]\n", nil, `x.toml:7:11: "rollout.prompts": `},
		{"embed:tiny-vlm", asks, "[episode]\n", nil, `x.toml:7:11: "rollout.prompts": pictures of 1 of the 2 prompts cannot be opened; the first: prompt "what?": `},
		{recorded + "pipe_sd3", "embed:zoom", "[episode]\n", nil, `x.toml:5:8: "model.path": ` + recorded + `pipe_sd3 is a generator's pipeline`},
		{"embed:tiny-vlm", two, "", nil, `x.toml:5:8: "model.path": embed:tiny-vlm holds one model and no generator's pipeline`},
		{"embed:tiny-sd3", "embed:scene-pairs", "[loss]\nobjective = \"dpo\"\n[advantage]\nestimator = \"ends\"\n", []string{"rollout.offline=true"}, `x.toml:9:9: "rollout.group": embed:scene-pairs: `},
		{"embed:tiny-sd3", two, "[sampler]\nwidth = 32\nheight = 48\nnegative = \"blur\"\n", []string{"model.text_length=20"}, ""},
		{"embed:tiny-sd3", two, "[sampler]\nwidth = 36\nheight = 32\n", nil, `x.toml:13:9: "sampler.width": a picture of 36 x 32: sides must be multiples of 8, such as 32`},
		{"embed:tiny-sd3", two, "[sampler]\nsizes = [[32, 32], [32, 36]]\n", nil, `x.toml:13:20: "sampler.sizes[1]": a picture of 32 x 36: sides must be multiples of 8`},
		{"embed:tiny-sd3", two, "[evaluate]\nprompts = \"embed:scenes\"\nwidth = 4096\nheight = 4096\n", nil, `x.toml:14:9: "evaluate.width": a picture of 4096 x 4096: this model's positions end at `},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 1\n[[stage]]\niterations = 2\nrollout.prompts = \"later.txt\"\n", nil, `x.toml:16:19: "stage[1].rollout.prompts": later.txt: no such file`},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 1\n[[stage]]\niterations = 2\nrollout.prompts = \"" + scene + "\"\nrollout.prompts_per_iteration = 3\n", nil, `x.toml:17:33: "stage[1].rollout.prompts_per_iteration": 3 prompts an iteration, and ` + scene + " has 2"},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 3\nrollout = { prompts = [\"" + two + "\", \"" + scene + "\"], shares = [9, 1], prompts_per_iteration = 3 }\n", nil, `x.toml:14:`},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 3\ntrain = \".*lora_B.*\"\n", nil, ""},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 3\ntrain = [\".*lora_B.*\", \"lora\\\\.B\"]\n", nil, `x.toml:14:9: "stage[0].train": "lora\\.B" is the name of no parameter that is trained`},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 3\n[stage.rollout]\nprompts = \"embed:scene-pairs\"\noffline = true\n[stage.loss]\nobjective = \"dpo\"\n[stage.advantage]\nestimator = \"ends\"\n", nil, `x.toml:9:9: "rollout.group": embed:scene-pairs: `},
		{"embed:tiny-sd3", two, "[[stage]]\niterations = 3\n[stage.sampler]\nwidth = 4\nheight = 4\n", nil, `x.toml:15:9: "stage[0].sampler.width": a picture of 4 x 4: `},
		{"embed:tiny-sd3", sized, "", nil, `x.toml:7:11: "rollout.prompts": ` + sized + `: prompt "a dog": a picture of 36 x 32: sides must be multiples of 8`},
		{"embed:tiny-vlm", sized, "[episode]\n", nil, `x.toml:7:11: "rollout.prompts": ` + sized + `: prompt "a dog" names the size, the frames or the negative text of a picture, and episodes are made of it`},
		{"embed:tiny-sd3", scene, "[sampler]\nwidth = 32\nheight = 32\n[[reward]]\nname = \"scene\"\n", nil, `x.toml:16:8: "reward[1].name": reward "scene" judges the program's own scenes of 64 x 64, and this model's pictures have 32 x 32`},
		{"embed:tiny-sd3", two, "[sampler]\nnegative = \"blur\"\nguidance = 1.0\n", nil, `x.toml:13:12: "sampler.negative": guidance 1 by "cfg" combines no two outputs`},
		{recorded + "pipe_sd15", two, ladder, []string{"model.text_length=20"}, `--set: "model.text_length": StableDiffusionPipeline in ` + recorded + `pipe_sd15 has no T5 encoder`},
		{recorded + "pipe_flux", two, "", []string{"model.text_length=-1"}, `--set: "model.text_length": a text of 0 tokens for T5: 1 to 512 are possible`},
	} {
		_, _, err := checked(t, c.model, c.prompts, c.rest, c.sets...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.model, c.sets, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s %s: got\n%v\nwant\n%s", c.model, c.sets, err, c.want)
		}
	}
	if _, notes, err := checked(t, "embed:tiny-sd3", scene, "[[reward]]\nname = \"scene\"\n"); err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "reward scene cannot read 1 of the 2 prompts") {
		t.Errorf("%q, %v", notes, err)
	}
	pairs, off := "[loss]\nobjective = \"dpo\"\n[advantage]\nestimator = \"ends\"\n", []string{"rollout.offline=true", "rollout.group=2"}
	if _, notes, err := checked(t, "embed:tiny-sd3", "embed:scene-pairs", pairs, off...); err != nil || len(notes) != 0 {
		t.Errorf("pairs of the model's size: %q, %v", notes, err)
	}
	want := "pictures of embed:scene-pairs are fitted to 96x96: the first has 64x64"
	if _, notes, err := checked(t, "embed:tiny-sd3", "embed:scene-pairs", pairs, append(off, "sampler.width=96", "sampler.height=96")...); err != nil || !slices.Contains(notes, want) {
		t.Errorf("pairs of another size: %q, %v", notes, err)
	}
	for want, sets := range map[string][]string{
		"so 3.5, of preset mixgrpo, would be ignored": {"preset=mixgrpo"},
		"so 4.5 would be ignored":                     {"sampler.guidance_kind=embedded", "sampler.guidance=4.5"},
	} {
		if _, _, err := checked(t, "embed:tiny-sd3", scene, "", sets...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sets, err)
		}
	}
}

// TestTargets: without a word of the file, adapters are for the layers that are usual for the model.
func TestTargets(t *testing.T) {
	ladder := "[sampler]\npreset = \"ddpo\"\n"
	for _, c := range []struct {
		model, prompts, rest string
		sets                 []string
		want                 []string
	}{
		{"embed:tiny-sd3", "embed:scenes", "", nil, []string{"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}},
		{recorded + "pipe_flux", "embed:scenes", "", nil, []string{"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}},
		{recorded + "pipe_sd15", "embed:scenes", ladder, nil, []string{"to_q", "to_k", "to_v", "to_out.0"}},
		{"embed:tiny-vlm", "embed:zoom", "[episode]\n", nil, []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}},
		{"embed:tiny-vlm", "embed:zoom", "[episode]\n", []string{`model.lora.targets="gate_proj"`}, []string{"gate_proj"}},
	} {
		e, _, err := checked(t, c.model, c.prompts, c.rest, c.sets...)
		if err != nil || !slices.Equal(e.Model.LoRA.Targets, c.want) {
			t.Errorf("%s: %q, %v", c.model, e.Model.LoRA.Targets, err)
		}
	}
}

// TestTemplates: a folder whose chat template is missing, or not a published one, is opened by the one that
// model.template names, whatever holds it; the mistake names the key.
func TestTemplates(t *testing.T) {
	from, err := assets.Resolve("embed:tiny-vlm")
	if err != nil {
		t.Fatal(err)
	}
	own := func(change func(dir string) error) string {
		dir := t.TempDir()
		if err := errors.Join(os.CopyFS(dir, os.DirFS(from)), change(dir)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	template := filepath.Join(from, "chat_template.jinja")
	if _, err := os.Stat(template); err != nil {
		t.Fatal(err)
	}
	tuned := own(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte("{{ messages }} as we like them"), 0o644)
	})
	bare := own(func(dir string) error { return os.Remove(filepath.Join(dir, "chat_template.jinja")) })
	wrong := filepath.Join(t.TempDir(), "wrong.jinja")
	if err := os.WriteFile(wrong, []byte("{{ messages }}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ model, template, want string }{
		{tuned, "", "chat_template.jinja: a chat template that is not one of the published"},
		{bare, "", "no chat template"},
		{tuned, "qwen2_5_vl", ""},
		{bare, "qwen3_vl", ""},
		{bare, template, ""},
		{bare, from, ""},
		{bare, "qwen9", `a chat template named "qwen9" is not known`},
		{bare, wrong, "wrong.jinja: a chat template that is not one of the published"},
	} {
		var sets []string
		if c.template != "" {
			sets = append(sets, "model.template="+c.template)
		}
		_, _, err := checked(t, c.model, "embed:zoom", "[episode]\n", sets...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s with %q: %v", c.model, c.template, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "template of [model]") && c.template != "qwen9"):
			t.Errorf("%s with %q: %v", c.model, c.template, err)
		case c.template != "" && c.want != "" && !strings.Contains(err.Error(), `"model.template"`):
			t.Errorf("%s with %q: the mistake is of another key: %v", c.model, c.template, err)
		}
	}
}
