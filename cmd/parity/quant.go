package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

var quantOps = map[string]Op{
	// bitsandbytes, 4 and 8 bits.
	"quant.bnb4_table": func(c *Case) {
		if kind := c.String("quant_type"); kind == "dynamic" {
			c.Put("map_bits", bitsOf(safetensors.F32, quant.Dynamic()))
		} else {
			table := tables[kind]()
			c.Put("map_bits", bitsOf(safetensors.F32, table[:]), "bounds_bits", bitsOf(safetensors.F32, quant.Bounds(table)), "order", wholes(quant.Order(table)))
		}
	},
	"quant.bnb4_dequant": func(c *Case) { c.precisions(bits4(c, valuesOf(c, "absmax_bits", safetensors.F32)), c.Ints("shape")) },
	"quant.bnb4_dequant_nested": func(c *Case) {
		absmax := nested(c, valuesOf(c, "nested_map_bits", safetensors.F32)).Absmax()
		c.Put("absmax_bits", bitsOf(safetensors.F32, absmax))
		c.precisions(bits4(c, absmax), c.Ints("shape"))
	},
	"quant.bnb4_nested_absmax": func(c *Case) { c.Put("absmax_bits", bitsOf(safetensors.F32, nested(c, quant.Dynamic()).Absmax())) },
	"quant.bnb4_quantize": func(c *Case) {
		w := quant.Quantize4(valuesOf(c, "w_bits", dtypeOf(c)), tables[c.String("quant_type")](), c.Int("blocksize"))
		c.Put("packed", wholes(w.Codes), "absmax_bits", bitsOf(safetensors.F32, w.Absmax))
	},
	"quant.bnb4_offset": func(c *Case) { c.Put("offset", float64(quant.Offset(valuesOf(c, "absmax_bits", safetensors.F32)))) },
	"quant.bnb4_double": func(c *Case) {
		w := quant.QuantizeNested(valuesOf(c, "absmax_bits", safetensors.F32), math.Float32frombits(uint32(c.Int("offset_bits"))), c.Int("blocksize"))
		c.LeavesOut("codes_nearest") // of bitsandbytes on CUDA
		c.Put("codes", wholes(w.Codes), "nested_absmax_bits", bitsOf(safetensors.F32, w.Scales))
	},
	"quant.bnb4_state": savedState,
	"quant.bnb8_quantize": func(c *Case) {
		w := quant.QuantizeLLMInt8(valuesOf(c, "w_bits", dtypeOf(c)), columnsOf(c, "w_bits"))
		c.Put("q", signed(w.Codes, c.Array("w_bits").Shape), "SCB_bits", bitsOf(safetensors.F32, w.Scale.Scales))
	},
	"quant.bnb8_dequant": func(c *Case) {
		c.LeavesOut("matmul_bf16_bits") // the other association of its products
		c.precisions(quant.LLMInt8(codesOf(c, "q"), valuesOf(c, "SCB_bits", safetensors.F32)), c.Array("q").Shape)
	},

	// FP8.
	"quant.fp8_table": func(c *Case) {
		var values, nan []float64
		for _, b := range codesOf(c, "bytes") {
			v := safetensors.FromF8(dtypes[c.String("format")], b)
			if v != v {
				values, nan = append(values, 0), append(nan, 1)
			} else {
				values, nan = append(values, float64(math.Float32bits(v))), append(nan, 0)
			}
		}
		c.Put("f32_bits", values, "nan", nan)
	},
	"quant.fp8_cast": func(c *Case) {
		form := dtypes[c.String("format")]
		var saturated, plain []byte
		for _, v := range valuesOf(c, "x_bits", dtypeOf(c)) {
			saturated, plain = append(saturated, quant.Cast8(form, v)), append(plain, quant.CastInfinite8(v))
		}
		c.Put("saturated", wholes(saturated))
		if form == safetensors.F8E5M2 {
			c.Put("plain", wholes(plain))
		}
	},
	"quant.fp8_comfy_quantize": func(c *Case) {
		w := quant.QuantizeComfy8(dtypes[c.String("format")], valuesOf(c, "w_bits", dtypeOf(c)), columnsOf(c, "w_bits"), dtypeOf(c))
		c.LeavesOut("bytes") // of the eager form, which rounds twice more
		c.Put("scale_bits", float64(math.Float32bits(w.Scale.Scales[0])), "bytes_cuda", Array{c.Array("w_bits").Shape, wholes(w.Codes)})
	},
	"quant.fp8_comfy_dequant": func(c *Case) {
		w := quant.Float8{Form: dtypes[c.String("format")], Codes: codesOf(c, "bytes"), Scale: quant.Whole(math.Float32frombits(uint32(c.Int("scale_bits"))))}
		c.LeavesOut("bf16_scale_rounded_bits", "f16_scale_rounded_bits", "f32_scale_rounded_bits") // with the scale in 16 bits
		c.precisions(w, c.Array("bytes").Shape)
	},
	"quant.fp8_torchao": func(c *Case) {
		g := quant.Grid{Columns: columnsOf(c, "w_bits")}
		switch c.String("kind") {
		case "row":
			g.Rows = 1
		case "group":
			g.Rows, g.Across = 1, 32
		}
		c.float8(quant.QuantizeTorchao8(valuesOf(c, "w_bits", dtypeOf(c)), g, dtypeOf(c)), "scale_bits")
	},
	"quant.fp8_musubi": func(c *Case) {
		g, block := quant.Grid{Columns: columnsOf(c, "w_bits")}, c.Int("block_size")
		switch mode := c.String("mode"); {
		case mode == "block" && g.Columns%block == 0:
			g.Rows, g.Across = 1, block
		case mode != "tensor":
			g.Rows = 1
		}
		c.float8(quant.QuantizeMusubi8(dtypes[c.String("format")], valuesOf(c, "w_bits", dtypeOf(c)), g, dtypeOf(c)), "scale_f32_bits")
	},
	"quant.fp8_block": func(c *Case) {
		size, power := c.Ints("block_size"), c.String("scale_fmt") == "ue8m0"
		w := quant.QuantizeBlock8(valuesOf(c, "w_bits", dtypeOf(c)), quant.Grid{Columns: columnsOf(c, "w_bits"), Rows: size[0], Across: size[1]}, power)
		if power {
			var exponents []float64
			for _, s := range w.Scale.Scales {
				exponents = append(exponents, float64(math.Float32bits(s)>>23))
			}
			c.Put("scale_inv_u8", c.recordedShape("scale_inv_u8", exponents))
			c.float8(w, "")
		} else {
			c.float8(w, "scale_inv_bits")
		}
	},

	// INT8 and INT4.
	"quant.int8_torchao": func(c *Case) {
		c.int8(quant.QuantizeTorchao(valuesOf(c, "w_bits", dtypeOf(c)), columnsOf(c, "w_bits"), dtypeOf(c)), safetensors.F32)
	},
	"quant.int8_quanto": func(c *Case) {
		c.int8(quant.QuantizeQuanto(valuesOf(c, "w_bits", dtypeOf(c)), columnsOf(c, "w_bits"), dtypeOf(c)), dtypeOf(c))
	},
	"quant.int8_comfy": func(c *Case) {
		c.int8(quant.QuantizeComfy(valuesOf(c, "w_bits", dtypeOf(c)), columnsOf(c, "w_bits"), dtypeOf(c), c.Bool("per_row")), safetensors.F32)
	},
	"quant.int4_torchao": func(c *Case) {
		c.int8(quant.QuantizeTorchao4(valuesOf(c, "w_bits", dtypeOf(c)), columnsOf(c, "w_bits"), c.Int("group"), dtypeOf(c)), dtypeOf(c))
	},
	"quant.int4_quanto": func(c *Case) {
		w := quant.QuantizeQuanto4(valuesOf(c, "w_bits", dtypeOf(c)), c.Int("group"), dtypeOf(c))
		codes := make([]byte, len(w.Codes))
		for i, q := range w.Codes {
			codes[i] = byte(q)
		}
		c.Put("q", c.recordedShape("q", signed(codes, nil).Data), "packed", c.recordedShape("packed", wholes(w.Packed())),
			"scale_bits", c.recordedShape("scale_bits", bitsOf(dtypeOf(c), w.Scales)), "shift_bits", c.recordedShape("shift_bits", bitsOf(dtypeOf(c), w.Shift)))
		c.precisions(w, c.Array("w_bits").Shape)
	},

	// GGUF.
	"quant.gguf_dequant": func(c *Case) {
		form, ok := quant.FormNamed(c.String("type"))
		if !ok {
			failf("no type %s", c.String("type"))
		}
		c.LeavesOut("f16_arithmetic_bits") // of diffusers and ComfyUI-GGUF
		values, _ := form.Block()
		c.precisions(quant.Blocks{Form: form, Data: codesOf(c, "blocks")}, []int{c.Array("blocks").Shape[0], values})
	},
	"quant.gguf_quantize": func(c *Case) {
		form, _ := quant.FormNamed(c.String("type"))
		w := must(quant.QuantizeGGUF(valuesOf(c, "w_bits", safetensors.F32), form))
		c.Put("bytes", c.recordedShape("bytes", wholes(w.Data)))
		c.precisions(w, c.Array("w_bits").Shape)
	},

	// An adapter over a compressed matrix.
	"quant.lora_linear": loraLinear,

	// Folders and files as people have them: digests of the values, and networks on them.
	"quant.flux_transformer":       compressed(modelOps["models.flux_transformer"]),
	"quant.sd3_transformer":        compressed(modelOps["models.sd3_transformer"]),
	"quant.qwen_image_transformer": compressed(modelOps["models.qwen_image_transformer"]),
	"quant.t5_encoder":             compressed(modelOps["models.t5_encoder"]),
	"quant.sd3_lora": compressed(func(c *Case) {
		for _, about := range []string{"r", "lora_alpha", "target_modules"} { // said by adapter_config.json as well
			c.Raw(about)
		}
		lora(c, sd3WithAdapter)
	}),
	"quant.bnb4_single_file": compressed(onSingle),
	"quant.fp8_single_file":  compressed(onSingle),
	"quant.gguf_file":        compressed(onSingle),
	"quant.fp8_musubi_file":  compressed(func(*Case) {}),
	"quant.fp8_block_file":   compressed(func(*Case) {}),
	"quant.gguf_tensors":     compressed(metadata),
}

