package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/prebind/prebind/config"
)

// names of the matrix' objects: the maximal values override them.
func (c combination) fullname() string {
	if c.maximal {
		return "volume-binder"
	}
	return "prebind"
}

func (c combination) workload() string {
	if c.mode == "daemonset" {
		return "DaemonSet"
	}
	return "Deployment"
}

// prebindPod returns the pod that runs prebind.
func prebindPod(t *testing.T, all objects, c combination) podTemplate {
	t.Helper()
	for _, p := range all.pods(t) {
		if p.owner.GetKind() == c.workload() && p.owner.GetName() == c.fullname() {
			return p
		}
	}
	t.Fatalf("no %s %s among %s", c.workload(), c.fullname(), all)
	return podTemplate{}
}

func prebindConfig(t *testing.T, all objects, name string) *config.PrebindConfiguration {
	t.Helper()
	text := get[corev1.ConfigMap](t, all, "ConfigMap", name).Data["config.yaml"]
	cfg, err := config.Load([]byte(text), config.Options{})
	if err != nil {
		t.Fatalf("prebind refuses the configuration: %v\n%s", err, text)
	}
	return cfg
}

// prebind takes its configuration, and what it says fits the pod around it.
func TestRenderedConfiguration(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		all := rendered(t, c)
		cfg, pod := prebindConfig(t, all, c.fullname()), prebindPod(t, all, c)
		container := containerOf(&pod.Spec, "prebind")
		if container == nil {
			t.Fatal("no container prebind")
		}
		if diff := cmp.Diff([]string{"serve", "--config=/etc/prebind/config/config.yaml"}, container.Args[:2]); diff != "" {
			t.Errorf("arguments (-want +got):\n%s", diff)
		}
		ports := map[string]string{}
		for _, p := range container.Ports {
			ports[p.Name] = fmt.Sprint(p.ContainerPort)
		}
		verbs := map[bool]string{true: "http", false: "https"}[c.tls == "none"]
		want := map[string]string{verbs: portOf(cfg.Server.Address), "ops": portOf(cfg.Server.OpsAddress)}
		if diff := cmp.Diff(want, ports); diff != "" {
			t.Errorf("ports of the configuration (-) and of the container (+):\n%s", diff)
		}
		if c.mode == "daemonset" && !c.maximal && !strings.HasPrefix(cfg.Server.Address, "127.0.0.1:") {
			t.Errorf("on the host network it listens on %s", cfg.Server.Address)
		}
		stop := cfg.Server.ShutdownDelay.Duration + cfg.Server.DrainTimeout.Duration
		if grace := *pod.Spec.TerminationGracePeriodSeconds; float64(grace) < stop.Seconds() {
			t.Errorf("it is killed after %d s, and takes up to %s to stop", grace, stop)
		}
		checkProbes(t, c, container, cfg)
		checkTLS(t, c, pod, cfg)
	})
}

func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }

func checkProbes(t *testing.T, c combination, container *corev1.Container, cfg *config.PrebindConfiguration) {
	t.Helper()
	for name, probe := range map[string]*corev1.Probe{
		"/livez": container.LivenessProbe, "/readyz": container.ReadinessProbe, "/livez at start": container.StartupProbe,
	} {
		path, _, _ := strings.Cut(name, " ")
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "ops" {
			t.Errorf("probe %s is %v", name, probe)
			continue
		}
		onLoopback := c.mode == "daemonset" && strings.HasPrefix(cfg.Server.OpsAddress, "127.")
		if host := probe.HTTPGet.Host; (host == "127.0.0.1") != onLoopback {
			t.Errorf("probe %s asks host %q, and prebind listens on %s", name, host, cfg.Server.OpsAddress)
		}
	}
}

// checkTLS checks that the files of the configuration are mounted.
func checkTLS(t *testing.T, c combination, pod podTemplate, cfg *config.PrebindConfiguration) {
	t.Helper()
	if (cfg.Server.TLS != nil) != (c.tls != "none") {
		t.Fatalf("server.tls is %v", cfg.Server.TLS)
	}
	if cfg.Server.TLS == nil {
		return
	}
	mounts := containerOf(&pod.Spec, "prebind").VolumeMounts
	for _, file := range []string{cfg.Server.TLS.CertFile, cfg.Server.TLS.KeyFile, cfg.Server.TLS.ClientCAFile} {
		if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(file, m.MountPath+"/") }) {
			t.Errorf("%s is not mounted: %v", file, mounts)
		}
	}
	want := []string{"prebind-scheduler-client"}
	if c.maximal {
		want = []string{"volume-scheduler", "another"}
	}
	if diff := cmp.Diff(want, cfg.Server.TLS.AllowedClientNames); diff != "" {
		t.Errorf("names of clients that may call (-want +got):\n%s", diff)
	}
}

// The second scheduler takes its configuration, and is registered as documented.
func TestRenderedSchedulerConfiguration(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		name := c.fullname() + "-scheduler"
		all := rendered(t, c)
		if !c.scheduler {
			if o := all.find("Deployment", name); o != nil {
				t.Errorf("%s is there, and the second scheduler is off", id(o))
			}
			return
		}
		cfg := schedulerConfig(t, get[corev1.ConfigMap](t, all, "ConfigMap", name).Data["config.yaml"])
		extender := cfg.Extenders[0]
		if len(cfg.Extenders) != 1 || extender.BindVerb != "bind" || extender.Ignorable || !extender.NodeCacheCapable {
			t.Errorf("extenders: %+v", cfg.Extenders)
		}
		if timeout := prebindConfig(t, all, c.fullname()).Volumes.BindTimeout.Duration; extender.HTTPTimeout.Duration <= timeout {
			t.Errorf("httpTimeout %s, and prebind may take %s", extender.HTTPTimeout.Duration, timeout)
		}
		lease := cfg.LeaderElection
		if !lease.LeaderElect || lease.ResourceName != cfg.Profiles[0].SchedulerName || lease.ResourceNamespace != "kube-system" {
			t.Errorf("leader election of scheduler %s: %+v", cfg.Profiles[0].SchedulerName, lease)
		}
		bind := !c.maximal // that is mode stock
		if plugins := cfg.Profiles[0].Plugins; disabled(plugins.Reserve) != bind || disabled(plugins.PreBind) != bind {
			t.Errorf("VolumeBinding is disabled at reserve: %t, at preBind: %t, want %t at both", disabled(plugins.Reserve), disabled(plugins.PreBind), bind)
		}
		if extender.EnableHTTPS != (c.tls != "none") || (extender.TLSConfig != nil) != extender.EnableHTTPS {
			t.Errorf("enableHTTPS: %t, tlsConfig: %v", extender.EnableHTTPS, extender.TLSConfig)
		}
	})
}

// schedulerConfig decodes and checks a configuration as kube-scheduler does.
func schedulerConfig(t *testing.T, text string) *schedulerapi.KubeSchedulerConfiguration {
	t.Helper()
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("kube-scheduler cannot read it: %v\n%s", err, text)
	}
	cfg, ok := decoded.(*schedulerapi.KubeSchedulerConfiguration)
	if !ok {
		t.Fatalf("it is a %T", decoded)
	}
	if mistakes := validation.ValidateKubeSchedulerConfiguration(cfg); mistakes != nil {
		t.Fatalf("kube-scheduler refuses it: %v\n%s", mistakes, text)
	}
	return cfg
}

func disabled(set schedulerapi.PluginSet) bool {
	return slices.ContainsFunc(set.Disabled, func(p schedulerapi.Plugin) bool { return p.Name == "VolumeBinding" })
}
