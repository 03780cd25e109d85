// Package engine is a client of inference servers, vLLM and SGLang: tokens in and tokens out.
//
//	e, err := engine.Open(engine.Options{Kind: "vllm", URL: "http://localhost:8000", Model: "qwen"})
//	err = e.Load(ctx, "step-3", "/shared/step-3")   // an adapter in PEFT's layout, under a name of its own
//	completion, err := e.Generate(ctx, engine.Request{...}) // tokens with log-probabilities, checked
//
// Start with engine.go: the request, the completion, and the refused kinds of completions (Refused names each).
// vllm.go and sglang.go have one protocol each. Nothing here knows a network: whether log-probabilities are those of
// the weights is for trainer/conversations to see, which computes them itself.
package engine
