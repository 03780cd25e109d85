//go:build !nocuda && linux && (amd64 || arm64)

package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// TestImagesAreOfTheSources: the compiled kernels are those of the sources that lie beside them.
func TestImagesAreOfTheSources(t *testing.T) {
	h := sha256.New()
	for _, pattern := range []string{"src/*.cu", "src/*.h", "gen/build.sh"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		slices.Sort(files)
		for _, f := range files {
			in, err := os.Open(f)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(h, in); err != nil {
				t.Fatal(err)
			}
			in.Close()
		}
	}
	recorded, err := os.ReadFile("images/sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != strings.TrimSpace(string(recorded)) {
		t.Error("src differs from what images was made of; run: go generate ./kernels/cuda")
	}
	total := 0
	for _, name := range []string{"ptx", "sm_80", "sm_90", "sm_100", "ptx_90a", "sm_90a"} {
		packed, err := fs.ReadFile(images, "images/"+name+".xz")
		if err != nil {
			t.Fatal(err)
		}
		total += len(packed)
		if _, err := readImage(name); err != nil {
			t.Error(err)
		}
	}
	if t.Logf("%d bytes of kernels", total); total > 6<<20 {
		t.Errorf("%d bytes of kernels, more than 6 MiB", total)
	}
}

// arguments are the kernels' arguments: the Go struct of each.
var arguments = map[string]uintptr{
	"unary":                         unsafe.Sizeof(unaryArgs{}),
	"unary_backward":                unsafe.Sizeof(unaryArgs{}),
	"binary":                        unsafe.Sizeof(binaryArgs{}),
	"axpby":                         unsafe.Sizeof(axpbyArgs{}),
	"fill":                          unsafe.Sizeof(fillArgs{}),
	"adamw":                         unsafe.Sizeof(adamwArgs{}),
	"unpack":                        unsafe.Sizeof(unpackArgs{}),
	"copy":                          unsafe.Sizeof(copiesArgs{}),
	"upsample":                      unsafe.Sizeof(upsampleArgs{}),
	"upsample_backward":             unsafe.Sizeof(upsampleArgs{}),
	"norm":                          unsafe.Sizeof(normArgs{}),
	"norm_long":                     unsafe.Sizeof(normArgs{}),
	"norm_short":                    unsafe.Sizeof(normArgs{}),
	"norm_backward":                 unsafe.Sizeof(normArgs{}),
	"norm_backward_long":            unsafe.Sizeof(normArgs{}),
	"norm_backward_short":           unsafe.Sizeof(normArgs{}),
	"norm_backward_modulation":      unsafe.Sizeof(normArgs{}),
	"norm_backward_weights":         unsafe.Sizeof(normArgs{}),
	"log_softmax_gather":            unsafe.Sizeof(gatherArgs{}),
	"log_softmax_gather_backward":   unsafe.Sizeof(gatherArgs{}),
	"draw":                          unsafe.Sizeof(drawArgs{}),
	"embedding":                     unsafe.Sizeof(embeddingArgs{}),
	"embedding_backward":            unsafe.Sizeof(embeddingArgs{}),
	"modulate":                      unsafe.Sizeof(mixArgs{}),
	"modulate_backward":             unsafe.Sizeof(mixArgs{}),
	"mix_through":                   unsafe.Sizeof(mixArgs{}),
	"gate":                          unsafe.Sizeof(mixArgs{}),
	"gate_backward":                 unsafe.Sizeof(mixArgs{}),
	"glu":                           unsafe.Sizeof(mixArgs{}),
	"glu_backward":                  unsafe.Sizeof(mixArgs{}),
	"rope":                          unsafe.Sizeof(ropeArgs{}),
	"rope_pieces":                   unsafe.Sizeof(ropeArgs{}),
	"reduce":                        unsafe.Sizeof(reduceArgs{}),
	"solver":                        unsafe.Sizeof(solverArgs{}),
	"group_moments":                 unsafe.Sizeof(groupNormArgs{}),
	"group_blocks":                  unsafe.Sizeof(groupNormArgs{}),
	"group_statistics":              unsafe.Sizeof(groupNormArgs{}),
	"group_apply":                   unsafe.Sizeof(groupNormArgs{}),
	"group_slopes":                  unsafe.Sizeof(groupNormArgs{}),
	"group_channels":                unsafe.Sizeof(groupNormArgs{}),
	"group_weights":                 unsafe.Sizeof(groupNormArgs{}),
	"group_terms":                   unsafe.Sizeof(groupNormArgs{}),
	"group_backward":                unsafe.Sizeof(groupNormArgs{}),
	"gather_operand":                unsafe.Sizeof(gatherOperandArgs{}),
	"product_nt_128":                unsafe.Sizeof(productArgs{}),
	"product_nt_64":                 unsafe.Sizeof(productArgs{}),
	"product_nt_32":                 unsafe.Sizeof(productArgs{}),
	"product_nn_128":                unsafe.Sizeof(productArgs{}),
	"product_nn_64":                 unsafe.Sizeof(productArgs{}),
	"product_nn_32":                 unsafe.Sizeof(productArgs{}),
	"product_tn_128":                unsafe.Sizeof(productArgs{}),
	"product_tn_64":                 unsafe.Sizeof(productArgs{}),
	"product_tn_32":                 unsafe.Sizeof(productArgs{}),
	"conv_128":                      unsafe.Sizeof(productArgs{}),
	"conv_64":                       unsafe.Sizeof(productArgs{}),
	"conv_input_128":                unsafe.Sizeof(productArgs{}),
	"conv_input_64":                 unsafe.Sizeof(productArgs{}),
	"conv_weight_128":               unsafe.Sizeof(productArgs{}),
	"conv_weight_64":                unsafe.Sizeof(productArgs{}),
	"attention_tensor_64":           unsafe.Sizeof(attentionArgs{}),
	"attention_tensor_128":          unsafe.Sizeof(attentionArgs{}),
	"attention_tensor_queries_64":   unsafe.Sizeof(attentionArgs{}),
	"attention_tensor_queries_128":  unsafe.Sizeof(attentionArgs{}),
	"attention_tensor_keys_64":      unsafe.Sizeof(attentionArgs{}),
	"attention_tensor_keys_128":     unsafe.Sizeof(attentionArgs{}),
	"adapter_down_nt":               unsafe.Sizeof(productArgs{}),
	"adapter_down_nn":               unsafe.Sizeof(productArgs{}),
	"adapter_up_nt":                 unsafe.Sizeof(productArgs{}),
	"adapter_up_nn":                 unsafe.Sizeof(productArgs{}),
	"adapter_back":                  unsafe.Sizeof(productArgs{}),
	"hopper_product_nt_192":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nn_192":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_attention_64":           unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_128":          unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_two_64":       unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_few_64":       unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_few_128":      unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_queries_64":   unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_queries_128":  unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_keys_64":      unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_keys_128":     unsafe.Sizeof(hopperArgs{}),
	"hopper_attention_keys_wide_64": unsafe.Sizeof(hopperArgs{}),
	"hopper_product_nt_96":          unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nn_96":          unsafe.Sizeof(hopperProductArgs{}),
	"hopper_gradient_256":           unsafe.Sizeof(hopperProductArgs{}),
	"hopper_gradient_192":           unsafe.Sizeof(hopperProductArgs{}),
	"hopper_gradient_128":           unsafe.Sizeof(hopperProductArgs{}),
	"hopper_gradient_64":            unsafe.Sizeof(hopperProductArgs{}),
	"hopper_gradient_few":           unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nt_256":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nt_128":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nt_64":          unsafe.Sizeof(hopperProductArgs{}),
	"hopper_unary":                  unsafe.Sizeof(unaryArgs{}),
	"hopper_unary_backward":         unsafe.Sizeof(unaryArgs{}),
	"hopper_glu":                    unsafe.Sizeof(mixArgs{}),
	"hopper_glu_backward":           unsafe.Sizeof(mixArgs{}),
	"hopper_product_nt_thin":        unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nt_few":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nn_256":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nn_128":         unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nn_64":          unsafe.Sizeof(hopperProductArgs{}),
	"hopper_product_nn_few":         unsafe.Sizeof(hopperProductArgs{}),
	"finish_product":                unsafe.Sizeof(productArgs{}),
	"product_f32":                   unsafe.Sizeof(productArgs{}),
	"product32_nt":                  unsafe.Sizeof(productArgs{}),
	"product32_nn":                  unsafe.Sizeof(productArgs{}),
	"conv32":                        unsafe.Sizeof(productArgs{}),
	"product_bf16":                  unsafe.Sizeof(productArgs{}),
	"conv_bias":                     unsafe.Sizeof(convBiasArgs{}),
	"attention_f32":                 unsafe.Sizeof(attentionArgs{}),
	"attention_bf16":                unsafe.Sizeof(attentionArgs{}),
	"attention_delta":               unsafe.Sizeof(attentionArgs{}),
	"attention_queries_f32":         unsafe.Sizeof(attentionArgs{}),
	"attention_queries_bf16":        unsafe.Sizeof(attentionArgs{}),
	"attention_keys_f32":            unsafe.Sizeof(attentionArgs{}),
	"attention_keys_bf16":           unsafe.Sizeof(attentionArgs{}),
	"attention_bias":                unsafe.Sizeof(attentionArgs{}),
	"normal":                        unsafe.Sizeof(normalArgs{}),
	"softmax":                       unsafe.Sizeof(softmaxArgs{}),
	"softmax_wide":                  unsafe.Sizeof(softmaxArgs{}),
	"log_softmax_gather_wide":       unsafe.Sizeof(gatherArgs{}),
	"softmax_backward":              unsafe.Sizeof(softmaxArgs{}),
	"sum_rows":                      unsafe.Sizeof(sumRowsArgs{}),
	"pack":                          unsafe.Sizeof(packArgs{}),
}

