package quant

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// array is an array of a recorded case, or a number.
type array struct {
	Shape []int     `json:"shape"`
	Data  []float64 `json:"data"`
}

func (a *array) UnmarshalJSON(text []byte) error {
	type plain array
	if text[0] != '{' {
		a.Data = make([]float64, 1)
		return json.Unmarshal(text, &a.Data[0])
	}
	return json.Unmarshal(text, (*plain)(a))
}

// recorded is a case.
type recorded struct {
	t       *testing.T
	Name    string                     `json:"name"`
	Op      string                     `json:"op"`
	In, Out map[string]json.RawMessage `json:"-"`
}

func cases(t *testing.T, file string) []recorded {
	t.Helper()
	packed, err := os.Open(compressed + file + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	var family struct {
		Cases []struct {
			Name, Op string
			In, Out  map[string]json.RawMessage
		}
	}
	if err := json.NewDecoder(text).Decode(&family); err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for _, c := range family.Cases {
		all = append(all, recorded{t, c.Name, c.Op, c.In, c.Out})
	}
	return all
}

func read[T any](c recorded, key string) (v T) {
	c.t.Helper()
	text, ok := c.In[key]
	if !ok {
		text, ok = c.Out[key]
	}
	if !ok {
		return v
	}
	if err := json.Unmarshal(text, &v); err != nil {
		c.t.Fatalf("%s %s: %s: %v", c.Op, c.Name, key, err)
	}
	return v
}

var dtypes = map[string]safetensors.DType{"float32": safetensors.F32, "bfloat16": safetensors.BF16, "float16": safetensors.F16,
	"float8_e4m3fn": safetensors.F8E4M3, "float8_e5m2": safetensors.F8E5M2}

// floats are values by their bits.
func (c recorded) floats(key, dtype string) []float32 {
	c.t.Helper()
	var out []float32
	for _, b := range read[array](c, key).Data {
		switch dtype {
		case "bfloat16":
			out = append(out, safetensors.FromBF16(uint16(b)))
		case "float16":
			out = append(out, safetensors.FromF16(uint16(b)))
		default:
			out = append(out, math.Float32frombits(uint32(b)))
		}
	}
	return out
}

func (c recorded) bytes(key string) []byte {
	c.t.Helper()
	var out []byte
	for _, b := range read[array](c, key).Data {
		out = append(out, byte(int(b)))
	}
	return out
}

func (c recorded) columns(key string) int {
	c.t.Helper()
	shape := read[array](c, key).Shape
	return shape[len(shape)-1]
}

// same compares bits of values, in each precision that the case has.
func (c recorded) same(key string, got []float32) {
	c.t.Helper()
	dtype := map[string]string{"bf16_bits": "bfloat16", "f16_bits": "float16"}[key]
	want := read[array](c, key).Data
	if len(got) != len(want) {
		c.t.Errorf("%s %s: %s: %d values, want %d", c.Op, c.Name, key, len(got), len(want))
		return
	}
	for i, v := range got {
		bits := uint32(0)
		switch dtype {
		case "bfloat16":
			bits = uint32(safetensors.ToBF16(v))
		case "float16":
			bits = uint32(safetensors.ToF16(v))
		default:
			bits = math.Float32bits(v)
		}
		if bits != uint32(want[i]) {
			c.t.Errorf("%s %s: %s[%d] is %#x (%v), want %#x", c.Op, c.Name, key, i, bits, v, uint32(want[i]))
			return
		}
	}
}

// values compares unpacked values with all precisions that are recorded.
func (c recorded) values(w Weight, n int) {
	c.t.Helper()
	got := make([]float32, n)
	w.Unpack(got, 0)
	for _, key := range []string{"f32_bits", "bf16_bits", "f16_bits"} {
		if _, ok := c.Out[key]; ok {
			c.same(key, got)
		}
	}
	c.unpacked(w, got)
	at := n / 3 / w.Grain() * w.Grain() // any part
	part := make([]float32, (n-at)/2/w.Grain()*w.Grain())
	w.Unpack(part, at)
	for i, v := range part {
		if math.Float32bits(v) != math.Float32bits(got[at+i]) {
			c.t.Fatalf("%s %s: value %d is %v in a part, and %v in all", c.Op, c.Name, at+i, v, got[at+i])
		}
	}
}

// unpacked compares values with those that backends unpack, in each precision.
func (c recorded) unpacked(w Weight, want []float32) {
	c.t.Helper()
	columns := len(want)
	switch w := w.(type) {
	case Float8:
		columns = cmp.Or(w.Scale.Columns, columns)
	case Int8:
		columns = cmp.Or(w.Scale.Columns, columns)
	}
	codes, err := CodesOf(w, len(want)/columns, columns)
	s, isShifted := w.(Shifted4)
	b, isBlocks := w.(Blocks)
	if isShifted && s.DType != safetensors.F32 || isBlocks && (b.Form == BF16 || b.Form == F16 || b.Form == F32) {
		if err == nil {
			c.t.Errorf("%s %s: it has codes, and its values are no product or difference of them", c.Op, c.Name)
		}
		return
	}
	if err != nil {
		c.t.Errorf("%s %s: %v", c.Op, c.Name, err)
		return
	}
	be := ref.Backend{}
	buf := be.Alloc(64 + codes.Size())
	codes.Write(buf.Host[64:])
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
		dst := kernels.NewMat(kernels.Span{Buf: be.Alloc(len(want) * d.Size()), Len: len(want), DType: d}, codes.Rows, codes.Columns)
		be.Unpack(codes.In(buf, 64, dst))
		m := Matrix{DType: map[kernels.DType]safetensors.DType{kernels.F32: safetensors.F32, kernels.BF16: safetensors.BF16, kernels.F16: safetensors.F16}[d]}
		same := make([]byte, len(want)*d.Size())
		if m.store(same, want); !bytes.Equal(dst.Raw(), same) {
			c.t.Errorf("%s %s: a backend unpacks other values in %s", c.Op, c.Name, d)
		}
	}
}

