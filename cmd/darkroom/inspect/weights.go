package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// weightsInfo sums up the tensors of a file or of a set of shards.
type weightsInfo struct {
	Files      []string          `json:"files"`
	Index      string            `json:"index,omitempty"`
	Tensors    int               `json:"tensors"`
	Parameters int64             `json:"parameters"` // elements of float tensors
	Bytes      int64             `json:"bytes"`      // of the data
	DTypes     []dtypeInfo       `json:"dtypes"`     // largest first
	Metadata   map[string]string `json:"metadata,omitempty"`
}

type dtypeInfo struct {
	DType    string `json:"dtype"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

type tensorInfo struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Bytes int64  `json:"bytes"`
	File  string `json:"file,omitempty"` // where there are several
}

// readWeights reads the headers of the weights at path: a file, an index or a folder.
func (in *Document) readWeights(path string, tensors bool) error {
	if quant.IsGGUF(path) {
		return in.readGGUF(path, tensors)
	}
	set, err := safetensors.OpenFolder(path)
	if err != nil {
		return err
	}
	defer func() { _ = set.Close() }() // it was only read
	sum := &weightsInfo{Index: filepath.Base(set.Index), Metadata: set.Metadata}
	if set.Index == "" {
		sum.Index = ""
	}
	for _, f := range set.Files {
		file := filepath.Base(f.Path)
		sum.Files = append(sum.Files, file)
		if set.Index == "" {
			file = ""
		}
		for _, t := range f.Tensors {
			sum.count(dtypeInfo{t.DType.String(), 1, int64(t.Len()), t.Bytes})
			if tensors {
				in.Tensors = append(in.Tensors, tensorInfo{t.Name, t.DType.String(), t.Shape, t.Bytes, file})
			}
		}
	}
	slices.SortFunc(in.Tensors, func(a, b tensorInfo) int { return naturalOrder(a.Name, b.Name) })
	in.Weights = sum
	in.Notes = append(in.Notes, weightNotes(sum, set)...)
	return nil
}

// readGGUF reads the header of llama.cpp's format. Of its metadata, lists and long texts (a tokenizer's) have their
// lengths.
func (in *Document) readGGUF(path string, tensors bool) (err error) {
	g, err := quant.OpenGGUF(path)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }() // it was only read
	sum := &weightsInfo{Files: []string{filepath.Base(path)}, Metadata: map[string]string{}}
	for key, v := range g.Metadata {
		text := fmt.Sprint(v)
		if list, ok := v.([]any); ok {
			text = console.Plural(int64(len(list)), "value")
		} else if len(text) > longest {
			text = console.Plural(int64(len(text)), "byte")
		}
		sum.Metadata[key] = text
	}
	encoder := false
	for _, name := range g.Names() {
		encoder = encoder || strings.HasPrefix(name, "enc.blk.")
		shape, form, bytes := g.Stored(name)
		n := int64(1)
		for _, side := range shape {
			n *= int64(side)
		}
		sum.count(dtypeInfo{form.String(), 1, n, bytes})
		if tensors {
			in.Tensors = append(in.Tensors, tensorInfo{Name: name, DType: form.String(), Shape: shape, Bytes: bytes})
		}
	}
	slices.SortFunc(in.Tensors, func(a, b tensorInfo) int { return naturalOrder(a.Name, b.Name) })
	in.Weights = sum
	use := "a transformer in GGUF is model.path (--model), beside model.base (--base), the folder of its pipeline"
	if encoder {
		use = "an encoder of T5 or UMT5 in GGUF is read in its folder of the pipeline, without other weights beside it"
	}
	in.Notes = append(in.Notes, use)
	return nil
}

// longest is the length of a file's own text that is printed whole, in bytes.
const longest = 200

// count adds tensors of one dtype.
func (s *weightsInfo) count(d dtypeInfo) {
	i := slices.IndexFunc(s.DTypes, func(x dtypeInfo) bool { return x.DType == d.DType })
	if i < 0 {
		i = len(s.DTypes)
		s.DTypes = append(s.DTypes, dtypeInfo{DType: d.DType})
	}
	s.DTypes[i].Tensors += d.Tensors
	s.DTypes[i].Elements += d.Elements
	s.DTypes[i].Bytes += d.Bytes
	s.Tensors += d.Tensors
	s.Bytes += d.Bytes
	if isFloat(d.DType) {
		s.Parameters += d.Elements
	}
	slices.SortStableFunc(s.DTypes, func(a, b dtypeInfo) int { return -cmp.Compare(a.Bytes, b.Bytes) })
}

// isFloat reports whether a type's elements are parameters: floats, and compressed ones of GGUF.
func isFloat(dtype string) bool {
	_, packed := quant.FormNamed(dtype)
	return packed || strings.HasPrefix(dtype, "F")
}

// sum adds up a pipeline's parts.
func (in *Document) sum() *weightsInfo {
	total := &weightsInfo{}
	for _, p := range in.Parts {
		if p.Weights == nil {
			continue
		}
		for _, d := range p.Weights.DTypes {
			total.count(d)
		}
		total.Files = append(total.Files, p.Weights.Files...)
	}
	return total
}

// weightNotes describes the trainer's treatment of unusual weights, and oddities.
func weightNotes(s *weightsInfo, set *safetensors.Set) []string {
	var notes []string
	for _, d := range s.DTypes {
		switch d.DType {
		case "F32", "BF16", "BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64":
		case "F16", "F64", "F8_E4M3", "F8_E5M2":
			notes = append(notes, fmt.Sprintf("%s weights become bf16 (rounded) or f32 when they are loaded, as model.precision says", d.DType))
		default:
			notes = append(notes, fmt.Sprintf("%s tensors can be listed, but not used", d.DType))
		}
	}
	if set.Total != 0 && set.Total != s.Bytes {
		notes = append(notes, fmt.Sprintf("the index claims %s of data, the shards hold %s", console.Bytes(set.Total), console.Bytes(s.Bytes)))
	}
	if n := len(set.Unlisted); n > 0 {
		notes = append(notes, fmt.Sprintf("%s in the shards, but not in the index: %s, ...", console.Plural(int64(n), "tensor"), console.Printable(set.Unlisted[0])))
	}
	return notes
}

// dtypes names the dtypes of the weights that count, largest first.
func (s *weightsInfo) dtypes() string {
	var names []string
	for _, d := range s.DTypes {
		if isFloat(d.DType) || s.Parameters == 0 {
			names = append(names, d.DType)
		}
	}
	return strings.Join(names, "+")
}

// where says which files hold the weights.
func (s *weightsInfo) where() string {
	if s.Index != "" {
		return fmt.Sprintf("%s of %s", console.Plural(int64(len(s.Files)), "shard"), s.Index)
	}
	return s.Files[0]
}

func (s *weightsInfo) write(w io.Writer) {
	t := console.Table{Header: []string{"DTYPE", ">TENSORS", ">ELEMENTS", ">SIZE"}}
	for _, d := range s.DTypes {
		t.Add(d.DType, console.Commas(int64(d.Tensors)), console.Commas(d.Elements), console.Bytes(d.Bytes))
	}
	if len(s.DTypes) != 1 {
		elements := int64(0)
		for _, d := range s.DTypes {
			elements += d.Elements
		}
		t.Add("total", console.Commas(int64(s.Tensors)), console.Commas(elements), console.Bytes(s.Bytes))
	}
	t.Write(w)
	t = console.Table{}
	t.Add("weights", console.Printable(s.where()))
	label := "metadata"
	for _, k := range slices.Sorted(maps.Keys(s.Metadata)) {
		t.Add(label, console.Printable(k)+" = "+console.Printable(s.Metadata[k]))
		label = ""
	}
	fmt.Fprintln(w)
	t.Write(w)
}

func (in *Document) writeTensors(w io.Writer) {
	t := console.Table{Header: []string{"TENSOR", "DTYPE", "SHAPE", ">SIZE"}}
	for _, x := range in.Tensors {
		row := []string{console.Printable(x.Name), x.DType, shapeText(x.Shape), console.Bytes(x.Bytes)}
		if x.File != "" {
			if len(t.Header) == len(row) {
				t.Header = append(t.Header, "FILE")
			}
			row = append(row, console.Printable(x.File))
		}
		t.Add(row...)
	}
	t.Write(w)
}

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	var dims []string
	for _, d := range shape {
		dims = append(dims, strconv.Itoa(d))
	}
	return strings.Join(dims, "×")
}

// naturalOrder puts blocks.2 before blocks.10.
func naturalOrder(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return slices.CompareFunc(x, y, func(p, q string) int {
		m, err1 := strconv.Atoi(p)
		n, err2 := strconv.Atoi(q)
		if err1 == nil && err2 == nil {
			return cmp.Or(cmp.Compare(m, n), cmp.Compare(p, q))
		}
		return cmp.Compare(p, q)
	})
}
