package safetensors

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The output of Python's safetensors 0.8.0 (safetensors.numpy.save) for sample().
const (
	pythonHeader = `{"__metadata__":{"format":"np"},"ids":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},` +
		`"d":{"dtype":"F64","shape":[1],"data_offsets":[24,32]},"b.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[32,56]},` +
		`"empty":{"dtype":"F32","shape":[0,4],"data_offsets":[56,56]},"é\"\\\n":{"dtype":"I32","shape":[2],"data_offsets":[56,64]},` +
		`"a.bias":{"dtype":"F16","shape":[3],"data_offsets":[64,70]},"i16":{"dtype":"I16","shape":[1],"data_offsets":[70,72]},` +
		`"i8":{"dtype":"I8","shape":[1],"data_offsets":[72,73]},"scalar":{"dtype":"U8","shape":[],"data_offsets":[73,74]},` +
		`"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[74,77]}}     `
	pythonData = "000000000000000001000000000000000200000000000000" + "9c7500883ce4377e" +
		"0000803f00000040000040400000804" + "00000a0400000d0c0" + "ffffffff02000000" + "003800c0ff7b" + "fdff" + "fd" + "07" + "010001"
)

func sample(t *testing.T) []Tensor {
	t.Helper()
	data, err := hex.DecodeString(pythonData)
	if err != nil {
		t.Fatal(err)
	}
	return []Tensor{ // in another order than that of the file
		{"mask", BOOL, []int{3}, data[74:77], nil},
		{"scalar", U8, nil, data[73:74], nil},
		{"b.weight", F32, []int{2, 3}, data[32:56], nil},
		{"d", F64, []int{1}, data[24:32], nil},
		{"a.bias", F16, []int{3}, data[64:70], nil},
		{"empty", F32, []int{0, 4}, data[56:56], nil},
		{"i8", I8, []int{1}, data[72:73], nil},
		{"i16", I16, []int{1}, data[70:72], nil},
		{"é\"\\\n", I32, []int{2}, data[56:64], nil},
		{"ids", I64, []int{3}, data[:24], nil},
	}
}

func TestWritesWhatPythonWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := Write(path, sample(t), map[string]string{"format": "np"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := hex.DecodeString(pythonData)
	want := "\x70\x02\x00\x00\x00\x00\x00\x00" + strings.ReplaceAll(pythonHeader, "\n", `\n`) + string(data)
	if string(got) != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestReadsBackWhatItWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	want := sample(t)
	if err := Write(path, want, map[string]string{"b": "2", "a": "<&>"}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Metadata["a"] != "<&>" || f.Metadata["b"] != "2" || len(f.Tensors) != len(want) {
		t.Errorf("metadata %v, %d tensors", f.Metadata, len(f.Tensors))
	}
	for _, w := range want {
		got, err := f.Tensor(w.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.DType != w.DType || !slices.Equal(got.Shape, w.Shape) || string(got.Data) != string(w.Data) {
			t.Errorf("got %+v, want %+v", got, w)
		}
		f.Drop(w.Name)
		if string(got.Data) != string(w.Data) {
			t.Errorf("%s changed when dropped", w.Name)
		}
	}
	if _, err := f.Tensor("no.such"); err == nil || !strings.Contains(err.Error(), `tensor "no.such": not in this file`) {
		t.Errorf("a tensor that is not there: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensor("ids"); err == nil {
		t.Error("a closed file gave a tensor")
	}
	if f.Close() == nil {
		t.Error("closed twice without an error")
	}
	f.Drop("ids")
}

func TestReadAtSourceAgreesWithMapping(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	want := sample(t)
	if err := Write(path, want, nil); err != nil {
		t.Fatal(err)
	}
	osFile, h, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	src := readAt{osFile}
	defer src.close()
	for _, info := range h.Tensors {
		got, err := src.span(info.Offset, info.Bytes)
		i := slices.IndexFunc(want, func(w Tensor) bool { return w.Name == info.Name })
		if err != nil || string(got) != string(want[i].Data) {
			t.Errorf("%s: %x, %v", info.Name, got, err)
		}
		src.drop(info.Offset, info.Bytes)
	}
}

func TestWriteRefuses(t *testing.T) {
	one := []byte{0, 0, 0, 0}
	for want, tensors := range map[string][]Tensor{
		"given twice":                  {{"a", F32, []int{1}, one, nil}, {"a", F32, []int{1}, one, nil}},
		"4 bytes of data, but F32 [2]": {{"a", F32, []int{2}, one, nil}},
		"negative dimension":           {{"a", F32, []int{-1}, one, nil}},
		"more elements than any file":  {{"a", F32, []int{math.MaxInt, math.MaxInt}, one, nil}},
		"not a name":                   {{"__metadata__", F32, []int{1}, one, nil}},
		"no such dtype":                {{"a", 99, []int{1}, one, nil}},
	} {
		folder := t.TempDir()
		err := Write(filepath.Join(folder, "x.safetensors"), tensors, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if left := list(t, folder); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

func TestFailedWriteKeepsTheOldFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a folder of the same name can be replaced differently there")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "x.safetensors")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o777); err != nil { // the rename must fail
		t.Fatal(err)
	}
	if err := Write(path, sample(t), nil); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if left := list(t, folder); !slices.Equal(left, []string{"x.safetensors"}) {
		t.Errorf("left %v", left)
	}
}

func TestWriteFolder(t *testing.T) {
	folder := t.TempDir()
	tensors := sample(t)
	check := func(files ...string) {
		t.Helper()
		if got := list(t, folder); !slices.Equal(got, files) {
			t.Fatalf("got %v, want %v", got, files)
		}
		s, err := OpenFolder(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, w := range tensors {
			got, err := s.Tensor(w.Name)
			if err != nil || string(got.Data) != string(w.Data) {
				t.Errorf("%s: %v, %v", w.Name, got, err)
			}
		}
		if s.Index != "" && s.Total != 77 {
			t.Errorf("total %d", s.Total)
		}
		if len(s.Names()) != len(tensors) || len(s.Unlisted) > 0 || s.Metadata["format"] != "pt" {
			t.Errorf("names %v, unlisted %v, metadata %v", s.Names(), s.Unlisted, s.Metadata)
		}
	}
	write := func(most int64) {
		t.Helper()
		if err := WriteFolder(folder, "model", tensors, map[string]string{"format": "pt"}, most); err != nil {
			t.Fatal(err)
		}
	}
	write(36)
	check("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", "model.safetensors.index.json")
	write(50)
	check("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json")
	for range 2 { // replaced by files of the same names
		write(1000)
		check("model.safetensors")
	}
	write(36)
	if err := WriteFolder(folder, "model", append(tensors, tensors[0]), nil, 36); err == nil {
		t.Error("a tensor given twice was written")
	}
	check("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", "model.safetensors.index.json")
}

// The index has the bytes of json.dumps(index, indent=2, sort_keys=True) + "\n".
func TestIndexIsTheHubs(t *testing.T) {
	folder := t.TempDir()
	tensors := []Tensor{{"b", U8, []int{2}, []byte("xy"), nil}, {"a", U8, []int{2}, []byte("zw"), nil}}
	if err := WriteFolder(folder, "m", tensors, nil, 3); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "m.safetensors.index.json"))
	want := `{
  "metadata": {
    "total_size": 4
  },
  "weight_map": {
    "a": "m-00001-of-00002.safetensors",
    "b": "m-00002-of-00002.safetensors"
  }
}
`
	if err != nil || string(got) != want {
		t.Errorf("got %s %v", got, err)
	}
}

func TestSplitCoversEverythingOnce(t *testing.T) {
	tensors := sample(t)
	for most := int64(0); most < 90; most++ {
		names := map[string]int{}
		for _, shard := range split(tensors, most) {
			total := 0
			for _, x := range shard {
				names[x.Name]++
				total += len(x.Data)
			}
			if int64(total) > most && len(shard) > 1 && len(shard[0].Data) != total {
				t.Errorf("%d bytes in a shard of at most %d", total, most)
			}
		}
		if len(names) != len(tensors) || slices.Max(slices.Collect(maps.Values(names))) != 1 {
			t.Errorf("at most %d: %v", most, names)
		}
	}
}

func list(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestMade: tensors that are made when they are written lie in memory one at a time, and leave the bytes of those
// whose data is there; data of another length is an error.
func TestMade(t *testing.T) {
	var plain, later []Tensor
	asked := 0
	for i := range 5 {
		x := []float32{float32(i), -float32(i)}
		plain = append(plain, FromF32(fmt.Sprint("w.", i), []int{2}, x))
		later = append(later, ReadF32(fmt.Sprint("w.", i), []int{2}, func(to []float32, from int) { asked++; copy(to, x[from:]) }))
	}
	dir := t.TempDir()
	var files [][]byte
	for i, all := range [][]Tensor{plain, later} {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := Write(path, all, nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, data)
	}
	data, err := Bytes(later, nil)
	if err != nil || !bytes.Equal(files[0], files[1]) || !bytes.Equal(files[0], data) || asked != 10 {
		t.Errorf("other bytes where tensors are made, %d times: %v", asked, err)
	}
	short := filepath.Join(dir, "short")
	if err := Write(short, []Tensor{{Name: "w", DType: F32, Shape: []int{3}, Fill: func(to *Sink) error { _, err := to.Write(make([]byte, 4)); return err }}}, nil); err == nil {
		t.Error("data of another length was written")
	}
	if _, err := os.Stat(short); err == nil {
		t.Error("a file was left")
	}
}
