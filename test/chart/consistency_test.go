package chart_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Objects name each other: what they name must be there.
func TestRenderedObjectsFitTogether(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		all := rendered(t, c)
		for _, p := range all.pods(t) {
			checkVolumes(t, all, p)
			if all.find("ServiceAccount", p.Spec.ServiceAccountName) == nil {
				t.Errorf("%s runs under the account %s, which is not there", id(p.owner), p.Spec.ServiceAccountName)
			}
		}
		for _, o := range all {
			switch o.GetKind() {
			case "Service":
				checkService(t, all, decode[corev1.Service](t, o))
			case "PodDisruptionBudget":
				selectsOne(t, all, id(o), decode[policyv1.PodDisruptionBudget](t, o).Spec.Selector)
			case "NetworkPolicy":
				checkPolicy(t, all, decode[networkingv1.NetworkPolicy](t, o))
			}
		}
	})
}

// checkVolumes checks that a pod's ConfigMaps and Secrets come with the chart
// or are the user's own, and that every mount has a volume.
func checkVolumes(t *testing.T, all objects, p podTemplate) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		volumes[v.Name] = true
		switch {
		case v.ConfigMap != nil && all.find("ConfigMap", v.ConfigMap.Name) == nil:
			t.Errorf("%s: there is no ConfigMap %s", id(p.owner), v.ConfigMap.Name)
		case v.Secret != nil && !all.hasSecret(t, v.Secret.SecretName):
			t.Errorf("%s: there is no Secret %s", id(p.owner), v.Secret.SecretName)
		}
	}
	for _, container := range p.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			if !volumes[mount.Name] {
				t.Errorf("%s: mount %s has no volume", id(p.owner), mount.Name)
			}
		}
	}
}

// hasSecret tells whether a Secret is rendered, made by cert-manager, or one
// of those that the values name.
func (all objects) hasSecret(t *testing.T, name string) bool {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == "Certificate" && decode[certificate](t, o).Spec.SecretName == name {
			return true
		}
	}
	return all.find("Secret", name) != nil || slices.Contains([]string{"my-server", "my-client", "extra"}, name)
}

func checkService(t *testing.T, all objects, service *corev1.Service) {
	t.Helper()
	p := selectsOne(t, all, "Service "+service.Name, &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
	for _, port := range service.Spec.Ports {
		if p != nil && !slices.Contains(portNames(p), port.TargetPort.String()) {
			t.Errorf("Service %s: its pods have the ports %v, not %s", service.Name, portNames(p), port.TargetPort.String())
		}
	}
}

// checkPolicy checks that a policy allows every port of its pods and no other.
func checkPolicy(t *testing.T, all objects, np *networkingv1.NetworkPolicy) {
	t.Helper()
	p := selectsOne(t, all, "NetworkPolicy "+np.Name, &np.Spec.PodSelector)
	if p == nil {
		return
	}
	if len(np.Spec.PolicyTypes) != 2 {
		t.Errorf("NetworkPolicy %s is for %v only", np.Name, np.Spec.PolicyTypes)
	}
	open, allowed := map[string]bool{}, map[string]bool{}
	for _, port := range p.Spec.Containers[0].Ports {
		open[fmt.Sprint(port.ContainerPort)] = true
	}
	for _, rule := range np.Spec.Ingress {
		if len(rule.Ports) == 0 {
			t.Errorf("NetworkPolicy %s allows every port", np.Name)
		}
		for _, port := range rule.Ports {
			allowed[port.Port.String()] = true
			if !open[port.Port.String()] {
				t.Errorf("NetworkPolicy %s allows port %s, which its pods do not have", np.Name, port.Port)
			}
		}
	}
	for port := range open {
		if !allowed[port] {
			t.Errorf("NetworkPolicy %s does not allow port %s of its pods", np.Name, port)
		}
	}
	for _, rule := range np.Spec.Egress {
		if len(rule.Ports) == 0 && len(rule.To) == 0 {
			t.Errorf("NetworkPolicy %s allows all egress", np.Name)
		}
	}
}

// selectsOne checks that a selector picks the pods of one workload.
func selectsOne(t *testing.T, all objects, who string, selector *metav1.LabelSelector) *podTemplate {
	t.Helper()
	match, err := metav1.LabelSelectorAsSelector(selector)
	must(t, err)
	var picked []podTemplate
	var ids []string
	for _, p := range all.pods(t) {
		if match.Matches(labels.Set(p.Labels)) {
			picked, ids = append(picked, p), append(ids, id(p.owner))
		}
	}
	if len(picked) != 1 {
		t.Errorf("%s selects the pods of %v, want those of one workload", who, ids)
		return nil
	}
	return &picked[0]
}

func portNames(p *podTemplate) []string {
	var names []string
	for _, port := range p.Spec.Containers[0].Ports {
		names = append(names, port.Name)
	}
	return names
}
