package controlplane

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
)

// errPortTaken says that a program found its port in use.
var errPortTaken = errors.New("its port is in use")

// Tail returns the last n lines of the program's log.
func (p *Process) Tail(n int) string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// readFrom returns what a file holds from an offset on.
func readFrom(name string, offset int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

func portTaken(log []byte) bool {
	return bytes.Contains(log, []byte("address already in use"))
}