var tables = map[string]func() [16]float32{"nf4": quant.NF4, "fp4": quant.FP4}

var dtypes = map[string]safetensors.DType{"float32": safetensors.F32, "bfloat16": safetensors.BF16, "float16": safetensors.F16,
	"float8_e4m3fn": safetensors.F8E4M3, "float8_e5m2": safetensors.F8E5M2}

// dtypeOf is the precision of a case's weight.
func dtypeOf(c *Case) safetensors.DType { return dtypes[c.String("dtype")] }

func columnsOf(c *Case, name string) int {
	shape := c.Array(name).Shape
	return shape[len(shape)-1]
}

// valuesOf are floats by their bits.
func valuesOf(c *Case, name string, d safetensors.DType) (values []float32) {
	for _, b := range c.Floats(name) {
		switch d {
		case safetensors.BF16:
			values = append(values, safetensors.FromBF16(uint16(b)))
		case safetensors.F16:
			values = append(values, safetensors.FromF16(uint16(b)))
		default:
			values = append(values, math.Float32frombits(uint32(b)))
		}
	}
	return values
}

// bitsOf are the bits of floats, rounded to a precision.
func bitsOf(d safetensors.DType, values []float32) (bits []float64) {
	for _, v := range values {
		switch d {
		case safetensors.BF16:
			bits = append(bits, float64(safetensors.ToBF16(v)))
		case safetensors.F16:
			bits = append(bits, float64(safetensors.ToF16(v)))
		default:
			bits = append(bits, float64(math.Float32bits(v)))
		}
	}
	return bits
}

