//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/emulators/ptxtest"
)

// whatOrders are a kernel's barriers and waits for copies.
var whatOrders = regexp.MustCompile(`(?:bar\.sync|bar\.warp\.sync|cp\.async\.wait_group)\s[^;]*;`)

// An orderedKernel is a kernel with a case in which it needs its barriers and waits but for one, which is given by its
// number; 0 is none.
type orderedKernel struct {
	plant
	spare int
}

var orderedKernels = []orderedKernel{
	{plant{"exact", "attention_f32", "Attention", "f32/f32/1x2x33x80x64"}, 0},
	// Here a thread reads what it wrote itself.
	{plant{"exact", "attention_queries_f32", "AttentionBackward", "f32/f32/2x1x35x513x32"}, 3},
	{plant{"exact", "attention_keys_f32", "AttentionBackward", "f32/f32/2x2x2x3x40"}, 0},
	{plant{"exact", "norm_long", "Norm", "f32 kind 1 3x1024"}, 0},
	{plant{"exact", "product_f32", "Gemm", "product/NT/f32/31x130x257"}, 0},
	{plantNT, 0},
	{plant{"own", "attention_tensor_64", "Attention", "bf16/f32/3x2x80x80x64"}, 0},
	{plant{"own", "attention_tensor_queries_64", "AttentionBackward", "bf16/f32/3x2x80x80x64"}, 0},
	// Here the wait is for keys that no query sees.
	{plant{"own", "attention_tensor_keys_64", "AttentionBackward", "bf16/f32/3x2x80x80x64"}, 4},
}

// TestPTXRaces leaves out one barrier or one wait after another: a race is found, where results may well be right.
func TestPTXRaces(t *testing.T) {
	if testing.Short() {
		t.Skip("the image takes half a second to unpack")
	}
	all := *ptxMillions > 0
	if !all {
		t.Logf("one place of one kernel of %d; the others: make ptx", len(orderedKernels))
	}
	places, seen, blind := 0, 0, 0
	for _, k := range orderedKernels {
		for i, n := 1, 1; i <= n && (all || places == 0); i++ {
			leaveOut := func(text string) string {
				found := 0
				text = whatOrders.ReplaceAllStringFunc(text, func(s string) string {
					if found++; found == i {
						return ""
					}
					return s
				})
				n = found
				return text
			}
			err := runPlanted(t, ptxtest.New(80), k.plant, leaveOut)
			if n == 0 {
				t.Fatalf("%s has no barrier", k.kernel)
			}
			places++
			switch {
			case err != nil && strings.Contains(err.Error(), "a race"):
				seen++
			case err != nil:
				t.Errorf("%s without barrier or wait %d of %d: %v", k.kernel, i, n, err)
			case i != k.spare:
				t.Errorf("%s without barrier or wait %d of %d: no race", k.kernel, i, n)
			}
			if !all {
				continue
			}
			d := ptxtest.New(80)
			d.Blind = true
			if runPlanted(t, d, k.plant, leaveOut) != nil {
				blind++
			}
		}
	}
	t.Logf("%d barriers and waits left out: %d races seen; wrong results or a launch that failed where they go unseen: %d",
		places, seen, blind)
}
