package torchfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// saved is an archive as torch.save writes it.
func saved(t testing.TB, pickle []byte, method uint16, data map[string][]byte) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	put := func(name string, b []byte) {
		p, err := w.CreateHeader(&zip.FileHeader{Name: "model/" + name, Method: method})
		if err == nil {
			_, err = p.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("data.pkl", pickle)
	for name, b := range data {
		put(name, b)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.pth")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func floats(x ...float32) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// text is a pickle's text.
func text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// tensor is a tensor's place: numbers of a storage from first on, two by two by strides.
func tensor(key string, numbers, first, rows, cols, down, right byte) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text(key) + text("cpu") + "K" + string(numbers) + "tQ" +
		"K" + string(first) + "K" + string(rows) + "K" + string(cols) + "\x86" + "K" + string(down) + "K" + string(right) + "\x86" + "\x89" + "ccollections\nOrderedDict\n)RtR"
}

const begin = "\x80\x02ccollections\nOrderedDict\n)Rq\x00("

// TestFile: tensors of a state dict. Some do not lie row by row in their storage.
func TestFile(t *testing.T) {
	path := saved(t, []byte(begin+text("a.weight")+tensor("0", 7, 1, 2, 3, 3, 1)+text("turned")+tensor("0", 7, 1, 3, 2, 1, 3)+
		text("spread")+tensor("0", 7, 1, 2, 3, 5, 0)+"u}"+text("_metadata")+"h\x00sb."),
		zip.Store, map[string][]byte{"data/0": floats(9, 1, 2, 3, 4, 5, 6), "byteorder": []byte("little")})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if names := f.Names(); !slices.Equal(names, []string{"a.weight", "spread", "turned"}) {
		t.Errorf("%q", names)
	}
	for name, want := range map[string][]float32{"a.weight": {1, 2, 3, 4, 5, 6}, "turned": {1, 4, 2, 5, 3, 6},
		"spread": {1, 1, 1, 6, 6, 6}} {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.Float32(nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := f.Tensor("b"); err == nil {
		t.Error("a tensor that is not there was read")
	}
}

// TestTrainersCheckpoint: of {"epoch", "best", "state_dict", "optimizer", "names"} by torch.save the state dict is
// read. The optimizer's keys are numbers, and it has lists.
func TestTrainersCheckpoint(t *testing.T) {
	f, err := Open("testdata/trainer.pth")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if names := f.Names(); !slices.Equal(names, []string{"bias", "weight"}) {
		t.Errorf("%q", names)
	}
	x, err := f.Tensor("weight")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := x.Float32(nil); err != nil || !slices.Equal(x.Shape, []int{2, 3}) || len(got) != 6 || math.Abs(float64(got[1])-0.3087) > 1e-4 {
		t.Errorf("%v, %v, %v", x.Shape, got, err)
	}
}

// TestRefused: another value than a state dict is refused by name, and nothing is called.
func TestRefused(t *testing.T) {
	data := map[string][]byte{"data/0": floats(1, 2, 3, 4)}
	for want, pickle := range map[string]string{
		"asks for os.system":         "\x80\x02cos\nsystem\n" + text("true") + "\x85R.",
		"asks for builtins.eval":     "\x80\x02cbuiltins\neval\n" + text("1") + "\x85R.",
		"protocol 4":                 "\x80\x04.",
		"ends in the middle":         "\x80\x02X\xff\xff\xff\x00a",
		"empty stack":                "\x80\x02R.",
		"instruction 0x93":           "\x80\x02\x93.",
		"remembers nothing":          "\x80\x02h\x05.",
		"no state dict":              "\x80\x02K\x01.",
		"no storage":                 "\x80\x02K\x01Q.",
		"no mark":                    "\x80\x02t.",
		"what is no tensor":          "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
		"calls a []interface":        "\x80\x02K\x01q\x00" + strings.Repeat("h\x00h\x00\x86q\x00", 60) + ")R.", // 2^60 numbers
		"appends to what is no list": "\x80\x02}K\x01a.",
		"pairs into what is no dict": "\x80\x02K\x01K\x01K\x02s.",
	} {
		if _, err := Open(saved(t, []byte(pickle), zip.Store, data)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := Open(saved(t, []byte(begin+"u."), zip.Deflate, data)); err == nil || !strings.Contains(err.Error(), "is compressed") {
		t.Errorf("compressed: %v", err)
	}
	for want, place := range map[string]string{
		"in 4 numbers":     tensor("0", 4, 3, 2, 2, 2, 1),
		"a shape of":       tensor("0", 4, 0, 5, 2, 0, 0),
		"is not 12 bytes":  tensor("0", 3, 0, 1, 1, 1, 1),
		"is not 16 bytes":  tensor("1", 4, 0, 2, 2, 2, 1),
		"by strides [9 1]": tensor("0", 4, 0, 1, 5, 9, 1),
	} {
		f, err := Open(saved(t, []byte(begin+text("w")+place+"u."), zip.Store, data))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Tensor("w"); err == nil || !strings.Contains(err.Error(), want) && want != "by strides [9 1]" {
			t.Errorf("%s: %v", want, err)
		}
		f.Close()
	}
}

// FuzzParse: no text makes the machine panic, or work longer than the text is.
func FuzzParse(f *testing.F) {
	f.Add([]byte(begin + text("a.weight") + tensor("0", 7, 1, 2, 3, 3, 1) + "u."))
	f.Add([]byte("\x80\x02]q\x01(K\x01\x8a\x02\x00\x01J\xff\xff\xff\xffe."))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parse(b); err == nil {
			if d, ok := v.(*dict); ok && len(d.keys) != len(d.values) {
				t.Error("keys are lost")
			}
		}
	})
}
