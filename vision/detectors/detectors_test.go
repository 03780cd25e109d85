package detectors

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/groundingdino"
	"github.com/darkroom-rl/darkroom/vision/mask2former"
	"github.com/darkroom-rl/darkroom/vision/owl"
	"github.com/darkroom-rl/darkroom/vision/rtdetr"
)

// TestMask2Former: transformers' numbers, of pictures in one batch and of each alone, from one file and from shards.
func TestMask2Former(t *testing.T) {
	r := recorded(t, "mask2former")
	for _, shards := range []bool{false, true} {
		m, err := mask2former.Open(r.folder(t, shards), device(t))
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.Prepare.Apply(r.shown())
		if err != nil {
			t.Fatal(err)
		}
		answers, err := m.Forward(b.Pixels, 2, b.Size)
		if err != nil {
			t.Fatal(err)
		}
		var classes, masks []float32
		for _, a := range answers {
			for _, row := range a.Classes {
				classes = append(classes, row...)
			}
			masks = append(masks, a.Masks...)
		}
		r.holds(t, "classes", classes)
		r.holds(t, "masks", masks)
		each := len(b.Pixels) / 2
		for i := range answers {
			alone, err := m.Forward(b.Pixels[i*each:][:each], 1, b.Size)
			if err != nil || !reflect.DeepEqual(alone[0], answers[i]) {
				t.Errorf("picture %d alone has other bits: %v", i, err)
			}
		}
		if _, err := m.Forward(b.Pixels[:3*33*32], 1, detr.Size{H: 33, W: 32}); err == nil {
			t.Error("a picture of 33 rows was read")
		}
		m.Close()
	}
}

// TestRTDETR: transformers' numbers, of pictures in one batch, of RT-DETR and its family.
func TestRTDETR(t *testing.T) {
	for _, kind := range []string{"rt_detr", "rt_detr_v2", "d_fine", "rf_detr"} {
		r, open := recorded(t, kind), rtdetr.Open
		if kind == "rf_detr" {
			open = rtdetr.OpenRF
		}
		m, err := open(r.folder(t, true), device(t))
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.Prepare.Apply(r.shown())
		if err != nil {
			t.Fatal(err)
		}
		answers, err := m.Forward(b.Pixels, 2, b.Size)
		if err != nil {
			t.Fatal(err)
		}
		r.holds(t, "logits", append(answers[0].Logits, answers[1].Logits...))
		r.holds(t, "boxes", append(answers[0].Boxes, answers[1].Boxes...))
		m.Close()
	}
}

