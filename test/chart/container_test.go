package chart_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
)

// container is a container of an installed pod, run without a container
// runtime: its program runs with the arguments, environment, ConfigMaps,
// Secrets and ServiceAccount that the pod's spec says, read from the API server.
type container struct {
	t         *testing.T
	cp        *controlplane.ControlPlane
	namespace string
	pod       corev1.PodSpec
	spec      corev1.Container
	root      string // stands for the container's file system
	ip        string // the pod's; it is the Service's too, as nobody forwards
	*process
}

// runContainer runs a container of a pod and returns when its readiness probe
// succeeds.
func runContainer(t *testing.T, cp *controlplane.ControlPlane, namespace string, pod corev1.PodSpec, name, ip string) *container {
	t.Helper()
	c := newContainer(t, cp, namespace, pod, name, ip)
	c.run()
	c.awaitReady()
	return c
}

func newContainer(t *testing.T, cp *controlplane.ControlPlane, namespace string, pod corev1.PodSpec, name, ip string) *container {
	t.Helper()
	spec := containerOf(&pod, name)
	if spec == nil {
		t.Fatalf("the pod has no container %s", name)
	}
	return &container{t: t, cp: cp, namespace: namespace, pod: pod, spec: *spec, root: t.TempDir(), ip: ip}
}

// inPlace is all that differs from what a kubelet would run: paths below the
// container's mounts get the folder root before them, addresses that a pod
// listens on get the pod's address, which is on loopback, and a Service's DNS
// name in a URL is replaced by its address. Where a pod would find the API server by
// itself, a kubeconfig with a token of its ServiceAccount is named: see run.
func (c *container) inPlace(text string) string {
	for _, mount := range c.spec.VolumeMounts {
		text = strings.ReplaceAll(text, mount.MountPath+"/", c.root+mount.MountPath+"/")
	}
	text = regexp.MustCompile(`(?m)^( *(?:address|opsAddress): ):(\d+)$`).ReplaceAllString(text, "${1}"+c.ip+":$2")
	return regexp.MustCompile(`https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc:`).ReplaceAllStringFunc(text, func(url string) string {
		name, namespace, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(url, "https://"), ".svc:"), ".")
		return "https://" + clusterIP(c.t, c.cp, namespace, name) + ":"
	})
}

// run starts the container's program.
func (c *container) run() {
	c.t.Helper()
	c.sync()
	env := []string{"KUBECONFIG=" + c.kubeconfig()}
	for _, e := range c.spec.Env {
		if e.ValueFrom != nil {
			c.t.Fatalf("environment variable %s: a test knows values only", e.Name)
		}
		env = append(env, e.Name+"="+c.inPlace(e.Value))
	}
	var args []string
	for _, arg := range c.spec.Args {
		args = append(args, c.inPlace(arg))
	}
	program := programs.Prebind // the image's entry point
	if slices.Equal(c.spec.Command, []string{"kube-scheduler"}) {
		program = programs.Scheduler
		args = append(args, "--bind-address="+c.ip, "--cert-dir="+c.root,
			"--authentication-kubeconfig="+c.kubeconfig(), "--authorization-kubeconfig="+c.kubeconfig())
	} else if len(c.spec.Command) > 0 {
		c.t.Fatalf("unknown command %q", c.spec.Command)
	}
	c.process = start(c.t, c.spec.Name, shared.programs.Path(program), args, env)
}

// kubeconfig stands for the files by which a pod finds the API server.
func (c *container) kubeconfig() string {
	c.t.Helper()
	path, err := c.cp.WriteKubeconfigForServiceAccount(c.t.Context(), c.namespace, c.pod.ServiceAccountName)
	must(c.t, err)
	return path
}

// sync does what the kubelet does now and then: it brings the files of
// ConfigMaps and Secrets to what the API server has, all of a volume at once.
func (c *container) sync() {
	c.t.Helper()
	for _, mount := range c.spec.VolumeMounts {
		if strings.HasPrefix(mount.Name, "kube-api-access-") {
			continue // the API server's addition to a real pod; kubeconfig stands for it
		}
		files := c.files(mount.Name)
		payload := map[string]volumeutil.FileProjection{}
		for name, data := range files {
			payload[name] = volumeutil.FileProjection{Data: data, Mode: 0o600}
		}
		folder := filepath.Join(c.root, mount.MountPath)
		must(c.t, os.MkdirAll(folder, 0o700))
		writer, err := volumeutil.NewAtomicWriter(folder, mount.Name)
		must(c.t, err)
		must(c.t, writer.Write(payload, nil))
	}
}

// files returns the files of a volume.
func (c *container) files(volume string) map[string][]byte {
	c.t.Helper()
	client := c.cp.Client().CoreV1()
	for _, v := range c.pod.Volumes {
		switch {
		case v.Name != volume:
		case v.ConfigMap != nil:
			m, err := client.ConfigMaps(c.namespace).Get(c.t.Context(), v.ConfigMap.Name, metav1.GetOptions{})
			must(c.t, err)
			files := map[string][]byte{}
			for key, text := range m.Data {
				files[key] = []byte(c.inCluster(c.inPlace(text)))
			}
			return files
		case v.Secret != nil:
			s, err := client.Secrets(c.namespace).Get(c.t.Context(), v.Secret.SecretName, metav1.GetOptions{})
			must(c.t, err)
			return maps.Clone(s.Data)
		}
	}
	c.t.Fatalf("volume %s is neither a ConfigMap nor a Secret", volume)
	return nil
}

// inCluster names the kubeconfig in a scheduler's configuration that names
// none: kube-scheduler then uses the token of its pod, and knows no variable.
func (c *container) inCluster(text string) string {
	if strings.Contains(text, "kind: KubeSchedulerConfiguration\n") && !strings.Contains(text, "clientConnection:") {
		return text + fmt.Sprintf("\nclientConnection: {kubeconfig: %s}\n", c.kubeconfig())
	}
	return text
}

// awaitReady asks the readiness probe, as the kubelet would.
func (c *container) awaitReady() {
	c.t.Helper()
	probe := c.spec.ReadinessProbe.HTTPGet
	port := probe.Port.String()
	for _, p := range c.spec.Ports {
		if p.Name == port {
			port = fmt.Sprint(p.ContainerPort)
		}
	}
	host := c.ip
	if probe.Host != "" {
		host = probe.Host
	}
	scheme := "http"
	if probe.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://%s:%s%s", scheme, host, port, probe.Path)
	// Like the kubelet it does not know who signed the certificate.
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	eventually(c.t, c.spec.Name+" is ready", func(ctx context.Context) error {
		if err := c.ended(); err != nil {
			c.t.Fatal(err)
		}
		_, err := fetch(ctx, client, url)
		return err
	})
}

// fetch returns the body of a GET that is answered with 200.
func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return string(text), nil
}
