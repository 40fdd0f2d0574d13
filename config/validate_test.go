package config_test

import (
	"testing"

	"github.com/prebind/prebind/config"
)

func TestLoadMistakesOfMeaning(t *testing.T) {
	const needsVolumes = "must contain VolumeBinding (it belongs in both reserve and preBind): without it pods would be bound with unbound claims"
	known := config.Options{KnownPlugins: &config.Plugins{
		Permit: []string{}, Reserve: []string{"VolumeBinding"}, PreBind: []string{"VolumeBinding"},
		Bind: []string{"DefaultBinder"}, PostBind: []string{},
	}}
	tests := map[string]struct {
		file string
		opts config.Options
		want []string
	}{
		"rates must be positive": {
			file: "clientConnection: {qps: 0, burst: -1}",
			want: []string{
				"clientConnection.burst: Invalid value: -1: must be greater than 0",
				"clientConnection.qps: Invalid value: 0: must be greater than 0",
			},
		},
		"a server that would refuse all calls, or cut them off": {
			file: "server: {maxBindCalls: 0, maxFilterBytes: 65535, shutdownDelay: -1s, drainTimeout: 25ms}",
			want: []string{
				`server.drainTimeout: Invalid value: "25ms": must be at least 1s`,
				"server.maxBindCalls: Invalid value: 0: must be greater than 0",
				"server.maxFilterBytes: Invalid value: 65535: must be at least 65536",
				`server.shutdownDelay: Invalid value: "-1s": must not be negative`,
			},
		},
		"TLS without its files": {
			file: "server: {tls: {}}",
			want: []string{
				"server.tls.certFile: Required value: must be the path of the serving certificate; leave server.tls out for plain HTTP",
				"server.tls.keyFile: Required value: must be the path of the private key of certFile",
			},
		},
		"TLS without its key, names without a CA, and plain HTTP": {
			file: "server: {address: ':8443', insecure: true, tls: {certFile: c, allowedClientNames: [a, '', a, null]}}",
			want: []string{
				"server.insecure: Forbidden: plain HTTP and server.tls exclude each other: leave one of them out",
				"server.tls.allowedClientNames[1]: Required value: must be the name of a client certificate",
				`server.tls.allowedClientNames[2]: Duplicate value: "a"`,
				"server.tls.allowedClientNames[3]: Required value: must be the name of a client certificate",
				"server.tls.clientCAFile: Required value: must be set beside allowedClientNames: without it nobody's name is checked",
				"server.tls.keyFile: Required value: must be the path of the private key of certFile",
			},
		},
		"a time-out that is too short": {
			file: "volumes: {bindTimeout: 10ms}",
			want: []string{`volumes.bindTimeout: Invalid value: "10ms": must be at least 1s`},
		},
		"a negative time-out": {
			file: "volumes: {bindTimeout: -5m}",
			want: []string{`volumes.bindTimeout: Invalid value: "-5m0s": must be at least 1s`},
		},
		"limits below nothing, and a class that can not be": {
			file: "provisioningLimit: {perClass: -1, classes: {fast: -2, Fast: 1}}",
			want: []string{
				`provisioningLimit.classes[Fast]: Invalid value: "Fast": must be the name of a StorageClass`,
				`provisioningLimit.classes[fast]: Invalid value: -2: must not be negative; 0 is no limit`,
				`provisioningLimit.perClass: Invalid value: -1: must not be negative; 0 is no limit`,
			},
		},
		"tracing to nowhere, and too much of it": {
			file: "tracing: {samplingRatePerMillion: 1}",
			want: []string{"tracing.endpoint: Required value: must be set beside samplingRatePerMillion: spans have to go somewhere"},
		},
		"a collector that is no URL": {
			file: "tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 1000001}",
			want: []string{
				`tracing.endpoint: Invalid value: "localhost:4317": must be the http or https URL of an OTLP/HTTP receiver, such as http://127.0.0.1:4318, without user, query or fragment`,
				"tracing.samplingRatePerMillion: Invalid value: 1000001: must be 0 to 1000000",
			},
		},
		"unknown words": {
			file: "volumes: {staticCompletion: controller}\nlogging: {level: Info, format: ''}",
			want: []string{
				`logging.format: Unsupported value: "": supported values: "json", "console"`,
				`logging.level: Unsupported value: "Info": supported values: "debug", "info", "warn", "error"`,
				`volumes.staticCompletion: Unsupported value: "controller": supported values: "Controller", "Direct"`,
			},
		},
		"events of bound pods without events": {
			file: "events: {enabled: false, bound: true}",
			want: []string{"events.bound: Invalid value: true: needs events.enabled: true"},
		},
		"stages without VolumeBinding": {
			file: "plugins: {reserve: [], preBind: [Other]}",
			want: []string{
				"plugins.preBind: Required value: " + needsVolumes,
				"plugins.reserve: Required value: " + needsVolumes,
			},
		},
		"no binder": {
			file: "plugins: {bind: []}",
			want: []string{"plugins.bind: Required value: must name a plugin that posts the Binding, such as DefaultBinder"},
		},
		"unknown, repeated and empty names": {
			file: "plugins: {permit: [Quota], reserve: [VolumeBinding, VolumeBinding], bind: [null, Binder]}",
			opts: known,
			want: []string{
				`plugins.bind[0]: Required value: must be a plugin's name`,
				`plugins.bind[1]: Unsupported value: "Binder": supported values: "DefaultBinder"`,
				`plugins.permit[0]: Unsupported value: "Quota"`,
				`plugins.reserve[1]: Duplicate value: "VolumeBinding"`,
			},
		},
		"the defaults are known": {file: "", opts: known},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { wantMistakes(t, header+tc.file, tc.opts, tc.want) })
	}
}