// TestOWL: transformers' numbers of texts and pictures.
func TestOWL(t *testing.T) {
	r := recorded(t, "owlv2")
	m, err := owl.Open(r.folder(t, false), device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var logits, boxes []float32
	for i, picture := range r.shown() {
		queries, err := m.Queries(r.Queries[i])
		if err != nil {
			t.Fatal(err)
		}
		x, err := m.Prepare.Apply(picture)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := m.See(x, 1)
		if err != nil {
			t.Fatal(err)
		}
		logits, boxes = append(logits, seen[0].Logits(queries)...), append(boxes, seen[0].Boxes...)
	}
	r.holds(t, "logits", logits)
	r.holds(t, "boxes", boxes)
	if _, err := m.Queries([]string{strings.Repeat("long ", 20)}); err == nil || !strings.Contains(err.Error(), "at most 16 are read") {
		t.Errorf("a long query: %v", err)
	}
}

// TestGroundingDINO: transformers' numbers of pictures of two sizes and texts of two lengths in one batch.
func TestGroundingDINO(t *testing.T) {
	r := recorded(t, "grounding-dino")
	m, err := groundingdino.Open(r.folder(t, false), device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b, err := m.Prepare.Apply(r.shown())
	if err != nil {
		t.Fatal(err)
	}
	var texts [][]int32
	for _, q := range r.Queries {
		ids, err := m.IDs(groundingdino.Question(q))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, ids)
	}
	answers, err := m.Forward(b, texts)
	if err != nil {
		t.Fatal(err)
	}
	var logits, boxes []float32
	for _, a := range answers {
		for _, row := range a.Logits {
			logits = append(logits, row...)
		}
		boxes = append(boxes, a.Boxes...)
	}
	r.holds(t, "logits", logits)
	r.holds(t, "boxes", boxes)
	if _, err := m.IDs(strings.Repeat("dog. ", 20)); err == nil || !strings.Contains(err.Error(), "at most 20 are read") {
		t.Errorf("a long text: %v", err)
	}
	if _, err := m.Forward(b, texts[:1]); err == nil {
		t.Error("one text for two pictures was read")
	}
}

// TestDetect: every kind answers with boxes inside the picture, the surest first, of labels that were asked for.
func TestDetect(t *testing.T) {
	for _, k := range Kinds() {
		r := recorded(t, k.Name)
		d, err := Open(r.folder(t, false), device(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		labels, picture := []string{"cat", "dog"}, r.shown()[0]
		if d.Labels() != nil { // the one that is seen best
			all, err := d.Detect(context.Background(), picture, nil, 0)
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: found %d, %v", k.Name, len(all), err)
			}
			labels = []string{all[0].Label}
		}
		found, err := d.Detect(context.Background(), picture, labels, 0)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: found %d, %v", k.Name, len(found), err)
		}
		for i, f := range found {
			if !asked(labels, f.Label) || i > 0 && f.Score > found[i-1].Score || !(f.Score > 0 && f.Score <= 1) {
				t.Errorf("%s: %q with %v after %v", k.Name, f.Label, f.Score, found[max(i-1, 0)].Score)
			}
		}
		d.Close()
	}
}

// TestTakes: the predicted memory of every kind is that of a question on a backend that computes.
func TestTakes(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for _, k := range Kinds() {
		dir := recorded(t, k.Name).folder(t, false)
		takes, err := Takes(dir, features.F32)
		if err != nil {
			t.Fatal(err)
		}
		pool := tensor.NewPool(be)
		d, err := Open(dir, features.On(pool, features.F32), Options{})
		if err != nil {
			t.Fatal(err)
		}
		weights := 0
		for range 2 {
			weights = int(pool.Stats().InUse)
			pool.ResetPeak()
			if _, err := d.Detect(context.Background(), vision.New(usualSide, usualSide), []string{"a thing"}, 0.5); err != nil {
				t.Fatal(err)
			}
		}
		if got := int64(int(pool.Stats().Peak) - weights); got != takes || takes < 1000 {
			t.Errorf("%s takes %d, and %d was predicted", k.Name, got, takes)
		}
		d.Close()
	}
	if _, err := Takes(t.TempDir(), features.F32); err == nil {
		t.Error("an empty folder was read")
	}
}

// TestRefused: a folder of another network, and settings out of range, are refused by name.
func TestRefused(t *testing.T) {
	r := recorded(t, "mask2former")
	for name, c := range map[string]struct{ old, now, want string }{
		"another kind":   {`"mask2former"`, `"clip"`, "detectors are mask2former"},
		"another trunk":  {`"swin"`, `"resnet"`, `"backbone_config" is of a "resnet"`},
		"heads":          {`"num_attention_heads": 4, "num_hidden_layers"`, `"num_attention_heads": 5, "num_hidden_layers"`, "does not divide"},
		"width":          {`"feature_size": 64`, `"feature_size": 60`, "no multiple of 32"},
		"missing tensor": {`"encoder_layers": 2`, `"encoder_layers": 3`, "encoder.layers.2"},
	} {
		dir := r.folder(t, false)
		path := filepath.Join(dir, "config.json")
		text := strings.Replace(string(r.Files["config.json"]), c.old, c.now, 1)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := Open(dir, device(t), Options{})
		if err == nil {
			d.Close()
		}
		if text != string(r.Files["config.json"]) && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; %q was expected", name, err, c.want)
		}
	}
}

// TestRefusedFamily: settings of D-FINE and RF-DETR that are not known are refused by name.
func TestRefusedFamily(t *testing.T) {
	refuses(t, "d_fine", map[string][2]string{
		`"eval_idx": -1`:               {`"eval_idx": 0`, "the last of 3 layers, -1 or 2"},
		`"max_num_bins": 6`:            {`"max_num_bins": 7`, "an even number was expected"},
		`"decoder_n_points": [3, 2]`:   {`"decoder_n_points": [3, 2, 2]`, "has 3 numbers"},
		`"top_prob_values": 3`:         {`"top_prob_values": 8`, "top_prob_values"},
		`"stem_strides": [2, 1, 1, 2`:  {`"stem_strides": [2, 1, 1, 1`, "stem_strides"},
		`"stage_num_blocks": [1, 1, 2`: {`"stage_num_blocks": [1, 1, 3`, "blocks.2"},
		`"lqe_hidden_dim": 8`:          {`"lqe_hidden_dim": 9`, "reg_conf"},
		`"model_type": "hgnet_v2"`:     {`"model_type": "resnet"`, `"rt_detr_resnet" and "hgnet_v2" are known`},
	})
	refuses(t, "rf_detr", map[string][2]string{
		`"out_indices": [1, 3, 4]`:    {`"out_indices": [1, 3, 5]`, "out_indices"},
		`"num_windows": 3`:            {`"num_windows": 4`, "a multiple of 4 windows of patches of 8"},
		`"num_feature_levels": 1`:     {`"num_feature_levels": 2`, "num_feature_levels"},
		`"group_detr": 3`:             {`"group_detr": 2`, "query_feat"},
		`"use_swiglu_ffn": false`:     {`"use_swiglu_ffn": true`, "use_swiglu_ffn"},
		`"model_type": "rf_detr_dino`: {`"model_type": "dino`, `"rf_detr_dinov2" is known`},
	})
}

func refuses(t *testing.T, kind string, changed map[string][2]string) {
	t.Helper()
	r := recorded(t, kind)
	for old, c := range changed {
		dir := r.folder(t, false)
		text := strings.Replace(string(r.Files["config.json"]), old, c[0], 1)
		if text == string(r.Files["config.json"]) {
			t.Fatalf("config.json has no %s", old)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if d, err := Open(dir, device(t), Options{}); err == nil {
			d.Close()
			t.Errorf("%s was read", c[0])
		} else if !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v; %q was expected", c[0], err, c[1])
		}
	}
}
