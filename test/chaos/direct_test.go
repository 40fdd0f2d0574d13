package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

// A soak of volumes.staticCompletion Direct: pods come at once; volumes, claims
// and pods are deleted meanwhile; the controller manager, slow as it is, is killed
// twice. In the end everything is Bound on both sides, and no claim was ever Lost.
const (
	soakPods   = 300
	soakNodes  = 20
	soakSpare  = 150 // volumes more than claims; as many may be deleted
	soakFor    = 30 * time.Second
	soakClass  = "soak"
	soakSettle = 3 * time.Minute
)

type soak struct {
	t      *testing.T
	client kubernetes.Interface
	ns     string
	dice   *rand.Rand

	mu   sync.Mutex
	lost map[string]bool // claims seen Lost, with UID and volume
}

func TestDirectSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute and more")
	}
	klog.SetLogger(logr.Discard())
	t.Cleanup(klog.ClearLogger)
	cp, err := controlplane.Start(t.Context(), controlplane.Options{
		Embedded: true, ControllerManagerArgs: []string{"--kube-api-qps=50", "--kube-api-burst=50"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &soak{t: t, client: cp.Client(), dice: rand.New(rand.NewPCG(seed, 1)), lost: map[string]bool{}}
	s.ns, err = cp.CreateNamespace(t.Context(), "soak")
	s.must(err)
	s.run(cp)
}

func (s *soak) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) run(cp *controlplane.ControlPlane) {
	ctx := s.t.Context()
	stopKubelets, err := cp.RunKubelets(ctx)
	s.must(err)
	s.t.Cleanup(stopKubelets)
	s.must(cp.Create(ctx, build.Class(soakClass).Obj()))
	for i := range soakNodes {
		s.must(cp.Create(ctx, build.Node(fmt.Sprintf("soak-%d", i)).Capacity(corev1.ResourcePods, "1000").Obj()))
	}
	s.each(soakPods+soakSpare, func(ctx context.Context, i int) error {
		return cp.Create(ctx, build.Volume(fmt.Sprintf("soak-%d", i)).Class(soakClass).OnNode(fmt.Sprintf("soak-%d", i%soakNodes)).Reclaim(corev1.PersistentVolumeReclaimRetain).Obj())
	})
	s.eventually("all volumes are Available", func(ctx context.Context) (bool, error) {
		list, err := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(pv corev1.PersistentVolume) bool { return pv.Status.Phase != corev1.VolumeAvailable }), err
	})
	p, err := cp.StartPrebind(ctx, controlplane.PrebindOptions{Race: true, Config: "volumes: {staticCompletion: Direct}"})
	s.must(err)
	s.must(cp.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: p.URL(), PodInitialBackoffSeconds: 1, PodMaxBackoffSeconds: 2}))
	s.watchLost(ctx)

	began := time.Now()
	var group errgroup.Group
	group.Go(func() error { return s.kills(ctx, cp.ControllerManager()) })
	group.Go(func() error { return s.deletions(ctx) })
	s.each(soakPods, s.create)
	s.must(group.Wait())
	s.t.Logf("trouble over after %s", time.Since(began))
	s.judge()
	s.t.Logf("all at rest after %s", time.Since(began))
}

