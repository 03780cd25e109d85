package driver

// TimedEvent makes an event that takes the time.
func TimedEvent(d *Driver) (uintptr, error) { return d.get("cuEventCreate", 0) }

// Elapsed is the milliseconds between two events that were waited for, as the bits of an fp32.
func Elapsed(d *Driver, from, to uintptr) (uint32, error) {
	ms, err := d.get("cuEventElapsedTime", from, to)
	return uint32(ms), err
}
