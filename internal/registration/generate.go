package registration

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"text/template"

	yaml "go.yaml.in/yaml/v3"
)

//go:embed generate.yaml.tmpl
var generateText string

// Generate writes a whole KubeSchedulerConfiguration, with comments: every
// profile that is named, and prebind's entries. It passes Check, but for what
// the options themselves bring in (plain HTTP to another machine, a timeout
// that is too short).
func Generate(o Options) ([]byte, error) {
	o, err := o.checked()
	switch {
	case err != nil:
		return nil, err
	case o.Mode == ModeNone:
		return nil, errors.New("mode none takes prebind out of a file, there is nothing to generate")
	case o.URL == "":
		return nil, errors.New("the URL of prebind is missing")
	case o.https() && !o.hasCA():
		return nil, errNoCA()
	}
	if len(o.SchedulerNames) == 0 {
		o.SchedulerNames = []string{defaultSchedulerName}
	}
	if o.HTTPTimeout == 0 {
		o.HTTPTimeout = DefaultHTTPTimeout
	}
	page, err := template.New("generate").Funcs(template.FuncMap{
		"quote":  quote,
		"short":  short,
		"base64": base64.StdEncoding.EncodeToString,
	}).Parse(generateText)
	if err != nil {
		return nil, fmt.Errorf("parsing the template: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, templateData{Options: o, HTTPS: o.https(), FilterTimeout: short(filterTimeout), Points: fullPoints()}); err != nil {
		return nil, fmt.Errorf("filling the template: %w", err)
	}
	return out.Bytes(), nil
}

// templateData is what the template sees.
type templateData struct {
	Options
	HTTPS         bool
	FilterTimeout string
	Points        []point
}

// quote writes a string as a YAML scalar, with quotes only where it needs them.
func quote(value string) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSpace(string(text)), err
}
