// Package registration knows how prebind is registered with kube-scheduler: it
// writes a KubeSchedulerConfiguration, patches one that is there, and finds what
// is wrong with one. It reads no cluster and, but through the functions that a
// caller passes in, no file.
//
//	problems, found, err := registration.Check(data, registration.CheckOptions{BindTimeout: 10 * time.Minute})
//	if err != nil {
//		return err // no KubeSchedulerConfiguration at all; the text names the lines
//	}
//	for _, p := range problems {
//		fmt.Println(p.Severity, p.Path, p.What, p.Why, p.Mend)
//	}
//
// What a file means is worked out as kube-scheduler does it: its defaults, the
// way multiPoint and the lists of one extension point go together, and the
// extender client's own defaults. Source of each rule: pkg/scheduler and
// pkg/scheduler/apis/config of Kubernetes.
//
// All functions are safe for parallel use; they share nothing.
package registration
