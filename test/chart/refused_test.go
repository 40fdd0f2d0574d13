package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// refusal is a set of values that is refused, with words of the text that the
// user sees.
type refusal struct {
	values string
	words  []string
}

// schemaRefusals are values of a wrong form.
func schemaRefusals() map[string]refusal {
	return map[string]refusal{
		"unknown key":                          {"replica: 2", []string{"replica"}},
		"unknown key in image":                 {"image: {repo: x}", []string{"image", "repo"}},
		"unknown key in tls.helm":              {"tls: {helm: {days: 3}}", []string{"/tls/helm", "days"}},
		"unknown key in tls.certManager":       {"tls: {certManager: {issuerRef: {names: x}}}", []string{"/tls/certManager/issuerRef", "names"}},
		"unknown key of prebind":               {"config: {volume: {}}", []string{"/config", "volume"}},
		"unknown key deep in prebind's":        {"config: {server: {tls: {ca: x}}}", []string{"/config/server/tls", "'ca'"}},
		"key of prebind in the wrong case":     {"config: {server: {Address: ':8443'}}", []string{"/config/server", "Address"}},
		"unknown key in scheduler":             {"scheduler: {image: {version: x}}", []string{"/scheduler/image", "version"}},
		"unknown key in a pull secret":         {"imagePullSecrets: [{secret: x}]", []string{"/imagePullSecrets/0"}},
		"unknown mode":                         {"mode: statefulset", []string{"/mode", "deployment", "daemonset"}},
		"unknown tls.type":                     {"tls: {type: certmanager}", []string{"/tls/type", "cert-manager"}},
		"unknown scheduler.mode":               {"scheduler: {mode: half}", []string{"/scheduler/mode", "stock"}},
		"unknown pull policy":                  {"image: {pullPolicy: always}", []string{"/image/pullPolicy", "IfNotPresent"}},
		"unknown level":                        {"config: {logging: {level: trace}}", []string{"/config/logging/level", "debug"}},
		"replicas as text":                     {"replicas: two", []string{"/replicas", "integer"}},
		"replicas below 0":                     {"replicas: -1", []string{"/replicas"}},
		"a switch as text":                     {"scheduler: {enabled: 'yes'}", []string{"/scheduler/enabled", "boolean"}},
		"config as text":                       {"config: |\n  server: {}", []string{"/config", "object"}},
		"extraArgs as text":                    {"extraArgs: --v=2", []string{"/extraArgs", "array"}},
		"a port beyond the last":               {"service: {port: 70000}", []string{"/service/port"}},
		"a duration without unit":              {"config: {volumes: {bindTimeout: '600'}}", []string{"/config/volumes/bindTimeout"}},
		"a duration as number":                 {"config: {volumes: {bindTimeout: 600}}", []string{"/config/volumes/bindTimeout", "string"}},
		"an address without port":              {"config: {server: {address: 127.0.0.1}}", []string{"/config/server/address"}},
		"a digest without algorithm":           {"image: {digest: abc}", []string{"/image/digest"}},
		"a name that is none":                  {"fullnameOverride: My_Prebind", []string{"/fullnameOverride"}},
		"a cluster IP that is none":            {"service: {clusterIP: prebind}", []string{"/service/clusterIP"}},
		"a stage without VolumeBinding":        {"config: {plugins: {reserve: []}}", []string{"/config/plugins/reserve"}},
		"no API server port":                   {"networkPolicy: {apiServer: {ports: []}}", []string{"/networkPolicy/apiServer/ports"}},
		"an environment variable with no name": {"extraEnv: [{value: x}]", []string{"/extraEnv/0", "name"}},
	}
}

