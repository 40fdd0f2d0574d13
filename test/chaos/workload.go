package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/provisioner"
)

// Classes of the workload.
const (
	zoneDisks  = "zone-disks"  // made in advance, for the nodes of a zone, scarce
	localDisks = "local-disks" // made in advance, for one node, scarce
	anyDisks   = "any-disks"   // made in advance, for all nodes, scarce
	flakyLocal = "flaky-local" // provisioned, for the selected node
	flakyNet   = "flaky-net"   // provisioned, for all nodes
	broken     = "broken"      // provisioned, never
)

// size of every volume and claim: volumes are equal, so that every claim
// contends for every one.
const size = "10Gi"

// spare is how many volumes of a kind there are more than claims.
const spare = 2

// impossibleLabel marks pods that can never be bound.
const impossibleLabel = "chaos.prebind.dev/impossible"

// workload is all that a run keeps in existence.
type workload struct {
	zones   []string
	nodes   []*corev1.Node
	classes []*storagev1.StorageClass
	volumes []*corev1.PersistentVolume
	claims  []*corev1.PersistentVolumeClaim // born with the first pod that names them
	pods    []*corev1.Pod
	birth   map[string]time.Duration // of pods and claims, by name
	wanted  map[string]int           // claims of each pool of volumes
}

// planner makes a workload.
type planner struct {
	*workload
	building  []*build.PodBuilder
	dice      *rand.Rand
	namespace string
	window    time.Duration
}

// newWorkload draws a workload. The provisioner's name is that of the one that serves it.
func newWorkload(seed uint64, pods int, window time.Duration, namespace, disks string) *workload {
	p := &planner{
		workload: &workload{
			zones: []string{"a", "b", "c"}, birth: map[string]time.Duration{}, wanted: map[string]int{},
		},
		dice: dice(seed, "workload"), namespace: namespace, window: window,
	}
	flakyNodes := p.addNodes(4)
	p.addClasses(disks, flakyNodes)
	for n := 0; len(p.building) < pods; n++ {
		p.addPods(n, pods-len(p.building))
	}
	p.addImpossible(max(3, pods/50))
	for _, pod := range p.building {
		p.pods = append(p.pods, pod.Obj())
	}
	p.addVolumes(flakyNodes)
	return p.workload
}

// addNodes adds nodes to each zone. On the last one of each nothing can be
// provisioned, and it has no local volumes.
func (p *planner) addNodes(perZone int) (flaky []string) {
	for _, zone := range p.zones {
		for i := range perZone {
			name := fmt.Sprintf("node-%s%d", zone, i+1)
			// So large that no node ever looks emptier than another to the scheduler: it
			// would send the last pods to the nodes that cannot serve them, again and again.
			node := build.Node(name).Zone(zone).Capacity(corev1.ResourceCPU, "100000").Capacity(corev1.ResourceMemory, "1Pi")
			p.nodes = append(p.nodes, node.Obj())
			if i == perZone-1 {
				flaky = append(flaky, name)
			}
		}
	}
	return flaky
}

func (p *planner) addClasses(disks string, flakyNodes []string) {
	for _, name := range []string{zoneDisks, localDisks, anyDisks} {
		p.classes = append(p.classes, build.Class(name).Obj())
	}
	for _, name := range []string{flakyLocal, flakyNet} {
		class := build.Class(name).Provisioner(disks).Param(provisioner.FailNodes, strings.Join(flakyNodes, ","))
		p.classes = append(p.classes, class.Obj())
	}
	never := build.Class(broken).Provisioner(disks).Param(provisioner.Failures, "1000000").Param(provisioner.Delay, "500ms")
	p.classes = append(p.classes, never.Obj())
}

// born draws when an object comes into being: a fifth at once, the others in
// the first 60 % of the run.
func (p *planner) born() time.Duration {
	if p.dice.IntN(5) == 0 {
		return 0
	}
	return between(p.dice, 0, p.window*6/10)
}

// addPods adds a pod, or several that share a claim, but not more than room.
func (p *planner) addPods(n, room int) {
	born := p.born()
	switch draw := p.dice.IntN(100); {
	case draw < 25:
		p.zonePod(fmt.Sprintf("zone-%03d", n), born)
	case draw < 50:
		p.localPod(fmt.Sprintf("local-%03d", n), born)
	case draw < 60:
		p.pod(fmt.Sprintf("any-%03d", n), born, p.some(1, 3, anyDisks)...)
	case draw < 80:
		claims := append(p.some(1, 3, flakyLocal), anyDisks)
		p.pod(fmt.Sprintf("flaky-%03d", n), born, claims[:min(3, len(claims))]...)
	case draw < 90:
		class := []string{flakyLocal, flakyNet}[p.dice.IntN(2)]
		p.pod(fmt.Sprintf("scratch-%03d", n), born, p.some(0, 2, anyDisks)...).Ephemeral("scratch", class, size)
	case draw < 94 && room >= 2:
		p.twins(fmt.Sprintf("twins-%03d", n), born)
	default:
		p.sharingPods(fmt.Sprintf("share-%03d", n), born, min(room, 3))
	}
}

