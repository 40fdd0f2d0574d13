package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listKinds are the kinds of the lists that prebind asks for.
var listKinds = map[string]string{
	"pods":                   "PodList",
	"nodes":                  "NodeList",
	"persistentvolumeclaims": "PersistentVolumeClaimList",
	"persistentvolumes":      "PersistentVolumeList",
	"storageclasses":         "StorageClassList",
	"csinodes":               "CSINodeList",
	"csidrivers":             "CSIDriverList",
	"csistoragecapacities":   "CSIStorageCapacityList",
}

// emptyCluster answers like the API server of a cluster without any object.
func emptyCluster(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case query.Has("sendInitialEvents"): // makes the client fall back to a list
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400}`)
	case query.Has("watch"):
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.Contains(r.URL.Path, "/namespaces/"): // one object
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	default:
		group, resource := strings.Join(segments[1:len(segments)-1], "/"), segments[len(segments)-1]
		_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, listKinds[resource], group)
	}
}

// TestRunServe starts the whole program, waits until it is ready, calls it,
// and stops it like kubelet does.
func TestRunServe(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(emptyCluster))
	defer api.Close()
	kubeconfig := write(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api.URL))
	file := write(t, "config.yaml", `
apiVersion: prebind.dev/v1alpha1
kind: PrebindConfiguration
server: {address: 127.0.0.1:0, opsAddress: 127.0.0.1:0, debug: true}
`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	logs, w := io.Pipe()
	code := make(chan int, 1)
	ended := make(chan struct{})
	defer func() {
		_ = logs.Close()
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		defer func() { _ = w.Close() }()
		code <- run(ctx, []string{"serve", "--config", file, "--kubeconfig", kubeconfig}, io.Discard, w)
	}()
	lines := bufio.NewScanner(logs)
	serving := await(t, lines, "serving")
	await(t, lines, "ready, all caches are synced")
	rest := make(chan []string, 1)
	go func() {
		var texts []string
		for lines.Scan() {
			texts = append(texts, lines.Text())
		}
		rest <- texts
	}()

	get := func(method, address, path, body string) string {
		t.Helper()
		return request(t, method, "http://"+address+path, body)
	}
	address, opsAddress := serving["address"].(string), serving["opsAddress"].(string)
	if got := get("GET", opsAddress, "/readyz?verbose", ""); !strings.Contains(got, "[+]cache-pods ok\n") {
		t.Errorf("/readyz: %s", got)
	}
	if got := get("GET", opsAddress, "/metrics", ""); !strings.Contains(got, "\nprebind_build_info{") || !strings.Contains(got, "\ngo_gc_heap_live_bytes ") || !strings.Contains(got, "\nprebind_volume_reservations 0\n") {
		t.Errorf("/metrics: %s", got)
	}
	if got := get("POST", address, "/v1/bind", `{"PodName":"p","PodNamespace":"n","PodUID":"u","Node":"a"}`); !strings.Contains(got, `{"Error":"PodNotFound: `) {
		t.Errorf("/v1/bind: %s", got)
	}
	if got := get("POST", address, "/v1/bind", `{}`); !strings.Contains(got, "PodName is missing; PodNamespace is missing; PodUID is missing; Node is missing") {
		t.Errorf("/v1/bind without arguments: %s", got)
	}
	wantOwnStatus(t, opsAddress)
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
	if texts := <-rest; len(texts) == 0 || !strings.Contains(texts[len(texts)-1], `"msg":"stopped"`) {
		t.Errorf("last lines: %s", strings.Join(texts, "\n"))
	}
}

// wantOwnStatus asks the instance with the status command.
func wantOwnStatus(t *testing.T, opsAddress string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"status", "--address", opsAddress}, &stdout, &stderr); code != exitOK {
		t.Errorf("prebind status: exit code %d: %s", code, stderr.String())
	}
	wantParts(t, "prebind status", stdout.String(), []string{
		"\ncaches synced: csidrivers 0, ", "\nRUNNING: 0\n", "\nRESERVED: 0\n", "\nLAST FAILED: 2\n", "n/p", "\n  InvalidRequest: ", "\n  PodNotFound: ", "\nLAST BOUND: 0\n",
	})
}

// await reads log lines up to the one with a message.
func await(t *testing.T, lines *bufio.Scanner, message string) map[string]any {
	t.Helper()
	for lines.Scan() {
		var entry map[string]any
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		if entry["msg"] == message {
			return entry
		}
		t.Log(lines.Text())
	}
	t.Fatalf("the log ended before %q", message)
	return nil
}

// request returns the body of an answer; its connection is not kept.
func request(t *testing.T, method, url, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRunAddressInUse: the error names the key to change.
func TestRunAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	kubeconfig := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n")
	file := write(t, "config.yaml", "apiVersion: prebind.dev/v1alpha1\nkind: PrebindConfiguration\nserver: {address: '"+taken.Addr().String()+"'}\n")
	var stderr strings.Builder
	if code := run(t.Context(), []string{"serve", "--config", file, "--kubeconfig", kubeconfig}, &stderr, &stderr); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	wantParts(t, "stderr", stderr.String(), []string{"prebind: listening for extender verbs on " + taken.Addr().String() + " (server.address): "})
}

// TestRunPluginInWrongStage: such a plugin is known, so only building the
// binder finds it.
func TestRunPluginInWrongStage(t *testing.T) {
	kubeconfig := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n")
	file := write(t, "config.yaml", "apiVersion: prebind.dev/v1alpha1\nkind: PrebindConfiguration\nplugins: {bind: [VolumeBinding]}\n")
	var stderr strings.Builder
	if code := run(t.Context(), []string{"serve", "--config", file, "--kubeconfig", kubeconfig}, &stderr, &stderr); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	wantParts(t, "stderr", stderr.String(), []string{file + `: plugins.bind: plugin "VolumeBinding" has no stage bind`})
}
