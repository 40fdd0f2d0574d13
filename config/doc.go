// Package config holds prebind's configuration file: its types, its defaults,
// and a strict loader that reports every mistake at once, each with its path.
//
// The file is YAML (or JSON) of one versioned kind:
//
//	apiVersion: prebind.dev/v1alpha1
//	kind: PrebindConfiguration
//	volumes:
//	  bindTimeout: 5m
//
// A key that is absent, or null, has its default; an empty file is all
// defaults. A key that is present is taken at its word: a zero that makes no
// sense (qps: 0, address: "") is a mistake, not a way to ask for the default.
// [DefaultYAML] is a complete file with every default written out.
//
//	cfg, err := config.LoadFile("prebind.yaml", config.Options{})
//	for _, mistake := range config.Mistakes(err) {
//		fmt.Println(mistake) // volumes.bindTimeout: Invalid value: "10": ...
//	}
//
// The package reads no environment and starts nothing. All functions are safe
// for parallel use; a loaded configuration is a plain value.
package config
