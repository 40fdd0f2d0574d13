package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	yaml "go.yaml.in/yaml/v2"
)

// Options tunes Load. The zero value is valid.
type Options struct {
	// KnownPlugins lists the names that may stand in each stage. Nil means
	// that names are not checked.
	KnownPlugins *Plugins
}

// LoadFile reads and loads the file at path. See Load.
func LoadFile(path string, opts Options) (*PrebindConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	return Load(data, opts)
}

// Load decodes data over the defaults and validates the result. The error
// holds all mistakes, ordered by path; Mistakes takes it apart. Text that is
// no YAML at all is one mistake without a path.
func Load(data []byte, opts Options) (*PrebindConfiguration, error) {
	empty, err := checkDocuments(data)
	if err != nil {
		return nil, err
	}
	if empty {
		return Default(), nil
	}
	cfg := newWithoutPlugins()
	mistakes, err := decode(data, cfg)
	if err != nil {
		return nil, err
	}
	cfg.setDefaults()
	mistakes = append(mistakes, validate(cfg, opts)...)
	if len(mistakes) > 0 {
		slices.SortStableFunc(mistakes, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
		return nil, mistakes.ToAggregate()
	}
	return cfg, nil
}

// Mistakes returns the lines that err, from Load or LoadFile, consists of:
// none for nil, one for an error that is no list.
func Mistakes(err error) []string {
	if err == nil {
		return nil
	}
	aggregate, ok := errors.AsType[utilerrors.Aggregate](err)
	if !ok {
		return []string{err.Error()}
	}
	var lines []string
	for _, mistake := range aggregate.Errors() {
		lines = append(lines, mistake.Error())
	}
	return lines
}

// checkDocuments tells whether data holds nothing at all, and refuses a second
// document, which a plain decoder would silently leave out.
func checkDocuments(data []byte) (empty bool, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	empty = true
	for number := 0; ; number++ {
		var document any
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return empty, nil
		case err != nil:
			return false, fmt.Errorf("parsing YAML: %w", err)
		case document == nil:
			continue
		case number > 0:
			return false, errors.New("the file holds more than one YAML document, only one is allowed")
		}
		empty = false
	}
}
