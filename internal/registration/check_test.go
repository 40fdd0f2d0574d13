package registration

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// base is a file in which everything is right. Tests change it by replacing
// text.
const base = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
profiles:
- schedulerName: default-scheduler
  plugins:
    reserve: {disabled: [{name: VolumeBinding}]}
    preBind: {disabled: [{name: VolumeBinding}]}
extenders:
- urlPrefix: https://10.96.0.77:8443/v1
  bindVerb: bind
  enableHTTPS: true
  tlsConfig: {caFile: ca.crt, certFile: tls.crt, keyFile: tls.key, serverName: prebind.kube-system.svc}
  httpTimeout: 11m
  nodeCacheCapable: true
`

// filterEntry is a right entry for mode full, without its verbs.
const filterEntry = `- urlPrefix: https://10.96.0.77:8443/v1
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  enableHTTPS: true
  tlsConfig: {caFile: ca.crt, certFile: tls.crt, keyFile: tls.key, serverName: prebind.kube-system.svc}
  nodeCacheCapable: true
`

const bothLists = `    reserve: {disabled: [{name: VolumeBinding}]}
    preBind: {disabled: [{name: VolumeBinding}]}
`

// edit replaces text, and wants it to be there once.
func edit(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(text, pairs[i]) != 1 {
			t.Fatalf("%q stands %d times in:\n%s", pairs[i], strings.Count(text, pairs[i]), text)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// summary is the part of a problem that is not prose.
func summary(problems []Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, string(p.Severity)+" "+p.Check+" "+p.Path)
	}
	return lines
}

func TestCheck(t *testing.T) {
	full := []string{bothLists, "    multiPoint: {disabled: [{name: VolumeBinding}]}\n", "extenders:\n", "extenders:\n" + filterEntry}
	profile := func(lists string) []string {
		return []string{"extenders:\n", "- schedulerName: batch\n  plugins:\n" + lists + "extenders:\n"}
	}
	tests := map[string]struct {
		edits       []string
		bindTimeout time.Duration
		mode        Mode
		want        []string
	}{
		"right":                   {mode: ModeBind},
		"right, mode full":        {edits: full, mode: ModeFull},
		"right, mode stock":       {edits: []string{"  plugins:\n" + bothLists, ""}, mode: ModeStock},
		"right, * at both points": {edits: []string{"reserve: {disabled: [{name: VolumeBinding}]}", `reserve: {disabled: [{name: "*"}]}`}, mode: ModeBind},
		"right, stock without profiles": {
			edits: []string{"profiles:\n- schedulerName: default-scheduler\n  plugins:\n" + bothLists, ""}, mode: ModeStock,
		},
		"right, multiPoint off and put back at the node's points": {
			edits: []string{bothLists, `    multiPoint: {disabled: [{name: VolumeBinding}]}
    preFilter: {enabled: [{name: VolumeBinding}]}
    filter: {enabled: [{name: VolumeBinding}]}