func TestLoadAddresses(t *testing.T) {
	const (
		form     = "must be host:port, such as 127.0.0.1:8888 or [::1]:8888"
		loopback = ", where whoever reaches it can bind pods: set server.tls, use loopback such as 127.0.0.1:8888, or accept the risk with server.insecure: true"
		port     = "port must be a number from 0 to 65535"
		differ   = "must differ from server.address"
	)
	tests := map[string]struct {
		address, ops string
		want         []string
	}{
		"loopback, IPv4 and IPv6":         {address: "127.0.0.2:1", ops: "[::1]:1"},
		"ops may be anywhere":             {address: "[::1]:1", ops: ":2"},
		"ops may have a name":             {address: "127.0.0.1:1", ops: "ops.example.com:1"},
		"one free port each":              {address: "127.0.0.1:0", ops: "127.0.0.1:0"},
		"empty":                           {address: "", ops: "", want: []string{`server.address: Invalid value: "": ` + form, `server.opsAddress: Invalid value: "": ` + form}},
		"no port":                         {address: "127.0.0.1", ops: "::1", want: []string{`server.address: Invalid value: "127.0.0.1": ` + form, `server.opsAddress: Invalid value: "::1": ` + form}},
		"a port by name, and one too big": {address: "127.0.0.1:http", ops: ":65536", want: []string{`server.address: Invalid value: "127.0.0.1:http": ` + port, `server.opsAddress: Invalid value: ":65536": ` + port}},
		"a host that is none":             {address: "127.0.0.1:1", ops: "a_b:1", want: []string{`server.opsAddress: Invalid value: "a_b:1": host must be an IP address or a DNS name`}},
		"all interfaces":                  {address: ":1", ops: ":2", want: []string{"server.address: Forbidden: plain HTTP on :1" + loopback}},
		"another machine's":               {address: "10.0.0.1:1", ops: ":2", want: []string{"server.address: Forbidden: plain HTTP on 10.0.0.1:1" + loopback}},
		"a name is no loopback":           {address: "host.example.com:1", ops: ":2", want: []string{"server.address: Forbidden: plain HTTP on host.example.com:1" + loopback}},
		"the same":                        {address: "127.0.0.1:1", ops: "127.0.0.1:1", want: []string{`server.opsAddress: Invalid value: "127.0.0.1:1": ` + differ}},
		"the same, written otherwise":     {address: "127.0.0.1:1", ops: "LocalHost:1", want: []string{`server.opsAddress: Invalid value: "LocalHost:1": ` + differ}},
		"one is all interfaces":           {address: "127.0.0.1:1", ops: ":1", want: []string{`server.opsAddress: Invalid value: ":1": ` + differ}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := header + "server: {address: '" + tc.address + "', opsAddress: '" + tc.ops + "'}\n"
			wantMistakes(t, file, config.Options{}, tc.want)
		})
	}
}
