package advantage_test

import (
	"fmt"
	"log"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Two prompts with three samples each. GRPO compares a sample with its group.
func Example() {
	grpo := advantage.Estimator{Rule: "compare", Options: advantage.Options{Over: "group", Baseline: "mean",
		Scale: "group", Eps: 1e-4, EpsMode: "add", Singleton: "zero", Flat: "divide"}}
	a, stats, err := grpo.Advantages(advantage.Batch{
		Groups:  []int{0, 0, 0, 1, 1, 1},
		Rewards: [][]float64{{1, 2, 3, 5, 5, 5}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f\n", a)
	fmt.Println("groups without a difference:", stats.Dead)
	// Output:
	// [-1.225 0.000 1.225 0.000 0.000 0.000]
	// groups without a difference: 0.5
}
