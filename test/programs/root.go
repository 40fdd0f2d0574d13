package programs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Root returns the repository's root: the nearest folder, from the working
// directory upwards, that holds prebind's go.mod and the test module.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository's root: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isModule(dir, rootModule) && isModule(filepath.Join(dir, "test"), testModule) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository's root: no folder above %s holds module %s", start, rootModule)
		}
	}
}

func isModule(dir, path string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first) == "module "+path
}

// Set knows where the programs are.
type Set struct{ dir string }

// Path returns the file of p.
func (s Set) Path(p Program) string { return filepath.Join(s.dir, string(p)) }

// Dir returns the folder that holds the programs.
func (s Set) Dir() string { return s.dir }

// Has tells whether p has been built.
func (s Set) Has(p Program) bool {
	_, err := os.Stat(s.Path(p))
	return !errors.Is(err, os.ErrNotExist)
}
