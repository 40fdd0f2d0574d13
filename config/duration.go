package config

import (
	"encoding/json"
	"reflect"
	"time"
)

// Duration is a time.Duration written as "90s" or "10m" in a file. It is not
// metav1.Duration because that type's parse error tells no path: the decoder
// adds one only to *json.UnmarshalTypeError.
type Duration struct {
	time.Duration
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(d.String())
}

// UnmarshalJSON implements json.Unmarshaler. Every error is a
// *json.UnmarshalTypeError.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil // as encoding/json treats null: keep the default
	}
	mistake := &json.UnmarshalTypeError{Value: string(data), Type: reflect.TypeFor[Duration]()}
	var text string
	if json.Unmarshal(data, &text) != nil {
		return mistake
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return mistake
	}
	d.Duration = parsed
	return nil
}