// TestArguments holds the layout of every kernel's argument to the Go struct that fills it, and
// knows every kernel.
func TestArguments(t *testing.T) {
	var found [][]string
	for _, name := range []string{"ptx", "ptx_90a"} {
		ptx, err := readImage(name)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, regexp.MustCompile(`\.param \.align (?:8|64) \.b8 dk_(\w+)_param_0\[(\d+)\]`).FindAllStringSubmatch(string(ptx), -1)...)
	}
	if len(found) != len(arguments) {
		t.Errorf("%d kernels with arguments in PTX, %d known", len(found), len(arguments))
	}
	for _, f := range found {
		want, ok := arguments[f[1]]
		if got, _ := strconv.Atoi(f[2]); !ok || uintptr(got) != want {
			t.Errorf("%s takes %s bytes, Go fills %d (known: %t)", f[1], f[2], want, ok)
		}
	}
}

// TestArithmeticOfImages: every fp32 operation of the exact kernels rounds to nearest and flushes,
// and none is an approximation; the kernels for Hopper, whose sums are the tensor cores' own, have exponents and
// quotients of the special unit beside them. Compressed weights are unpacked with denormals, as their packages do.
// (Machine code is made of this PTX.)
func TestArithmeticOfImages(t *testing.T) {
	ptx, err := readImage("ptx")
	if err != nil {
		t.Fatal(err)
	}
	hopper, err := readImage("ptx_90a")
	if err != nil {
		t.Fatal(err)
	}
	ptx = append(ptx, hopper...)
	operation := regexp.MustCompile(`(?m)^\s*(?:@\S+\s+)?((?:add|sub|mul|fma|mad|div|sqrt|rsqrt|rcp|ex2|lg2|sin|cos|tanh)\.\S*f32)\s`)
	count := map[string]int{}
	for _, kernel := range strings.Split(string(ptx), ".entry ") {
		for _, m := range operation.FindAllStringSubmatch(kernel, -1) {
			if m[1] == "mul.rn.f32" || m[1] == "sub.rn.f32" {
				if name, _, _ := strings.Cut(kernel, "("); name == "dk_unpack" {
					continue
				}
			}
			count[m[1]]++
		}
	}
	for _, name := range []string{"ex2.approx.ftz.f32", "rcp.approx.ftz.f32"} {
		if count[name] == strings.Count(string(hopper), name) { // none is an exact kernel's
			delete(count, name)
		}
	}
	for name, n := range count {
		if !slices.Contains([]string{"add.rn.ftz.f32", "sub.rn.ftz.f32", "mul.rn.ftz.f32", "add.ftz.f32", "sub.ftz.f32", "mul.ftz.f32", "fma.rn.ftz.f32", "div.rn.ftz.f32", "sqrt.rn.ftz.f32",
			"add.rm.ftz.f32"}, name) /* the floor in exp2_down */ {
			t.Errorf("%d times %s", n, name)
		}
	}
	if t.Log(fmt.Sprint(count)); count["fma.rn.ftz.f32"] == 0 || count["div.rn.ftz.f32"] == 0 {
		t.Error("no products, or no quotients: the pattern is wrong")
	}
	if m := regexp.MustCompile(`(?m)^\s*(?:@\S+\s+)?((?:atom|red)\.\S*)`).FindString(string(ptx)); m != "" {
		t.Errorf("the kernels use %s: a sum whose order is not fixed", m)
	}
}