// some returns between least and most times the class.
func (p *planner) some(least, most int, class string) []string {
	return slices.Repeat([]string{class}, least+p.dice.IntN(most-least+1))
}

func (p *planner) zonePod(name string, born time.Duration) {
	zone := p.zones[p.dice.IntN(len(p.zones))]
	claims := p.some(1, 3, zoneDisks)
	p.wanted[zoneDisks+zone] += len(claims)
	p.pod(name, born, claims...).NodeSelector(corev1.LabelTopologyZone, zone)
}

func (p *planner) localPod(name string, born time.Duration) {
	claims := append(p.some(0, 1, anyDisks), p.some(0, 1, flakyNet)...)
	p.pod(name, born, append(claims, localDisks)...)
}

// sharingPods are pods that use one claim together and have one each.
func (p *planner) sharingPods(name string, born time.Duration, n int) {
	class := []string{flakyLocal, anyDisks}[p.dice.IntN(2)]
	p.claim(name, class, born).Modes(corev1.ReadWriteMany)
	for i := range n {
		p.pod(fmt.Sprintf("%s-%d", name, i), born, anyDisks).Claim(name)
	}
}

// twins are two pods that use the same two claims: whatever happens, both must
// be provisioned on one node.
func (p *planner) twins(name string, born time.Duration) {
	claims := []string{name + "-left", name + "-right"}
	for _, claim := range claims {
		p.claim(claim, flakyLocal, born).Modes(corev1.ReadWriteMany)
	}
	for i := range 2 {
		p.pod(fmt.Sprintf("%s-%d", name, i), born).Claim(claims...)
	}
}

// pod adds a pod with a claim of its own of each class.
func (p *planner) pod(name string, born time.Duration, classes ...string) *build.PodBuilder {
	pod := build.Pod(p.namespace, name)
	for i, class := range classes {
		claim := fmt.Sprintf("%s-data-%d", name, i)
		p.claim(claim, class, born)
		pod.Claim(claim)
	}
	p.building = append(p.building, pod)
	p.birth[name] = born
	return pod
}

func (p *planner) claim(name, class string, born time.Duration) *build.ClaimBuilder {
	claim := build.Claim(p.namespace, name).Class(class).Size(size)
	p.claims = append(p.claims, claim.Obj())
	p.birth[name] = born
	p.wanted[class]++
	return claim
}

// addImpossible adds pods that can never be bound, of each sort in turn.
func (p *planner) addImpossible(n int) {
	for i := range n {
		name := fmt.Sprintf("never-%03d", i)
		switch i % 3 {
		case 0:
			p.claim(name+"-too-large", localDisks, 0).Size("1Ti")
			p.wanted[localDisks]--
			p.pod(name, p.born()).Claim(name+"-too-large").Label(impossibleLabel, "true")
		case 1:
			p.pod(name, p.born()).Claim(name+"-does-not-exist").Label(impossibleLabel, "true")
		case 2:
			p.pod(name, p.born(), p.some(1, 2, broken)...).Label(impossibleLabel, "true")
		}
	}
}

// addVolumes adds as many volumes as are wanted, and a few.
func (p *planner) addVolumes(without []string) {
	for _, zone := range p.zones {
		for i := range p.wanted[zoneDisks+zone] + spare {
			name := fmt.Sprintf("zone-%s-disk-%03d", zone, i)
			p.volumes = append(p.volumes, build.Volume(name).Class(zoneDisks).InZone(zone).Obj())
		}
	}
	var nodes []string
	for _, node := range p.nodes {
		if !slices.Contains(without, node.Name) {
			nodes = append(nodes, node.Name)
		}
	}
	for i := range p.wanted[localDisks] + spare {
		volume := build.Volume(fmt.Sprintf("local-disk-%03d", i)).Class(localDisks).OnNode(nodes[i%len(nodes)])
		p.volumes = append(p.volumes, volume.Obj())
	}
	for i := range p.wanted[anyDisks] + spare {
		volume := build.Volume(fmt.Sprintf("any-disk-%03d", i)).Class(anyDisks).InZone(p.zones...)
		volume.Modes(corev1.ReadWriteOnce, corev1.ReadWriteMany)
		p.volumes = append(p.volumes, volume.Obj())
	}
}

// possible returns the names of the pods that can be bound.
func (w *workload) possible() []string {
	var names []string
	for _, pod := range w.pods {
		if !impossible(pod) {
			names = append(names, pod.Name)
		}
	}
	return names
}

// countClaims counts the claims, those of ephemeral volumes included.
func (w *workload) countClaims() int {
	all := map[string]bool{}
	for _, pod := range w.pods {
		for _, name := range claimNames(pod) {
			all[name] = true
		}
	}
	return len(all)
}

func impossible(pod *corev1.Pod) bool { return pod.Labels[impossibleLabel] != "" }