func codesOf(c *Case, name string) (b []byte) {
	for _, v := range c.Ints(name) {
		b = append(b, byte(v))
	}
	return b
}

func wholes(b []byte) (out []float64) {
	for _, v := range b {
		out = append(out, float64(v))
	}
	return out
}

func signed(codes []byte, shape []int) Array {
	out := Array{Shape: shape}
	for _, q := range codes {
		out.Data = append(out.Data, float64(int8(q)))
	}
	return out
}

// recordedShape is a list in the shape of the recorded output, or in none where that is a number.
func (c *Case) recordedShape(name string, values []float64) any {
	a, err := arrayOf(c.want[name])
	if err != nil {
		return values[0]
	}
	return Array{a.Shape, values}
}

// precisions puts the values of a weight in each precision that is recorded.
func (c *Case) precisions(w quant.Weight, shape []int) {
	n := 1
	for _, side := range shape {
		n *= side
	}
	values := make([]float32, n)
	w.Unpack(values, 0)
	for name, d := range map[string]safetensors.DType{"f32_bits": safetensors.F32, "bf16_bits": safetensors.BF16, "f16_bits": safetensors.F16} {
		if _, ok := c.want[name]; ok {
			c.Put(name, Array{shape, bitsOf(d, values)})
		}
	}
}

