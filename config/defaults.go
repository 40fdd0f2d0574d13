package config

import (
	_ "embed"
	"time"
)

// defaultYAML is also what `prebind serve --help` shows, and a test holds it
// against Default, so that code and documentation agree.
//
//go:embed default.yaml
var defaultYAML string

// DefaultYAML returns a complete configuration file with every default.
func DefaultYAML() string { return defaultYAML }

// Default returns a new configuration in which every field has its default.
func Default() *PrebindConfiguration {
	cfg := newWithoutPlugins()
	cfg.setDefaults()
	return cfg
}

// newWithoutPlugins returns the defaults to decode a file onto. Lists and maps stay
// nil so that an absent stage can be told from an empty one, and so that no
// element of a default list shines through a null in the file's list.
func newWithoutPlugins() *PrebindConfiguration {
	return &PrebindConfiguration{
		APIVersion: APIVersion,
		Kind:       Kind,
		Server: Server{
			Address:        "127.0.0.1:8888",
			OpsAddress:     "127.0.0.1:8889",
			MaxBindCalls:   10000,
			MaxFilterBytes: 128 << 20,
			DrainTimeout:   Duration{25 * time.Second},
		},
		ClientConnection: ClientConnection{QPS: 500, Burst: 1000},
		Volumes: Volumes{
			BindTimeout:      Duration{10 * time.Minute},
			StaticCompletion: StaticCompletionController,
		},
		ProvisioningLimit: ProvisioningLimit{PerClass: 10},

		Events:  Events{Enabled: true},
		Logging: Logging{Level: LogLevelInfo, Format: LogFormatJSON},
	}
}

// setDefaults fills what newWithoutPlugins leaves out.
func (c *PrebindConfiguration) setDefaults() {
	c.Plugins.setDefaults()
	if c.ProvisioningLimit.Classes == nil {
		c.ProvisioningLimit.Classes = map[string]int{}
	}
}

// setDefaults fills the stages that are absent.
func (p *Plugins) setDefaults() {
	for stage, names := range map[*[]string][]string{
		&p.Permit:   {},
		&p.Reserve:  {PluginVolumeBinding},
		&p.PreBind:  {PluginVolumeBinding},
		&p.Bind:     {PluginDefaultBinder},
		&p.PostBind: {},
	} {
		if *stage == nil {
			*stage = names
		}
	}
}
