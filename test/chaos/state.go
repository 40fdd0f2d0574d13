package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
)

// state is what the API shows at the end. The checks need no more.
type state struct {
	pods    []corev1.Pod
	claims  []corev1.PersistentVolumeClaim
	volumes []corev1.PersistentVolume
	nodes   []corev1.Node
}

// readState lists everything from the API server itself.
func readState(ctx context.Context, client kubernetes.Interface, namespace string) (*state, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing claims: %w", err)
	}
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return &state{pods: pods.Items, claims: claims.Items, volumes: volumes.Items, nodes: nodes.Items}, nil
}

func (s *state) pod(name string) *corev1.Pod {
	for i := range s.pods {
		if s.pods[i].Name == name {
			return &s.pods[i]
		}
	}
	return nil
}

func (s *state) claim(name string) *corev1.PersistentVolumeClaim {
	for i := range s.claims {
		if s.claims[i].Name == name {
			return &s.claims[i]
		}
	}
	return nil
}

func (s *state) volume(name string) *corev1.PersistentVolume {
	for i := range s.volumes {
		if s.volumes[i].Name == name {
			return &s.volumes[i]
		}
	}
	return nil
}

func (s *state) node(name string) *corev1.Node {
	for i := range s.nodes {
		if s.nodes[i].Name == name {
			return &s.nodes[i]
		}
	}
	return nil
}

// byUID returns the claims by their UIDs.
func (s *state) byUID() map[types.UID]*corev1.PersistentVolumeClaim {
	claims := map[types.UID]*corev1.PersistentVolumeClaim{}
	for i := range s.claims {
		claims[s.claims[i].UID] = &s.claims[i]
	}
	return claims
}

// claimNames returns the names of the claims that a pod uses.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// begun tells whether somebody has begun to bind the claim.
func begun(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" || claim.Annotations[volume.AnnSelectedNode] != ""
}
