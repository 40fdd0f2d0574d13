package volumescheduling_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/test/provisioner"
)

// The size of the stress scenarios, as upstream has it.
const (
	stressPods   = 50
	claimsPerPod = 3
)

// load is what a stress scenario consists of.
type load struct {
	volumes, claims, pods             []runtime.Object
	volumeNames, claimNames, podNames []string
	delayed                           []string          // claims that wait, and the volumes made for them
	preBound                          map[string]string // claim to the one volume that it must get
}

// newLoad describes the pods and claims of a stress scenario. Each claim of
// class wait gets a volume on node 0 unless dynamic says that one is made; about
// half of the static ones are pre-bound to theirs from both sides, at once.
func (s *scene) newLoad(dynamic bool, random *rand.Rand) load {
	l := load{preBound: map[string]string{}}
	for i := range stressPods {
		var mounted []string
		for j := range claimsPerPod {
			name := fmt.Sprintf("c%d-%d", i, j)
			mounted = append(mounted, name)
			claim, volume := s.claim(name, delayed), s.volume(name, delayed, 0)
			if !dynamic && random.IntN(2) == 0 {
				l.preBound[name] = s.name(name)
				claim = s.claim(name, immediate).Volume(s.name(name))
				volume = s.volume(name, immediate, 0).ClaimRef(s.ns, name, "")
			} else {
				l.delayed = append(l.delayed, name)
			}
			l.claims = append(l.claims, claim.Obj())
			if !dynamic {
				l.volumes, l.volumeNames = append(l.volumes, volume.Obj()), append(l.volumeNames, name)
			}
		}
		pod := fmt.Sprintf("p%d", i)
		l.claimNames, l.podNames = append(l.claimNames, mounted...), append(l.podNames, pod)
		l.pods = append(l.pods, s.pod(pod, mounted...).Obj())
	}
	return l
}

// finish waits until all of the load is bound and checks it.
func (s *scene) finish(l load) {
	s.t.Helper()
	s.bound(l.podNames...)
	s.claimsAre(v1.ClaimBound, l.claimNames...)
	s.volumesAre(v1.VolumeBound, l.volumeNames...)
	for claim, want := range l.preBound {
		if got := s.getClaim(claim).Spec.VolumeName; got != want {
			s.t.Errorf("claim %s has volume %q, it was pre-bound to %s", claim, got, want)
		}
	}
	s.settled()
}

// testStress proves that nothing is lost or taken twice when many pods, each
// with several claims, want volumes of one node at the same time: 50 pods with
// 150 claims for 150 volumes, about half of them pre-bound.
func testStress(t *testing.T, r registration) {
	s := newScene(t, r, 1)
	s.create(s.class(delayed).Obj(), s.class(immediate).Immediate().Obj())
	l := s.newLoad(false, rand.New(rand.NewPCG(*seed, 1)))
	s.create(append(l.volumes, l.claims...)...)
	s.create(l.pods...)
	s.finish(l)
}

// testStressUnderChange proves the same when everything comes at once in random
// order and nothing stands still: pods are there before their claims, claims
// before their volumes, and meanwhile others write the node, claims and volumes,
// so that pods are tried again and again and writes meet conflicts.
func testStressUnderChange(t *testing.T, r registration) {
	s := newScene(t, r, 1)
	s.create(s.class(delayed).Obj(), s.class(immediate).Immediate().Obj())
	random := rand.New(rand.NewPCG(*seed, 2))
	l := s.newLoad(false, random)
	all := append(append(l.pods, l.claims...), l.volumes...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	stop := s.change(l, random)
	defer stop()
	s.create(all...)
	s.finish(l)
	writes := stop()
	t.Logf("seed %d: %d changes meanwhile", *seed, writes)
	if writes == 0 {
		t.Error("nothing was changed meanwhile")
	}
}

// change writes the node, and volumes and claims at random, until the function
// returned is called; that tells how many writes there were.
func (s *scene) change(l load, random *rand.Rand) (stop func() int) {
	done, ended, writes := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			var err error
			name, patch := l.delayed[random.IntN(len(l.delayed))], fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"}}}`, i)
			switch i % 4 {
			case 0:
				_, err = s.client.CoreV1().Nodes().Patch(s.ctx, s.nodes[0], types.MergePatchType, patch, metav1.PatchOptions{})
			case 1:
				_, err = s.client.CoreV1().PersistentVolumeClaims(s.ns).Patch(s.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			default:
				_, err = s.client.CoreV1().PersistentVolumes().Patch(s.ctx, s.name(name), types.MergePatchType, patch, metav1.PatchOptions{})
			}
			if err == nil { // else the object is not there yet
				writes++
			}
		}
	}()
	return sync.OnceValue(func() int {
		close(done)
		<-ended
		return writes
	})
}

// testStressFast proves the same for volumes that are made: 150 claims, a
// provisioner without delay, and in the end one volume for each claim.
func testStressFast(t *testing.T, r registration) { testDynamicStress(t, r, "0s") }

// testStressSlow proves the same when each volume takes ten seconds to make, so
// that all pods wait at the same time.
func testStressSlow(t *testing.T, r registration) { testDynamicStress(t, r, "10s") }

func testDynamicStress(t *testing.T, r registration, delay string) {
	s := newScene(t, r, 1)
	s.create(s.class(delayed).Provisioner(driver).Param(provisioner.Delay, delay).Obj())
	l := s.newLoad(true, nil)
	s.create(l.claims...)
	s.create(l.pods...)
	s.finish(l)
	s.provisionedAll(l.claimNames, s.nodes[0])
}

// testEqualVolumes proves that no volume is held in vain: 60 pods want 60 equal
// volumes, three a node, so that one volume kept for nobody would leave a pod
// without. Scheduler and extender, when both hold volumes, get there in the field.
func testEqualVolumes(t *testing.T, r registration) {
	const volumes, nodes = 60, 20
	s := newScene(t, r, nodes)
	s.create(s.class(delayed).Obj())
	var disks []volumeSpec
	var claims, pods []runtime.Object
	var names []string
	for i := range volumes {
		name := fmt.Sprintf("p%d", i)
		names = append(names, name)
		disks = append(disks, volumeSpec{name: name, class: delayed, node: i % nodes})
		claims, pods = append(claims, s.claim(name, delayed).Obj()), append(pods, s.pod(name, name).Obj())
	}
	s.createVolumes(disks)
	s.create(claims...)
	s.create(pods...)
	s.bound(names...)
	s.claimsAre(v1.ClaimBound, names...)
	s.volumesAre(v1.VolumeBound, names...)
	s.settled()
}
