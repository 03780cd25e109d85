package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// everything opens a folder and uses all of its parts.
func everything(t *testing.T, dir string) error {
	return usedWith(pool(t, 1), dir)
}

func usedWith(pool *tensor.Pool, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	p, err := Open(dir, Options{Pool: pool, TextLength: 16})
	if err != nil {
		return err
	}
	defer p.Close()
	d := p.Defaults()
	at, err := p.Shape(min(d.Height, 64), min(d.Width, 64)) // FLUX's usual pictures are large
	if err != nil {
		return err
	}
	schedule, err := p.Schedule(2, at)
	if err != nil {
		return err
	}
	rows, err := p.Rows(schedule, 0)
	if err != nil {
		return err
	}
	texts, err := p.Encode("a red cat", "")
	if err != nil {
		return err
	}
	pic := Picture{Text: texts[0], Negative: texts[1]}
	tracks, err := p.Sample(context.Background(), []Picture{pic}, Sampler{At: at, Rows: rows, Times: schedule.Timesteps, Guidance: Guidance{Scale: 2}})
	if err != nil {
		return err
	}
	_, err = p.Decode(tracks[0].Final, at)
	return err
}

// rewrite changes the tensors of a file.
func rewrite(t *testing.T, path string, change func(all map[string]safetensors.Tensor)) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]safetensors.Tensor{}
	for _, name := range f.Names() {
		tensor, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		tensor.Data = append([]byte(nil), tensor.Data...)
		all[name] = tensor
	}
	change(all)
	var list []safetensors.Tensor
	for name, tensor := range all {
		tensor.Name = name
		list = append(list, tensor)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := safetensors.Write(path, list, nil); err != nil {
		t.Fatal(err)
	}
}