`}, mode: ModeBind,
		},
		"right, a longer bindTimeout": {edits: []string{"11m", "31m"}, bindTimeout: 30 * time.Minute, mode: ModeBind},
		"right, plain HTTP on loopback": {edits: []string{
			"https://10.96.0.77:8443", "http://[::1]:8888", "  enableHTTPS: true\n", "",
			"  tlsConfig: {caFile: ca.crt, certFile: tls.crt, keyFile: tls.key, serverName: prebind.kube-system.svc}\n", "",
		}, mode: ModeBind},

		"preBind only": {
			edits: []string{"    reserve: {disabled: [{name: VolumeBinding}]}\n", ""}, mode: ModeMixed,
			want: []string{"fault reserve-left-on profiles[0].plugins.reserve"},
		},
		"reserve only": {
			edits: []string{"    preBind: {disabled: [{name: VolumeBinding}]}\n", ""}, mode: ModeMixed,
			want: []string{"fault prebind-left-on profiles[0].plugins.preBind"},
		},
		"put back at preBind": {
			edits: []string{"preBind: {", "preBind: {enabled: [{name: VolumeBinding}], "}, mode: ModeMixed,
			want: []string{"fault prebind-left-on profiles[0].plugins.preBind"},
		},
		"disabled twice, put back by nobody": {
			edits: []string{bothLists, bothLists + "    multiPoint: {enabled: [{name: VolumeBinding}], disabled: [{name: \"*\"}]}\n"}, mode: ModeBind,
		},
		"preFilter off": {
			edits: []string{bothLists, bothLists + "    preFilter: {disabled: [{name: VolumeBinding}]}\n"}, mode: ModeBind,
			want: []string{"fault prefilter-off profiles[0].plugins.preFilter"},
		},
		"filter off, reserve on": {
			edits: []string{bothLists, "    filter: {disabled: [{name: VolumeBinding}]}\n"}, mode: ModeMixed,
			want: []string{"fault filter-off-reserve-on profiles[0].plugins.filter", "fault nobody-filters profiles[0].plugins.filter"},
		},
		"second profile, preBind only": {
			edits: profile("    preBind: {disabled: [{name: VolumeBinding}]}\n"), mode: ModeMixed,
			want: []string{"fault reserve-left-on profiles[1].plugins.reserve"},
		},
		"second profile stock": {
			edits: profile("    score: {}\n"), mode: ModeMixed,
			want: []string{"fault profiles-differ profiles[1].plugins"},
		},
		"second profile full, nobody filters": {
			edits: profile("    multiPoint: {disabled: [{name: \"*\"}], enabled: [{name: DefaultBinder}]}\n"), mode: ModeMixed,
			want: []string{"fault nobody-filters profiles[1].plugins.filter", "advice profiles-differ profiles"},
		},
		"profile without a name": {
			edits: []string{"extenders:\n", "- plugins:\n" + bothLists + "extenders:\n"}, mode: ModeBind,
			want: []string{"fault profile-without-name profiles[1].schedulerName"},
		},
		"profile name twice": {
			edits: []string{"extenders:\n", "- schedulerName: default-scheduler\n  plugins:\n" + bothLists + "extenders:\n"}, mode: ModeBind,
			want: []string{"fault profile-name-twice profiles[1].schedulerName"},
		},
		"another bind plugin": {
			edits: []string{bothLists, bothLists + "    bind: {disabled: [{name: DefaultBinder}], enabled: [{name: Mine}]}\n"}, mode: ModeBind,
			want: []string{"advice other-binder profiles[0].plugins.bind"},
		},
		"no bind plugin": {
			edits: []string{bothLists, bothLists + "    bind: {disabled: [{name: \"*\"}]}\n"}, mode: ModeBind,
			want: []string{"fault no-binder profiles[0].plugins.bind"},
		},
		"bindTimeoutSeconds in the plugin": {
			edits: []string{"extenders:\n", "  pluginConfig:\n  - {name: VolumeBinding, args: {bindTimeoutSeconds: 1800}}\nextenders:\n"}, mode: ModeBind,
			want: []string{"advice bind-timeout-moved profiles[0].pluginConfig[0].args.bindTimeoutSeconds"},
		},

		"nobody binds volumes": {
			edits: []string{"  bindVerb: bind\n", "  filterVerb: filter\n"}, mode: ModeBind,
			want: []string{"fault nobody-binds-volumes profiles[0].plugins.preBind"},
		},
		"no entry, stock": {
			edits: []string{"  plugins:\n" + bothLists, "", entryOf(base), ""}, mode: ModeNone,
			want: []string{"fault not-registered extenders"},
		},
		"two binders": {
			edits: []string{"extenders:\n", "extenders:\n- {urlPrefix: 'http://gpu:1/share', bindVerb: bind}\n"}, mode: ModeBind,
			want: []string{"fault two-binders extenders[1].bindVerb"},
		},
		"another extender binds": {
			edits: []string{"https://10.96.0.77:8443/v1", "https://10.96.0.77:8443/share", "prebind.kube-system.svc", "share"}, mode: ModeBind,
			want: []string{"fault url-path extenders[0].urlPrefix"},
		},
		"weight missing": {
			edits: []string{"extenders:\n", "extenders:\n- {urlPrefix: 'http://other:1', prioritizeVerb: score}\n"}, mode: ModeBind,
			want: []string{"fault weight-missing extenders[0].weight"},
		},
		"ignorable":         {edits: []string{"  httpTimeout", "  ignorable: true\n  httpTimeout"}, mode: ModeBind, want: []string{"fault ignorable extenders[0].ignorable"}},
		"managed resources": {edits: []string{"  httpTimeout", "  managedResources: [{name: a.b/c}]\n  httpTimeout"}, mode: ModeBind, want: []string{"fault managed-resources extenders[0].managedResources"}},

		"httpTimeout absent":      {edits: []string{"  httpTimeout: 11m\n", ""}, mode: ModeBind, want: []string{"fault http-timeout extenders[0].httpTimeout"}},
		"httpTimeout 0s":          {edits: []string{"11m", "0s"}, mode: ModeBind, want: []string{"fault http-timeout extenders[0].httpTimeout"}},
		"httpTimeout as long":     {edits: []string{"11m", "10m"}, mode: ModeBind, want: []string{"fault http-timeout extenders[0].httpTimeout"}},
		"httpTimeout, long binds": {bindTimeout: time.Hour, mode: ModeBind, want: []string{"fault http-timeout extenders[0].httpTimeout"}},
		"httpTimeout in stock":    {edits: []string{"11m", "5s", "  plugins:\n" + bothLists, ""}, mode: ModeStock, want: []string{"advice http-timeout extenders[0].httpTimeout"}},

		"one entry for all verbs": {
			edits: []string{bothLists, "    multiPoint: {disabled: [{name: VolumeBinding}]}\n", "  bindVerb: bind\n", "  bindVerb: bind\n  filterVerb: filter\n  prioritizeVerb: prioritize\n  weight: 1\n"}, mode: ModeFull,
			want: []string{"fault shared-entry extenders[0].filterVerb"},
		},
		"full without a filter entry": {
			edits: full[:2], mode: ModeFull,
			want: []string{"fault nobody-filters profiles[0].plugins.filter"},
		},
		"full without scores": {
			edits: append(full, "  prioritizeVerb: prioritize\n  weight: 1\n", ""), mode: ModeFull,
			want: []string{"advice prioritize-missing extenders[0].prioritizeVerb"},
		},
		"filter twice": {edits: full[2:], mode: ModeBind, want: []string{"advice filters-twice extenders[0].filterVerb"}},
		"filter entry slow, ignorable, with whole nodes": {
			edits: append(full, "  weight: 1\n", "  weight: 1\n  ignorable: true\n  httpTimeout: 1m\n", "  nodeCacheCapable: true\n- url", "- url"), mode: ModeFull,
			want: []string{"advice filter-timeout extenders[0].httpTimeout", "advice filter-ignorable extenders[0].ignorable", "advice node-cache extenders[0].nodeCacheCapable"},
		},
		"unknown verbs": {
			edits: append(full, "filterVerb: filter", "filterVerb: predicates\n  preemptVerb: preempt", "bindVerb: bind", "bindVerb: binding"), mode: ModeFull,
			want: []string{"fault unknown-verb extenders[0].filterVerb", "fault unknown-verb extenders[0].preemptVerb", "fault unknown-verb extenders[1].bindVerb"},
		},

		"no scheme":          {edits: []string{"https://10.96.0.77:8443/v1", "10.96.0.77:8443/v1"}, mode: ModeBind, want: []string{"fault url extenders[0].urlPrefix"}},
		"verb in the URL":    {edits: []string{"8443/v1", "8443/v1/bind/"}, mode: ModeBind, want: []string{"fault url-verb extenders[0].urlPrefix"}},
		"no path":            {edits: []string{"8443/v1", "8443"}, mode: ModeBind, want: []string{"fault url-path extenders[0].urlPrefix"}},
		"slash at the end":   {edits: []string{"8443/v1", "8443/v1/"}, mode: ModeBind},
		"http, enableHTTPS":  {edits: []string{"https://", "http://"}, mode: ModeBind, want: []string{"fault scheme extenders[0].enableHTTPS"}},
		"https, not enabled": {edits: []string{"  enableHTTPS: true\n", ""}, mode: ModeBind, want: []string{"fault scheme extenders[0].enableHTTPS"}},
		"plain HTTP over the network": {
			edits: []string{"https://", "http://", "  enableHTTPS: true\n", ""}, mode: ModeBind,
			want: []string{"fault plain-http extenders[0].urlPrefix"},
		},
		"a Service's name":                   {edits: []string{"10.96.0.77", "prebind.kube-system.svc"}, mode: ModeBind, want: []string{"advice service-name extenders[0].urlPrefix"}},
		"a Service's name, second scheduler": {edits: []string{"10.96.0.77", "prebind.kube-system.svc", "default-scheduler", "prebind-scheduler"}, mode: ModeBind},
		"no CA":                              {edits: []string{"caFile: ca.crt, ", ""}, mode: ModeBind, want: []string{"fault unverified extenders[0].tlsConfig"}},
		"no tlsConfig at all": {
			edits: []string{"  tlsConfig: {caFile: ca.crt, certFile: tls.crt, keyFile: tls.key, serverName: prebind.kube-system.svc}\n", ""}, mode: ModeBind,
			want: []string{"fault unverified extenders[0].tlsConfig", "advice no-client-certificate extenders[0].tlsConfig"},
		},
		"insecure":              {edits: []string{"caFile: ca.crt", "insecure: true"}, mode: ModeBind, want: []string{"fault unverified extenders[0].tlsConfig.insecure"}},
		"insecure beside a CA":  {edits: []string{"caFile: ca.crt", "insecure: true, caFile: ca.crt"}, mode: ModeBind, want: []string{"fault insecure-with-ca extenders[0].tlsConfig.insecure"}},
		"key missing":           {edits: []string{", keyFile: tls.key", ""}, mode: ModeBind, want: []string{"fault half-client-certificate extenders[0].tlsConfig.certFile"}},
		"certificate missing":   {edits: []string{", certFile: tls.crt", ""}, mode: ModeBind, want: []string{"fault half-client-certificate extenders[0].tlsConfig.keyFile"}},
		"no client certificate": {edits: []string{", certFile: tls.crt, keyFile: tls.key", ""}, mode: ModeBind, want: []string{"advice no-client-certificate extenders[0].tlsConfig"}},
		"no server name":        {edits: []string{", serverName: prebind.kube-system.svc", ""}, mode: ModeBind, want: []string{"advice server-name extenders[0].tlsConfig.serverName"}},
		"no server name, name in the URL": {
			edits: []string{", serverName: prebind.kube-system.svc", "", "10.96.0.77", "prebind.example.com"}, mode: ModeBind,
		},
		"no kubeconfig": {edits: []string{"clientConnection:\n  kubeconfig: /etc/kubernetes/scheduler.conf\n", ""}, mode: ModeBind, want: []string{"advice no-kubeconfig clientConnection.kubeconfig"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := edit(t, base, tc.edits...)
			problems, found, err := Check([]byte(text), CheckOptions{BindTimeout: tc.bindTimeout})
			if err != nil {
				t.Fatalf("Check: %v\n%s", err, text)
			}
			if diff := cmp.Diff(tc.want, summary(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s\nin:\n%s", diff, text)
			}
			if found.Mode != tc.mode {
				t.Errorf("mode %q, want %q, in:\n%s", found.Mode, tc.mode, text)
			}
			for _, p := range problems {
				if p.What == "" || p.Why == "" || p.Mend == "" {
					t.Errorf("%s says too little: %+v", p.Check, p)
				}
			}
		})
	}
}

func TestCheckFound(t *testing.T) {
	_, got, err := Check([]byte(base), CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Found{
		Mode: ModeBind, SchedulerNames: []string{"default-scheduler"}, Kubeconfig: "/etc/kubernetes/scheduler.conf",
		Path: "extenders[0]", URL: "https://10.96.0.77:8443/v1", HTTPS: true, ServerName: "prebind.kube-system.svc", HTTPTimeout: 11 * time.Minute,
		CAFile: "ca.crt", CertFile: "tls.crt", KeyFile: "tls.key",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