func bits4(c *Case, absmax []float32) quant.Bits4 {
	return quant.Bits4{Table: tables[c.String("quant_type")](), Codes: codesOf(c, "packed"), Absmax: absmax, Block: c.Int("blocksize")}
}

func nested(c *Case, table []float32) quant.Nested {
	block := 256
	c.Given("nested_blocksize", &block)
	return quant.Nested{Codes: codesOf(c, "absmax_u8"), Table: table, Scales: valuesOf(c, "nested_absmax_bits", safetensors.F32),
		Block: block, Offset: math.Float32frombits(uint32(c.Int("nested_offset_bits")))}
}

func (c *Case) float8(w quant.Float8, scales string) {
	shape := c.Array("w_bits").Shape
	c.Put("bytes", Array{shape, wholes(w.Codes)})
	if scales != "" {
		c.Put(scales, c.recordedShape(scales, bitsOf(safetensors.F32, w.Scale.Scales)))
	}
	if _, ok := c.want["scale_weight_bits"]; ok {
		c.Put("scale_weight_bits", c.recordedShape("scale_weight_bits", bitsOf(dtypeOf(c), w.Scale.Scales)))
	}
	c.precisions(w, shape)
}

func (c *Case) int8(w quant.Int8, scales safetensors.DType) {
	shape := c.Array("w_bits").Shape
	c.Put("q", signed(w.Codes, shape), "scale_bits", c.recordedShape("scale_bits", bitsOf(scales, w.Scale.Scales)))
	c.precisions(w, shape)
}

// savedState reads the tensors that bitsandbytes saves of a matrix.
func savedState(c *Case) {
	var tensors map[string]struct {
		DType, Map string
		Shape      []int
		Bytes      struct{ Data []float64 }
	}
	check(json.Unmarshal([]byte(c.Text("tensors")), &tensors))
	names := map[string]safetensors.DType{"uint8": safetensors.U8, "float32": safetensors.F32, "bfloat16": safetensors.BF16, "float16": safetensors.F16}
	w, s, err := quant.Saved4("weight", func(suffix string) (safetensors.Tensor, bool) {
		saved, ok := tensors["weight"+suffix]
		if !ok {
			return safetensors.Tensor{}, false
		}
		t := safetensors.Tensor{Name: suffix, DType: names[saved.DType], Shape: saved.Shape}
		switch {
		case saved.Map == "dynamic":
			return safetensors.FromF32(suffix, []int{256}, quant.Dynamic()), true
		case saved.Map != "":
			table := tables[saved.Map]()
			return safetensors.FromF32(suffix, []int{16}, table[:]), true
		}
		for _, b := range saved.Bytes.Data {
			t.Data = append(t.Data, byte(b))
		}
		return t, true
	})
	check(err)
	var state map[string]any
	check(json.Unmarshal([]byte(s.Text()), &state))
	c.Put("state", state, "json", s.Text(), "absmax_bits", bitsOf(safetensors.F32, w.Absmax))
	c.precisions(w, s.Shape)
}

