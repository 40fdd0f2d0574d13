package config

import (
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const allCalls = 1_000_000

func validateTracing(at *field.Path, t Tracing) field.ErrorList {
	var mistakes field.ErrorList
	if t.Endpoint != "" && !isCollector(t.Endpoint) {
		mistakes = append(mistakes, field.Invalid(at.Child("endpoint"), t.Endpoint, "must be the http or https URL of an OTLP/HTTP receiver, such as http://127.0.0.1:4318, without user, query or fragment"))
	}
	rate := at.Child("samplingRatePerMillion")
	switch {
	case t.SamplingRatePerMillion < 0 || t.SamplingRatePerMillion > allCalls:
		mistakes = append(mistakes, field.Invalid(rate, t.SamplingRatePerMillion, "must be 0 to 1000000"))
	case t.SamplingRatePerMillion > 0 && t.Endpoint == "":
		mistakes = append(mistakes, field.Required(at.Child("endpoint"), "must be set beside samplingRatePerMillion: spans have to go somewhere"))
	}
	return mistakes
}

func isCollector(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}
