package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/test/controlplane"
)

// keepLogs copies the logs of all programs, and writes the objects as they are
// now, into a folder that stays.
func keepLogs(cp *controlplane.ControlPlane, namespace string) (string, error) {
	folder, err := os.MkdirTemp("", "prebind-chaos-")
	if err != nil {
		return "", fmt.Errorf("keeping the logs: %w", err)
	}
	logs, err := filepath.Glob(filepath.Join(cp.Dir(), "*.log"))
	if err != nil {
		return folder, fmt.Errorf("keeping the logs: %w", err)
	}
	var errs []error
	for _, log := range logs {
		// A link costs nothing; the original's name goes when the control plane stops.
		errs = append(errs, os.Link(log, filepath.Join(folder, filepath.Base(log))))
	}
	errs = append(errs, keepObjects(cp, namespace, folder))
	return folder, errors.Join(errs...)
}

func keepObjects(cp *controlplane.ControlPlane, namespace, folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the run's own may have ended
	defer cancel()
	core := cp.Client().CoreV1()
	lists := map[string]func() (any, error){
		"pods":    func() (any, error) { return core.Pods(namespace).List(ctx, metav1.ListOptions{}) },
		"claims":  func() (any, error) { return core.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{}) },
		"volumes": func() (any, error) { return core.PersistentVolumes().List(ctx, metav1.ListOptions{}) },
		"nodes":   func() (any, error) { return core.Nodes().List(ctx, metav1.ListOptions{}) },
		"events":  func() (any, error) { return core.Events(namespace).List(ctx, metav1.ListOptions{}) },
	}
	var errs []error
	for name, list := range lists {
		objects, err := list()
		if err != nil {
			errs = append(errs, fmt.Errorf("keeping the %s: %w", name, err))
			continue
		}
		text, err := yaml.Marshal(objects)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".yaml"), text, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