// create makes pod number i with its claim.
func (s *soak) create(ctx context.Context, i int) error {
	claim, pod := fmt.Sprintf("data-%d", i), fmt.Sprintf("web-%d", i)
	_, err := s.client.CoreV1().PersistentVolumeClaims(s.ns).Create(ctx, build.Claim(s.ns, claim).Class(soakClass).Obj(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Pods(s.ns).Create(ctx, build.Pod(s.ns, pod).Claim(claim).Obj(), metav1.CreateOptions{})
	return err
}

// kills kills the controller manager, and again as soon as it may be at work.
func (s *soak) kills(ctx context.Context, manager *controlplane.Process) error {
	for range 2 {
		if !pause(ctx, soakFor/5) {
			return context.Cause(ctx)
		}
		if err := manager.Kill(); err != nil {
			return err
		}
		if !pause(ctx, soakFor/10) {
			return context.Cause(ctx)
		}
		if err := manager.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deletions deletes volumes, whatever state they are in, and pods with their
// claims, which then come again under their names.
func (s *soak) deletions(ctx context.Context) error {
	volumes := s.dice.Perm(soakPods + soakSpare)[:soakSpare]
	for i, end := 0, time.Now().Add(soakFor); time.Now().Before(end); i++ {
		if i < len(volumes) {
			if err := ignoreGone(s.client.CoreV1().PersistentVolumes().Delete(ctx, fmt.Sprintf("soak-%d", volumes[i]), metav1.DeleteOptions{})); err != nil {
				return err
			}
		}
		if i%4 == 0 {
			if err := s.renew(ctx, s.dice.IntN(soakPods)); err != nil {
				return err
			}
		}
		if !pause(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *soak) renew(ctx context.Context, i int) error {
	claim, pod := fmt.Sprintf("data-%d", i), fmt.Sprintf("web-%d", i)
	if _, err := s.client.CoreV1().Pods(s.ns).Get(ctx, pod, metav1.GetOptions{}); err != nil {
		return ignoreGone(err) // not made yet
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := ignoreGone(s.client.CoreV1().Pods(s.ns).Delete(ctx, pod, now)); err != nil {
		return err
	}
	if err := ignoreGone(s.client.CoreV1().PersistentVolumeClaims(s.ns).Delete(ctx, claim, metav1.DeleteOptions{})); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, podErr := s.client.CoreV1().Pods(s.ns).Get(ctx, pod, metav1.GetOptions{})
		_, claimErr := s.client.CoreV1().PersistentVolumeClaims(s.ns).Get(ctx, claim, metav1.GetOptions{})
		return apierrors.IsNotFound(podErr) && apierrors.IsNotFound(claimErr), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until pod %s and its claim are gone: %w", pod, err)
	}
	return s.create(ctx, i)
}

// watchLost remembers each claim that is ever Lost.
func (s *soak) watchLost(ctx context.Context) {
	w, err := s.client.CoreV1().PersistentVolumeClaims(s.ns).Watch(ctx, metav1.ListOptions{})
	s.must(err)
	s.t.Cleanup(w.Stop)
	go func() {
		for event := range w.ResultChan() {
			if claim, ok := event.Object.(*corev1.PersistentVolumeClaim); ok && claim.Status.Phase == corev1.ClaimLost {
				s.mu.Lock()
				s.lost[fmt.Sprintf("%s (uid %s, volume %q)", claim.Name, claim.UID, claim.Spec.VolumeName)] = true
				s.mu.Unlock()
			}
		}
	}()
}

// judge waits until all pods are bound and all phases Bound, and then checks what
// the chaos run checks.
func (s *soak) judge() {
	var last string
	s.eventually("every pod is bound, and its claim and volume are Bound", func(ctx context.Context) (bool, error) {
		state, err := readState(ctx, s.client, s.ns)
		if err != nil {
			return false, nil //nolint:nilerr // the API server is busy
		}
		last = state.unsettled()
		return last == "" || s.anyLost(), nil
	}, func() string { return last })
	state, err := readState(s.t.Context(), s.client, s.ns)
	s.must(err)
	var names []string
	for i := range soakPods {
		names = append(names, fmt.Sprintf("web-%d", i))
	}
	for _, check := range state.checks(names) {
		if check.Name == "no volume is held for a claim that is gone" {
			continue // released volumes are kept here
		}
		for _, failure := range check.Failures {
			s.t.Errorf("%s: %s", check.Name, failure)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for claim := range s.lost {
		s.t.Errorf("claim %s was Lost", claim)
	}
}

func (s *soak) anyLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lost) > 0
}

// unsettled names one thing that has not come to rest.
func (s *state) unsettled() string {
	if len(s.pods) < soakPods {
		return fmt.Sprintf("%d pods of %d", len(s.pods), soakPods)
	}
	for i := range s.pods {
		if s.pods[i].Spec.NodeName == "" {
			return "pod " + s.pods[i].Name + " is not bound: " + scheduled(&s.pods[i]) + "; " + s.describeClaims(&s.pods[i])
		}
	}
	for i := range s.claims {
		pv := s.volume(s.claims[i].Spec.VolumeName)
		if s.claims[i].Status.Phase != corev1.ClaimBound || pv == nil || pv.Status.Phase != corev1.VolumeBound {
			return fmt.Sprintf("claim %s is %s, volume %q", s.claims[i].Name, s.claims[i].Status.Phase, s.claims[i].Spec.VolumeName)
		}
	}
	return ""
}

func (s *soak) each(n int, do func(ctx context.Context, i int) error) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	s.must(group.Wait())
}

func (s *soak) eventually(what string, done wait.ConditionWithContextFunc, last ...func() string) {
	s.t.Helper()
	if err := wait.PollUntilContextTimeout(s.t.Context(), 250*time.Millisecond, soakSettle, true, done); err != nil {
		text := ""
		for _, f := range last {
			text += "; " + f()
		}
		s.t.Fatalf("waiting until %s: %v%s", what, err, text)
	}
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