func (c recorded) codes(key string, got []byte) {
	c.t.Helper()
	if want := c.bytes(key); !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				c.t.Errorf("%s %s: %s[%d] is %d, want %d", c.Op, c.Name, key, i, got[i], want[i])
				return
			}
		}
		c.t.Errorf("%s %s: %s: %d bytes, want %d", c.Op, c.Name, key, len(got), len(want))
	}
}

// unsigned are the bytes of signed codes.
func unsigned(codes []int8) []byte {
	var out []byte
	for _, q := range codes {
		out = append(out, byte(q))
	}
	return out
}

func tableOf(kind string) [16]float32 {
	if kind == "fp4" {
		return FP4()
	}
	return NF4()
}

func TestBitsandbytes(t *testing.T) {
	for _, c := range cases(t, "bnb.json") {
		kind, block := read[string](c, "quant_type"), read[int](c, "blocksize")
		bits := Bits4{Table: tableOf(kind), Block: block, Codes: c.bytes("packed"), Absmax: c.floats("absmax_bits", "float32")}
		n := 1
		if s, ok := c.In["shape"]; ok {
			var shape []int
			if err := json.Unmarshal(s, &shape); err != nil {
				t.Fatal(err)
			}
			for _, side := range shape {
				n *= side
			}
		}
		nested := Nested{Codes: c.bytes("absmax_u8"), Scales: c.floats("nested_absmax_bits", "float32"), Table: c.floats("nested_map_bits", "float32"), Block: 256}
		if o := c.floats("nested_offset_bits", "float32"); len(o) == 1 {
			nested.Offset = o[0]
		}
		switch c.Op {
		case "quant.bnb4_table":
			if kind == "dynamic" {
				c.same("map_bits", Dynamic())
				break
			}
			table := tableOf(kind)
			c.same("map_bits", table[:])
			c.codes("order", Order(table))
			c.same("bounds_bits", Bounds(table))
		case "quant.bnb4_dequant":
			c.values(bits, n)
		case "quant.bnb4_dequant_nested":
			c.same("absmax_bits", nested.Absmax())
			bits.Absmax = nested.Absmax()
			c.values(bits, n)
		case "quant.bnb4_nested_absmax":
			nested.Table = Dynamic()
			c.same("absmax_bits", nested.Absmax())
		case "quant.bnb4_quantize":
			w := Quantize4(c.floats("w_bits", read[string](c, "dtype")), tableOf(kind), block)
			c.codes("packed", w.Codes)
			c.same("absmax_bits", w.Absmax)
		case "quant.bnb4_offset":
			if got, want := Offset(c.floats("absmax_bits", "float32")), read[float64](c, "offset"); math.Abs(float64(got)-want) > 4e-7*math.Abs(want) {
				t.Errorf("%s %s: %v, want %v", c.Op, c.Name, got, want)
			}
		case "quant.bnb4_double":
			w := QuantizeNested(c.floats("absmax_bits", "float32"), c.floats("offset_bits", "float32")[0], block)
			c.codes("codes", w.Codes)
			c.same("nested_absmax_bits", w.Scales)
		case "quant.bnb4_state":
			c.saved()
		case "quant.bnb8_quantize":
			w := QuantizeLLMInt8(c.floats("w_bits", read[string](c, "dtype")), c.columns("w_bits"))
			c.codes("q", w.Codes)
			c.same("SCB_bits", w.Scale.Scales)
		case "quant.bnb8_dequant":
			q := c.bytes("q")
			c.values(LLMInt8(q, c.floats("SCB_bits", "float32")), len(q))
		default:
			t.Errorf("no test of %s", c.Op)
		}
	}
}

