// Package nccl carries pieces between devices of one program: libnccl.so.2, opened at run time. Start with Join.
//
// It only gathers, which has no arithmetic, so no bit depends on its version, its rings or the wires. It works on the
// backends' own streams and in their primary contexts, which its runtime shares: a gathering is done in order with what
// is queued before and after it.
//
// All calls of a gathering come from one thread, so calls for several devices stand in groups: alone, the first would
// wait for the others.
//
// A rank that fails would leave the others' streams waiting for it for ever. So Wait polls, and does not block inside
// the library: is each device done or lost, and has a communicator failed? A lost device, an error or the limit aborts
// all communicators (ncclCommAbort), after which the streams run on with what they have. NCCL's
// own calls may hang, too, so they are made on threads that can be left behind. All ranks abort at once, since recent
// versions wait for one another there (NVIDIA/nccl issues 863 and 1013).
package nccl
