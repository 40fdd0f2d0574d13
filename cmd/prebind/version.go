package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/internal/version"
)

func newVersionCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of prebind, Go and the Kubernetes libraries",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			text, err := render(version.Get(), output)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(command.OutOrStdout(), text); err != nil {
				return &runtimeError{fmt.Errorf("printing the version: %w", err)}
			}
			return nil
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "format: json or yaml; empty for plain text")
	return command
}

// render writes info in a format that --output may name.
func render(info version.Info, format string) (string, error) {
	var text []byte
	var err error
	switch format {
	case "":
		return info.String(), nil
	case "json":
		text, err = json.MarshalIndent(info, "", "  ")
	case "yaml":
		text, err = yaml.Marshal(info)
		if n := len(text); n > 0 {
			text = text[:n-1] // the caller ends the line
		}
	default:
		return "", fmt.Errorf("unknown --output %q, known ones: json, yaml", format)
	}
	return string(text), err
}