// A folder that was spoilt in one place is an error that names the place, and never a panic.
func TestSpoiltFolders(t *testing.T) {
	const weights = "transformer/diffusion_pytorch_model.safetensors"
	const odd = "proj_out.bias"
	at := func(dir, path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }
	write := func(path, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(at(dir, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(path, key string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, at(dir, path), map[string]any{key: value}) }
	}
	tensors := func(path string, change func(map[string]safetensors.Tensor)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { rewrite(t, at(dir, path), change) }
	}
	remove := func(path string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(at(dir, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(path string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			outside := filepath.Join(t.TempDir(), "outside")
			if err := os.Rename(at(dir, path), outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, at(dir, path)); err != nil {
				t.Skipf("no links here: %v", err)
			}
		}
	}
	for name, c := range map[string]struct {
		of    string // pipe_sd3 where empty
		spoil func(*testing.T, string)
		says  []string
	}{
		"a tensor is missing": {spoil: tensors(weights, func(a map[string]safetensors.Tensor) { delete(a, odd) }), says: []string{weights, odd, "missing"}},
		"a tensor too many":   {spoil: tensors(weights, func(a map[string]safetensors.Tensor) { a["proj_out.bais"] = a[odd] }), says: []string{weights, "proj_out.bais", "no such parameter"}},
		"another shape": {spoil: tensors(weights, func(a map[string]safetensors.Tensor) {
			x := a[odd]
			x.Shape = []int{2, x.Shape[0] / 2}
			a[odd] = x
		}), says: []string{weights, odd, "its shape is [2 32], the model's [64]"}},
		"another dtype": {spoil: tensors(weights, func(a map[string]safetensors.Tensor) {
			x := a[odd]
			x.DType = safetensors.I32
			a[odd] = x
		}), says: []string{weights, odd, "I32"}},
		"another dtype of a matrix": {spoil: tensors(weights, func(a map[string]safetensors.Tensor) {
			x := a["proj_out.weight"]
			x.DType = safetensors.I32
			a["proj_out.weight"] = x
		}), says: []string{weights, "proj_out.weight", "I32"}},
		"numbers that are none": {spoil: tensors(weights, func(a map[string]safetensors.Tensor) {
			copy(a[odd].Data, "\xff\xff\xff\x7f")
		}), says: []string{"infinite or none"}},
		"an encoder's tensor is missing": {spoil: tensors("text_encoder_3/model.safetensors", func(a map[string]safetensors.Tensor) { delete(a, "shared.weight") }), says: []string{"text_encoder_3/model.safetensors", "shared.weight"}},
		"the decoder's tensor is missing": {spoil: tensors("vae/diffusion_pytorch_model.safetensors", func(a map[string]safetensors.Tensor) { delete(a, "decoder.conv_out.bias") }),
			says: []string{"vae/diffusion_pytorch_model.safetensors", "decoder.conv_out.bias"}},
		"a file is cut": {spoil: func(t *testing.T, dir string) {
			if err := os.Truncate(at(dir, weights), 70000); err != nil {
				t.Fatal(err)
			}
		}, says: []string{weights, "hint"}},
		"an encoder's file is cut": {spoil: func(t *testing.T, dir string) {
			if err := os.Truncate(at(dir, "text_encoder/model.safetensors"), 100); err != nil {
				t.Fatal(err)
			}
		}, says: []string{"text_encoder/model.safetensors"}},
		"weights are gone": {spoil: remove(weights), says: []string{"transformer", "no .safetensors file"}},
		"an index points outside": {spoil: func(t *testing.T, dir string) {
			if err := os.Rename(at(dir, weights), filepath.Join(dir, "..", "secret.safetensors")); err != nil {
				t.Fatal(err)
			}
			index, _ := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": map[string]string{odd: "../../secret.safetensors"}})
			write("transformer/diffusion_pytorch_model.safetensors.index.json", string(index))(t, dir)
		}, says: []string{"secret.safetensors", "outside"}},
		"weights are a link to a place outside":     {spoil: link(weights), says: []string{weights, "outside"}},
		"a part is a link to a place outside":       {spoil: link("vae"), says: []string{"vae", "outside"}},
		"settings are a link to a place outside":    {spoil: link("transformer/config.json"), says: []string{"transformer/config.json", "outside"}},
		"the vocabulary is a link to another place": {spoil: link("tokenizer_3/tokenizer.json"), says: []string{"tokenizer_3/tokenizer.json", "outside"}},

		"so many layers":             {spoil: set("transformer/config.json", "num_layers", 1000000000), says: []string{"transformer", "num_layers", "1000000000"}},
		"more layers than there are": {spoil: set("transformer/config.json", "num_layers", 500), says: []string{"transformer_blocks.2", "missing", "more"}},
		"a negative width":           {spoil: set("transformer/config.json", "attention_head_dim", -8), says: []string{"attention_head_dim", "-8"}},
		"a side without end":         {spoil: set("transformer/config.json", "pos_embed_max_size", 1<<40), says: []string{"pos_embed_max_size"}},
		"channels without end":       {spoil: set("vae/config.json", "block_out_channels", []int{1 << 30}), says: []string{"vae", "block_out_channels"}},
		"no scaling":                 {spoil: set("vae/config.json", "scaling_factor", 0), says: []string{"vae", "scaling_factor"}},
		"other latents":              {spoil: set("vae/config.json", "latent_channels", 4), says: []string{"vae", "latents of 4 channels", "16"}},
		"a patch of none":            {spoil: set("transformer/config.json", "patch_size", 0), says: []string{"patch_size"}},
		"a vocabulary without end":   {spoil: set("text_encoder/config.json", "vocab_size", 1<<50), says: []string{"text_encoder", "vocab_size"}},
		"heads that do not divide":   {spoil: set("text_encoder/config.json", "num_attention_heads", 3), says: []string{"text_encoder", "num_attention_heads"}},
		"a text where a number is":   {spoil: set("transformer/config.json", "num_layers", "two"), says: []string{"transformer/config.json", "num_layers", "string"}},
		"settings of another model":  {spoil: set("transformer/config.json", "_class_name", "WanTransformer3DModel"), says: []string{"WanTransformer3DModel"}},
		"settings that end early":    {spoil: write("transformer/config.json", `{"num_layers": 2`), says: []string{"transformer/config.json", "not JSON"}},
		"no settings":                {spoil: remove("transformer/config.json"), says: []string{"transformer/config.json"}},
		"a joint width too small":    {spoil: set("transformer/config.json", "joint_attention_dim", 20), says: []string{"joint_attention_dim is 20"}},
		"another pooled width":       {spoil: set("transformer/config.json", "pooled_projection_dim", 30), says: []string{"pooled_projection_dim is 30"}},

		"no tokenizer in tokenizer.json": {spoil: write("tokenizer_3/tokenizer.json", `{"version": "1.0"}`), says: []string{"tokenizer_3/tokenizer.json", "not a tokenizer.json"}},
		"no JSON in tokenizer.json":      {spoil: write("tokenizer_3/tokenizer.json", "\x00\x01"), says: []string{"tokenizer_3/tokenizer.json", "not a tokenizer.json"}},
		"a model of pieces that is none": {spoil: func(t *testing.T, dir string) {
			remove("tokenizer_3/tokenizer.json")(t, dir)
			write("tokenizer_3/spiece.model", "version https://git-lfs.github.com/spec/v1\n")(t, dir)
		}, says: []string{"tokenizer_3/spiece.model"}},
		"a vocabulary that is a list":    {of: "pipe_sd15", spoil: write("tokenizer/vocab.json", `["a"]`), says: []string{"tokenizer/vocab.json"}},
		"merges that are not pairs":      {of: "pipe_sd15", spoil: write("tokenizer/merges.txt", "one\ntwo\n"), says: []string{"tokenizer/merges.txt:1"}},
		"no tokenizer at all":            {of: "pipe_sd15", spoil: remove("tokenizer/vocab.json"), says: []string{"tokenizer", "no tokenizer"}},
		"a tokenizer of a larger model":  {spoil: set("text_encoder/config.json", "vocab_size", 700), says: []string{"text_encoder"}},
		"a padding that does not exist":  {spoil: set("tokenizer/tokenizer_config.json", "pad_token", "<nothing>"), says: []string{"tokenizer", "<nothing>"}},
		"a length that is no number":     {spoil: set("tokenizer/tokenizer_config.json", "model_max_length", "long"), says: []string{"tokenizer_config.json", "model_max_length"}},
		"a padding that is a list":       {spoil: set("tokenizer/tokenizer_config.json", "pad_token", []int{1}), says: []string{"tokenizer_config.json"}},
		"a scheduler of another kind":    {spoil: set("scheduler/scheduler_config.json", "_class_name", "DDIMScheduler"), says: []string{"scheduler_config.json", "DDIMScheduler"}},
		"a shift of nothing":             {spoil: set("scheduler/scheduler_config.json", "shift", 0), says: []string{"scheduler_config.json", "shift"}},
		"training steps of none":         {spoil: set("scheduler/scheduler_config.json", "num_train_timesteps", 0), says: []string{"scheduler_config.json", "num_train_timesteps"}},
		"a ladder of none":               {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "num_train_timesteps", 0), says: []string{"scheduler_config.json", "num_train_timesteps"}},
		"a ladder without end":           {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "num_train_timesteps", 1<<60), says: []string{"scheduler_config.json", "num_train_timesteps"}},
		"betas of another kind":          {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "beta_schedule", "sigmoid"), says: []string{"scheduler_config.json", "sigmoid"}},
		"betas above one":                {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "beta_end", 3), says: []string{"scheduler_config.json", "beta_end"}},
		"a prediction of another kind":   {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "prediction_type", "flow"), says: []string{"scheduler_config.json", "flow"}},
		"a spacing of another kind":      {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "timestep_spacing", "wide"), says: []string{"scheduler_config.json", "wide"}},
		"an offset without end":          {of: "pipe_sd15", spoil: set("scheduler/scheduler_config.json", "steps_offset", 1<<40), says: []string{"scheduler_config.json", "steps_offset"}},
		"a U-Net of SDXL":                {of: "pipe_sd15", spoil: set("unet/config.json", "addition_embed_type", "text_time"), says: []string{"unet"}},
		"a context of another width":     {of: "pipe_sd15", spoil: set("unet/config.json", "cross_attention_dim", 24), says: []string{"cross_attention_dim is 24"}},
		"a size that is a text":          {of: "pipe_sd15", spoil: set("unet/config.json", "sample_size", "big"), says: []string{"unet/config.json", "sample_size"}},
		"axes that do not add up":        {of: "pipe_flux", spoil: set("transformer/config.json", "axes_dims_rope", []int{2, 4}), says: []string{"axes_dims_rope"}},
		"two axes":                       {of: "pipe_flux", spoil: set("transformer/config.json", "axes_dims_rope", []int{4, 4}), says: []string{"axes_dims_rope", "3 are needed"}},
		"channels that cannot be packed": {of: "pipe_flux", spoil: set("transformer/config.json", "in_channels", 15), says: []string{"transformer", "15"}},
		"two ends of a shift in one":     {of: "pipe_flux", spoil: set("scheduler/scheduler_config.json", "max_image_seq_len", 256), says: []string{"scheduler_config.json", "max_image_seq_len"}},
		"a pipeline of another kind":     {spoil: set("model_index.json", "_class_name", "HunyuanVideoPipeline"), says: []string{"model_index.json", "WanPipeline", "FluxPipeline"}},
		"a length that is none":          {spoil: set("model_index.json", zerosKey, 513), says: []string{"model_index.json", zerosKey, "513"}},
		"a pipeline without a name":      {spoil: set("model_index.json", "_class_name", []int{3}), says: []string{"model_index.json", "_class_name"}},
		"an index that is a list":        {spoil: write("model_index.json", "[]"), says: []string{"model_index.json"}},
		"a part that is not named":       {spoil: set("model_index.json", "vae", nil), says: []string{"model_index.json", "vae"}},
		"a part that is not there":       {spoil: remove("text_encoder_2"), says: []string{"text_encoder_2", "model_index.json names it"}},
		"a part that is a file":          {spoil: func(t *testing.T, dir string) { remove("vae")(t, dir); write("vae", "x")(t, dir) }, says: []string{"vae"}},
		"an encoder that is not named":   {spoil: set("model_index.json", "text_encoder", []any{nil, nil}), says: []string{"model_index.json", "text_encoder"}},
		"a folder that is nothing":       {spoil: remove("model_index.json"), says: []string{"there is no model_index.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			of := c.of
			if of == "" {
				of = "pipe_sd3"
			}
			dir := copied(t, of)
			c.spoil(t, dir)
			err := everything(t, dir)
			if err == nil {
				t.Fatal("it was taken")
			}
			if text := filepath.ToSlash(err.Error()); len(text) > 4000 {
				t.Errorf("a message of %d bytes: %.300s", len(text), text)
			}
			for _, s := range c.says {
				if !strings.Contains(filepath.ToSlash(err.Error()), s) {
					t.Errorf("%v\nwants %q", err, s)
				}
			}
		})
	}
}

// The folders themselves are taken.
func TestUnspoiltFolders(t *testing.T) {
	for _, name := range small {
		if err := everything(t, filepath.Join(recorded, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
