package safetensors

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folder makes files; a value "-> X" is a symbolic link to X, "u8 a b" a file of
// two one-byte tensors.
func folder(t *testing.T, root string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(filepath.FromSlash(to), path); err != nil {
				t.Skipf("no symbolic links here: %v", err)
			}
			continue
		} else if names, ok := strings.CutPrefix(text, "u8 "); ok {
			var all []Tensor
			for _, n := range strings.Fields(names) {
				all = append(all, Tensor{n, U8, []int{1}, []byte(n[:1]), nil})
			}
			err = Write(path, all, nil)
		} else {
			err = os.WriteFile(path, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const ixName = "model.safetensors.index.json"

func TestOpenFolderFinds(t *testing.T) {
	both := `{"metadata":{"total_size":2.0},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}}`
	for name, c := range map[string]struct {
		files map[string]string
		open  string // relative
		want  []string
		from  string // the first file
	}{
		"diffusers beside others":   {map[string]string{"tensors.safetensors": "u8 z", "diffusion_pytorch_model.safetensors": "u8 a"}, "", []string{"a"}, "diffusion_pytorch_model.safetensors"},
		"the only one, any name":    {map[string]string{"diffusion_pytorch_model.fp16.safetensors": "u8 a", "config.json": "{}"}, "", []string{"a"}, "diffusion_pytorch_model.fp16.safetensors"},
		"a file":                    {map[string]string{"x.safetensors": "u8 a", "y.safetensors": "u8 b"}, "y.safetensors", []string{"b"}, "y.safetensors"},
		"shards":                    {map[string]string{"s1.safetensors": "u8 a", "s2.safetensors": "u8 b", ixName: both}, "", []string{"a", "b"}, "s1.safetensors"},
		"an index by name":          {map[string]string{"s1.safetensors": "u8 a", "s2.safetensors": "u8 b", "v.safetensors.index.fp16.json": both}, "v.safetensors.index.fp16.json", []string{"a", "b"}, "s1.safetensors"},
		"unlisted":                  {map[string]string{"s1.safetensors": "u8 a", "s2.safetensors": "u8 b c", ixName: both}, "", []string{"a", "b", "c"}, "s1.safetensors"},
		"a link inside":             {map[string]string{"blob": "u8 a", "model.safetensors": "-> blob"}, "", []string{"a"}, "model.safetensors"},
		"the hub's cache":           {map[string]string{"blobs/7f": "u8 a", "blobs/80": "u8 b", "blobs/1": both, "snapshots/r/s1.safetensors": "-> ../../blobs/7f", "snapshots/r/s2.safetensors": "-> ../../blobs/80", "snapshots/r/" + ixName: "-> ../../blobs/1"}, "snapshots/r", []string{"a", "b"}, "snapshots/r/s1.safetensors"},
		"a part in the hub's cache": {map[string]string{"blobs/7f": "u8 a", "snapshots/r/vae/model.safetensors": "-> ../../../blobs/7f"}, "snapshots/r/vae", []string{"a"}, "snapshots/r/vae/model.safetensors"},
		"what a writer left":        {map[string]string{".model.safetensors.0.tmp": "u8 z", ".x.safetensors": "u8 z", "m.safetensors": "u8 a"}, "", []string{"a"}, "m.safetensors"},
	} {
		t.Run(name, func(t *testing.T) {
			root := folder(t, t.TempDir(), c.files)
			s, err := OpenFolder(filepath.Join(root, filepath.FromSlash(c.open)))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if !slices.Equal(s.Names(), c.want) || s.Files[0].Path != filepath.Join(root, filepath.FromSlash(c.from)) {
				t.Errorf("%v from %s", s.Names(), s.Files[0].Path)
			}
			if name == "unlisted" && !slices.Equal(s.Unlisted, []string{"c"}) || name == "shards" && (s.Total != 2 || s.Unlisted != nil) {
				t.Errorf("unlisted %v, total %d", s.Unlisted, s.Total)
			}
			for _, n := range s.Names() {
				got, err := s.Tensor(n)
				info, ok := s.Info(n)
				if err != nil || !ok || info.Len() != 1 || string(got.Data) != n {
					t.Errorf("%s: %+v, %v", n, got, err)
				}
				s.Drop(n)
			}
			if _, err := s.Tensor("no"); err == nil || !strings.Contains(err.Error(), "not among the model's tensors") {
				t.Errorf("%v", err)
			}
			if _, ok := s.Info("no"); ok {
				t.Error("information about nothing")
			}
		})
	}
}

func TestOpenFolderRefuses(t *testing.T) {
	index := func(entries string) map[string]string {
		return map[string]string{"in/" + ixName: `{"weight_map":{` + entries + `}}`, "in/s1.safetensors": "u8 a", "in/s2.safetensors": "u8 b", "out.safetensors": "u8 c", "deep/out.safetensors": "u8 c"}
	}
	with := func(files map[string]string, name, text string) map[string]string {
		files[name] = text
		return files
	}
	for want, files := range map[string]map[string]string{
		"no such file":                                    {"x": "x"},
		"no .safetensors file in":                         {"in/config.json": "{}"},
		"only pytorch_model.bin":                          {"in/pytorch_model.bin": "x"},
		"several weights could be":                        {"in/x.safetensors": "u8 a", "in/y.safetensors": "u8 a"},
		"model.safetensors.index.json, model.safetensors": with(index(`"a":"s1.safetensors"`), "in/model.safetensors", "u8 a"),
		"their index is missing":                          {"in/model-00001-of-00002.safetensors": "u8 a", "in/model-00002-of-00002.safetensors": "u8 a"},
		"is one of several shards":                        {"in/model-00002-of-00002.safetensors": "u8 a"},
		`names "../out.safeten`:                           index(`"c":"../out.safetensors"`),
		`names "/out.safeten`:                             index(`"c":"/out.safetensors"`),
		`names "s/../../out.sa`:                           index(`"c":"s/../../out.safetensors"`),
		`names "..\\out.safete`:                           index(`"c":"..\\out.safetensors"`),
		`names "C:\\out.safete`:                           index(`"c":"C:\\out.safetensors"`),
		"is a link to a place out":                        with(index(`"c":"l.safetensors"`), "in/l.safetensors", "-> ../out.safetensors"),
		`"d/out.safetensors" is a link`:                   with(index(`"c":"d/out.safetensors"`), "in/d", "-> ../deep"),
		`"model.safetensors" is a link`:                   {"in/model.safetensors": "-> ../out.safetensors", "out.safetensors": "u8 c"},
		"1 of 2 shards are missing: s3.safetensors":       index(`"a":"s1.safetensors","c":"s3.safetensors"`),
		"4 of 4 shards are missing: p.safetensors, q.safetensors, r.safetensors and 1 more": index(`"a":"p.safetensors","b":"q.safetensors","c":"r.safetensors","d":"s.safetensors"`),
		`"c": listed for s2.safetensors, which does not hold it`:                            index(`"a":"s1.safetensors","b":"s2.safetensors","c":"s2.safetensors"`),
		`"a": listed for s2.safetensors, but it is in s1`:                                   index(`"a":"s2.safetensors","b":"s1.safetensors"`),
		`"a": also in s1.safetensors`:                                                       with(index(`"a":"s1.safetensors","b":"s2.safetensors"`), "in/s2.safetensors", "u8 a b"),
		`"a": listed twice in the index`:                                                    index(`"a":"s1.safetensors","a":"s2.safetensors"`),
		"which is no .safetensors file":                                                     index(`"a":"pytorch_model.bin"`),
		"want the file of a as a string, got 1":                                             index(`"a":1`),
		`"s\x1b[31m.safetensors", which is no name`:                                         index(`"a":"s\u001b[31m.safetensors"`),
		"no weight_map, or an empty one":                                                    index(``),
		"invalid JSON at byte":                                                              {"in/" + ixName: `{"weight_map":{`},
		"want an object, got":                                                               {"in/" + ixName: `[]`},
		`"weight_map" is listed twice`:                                                      {"in/" + ixName: `{"weight_map":{},"weight_map":{}}`},
		"not a regular file":                                                                with(index(`"a":"t.safetensors"`), "in/t.safetensors/x", "x"),
		"s2.safetensors: the header claims":                                                 with(index(`"a":"s1.safetensors","b":"s2.safetensors"`), "in/s2.safetensors", "\x09\x00\x00\x00\x00\x00\x00\x00{}"),
	} {
		t.Run(want, func(t *testing.T) {
			root := folder(t, t.TempDir(), files)
			s, err := OpenFolder(filepath.Join(root, "in"))
			if err == nil {
				s.Close()
				t.Fatalf("opened: %v", s.Names())
			}
			var e *Error
			if !errors.As(err, &e) || e.Hint == "" || !strings.HasPrefix(e.Path, root) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %q", err, want)
			}
		})
	}
}

// A stranger's folder cannot pose as the hub's cache to reach outside it.
func TestFalseHubCache(t *testing.T) {
	root := folder(t, t.TempDir(), map[string]string{
		"secret/model.safetensors":            "u8 a",
		"evil/blobs":                          "-> ../secret",
		"evil/snapshots/r/model.safetensors":  "-> ../../blobs/model.safetensors",
		"evil2/blobs/7f":                      "-> ../../secret/model.safetensors",
		"evil2/snapshots/r/model.safetensors": "-> ../../blobs/7f",
	})
	for _, evil := range []string{"evil", "evil2"} {
		if s, err := OpenFolder(filepath.Join(root, evil, "snapshots", "r")); err == nil {
			s.Close()
			t.Errorf("%s: read outside its folder", evil)
		}
	}
}