// saved holds a saved matrix, its state and the state's text.
func (c recorded) saved() {
	var tensors map[string]struct {
		DType string
		Shape []int
		Map   string
		Bytes array
	}
	if err := json.Unmarshal(c.In["tensors"], &tensors); err != nil {
		c.t.Fatal(err)
	}
	names := map[string]safetensors.DType{"uint8": safetensors.U8, "float32": safetensors.F32, "bfloat16": safetensors.BF16, "float16": safetensors.F16}
	w, s, err := Saved4("x.weight", func(suffix string) (safetensors.Tensor, bool) {
		saved, ok := tensors["weight"+suffix]
		if !ok {
			return safetensors.Tensor{}, false
		}
		t := safetensors.Tensor{Name: suffix, DType: names[saved.DType], Shape: saved.Shape}
		switch {
		case saved.Map == "dynamic":
			return safetensors.FromF32(suffix, []int{256}, Dynamic()), true
		case saved.Map != "":
			table := tableOf(saved.Map)
			return safetensors.FromF32(suffix, []int{16}, table[:]), true
		}
		for _, b := range saved.Bytes.Data {
			t.Data = append(t.Data, byte(b))
		}
		return t, true
	})
	if err != nil {
		c.t.Errorf("%s: %v", c.Name, err)
		return
	}
	if want := read[string](c, "json"); s.Text() != want {
		c.t.Errorf("%s: %s, want %s", c.Name, s.Text(), want)
	}
	c.same("absmax_bits", w.Absmax)
	n := 1
	for _, side := range s.Shape {
		n *= side
	}
	c.values(w, n)
}

