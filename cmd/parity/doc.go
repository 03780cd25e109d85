// Command parity runs recorded cases of published implementations through
// Darkroom's own code, and says where the two differ:
//
//	go run ./cmd/parity internal/golden
//
// A case is inputs, outputs and a tolerance, and names an operation: "sde.ddim".
// Cases come as JSON families, a file with a list of them, and as folders with
// case.json and tensors.safetensors (load.go has both forms). An [Op] computes
// the outputs of a case from its inputs:
//
//	func statTracker(c *Case) {
//		c.Put("advantages", must(numpyGroup(c.Bool("global_std")).Of(idsOf(c.Strings("groups")), c.Floats("rewards"))))
//	}
//
// It only translates names and shapes, and reaches an implementation through the
// code that training uses. Ops stand in one adapter file an area, and ops.go
// joins these. Start at case.go, what an op sees; run.go runs, compare.go judges:
// a value passes when |got - want| <= abs + rel |want|.
//
// Case files come from strangers: a malformed one is an error that names the
// file and the case, and the others still run.
package main
