//go:build nobroker

package natsio

import "errors"

// Listen is not there.
func Listen(Address) (*Broker, error) {
	return nil, errors.New("this program was built without the fleet's server (tag nobroker)\nhint: build it without the tag, or roll here alone")
}
