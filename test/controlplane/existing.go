package controlplane

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// existingSchedulerName is the scheduler that tests run on an existing cluster.
const existingSchedulerName = "prebind-test"

// useExisting takes the cluster of a kubeconfig.
func (cp *ControlPlane) useExisting(kubeconfig string) error {
	admin, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s=%s: %w", KubeconfigVariable, kubeconfig, err)
	}
	admin.QPS = -1
	cp.existing, cp.admin, cp.kubeconfig, cp.apiServerURL = true, admin, kubeconfig, admin.Host
	never := func(context.Context) error { return ErrExistingCluster }
	for name, p := range map[string]**Process{
		"etcd": &cp.etcd, "kube-apiserver": &cp.apiServer, "kube-controller-manager": &cp.controllerManager,
	} {
		*p = &Process{name: name, existing: true, ready: never}
	}
	return cp.connect()
}

// SchedulerName returns what pods need as schedulerName to be handled by the
// scheduler of StartScheduler: the default one, except on an existing cluster.
func (cp *ControlPlane) SchedulerName() string {
	if cp.existing {
		return existingSchedulerName
	}
	return "default-scheduler"
}
