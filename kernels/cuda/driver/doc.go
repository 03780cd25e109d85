// Package driver is libcuda with types: the library, opened at run time, and what a backend does with a device by it.
//
// Start with Open, then Begin and Devices, which say what there is. Driver has the functions (driver.go);
// Memory lends device memory and Staging copies through pinned memory, both on one stream. Library opens other
// libraries of NVIDIA's in the same way, for packages blas and nccl.
//
// Memory is passed by address. A call's codes become errors with the driver's own names (driver.go); Explain has words
// for those that a user can do something about.
package driver
