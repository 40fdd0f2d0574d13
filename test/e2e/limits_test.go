package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longest pads a name to the 253 characters that the API allows.
func (f *fixture) longest(short string) string {
	name := f.name(short) + "-"
	for len(name) < 253 {
		name += strings.Repeat("x", min(60, 253-len(name)-1)) + "."
	}
	return name[:252] + "z"
}

// Every name is as long as it may be. The node's hostname label cannot be.
func TestNamesAtTheirLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	host := f.name("host")
	node := newNode(f.longest("node"), map[string]string{v1.LabelHostname: host})
	_, err := f.client.CoreV1().Nodes().Create(f.ctx, node, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
	})
	strip := func(name string) string { return strings.TrimPrefix(name, f.ns+"-") } // the fixture adds it
	local := f.class(newLocalClass(strip(f.longest("local"))))
	dynamic := f.dynamic(strip(f.longest("dynamic")))
	f.volume(newVolume(strip(f.longest("pv")), local, host, func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = "/mnt" }))
	f.claim(newClaim(f.longest("static"), local))
	f.claim(newClaim(f.longest("dynamic"), dynamic))
	pod := newPod(f.longest("pod"), nobody, "a", "b")
	pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = f.longest("static")
	pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = f.longest("dynamic")
	f.binds(f.pod(pod), node.Name)
	if got := f.selectedNode(f.longest("dynamic")); got != node.Name {
		t.Errorf("selected-node is %q", got)
	}

	// A refusal about such names still begins with what matters.
	f.claim(newClaim(f.longest("more"), local))
	second := newPod("second", nobody, "a")
	second.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = f.longest("more")
	f.refuses(f.pod(second), node.Name, "NoVolume", "claim "+f.ns+"/"+f.longest("more"))
}

// The scheduler cuts the text after 1024 bytes: of very many claims that stand
// in the way the first must be readable.
func TestAnswerAboutVeryManyClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	pod := f.pod(newPod("web", nobody, names...))
	text := f.refuses(pod, node, "ClaimNotFound")
	if shown := text[:min(len(text), 1024)]; !strings.HasPrefix(shown, "ClaimNotFound: claim "+f.ns+"/c00: ") {
		t.Errorf("the text that people see: %s", shown)
	}
}
