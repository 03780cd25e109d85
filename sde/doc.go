// Package sde is the mathematics of sampling diffusion and flow models: schedules, solvers
// as rows of numbers, windows of stochastic steps, trees. It is float64 and knows no tensor;
// the sampler of package diffusion applies its rows on the device.
//
// Start with Row in row.go: a solver is a function from a schedule and a step to a Row, and
// Run in trajectory.go is the loop of every sampler. density.go is the one place
// with a transition's log-probability. schedule.go is the times, window.go which steps are
// stochastic and trained, tree.go samples that branch.
//
// Time s runs from 1 (noise) to 0; a flow's output is the velocity noise - clean, so that
// x - s·v is the clean sample. Log-probabilities are means over elements.
//
// # Conventions of published systems
//
//	system       kernel      log-probability       KL divides by   s = 1          last step
//	flow_grpo    FlowSDE     Gaussian              2g²             1-s ← 1-s[1]   left out by fraction 0.99
//	DanceGRPO    Dance       Gaussian              -               as it is       left out
//	MixGRPO      FlowSDE     Gaussian              -               1-s ← 1-s[1]   left out (M = T-2)
//	MixGRPO      Dance       without constants     -               as it is       left out
//	FlowCPS      CPS         -d² (no deviation)    2τ²             as it is       drawn with τ = 0 at s' = 0
//	GenRL        FlowSDE     Gaussian              2τ²             1-s ← 1-s[1]   τ ≤ clip
//	GenRL        CPS         -d²                   1               as it is
//	TempFlow     FlowSDE     Gaussian              2τ²             1-s ← 1-s[1]   branches of one step
//	BranchGRPO   Dance       Gaussian, unscaled τ  -               as it is       τ ≥ 1e-8
//	verl-omni    all three   option: constants     2 std²          1-s ← 1-s[1]   std is g, but τ in CPS and Dance
//	Flow-Factory all three   Gaussian              2 std²          1-s ← 1-s[1]   std is η in Dance
//	DiffusionNFT FlowDDIM    none is used          -               Euler's        deterministic
//	ddpo         DDIM        Gaussian              -               -              a' of step 0
//
// Where two of them disagree it is an option of the kernel, and a preset sets it.
package sde