// baseOf is the compressed matrix of a layer.
func baseOf(c *Case, rows, columns int) quant.Weight {
	b := c.Sub("base")
	switch kind := b.String("kind"); kind {
	case "nf4", "fp4":
		return bits4(b, valuesOf(b, "absmax_bits", safetensors.F32))
	case "nf4_double":
		return bits4(b, nested(b, quant.Dynamic()).Absmax())
	case "fp8_comfy":
		return quant.Float8{Form: dtypes[b.String("format")], Codes: codesOf(b, "bytes"), Scale: quant.Whole(math.Float32frombits(uint32(b.Int("scale_bits"))))}
	case "fp8_musubi_block":
		scales := b.Array("scale_weight_bits")
		return quant.Float8{Form: dtypes[b.String("format")], Codes: codesOf(b, "bytes"),
			Scale: quant.Grid{Scales: valuesOf(b, "scale_weight_bits", safetensors.BF16), Columns: columns, Rows: 1, Across: columns / scales.Shape[1]}}
	case "fp8_block":
		shape := b.Array("scale_inv_bits").Shape
		return quant.Float8{Form: dtypes[b.String("format")], Codes: codesOf(b, "bytes"),
			Scale: quant.Grid{Scales: valuesOf(b, "scale_inv_bits", safetensors.F32), Columns: columns, Rows: rows / shape[0], Across: columns / shape[1]}}
	case "int8_bnb":
		return quant.LLMInt8(codesOf(b, "q"), valuesOf(b, "SCB_bits", safetensors.F32))
	default:
		form, ok := quant.FormNamed(b.String("type"))
		if !ok {
			failf("a base of kind %q", kind)
		}
		return quant.Blocks{Form: form, Data: codesOf(b, "blocks")}
	}
}

// loraLinear is a layer with an adapter over a compressed matrix, through the engine.
func loraLinear(c *Case) {
	shape := c.Ints("shape")
	m := quant.Matrix{Weight: baseOf(c, shape[0], shape[1]), Name: "base.weight", Shape: shape, DType: safetensors.BF16}
	w := m.Tensor()
	values := must(w.Float32(nil))
	c.Put("w_bits", Array{shape, bitsOf(safetensors.BF16, values)})
	a, b := c.Array("A"), c.Array("B")
	tensors := layer{
		"layer.weight": w,
		"A.weight":     safetensors.FromF32("A.weight", a.Shape, to[float32](a.Data)),
		"B.weight":     safetensors.FromF32("B.weight", b.Shape, to[float32](b.Data)),
	}
	bias := c.Has("bias")
	if bias {
		tensors["layer.bias"] = safetensors.FromF32("layer.bias", []int{shape[0]}, to[float32](c.Floats("bias")))
	}
	runFolder(c, "", how{source: tensors, trained: []string{`[AB]\.weight`}, forwardOnly: true}, func(n *network) {
		base, down, up := n.params.Linear("layer", shape[1], shape[0], bias), n.params.Linear("A", shape[1], a.Shape[0], false), n.params.Linear("B", b.Shape[1], shape[0], false)
		check(n.params.Check())
		through := func(l *nn.Linear, x *autograd.Value) *autograd.Value { return l.Apply(n.tape, x, autograd.With{}) }
		x := n.value("x")
		y := n.tape.Add(through(base, x), n.tape.Scale(through(up, through(down, x)), float32(c.Float("scale"))))
		c.Put("y", n.array(y.Shape(), y.F32(), false))
		n.tape.Backward(autograd.Seed{Of: y, Grad: to[float32](c.Floats("cot"))})
		c.Put("grad_x", n.array(x.Shape(), x.Grad().F32(), false))
		n.putGrad("grad_A", "A.weight")
		n.putGrad("grad_B", "B.weight")
	})
}

