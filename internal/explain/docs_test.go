package explain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prebind/prebind/internal/explain"
)

// docs/explain.md has every key of the JSON, and its example has no other.
func TestKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```json\n")
	example, _, _ = strings.Cut(example, "```\n")
	decoder := json.NewDecoder(strings.NewReader(example))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&explain.Report{}); err != nil {
		t.Errorf("the example: %v", err)
	}
	for _, key := range keys(reflect.TypeFor[explain.Report]()) {
		if !strings.Contains(string(page), `"`+key+`":`) && !strings.Contains(string(page), "."+key+"`") {
			t.Errorf("key %s is not documented", key)
		}
	}
}

// keys lists those of the type and all types in it.
func keys(of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return nil
	}
	var all []string
	for field := range of.Fields() {
		if field.IsExported() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			all = append(append(all, key), keys(field.Type)...)
		}
	}
	return all
}
