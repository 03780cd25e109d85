// Package torchfile reads state dicts that torch.save wrote: a zip archive with a pickle of names, shapes and places,
// and the numbers in files of their own. Nothing that the pickle asks for is called. The parts of a state dict are
// known by name (an ordered dict, a tensor of a storage); anything else is an error that names it.
//
// Begin at Open. File is a source of parameters, as safetensors.File is.
package torchfile
