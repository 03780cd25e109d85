// Package enginetest has a server that draws tokens as vLLM and SGLang do, for tests: Serve speaks both protocols over
// a network of package conversations, and has every fault that an engine may have.
package enginetest
