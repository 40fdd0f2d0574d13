package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	yaml "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

// decode reads data into cfg, which holds the defaults, and returns every
// mistake of form: duplicate and unknown keys, and values of a wrong type. A
// value with a mistake is left out, so that the rest can still be validated.
// The error is for text that cannot be taken apart at all.
func decode(data []byte, cfg *PrebindConfiguration) (field.ErrorList, error) {
	var mistakes field.ErrorList
	text, err := kyaml.YAMLToJSONStrict(data)
	if err != nil {
		// Strict differs from the other only in refusing duplicate keys.
		text, err = kyaml.YAMLToJSON(data)
		if err != nil {
			return nil, fmt.Errorf("parsing YAML: %w", err)
		}
		var tree yaml.MapSlice
		if err := yaml.Unmarshal(data, &tree); err != nil {
			return nil, fmt.Errorf("parsing YAML: %w", err)
		}
		mistakes = duplicateKeys(nil, tree)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("parsing YAML: %w", err)
	}
	more, err := decodeTree(tree, text, cfg)
	return append(mistakes, more...), err
}

// decodeTree decodes text. The decoder stops caring at the first value of a
// wrong type, so that value is noted, taken out of the tree, and the rest is
// decoded again until nothing is wrong.
func decodeTree(tree any, text []byte, cfg *PrebindConfiguration) (field.ErrorList, error) {
	var mistakes field.ErrorList
	for {
		attempt := *cfg
		strict, err := kjson.UnmarshalStrict(text, &attempt)
		if err == nil {
			*cfg = attempt
			for _, err := range strict {
				mistakes = append(mistakes, unknownKey(err))
			}
			return mistakes, nil
		}
		mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err)
		if !ok {
			return nil, fmt.Errorf("decoding configuration: %w", err)
		}
		value, removed := remove(tree, mistyped.Field)
		if !removed {
			return nil, fmt.Errorf("decoding configuration: the file must be a mapping of keys to values")
		}
		mistakes = append(mistakes, field.Invalid(path(mistyped.Field), value, expected(typeAt(mistyped.Field))))
		if text, err = json.Marshal(tree); err != nil {
			return nil, fmt.Errorf("decoding configuration: %w", err)
		}
	}
}

// duplicateKeys finds the keys that stand more than once in one mapping.
func duplicateKeys(at *field.Path, tree any) field.ErrorList {
	var mistakes field.ErrorList
	switch tree := tree.(type) {
	case yaml.MapSlice:
		seen := map[any]bool{}
		for _, item := range tree {
			child := at.Child(fmt.Sprint(item.Key))
			if id := fmt.Sprint(item.Key); seen[id] {
				mistakes = append(mistakes, &field.Error{
					Type: field.ErrorTypeDuplicate, Field: child.String(), BadValue: id,
					Detail: "the key stands more than once",
				})
			} else {
				seen[id] = true
			}
			mistakes = append(mistakes, duplicateKeys(child, item.Value)...)
		}
	case []any:
		for i, item := range tree {
			mistakes = append(mistakes, duplicateKeys(at.Index(i), item)...)
		}
	}
	return mistakes
}

// unknownKey turns the decoder's complaint into one that names the key meant,
// or those that exist.
func unknownKey(err error) *field.Error {
	located, ok := errors.AsType[kjson.FieldError](err)
	if !ok {
		return field.Forbidden(nil, err.Error())
	}
	whole := located.FieldPath()
	parent, key := "", whole
	if i := strings.LastIndexByte(whole, '.'); i >= 0 {
		parent, key = whole[:i], whole[i+1:]
	}
	known := keysOf(parent)
	for _, candidate := range known {
		switch {
		case candidate == key: // "server.address: ..." written as one key
			return field.Forbidden(path(whole), fmt.Sprintf("unknown key, write %q as a key under %q", key, parent))
		case strings.EqualFold(candidate, key):
			return field.Forbidden(path(whole), fmt.Sprintf("unknown key, did you mean %q?", candidate))
		}
	}
	return field.Forbidden(path(whole), "unknown key, known ones here: "+strings.Join(known, ", "))
}

// keysOf returns the keys of the mapping at a dotted path.
func keysOf(parent string) []string {
	mapping := typeAt(parent)
	keys := make([]string, 0, mapping.NumField())
	for f := range mapping.Fields() {
		keys = append(keys, f.Tag.Get("json"))
	}
	return keys
}

// typeAt returns the type of the known field at a dotted path; the root's for
// the empty path.
func typeAt(dotted string) reflect.Type {
	at := reflect.TypeFor[PrebindConfiguration]()
	for key := range strings.SplitSeq(dotted, ".") {
		if at.Kind() != reflect.Struct {
			break // a name of the user's, in a map
		}
		for f := range at.Fields() {
			if f.Tag.Get("json") == key {
				if at = f.Type; at.Kind() == reflect.Pointer {
					at = at.Elem()
				}
				break
			}
		}
	}
	return at
}

// expected says what a value of the type looks like in a file.
func expected(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return `must be a duration such as "90s" or "10m"`
	}
	switch t.Kind() {
	case reflect.Struct:
		return "must be a mapping"
	case reflect.Slice:
		return "must be a list of strings"
	case reflect.Map:
		return "must be a mapping of names to whole numbers"
	case reflect.String:
		return "must be a string"
	case reflect.Int:
		return "must be a whole number"
	case reflect.Bool:
		return "must be true or false"
	default:
		return "must be a number"
	}
}

// remove takes the value at a dotted path out of the tree.
func remove(tree any, dotted string) (value any, removed bool) {
	keys := strings.Split(dotted, ".")
	last := len(keys) - 1
	for _, key := range keys[:last] {
		mapping, ok := tree.(map[string]any)
		if !ok {
			return nil, false
		}
		tree = mapping[key]
	}
	mapping, ok := tree.(map[string]any)
	if !ok {
		return nil, false
	}
	value, removed = mapping[keys[last]]
	delete(mapping, keys[last])
	return value, removed
}

// path turns a dotted path into a field.Path.
func path(dotted string) *field.Path {
	first, rest, found := strings.Cut(dotted, ".")
	if !found {
		return field.NewPath(first)
	}
	return field.NewPath(first, strings.Split(rest, ".")...)
}