func TestFloat8(t *testing.T) {
	for _, c := range cases(t, "fp8.json") {
		form, d := dtypes[read[string](c, "format")], dtypes[read[string](c, "dtype")]
		values := c.floats("w_bits", read[string](c, "dtype"))
		switch c.Op {
		case "quant.fp8_table":
			got, want := []float32{}, read[array](c, "nan").Data
			for i, b := range c.bytes("bytes") {
				v := safetensors.FromF8(form, b)
				if (v != v) != (want[i] == 1) {
					t.Errorf("%s: byte %d is %v", c.Name, b, v)
				}
				if v != v {
					v = 0
				}
				got = append(got, v)
			}
			c.same("f32_bits", got)
		case "quant.fp8_cast":
			var saturated, plain []byte
			for _, v := range c.floats("x_bits", read[string](c, "dtype")) {
				saturated, plain = append(saturated, Cast8(form, v)), append(plain, CastInfinite8(v))
			}
			c.codes("saturated", saturated)
			if _, ok := c.Out["plain"]; ok {
				c.codes("plain", plain)
			}
		case "quant.fp8_comfy_quantize":
			w := QuantizeComfy8(form, values, c.columns("w_bits"), d)
			c.codes("bytes_cuda", w.Codes)
			c.same("scale_bits", w.Scale.Scales)
		case "quant.fp8_comfy_dequant":
			b := c.bytes("bytes")
			c.values(Float8{Form: form, Codes: b, Scale: Whole(c.floats("scale_bits", "float32")[0])}, len(b))
		case "quant.fp8_torchao":
			g := Grid{Columns: c.columns("w_bits")}
			switch read[string](c, "kind") {
			case "row":
				g.Rows = 1
			case "group":
				g.Rows, g.Across = 1, 32
			}
			w := QuantizeTorchao8(values, g, d)
			c.codes("bytes", w.Codes)
			c.same("scale_bits", w.Scale.Scales)
			c.values(w, len(values))
		case "quant.fp8_musubi":
			g := Grid{Columns: c.columns("w_bits")}
			switch n := read[int](c, "block_size"); {
			case read[string](c, "mode") == "block" && g.Columns%n == 0:
				g.Rows, g.Across = 1, n
			case read[string](c, "mode") != "tensor":
				g.Rows = 1
			}
			w := QuantizeMusubi8(form, values, g, d)
			c.codes("bytes", w.Codes)
			c.same("scale_f32_bits", w.Scale.Scales)
			c.values(w, len(values))
		case "quant.fp8_block":
			size := read[[]int](c, "block_size")
			power := read[string](c, "scale_fmt") == "ue8m0"
			w := QuantizeBlock8(values, Grid{Columns: c.columns("w_bits"), Rows: size[0], Across: size[1]}, power)
			c.codes("bytes", w.Codes)
			if power {
				var exponents []byte
				for _, s := range w.Scale.Scales {
					exponents = append(exponents, byte(math.Float32bits(s)>>23))
				}
				c.codes("scale_inv_u8", exponents)
			} else {
				c.same("scale_inv_bits", w.Scale.Scales)
			}
			c.values(w, len(values))
		default:
			t.Errorf("no test of %s", c.Op)
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, c := range cases(t, "int.json") {
		dtype := read[string](c, "dtype")
		values, columns, d := c.floats("w_bits", dtype), c.columns("w_bits"), dtypes[dtype]
		var w Weight
		var codes []byte
		var scales []float32
		switch c.Op {
		case "quant.int8_torchao":
			q := QuantizeTorchao(values, columns, d)
			w, codes, scales = q, q.Codes, q.Scale.Scales
		case "quant.int8_quanto":
			q := QuantizeQuanto(values, columns, d)
			w, codes, scales = q, q.Codes, q.Scale.Scales
		case "quant.int8_comfy":
			q := QuantizeComfy(values, columns, d, read[bool](c, "per_row"))
			w, codes, scales = q, q.Codes, q.Scale.Scales
		case "quant.int4_torchao":
			q := QuantizeTorchao4(values, columns, read[int](c, "group"), d)
			w, codes, scales = q, q.Codes, q.Scale.Scales
		case "quant.int4_quanto":
			q := QuantizeQuanto4(values, read[int](c, "group"), d)
			w, codes, scales = q, unsigned(q.Codes), q.Scales
			c.codes("packed", q.Packed())
			if want := c.floats("shift_bits", dtype); !slices.Equal(q.Shift, want) {
				t.Errorf("%s %s: shifts %v, want %v", c.Op, c.Name, q.Shift, want)
			}
		default:
			t.Errorf("no test of %s", c.Op)
			continue
		}
		c.codes("q", codes)
		kept := "float32"
		if strings.HasSuffix(c.Op, "quanto") || c.Op == "quant.int4_torchao" {
			kept = dtype
		}
		if want := c.floats("scale_bits", kept); !slices.Equal(scales, want) {
			t.Errorf("%s %s: scales %v, want %v", c.Op, c.Name, scales, want)
		}
		c.values(w, len(values))
	}
}

func TestGGUF(t *testing.T) {
	for _, c := range cases(t, "gguf.json") {
		form, ok := FormNamed(read[string](c, "type"))
		if !ok {
			t.Fatalf("%s: no type %s", c.Name, read[string](c, "type"))
		}
		switch c.Op {
		case "quant.gguf_dequant":
			b := Blocks{Form: form, Data: c.bytes("blocks")}
			values, size := form.Block()
			c.values(b, len(b.Data)/size*values)
		case "quant.gguf_quantize":
			values := c.floats("w_bits", "float32")
			w, err := QuantizeGGUF(values, form)
			if err != nil {
				t.Fatal(err)
			}
			c.codes("bytes", w.Data)
			c.values(w, len(values))
		default:
			t.Errorf("no test of %s", c.Op)
		}
	}
}

// TestSaved4: a matrix that is not whole is refused with its name.
func TestSaved4(t *testing.T) {
	state := func(text string) map[string]safetensors.Tensor {
		return map[string]safetensors.Tensor{".quant_state.bitsandbytes__nf4": {DType: safetensors.U8, Shape: []int{len(text)}, Data: []byte(text)}}
	}
	whole := `{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4, 64]}`
	for name, tensors := range map[string]map[string]safetensors.Tensor{
		"no state of bitsandbytes":           {},
		"the state of bitsandbytes":          state("{"),
		`its state says "fp4"`:               state(`{"quant_type": "fp4"}`),
		"the shape [0 4]":                    state(`{"quant_type": "nf4", "blocksize": 64, "shape": [0, 4]}`),
		"the shape [9007199254740993 4096]":  state(`{"quant_type": "nf4", "blocksize": 64, "shape": [9007199254740993, 4096]}`),
		"blocks of 0 values":                 state(`{"quant_type": "nf4", "shape": [4, 4]}`),
		"0 bytes of codes for the shape [4 ": state(whole),
	} {
		_, _, err := Saved4("x.weight", func(suffix string) (safetensors.Tensor, bool) { t, ok := tensors[suffix]; return t, ok })
		if err == nil || !strings.Contains(err.Error(), "x.weight: "+name) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
