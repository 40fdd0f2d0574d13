package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// README's section "Install", word by word: only its example address becomes
// a free one of this control plane, and /etc/kubernetes a folder of the test's.
func TestREADMEInstall(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(shared.root, "README.md"))
	must(t, err)
	section := between(t, string(readme), "## Install", "\n## ")
	blocks := regexp.MustCompile("(?ms)^```console\n(.*?\n)```$").FindAllStringSubmatch(section, -1)
	if len(blocks) != 1 {
		t.Fatalf("the section has %d blocks of commands, want one", len(blocks))
	}
	eachHelm(t, func(t *testing.T, h helm) {
		commands := strings.ReplaceAll(blocks[0][1], "10.96.0.77", freeIP(t, h.major))
		followREADME(t, h, commands)
	})
}

func followREADME(t *testing.T, h helm, commands string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(commands), "\n")
	installed := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "helm install ") }) + 1
	if installed == 0 {
		t.Fatalf("no helm install among\n%s", commands)
	}
	r := &release{t: t, cp: controlPlane(t), helm: h, name: "prebind", namespace: "kube-system"}
	n := newNode(t, r.cp)
	n.useHelm(h)
	t.Cleanup(r.remove)
	n.sh(strings.Join(lines[:installed], "\n"))
	r.runReplicas()
	n.sh(strings.Join(lines[installed:], "\n"))
	config, err := os.ReadFile(filepath.Join(n.etc, "prebind", "scheduler-config.yaml"))
	must(t, err)
	n.runScheduler(string(config))
	r.bindsPods(fmt.Sprint("readme-", h.major), "default-scheduler")
}
