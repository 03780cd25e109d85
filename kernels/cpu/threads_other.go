//go:build !linux && !darwin

package cpu

// fastCores is 0: how this system tells cores apart is not known here.
func fastCores() int { return 0 }