// A layer is a source of a few tensors.
type layer map[string]safetensors.Tensor

func (l layer) Names() (names []string) {
	for name := range l {
		names = append(names, name)
	}
	return names
}

func (l layer) Tensor(name string) (safetensors.Tensor, error) { return l[name], nil }

// compressed holds the digests of a file's values, and runs its network.
func compressed(run Op) Op {
	return func(c *Case) {
		path, d := filepath.Join(c.Dir(), c.String("file")), dtypeOf(c)
		f := must(quant.OpenFile(path))
		defer f.Close()
		prefix := ""
		c.Given("prefix", &prefix)
		sums := c.Raw("sha256").(map[string]any)
		for _, name := range c.Strings("quantised") {
			t := must(f.Tensor(prefix + name))
			if t.DType != d {
				failf("%s is read in %s, recorded in %s", name, t.DType, d)
			}
			sum := sha256.Sum256(t.Data)
			if got := hex.EncodeToString(sum[:]); got != sums[name] {
				failf("values of %s have the digest %s, recorded %v", name, got, sums[name])
			}
		}
		c.fromFile(f, prefix)
		for _, about := range []string{"format", "model", "layout", "inner"} { // said by the file and its config.json as well
			if c.Has(about) {
				c.Raw(about)
			}
		}
		run(c)
	}
}

// fromFile compares the values that a case has in full.
func (c *Case) fromFile(f *quant.File, prefix string) {
	for name := range c.want {
		for _, kind := range []string{"dequant.", "plain."} {
			if rest, ok := strings.CutPrefix(name, kind); ok {
				t := must(f.Tensor(prefix + rest))
				c.Put(name, Array{t.Shape, to[float64](must(t.Float32(nil)))})
			}
		}
	}
}

// onSingle runs a network on a checkpoint of one file.
func onSingle(c *Case) {
	path := filepath.Join(c.Dir(), c.String("file"))
	if c.String("model") == "t5" {
		f := must(quant.OpenFile(path))
		defer f.Close()
		c.source = t5.Today(f)
		modelOps["models.t5_encoder"](c)
		return
	}
	f := must(single.Open(path, single.Settings{}))
	defer f.Close()
	source := f.Part("transformer")
	if source == nil {
		failf("the file holds %s and no transformer", strings.Join(f.Parts(), ", "))
	}
	c.source = source
	modelOps["models."+c.String("model")+"_transformer"](c)
}

var _ nn.Source = layer{}

// metadata compares a GGUF file's keys, and the shapes of its tensors.
func metadata(c *Case) {
	g := must(quant.OpenGGUF(filepath.Join(c.Dir(), c.String("file"))))
	defer g.Close()
	for key, want := range c.Raw("metadata").(map[string]any) {
		var got any
		check(json.Unmarshal(must(json.Marshal(g.Metadata[key])), &got))
		if a, ok := got.(float64); ok && math.Abs(a-want.(float64)) <= 1e-7*math.Abs(want.(float64)) {
			continue
		}
		if string(must(json.Marshal(got))) != string(must(json.Marshal(want))) {
			failf("%s is %v, recorded %v", key, got, want)
		}
	}
	for name, want := range c.Raw("shapes").(map[string]any) {
		t := must(g.Tensor(name))
		if string(must(json.Marshal(t.Shape))) != string(must(json.Marshal(want))) {
			failf("%s has the shape %v, recorded %v", name, t.Shape, want)
		}
	}
}
