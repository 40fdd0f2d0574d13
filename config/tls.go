package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateTLS(server *field.Path, s Server) field.ErrorList {
	if s.TLS == nil {
		return nil
	}
	var mistakes field.ErrorList
	if s.Insecure {
		mistakes = append(mistakes, field.Forbidden(server.Child("insecure"), "plain HTTP and server.tls exclude each other: leave one of them out"))
	}
	at := server.Child("tls")
	if s.TLS.CertFile == "" {
		mistakes = append(mistakes, field.Required(at.Child("certFile"), "must be the path of the serving certificate; leave server.tls out for plain HTTP"))
	}
	if s.TLS.KeyFile == "" {
		mistakes = append(mistakes, field.Required(at.Child("keyFile"), "must be the path of the private key of certFile"))
	}
	names := at.Child("allowedClientNames")
	if len(s.TLS.AllowedClientNames) > 0 && s.TLS.ClientCAFile == "" {
		mistakes = append(mistakes, field.Required(at.Child("clientCAFile"), "must be set beside allowedClientNames: without it nobody's name is checked"))
	}
	for i, name := range s.TLS.AllowedClientNames {
		switch {
		case name == "":
			mistakes = append(mistakes, field.Required(names.Index(i), "must be the name of a client certificate"))
		case slices.Contains(s.TLS.AllowedClientNames[:i], name):
			mistakes = append(mistakes, field.Duplicate(names.Index(i), name))
		}
	}
	return mistakes
}
