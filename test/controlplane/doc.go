// Package controlplane runs a real Kubernetes control plane for tests and the
// demo: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
// child processes on loopback, and prebind beside them as its own process
// under its own ServiceAccount.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{})
//	if err != nil { ... }
//	defer cp.Stop()
//	prebind, err := cp.StartPrebind(ctx, controlplane.PrebindOptions{})
//	err = cp.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
//	defer cp.RunKubelets(ctx)()
//	ns, err := cp.CreateNamespace(ctx, "shop")
//	err = cp.Create(ctx, build.Node("node-1").Obj(), build.Pod(ns, "web").Obj())
//	pod, err := cp.WaitBound(ctx, ns, "web")
//
// What is real: the programs, RBAC, every controller's own identity and request
// rate, TLS on every connection but prebind's own. What is not: nodes are Node
// objects without a kubelet. A pod that is bound stays Pending, and one that is
// deleted after it was bound stays terminating, until [ControlPlane.RunKubelets]
// plays the kubelets' part. The node lifecycle controller is off, because
// nobody renews node leases.
//
// Each program is a [Process] that a test may kill, stop, freeze and start
// again. All of them die with the process that started them, even when that
// one is killed. Everything they write is in one folder in the system's temp
// folder, which Stop removes.
//
// With the environment variable PREBIND_TEST_KUBECONFIG naming a kubeconfig of
// a cluster administrator, Start takes that cluster instead and starts nothing.
// Its programs cannot be killed and its audit log cannot be read: those calls
// answer [ErrExistingCluster], for which tests skip. StartScheduler and
// StartPrebind work there too: the scheduler then is a second one, for the pods
// whose schedulerName is [ControlPlane.SchedulerName].
//
// A ControlPlane is safe for use by several goroutines, except that Start...,
// Stop and the methods of one Process must not be called at the same time.
package controlplane
