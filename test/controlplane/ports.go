package controlplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range that the kernel gives to outgoing
// connections (32768 and up on Linux), so that nobody's connection takes the
// port of a program while it is being restarted.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePorts returns n different loopback ports that nobody listens on.
// Another process may still be faster: see [Process.Start] and withFreePorts.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var config net.ListenConfig
	var held []net.Listener // until all are found: they must differ
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	var ports []int
	var last error
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort)
		listener, err := config.Listen(ctx, "tcp", address(port))
		if err != nil {
			last = err
			continue
		}
		held = append(held, listener)
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("finding %d free loopback ports: %w", n, last)
}

// withFreePorts calls start with n free ports, and again with others as long
// as the error is that one was taken.
func withFreePorts(ctx context.Context, n int, start func(ports []int) error) error {
	const attempts = 5
	var err error
	for range attempts {
		ports, findErr := freePorts(ctx, n)
		if findErr != nil {
			return findErr
		}
		if err = start(ports); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// address returns the loopback address of a port.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
