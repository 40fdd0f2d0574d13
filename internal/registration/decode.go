package registration

import (
	"fmt"

	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

func decode(data []byte) (*configv1.KubeSchedulerConfiguration, error) {
	text, err := kyaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("parsing YAML: %w", err)
	}
	var cfg configv1.KubeSchedulerConfiguration
	if strict, err := kjson.UnmarshalStrict(text, &cfg); err != nil || len(strict) > 0 {
		return nil, fmt.Errorf("decoding: %w %v", err, strict)
	}
	return &cfg, nil
}