// failures are values of the right form that cannot work.
func failures() map[string]refusal {
	return map[string]refusal{
		"a port that the system chooses": {"config: {server: {address: ':0'}}", []string{"config.server.address", "fixed port"}},
		"an ops port that the system chooses": {
			"config: {server: {opsAddress: ':0'}}", []string{"config.server.opsAddress", "fixed port"},
		},
		"one port for both": {"config: {server: {opsAddress: ':8443'}}", []string{"config.server.opsAddress", "same port 8443"}},
		"plain HTTP with certificates": {
			"config: {server: {insecure: true}}", []string{"config.server.insecure", "tls.type is helm"},
		},
		"names of callers that nobody checks": {
			"config: {server: {tls: {clientCAFile: '', allowedClientNames: [somebody]}}}", []string{"config.server.tls.allowedClientNames", "clientCAFile"},
		},
		"none with certificates": {
			"{tls: {type: none}, config: {server: {insecure: true, tls: {certFile: x}}}}",
			[]string{"config.server.tls is set", "tls.type=existingSecret"},
		},
		"none on every address":      {"tls: {type: none}", []string{"whoever reaches", "mode=daemonset", "config.server.insecure=true"}},
		"existingSecret without one": {"tls: {type: existingSecret}", []string{"tls.existingSecret.server", "kube-system", "ca.crt"}},
		"a CA that ends with its leaves": {
			"tls: {helm: {caDays: 365}}", []string{"tls.helm.caDays", "365 days"},
		},
		"too little time to stop": {
			"{terminationGracePeriodSeconds: 30, config: {server: {shutdownDelay: 10s, drainTimeout: 25s}}}",
			[]string{"terminationGracePeriodSeconds: 30", "35 seconds"},
		},
		"replicas 0":              {"replicas: 0", []string{"replicas: 0", "pending", "uninstall"}},
		"nobody's account":        {"serviceAccount: {create: false}", []string{"serviceAccount.name"}},
		"two monitors":            {"{serviceMonitor: {enabled: true}, podMonitor: {enabled: true}}", []string{"podMonitor.enabled", "twice"}},
		"a Service where none is": {"{mode: daemonset, serviceMonitor: {enabled: true}}", []string{"serviceMonitor.enabled", "no Service"}},
		"metrics on loopback":     {"{mode: daemonset, podMonitor: {enabled: true}}", []string{"podMonitor.enabled", ":8889"}},
		"second scheduler without Service": {
			"{mode: daemonset, scheduler: {enabled: true}}", []string{"scheduler.enabled", "mode=deployment"},
		},
		"second scheduler without replicas": {
			"scheduler: {enabled: true, replicas: 0}", []string{"scheduler.replicas", "scheduler.enabled=false"},
		},
		"a second default scheduler": {
			"scheduler: {enabled: true, name: default-scheduler}", []string{"scheduler.name", "fight over"},
		},
		"the scheduler hangs up first": {
			"{config: {volumes: {bindTimeout: 1h30m}}, scheduler: {enabled: true, httpTimeout: 90m}}",
			[]string{"scheduler.httpTimeout: 90m", "1h30m"},
		},
		"second scheduler without certificate": {
			"{tls: {type: existingSecret, existingSecret: {server: x}}, scheduler: {enabled: true}}",
			[]string{"tls.existingSecret.client", "kube-system"},
		},
	}
}

func TestRefusedBySchema(t *testing.T) {
	testRefusals(t, schemaRefusals())
}

// Every text that the templates can fail with is seen.
func TestRefusedByTheChart(t *testing.T) {
	seen := testRefusals(t, failures())
	text, err := os.ReadFile(filepath.Join(shared.chart, "templates", "_validate.tpl"))
	must(t, err)
	lines := regexp.MustCompile(`(?m)^- "(.*)"$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) == 0 {
		t.Fatal("the templates have no texts of failures, or they are written in another way")
	}
	action := regexp.MustCompile(`\{\{.*?\}\}`)
	for _, line := range lines {
		if strings.HasPrefix(line[1], "service.clusterIP: the Service has ") {
			continue // needs a cluster: TestLifeOfARelease
		}
		if words := longest(action.Split(line[1], -1)); !strings.Contains(seen, words) {
			t.Errorf("no test sees this text: %s", line[1])
		}
	}
}

// testRefusals has both versions refuse all values, and returns what they say.
func testRefusals(t *testing.T, all map[string]refusal) string {
	t.Helper()
	texts := make(chan string, len(all)*len(helms()))
	t.Run("values", func(t *testing.T) {
		for name, tc := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tc.check(t, texts)
			})
		}
	})
	close(texts)
	var seen strings.Builder
	for text := range texts {
		seen.WriteString(text)
	}
	return seen.String()
}

func (tc refusal) check(t *testing.T, texts chan<- string) {
	t.Helper()
	for _, h := range helms() {
		out, err := h.template(t.Context(), tc.values)
		if err == nil {
			t.Errorf("%s takes %s and renders\n%.300s", h.name, tc.values, out)
			continue
		}
		_, text, _ := strings.Cut(err.Error(), "\n") // without our own arguments
		texts <- text
		for _, word := range tc.words {
			if !strings.Contains(text, word) {
				t.Errorf("%s refuses %s, but its text lacks %q:\n%s", h.name, tc.values, word, text)
			}
		}
	}
}

// All mistakes are told at once.
func TestRefusedWithEveryMistake(t *testing.T) {
	_, err := helms()[0].template(t.Context(), "{replicas: 0, tls: {type: existingSecret}, serviceAccount: {create: false}}")
	if err == nil {
		t.Fatal("nothing is refused")
	}
	for _, word := range []string{"\n  - replicas: 0", "\n  - tls.existingSecret.server", "\n  - serviceAccount.name"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the text lacks %q:\n%s", word, err)
		}
	}
}

func longest(parts []string) string {
	best := ""
	for _, part := range parts {
		if len(part) > len(best) {
			best = part
		}
	}
	return best
}
