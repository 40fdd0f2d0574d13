package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kyaml "sigs.k8s.io/yaml"

	"github.com/prebind/prebind/config"
)

// FuzzLoad: no text makes Load panic, an error has at least one line, and a
// configuration that was accepted is accepted again when written out.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "a: b", "{", header, config.DefaultYAML(),
		header + "server: {address: 1}\n",
		header + "server: {address: [::1]:1}\n",
		header + "clientConnection: {qps: .nan, burst: 1e3}\n",
		header + "clientConnection: {qps: .inf}\n",
		header + "plugins: {bind: [null, 1, x]}\n",
		header + "volumes: {bindTimeout: 1h, bindTimeout: 2}\n",
		header + "volumes: &v {bindTimeout: 1h}\nlogging: *v\n",
		header + "server: {<<: {address: x}}\n",
		header + "? {a: b}\n: c\n",
		header + "---\n" + header,
		header + "provisioningLimit: {perClass: 1, classes: {a.b: 1, c: x}}\n",
		header + "provisioningLimit: {classes: {a: {b: c}, '': 1}}\n",
		"\xff", "a: !!binary x", "1: 2\n1: 3\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := config.Load(data, config.Options{})
		if err != nil {
			if len(config.Mistakes(err)) == 0 {
				t.Error("an error without a mistake")
			}
			return
		}
		text, err := kyaml.Marshal(cfg)
		if err != nil {
			t.Fatalf("writing out: %v", err)
		}
		again, err := config.Load(text, config.Options{})
		if err != nil {
			t.Fatalf("loading what was written out: %v\n%s", err, text)
		}
		if diff := cmp.Diff(cfg, again); diff != "" {
			t.Errorf("written out and loaded again (-first +second):\n%s", diff)
		}
	})
}
