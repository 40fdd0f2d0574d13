package e2e_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// matching is a claim "data", the volumes of its class, and which of them it
// is to get on node "a".
type matching struct {
	volumes map[string]pvOption
	claim   pvcOption
	want    string // short name of a volume; "" for none
}

type (
	pvOption  = func(*v1.PersistentVolume)
	pvcOption = func(*v1.PersistentVolumeClaim)
)

// run makes the objects, asks for the bind and checks what came of it. Volumes
// that the claim does not get stay as they were.
func (m matching) run(f *fixture) {
	f.t.Helper()
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	made := map[string]*v1.PersistentVolume{}
	for short, option := range m.volumes {
		pv := newVolume(short, class, node)
		if option != nil {
			option(pv)
		}
		if pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == "" {
			pv.Spec.ClaimRef.Namespace = f.ns
		}
		made[short] = f.volume(pv)
	}
	claim := newClaim("data", class)
	if m.claim != nil {
		m.claim(claim)
	}
	f.claim(claim)
	pod := f.pod(newPod("web", nobody, "data"))
	if m.want == "" {
		f.refuses(pod, node, "NoVolume", "claim "+f.ns+"/data (class "+class+")", "node "+node)
	} else {
		f.binds(pod, node)
		f.boundTo("data", m.want)
	}
	for short, pv := range made {
		if now := f.getVolume(pv.Name); short != m.want && written(&now.ObjectMeta) != "" {
			f.t.Errorf("volume %s was written", pv.Name)
		}
	}
}

func runMatching(t *testing.T, tests map[string]matching) {
	t.Helper()
	for name, m := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.run(newFixture(t))
		})
	}
}

func size(quantity string) pvcOption {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(quantity)
	}
}

func TestQuantitiesAreComparedByValue(t *testing.T) {
	t.Parallel()
	runMatching(t, map[string]matching{
		"1.5Gi is 1536Mi, not 1500Mi":         {map[string]pvOption{"too-small": capacity("1500Mi"), "exact": capacity("1536Mi")}, size("1.5Gi"), "exact"},
		"1e9 is 1G":                           {map[string]pvOption{"too-small": capacity("999999999"), "exact": capacity("1G")}, size("1e9"), "exact"},
		"1000Mi is more than 1G":              {map[string]pvOption{"giga": capacity("1G")}, size("1000Mi"), ""},
		"1000Mi is less than 1Gi":             {map[string]pvOption{"gibi": capacity("1Gi")}, size("1000Mi"), "gibi"},
		"one byte too small is too small":     {map[string]pvOption{"short": capacity("1073741823")}, nil, ""},
		"0.5Gi is 512Mi":                      {map[string]pvOption{"less": capacity("511Mi"), "exact": capacity("512Mi")}, size("0.5Gi"), "exact"},
		"a claim of one byte takes the least": {map[string]pvOption{"more": capacity("2Mi"), "least": capacity("1Mi")}, size("1"), "least"},
		"petabytes do not overflow":           {map[string]pvOption{"big": capacity("8Ei"), "small": capacity("6Ei")}, size("7Ei"), "big"},
	})
}

func TestSelectorsAndClasses(t *testing.T) {
	t.Parallel()
	tier := func(value string) pvOption {
		return func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{"tier": value} }
	}
	wants := func(operator metav1.LabelSelectorOperator, values ...string) pvcOption {
		return func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: operator, Values: values}}}
		}
	}
	annotatedAs := func(class string) pvOption {
		return func(pv *v1.PersistentVolume) {
			pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: pv.Spec.StorageClassName}
			pv.Spec.StorageClassName = class
		}
	}
	runMatching(t, map[string]matching{
		"In picks one of the values":          {map[string]pvOption{"gold": tier("gold"), "tin": tier("tin")}, wants(metav1.LabelSelectorOpIn, "gold", "silver"), "gold"},
		"NotIn takes a volume without label":  {map[string]pvOption{"tin": tier("tin"), "plain": nil}, wants(metav1.LabelSelectorOpNotIn, "tin"), "plain"},
		"Exists needs the label":              {map[string]pvOption{"plain": nil}, wants(metav1.LabelSelectorOpExists), ""},
		"DoesNotExist refuses the label":      {map[string]pvOption{"tin": tier("tin")}, wants(metav1.LabelSelectorOpDoesNotExist), ""},
		"an empty selector takes any volume":  {map[string]pvOption{"tin": tier("tin")}, func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, "tin"},
		"the right label on a small one only": {map[string]pvOption{"gold": func(pv *v1.PersistentVolume) { tier("gold")(pv); capacity("1Mi")(pv) }, "tin": tier("tin")}, wants(metav1.LabelSelectorOpIn, "gold"), ""},

		"S33 the class is in the volume's annotation alone": {map[string]pvOption{"old": annotatedAs("")}, nil, "old"},
		"S33 the volume's annotation counts, not its field": {map[string]pvOption{"old": annotatedAs("other")}, nil, "old"},
		"S33 the volume's annotation names another class": {map[string]pvOption{"old": func(pv *v1.PersistentVolume) {
			pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: "other"}
		}}, nil, ""},
		"S33 a volume without a class is not for this claim": {map[string]pvOption{"none": func(pv *v1.PersistentVolume) { onePodVolume(pv); pv.Spec.StorageClassName = "" }}, onePodClaim, ""},
	})
}

func TestReclaimPoliciesAndPhases(t *testing.T) {
	t.Parallel()
	policy := func(policy v1.PersistentVolumeReclaimPolicy) pvOption {
		return func(pv *v1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = policy }
	}
	// ofDeletedClaim belonged to a claim that is gone.
	ofDeletedClaim := func(policy v1.PersistentVolumeReclaimPolicy) pvOption {
		return func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = policy
			pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data", UID: "00000000-0000-0000-0000-000000000001"}
		}
	}
	runMatching(t, map[string]matching{
		"policy Delete is matched as any":                 {map[string]pvOption{"a": policy(v1.PersistentVolumeReclaimDelete)}, nil, "a"},
		"policy Recycle is matched as any":                {map[string]pvOption{"a": policy(v1.PersistentVolumeReclaimRecycle)}, nil, "a"},
		"S27 a Released volume to be kept is no match":    {map[string]pvOption{"old": ofDeletedClaim(v1.PersistentVolumeReclaimRetain)}, nil, ""},
		"S27 beside a free one the Released one is left":  {map[string]pvOption{"old": ofDeletedClaim(v1.PersistentVolumeReclaimRetain), "new": capacity("5Gi")}, nil, "new"},
		"a volume that could not be deleted is no match":  {map[string]pvOption{"old": ofDeletedClaim(v1.PersistentVolumeReclaimDelete)}, nil, ""},
		"a volume that could not be recycled is no match": {map[string]pvOption{"old": ofDeletedClaim(v1.PersistentVolumeReclaimRecycle)}, nil, ""},
	})
}

func TestVolumesPreboundByAnAdministrator(t *testing.T) {
	t.Parallel()
	forClaim := func(namespace, name string, more ...pvOption) pvOption {
		return func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: name}
			changed(pv, more)
		}
	}
	gold := func(c *v1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	}
	runMatching(t, map[string]matching{
		"the pre-bound one is taken, large as it is":      {map[string]pvOption{"mine": forClaim("", "data", capacity("50Gi")), "small": nil}, nil, "mine"},
		"pre-bound to the same name in another namespace": {map[string]pvOption{"theirs": forClaim("elsewhere", "data"), "free": capacity("3Gi")}, nil, "free"},
		"pre-bound to another claim of this namespace":    {map[string]pvOption{"theirs": forClaim("", "data-0"), "free": capacity("3Gi")}, nil, "free"},
		"pre-bound but too small, another one fits":       {map[string]pvOption{"mine": forClaim("", "data", capacity("1Mi")), "fits": capacity("3Gi")}, nil, "fits"},
		"pre-bound but too small, and no other":           {map[string]pvOption{"mine": forClaim("", "data", capacity("1Mi"))}, nil, ""},
		"pre-bound but of the wrong volumeMode":           {map[string]pvOption{"mine": forClaim("", "data", func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock) })}, nil, ""},
		"a pre-bound volume need not match the selector":  {map[string]pvOption{"mine": forClaim("", "data")}, gold, "mine"},
		"only claims of others, each volume pre-bound":    {map[string]pvOption{"one": forClaim("", "x"), "two": forClaim("", "y")}, nil, ""},
		"S33 pre-bound through the beta class annotation": {map[string]pvOption{"mine": forClaim("", "data", func(pv *v1.PersistentVolume) {
			pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: pv.Spec.StorageClassName}
		})}, nil, "mine"},
		"pre-bound, with foreign labels and annotations": {map[string]pvOption{"mine": forClaim("", "data", func(pv *v1.PersistentVolume) {
			pv.Annotations, pv.Labels = map[string]string{"team": "db"}, map[string]string{"rack": "7"}
		})}, nil, "mine"},
		"pre-bound beside a free one of the same size": {map[string]pvOption{"mine": forClaim("", "data"), "free": capacity("1Gi")}, nil, "mine"},
	})
}

// S05, S27: the annotation bound-by-controller tells the PV controller that it
// may release the volume again. An administrator's choice does not get it.
func TestS05_OnlyVolumesThatPrebindChoseAreMarkedSo(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	mine := f.volume(newVolume("mine", class, node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = f.claimRef("by-hand", "") }))
	free := f.volume(newVolume("free", class, node))
	thaw := shared.freezeControllers(t) // or they would be faster than the call
	byHand, chosen := f.claim(newClaim("by-hand", class)), f.claim(newClaim("chosen", class))
	pod := f.pod(newPod("web", nobody, "by-hand", "chosen"))
	answer := f.start(pod, node)
	for name, want := range map[string]struct {
		claim  *v1.PersistentVolumeClaim
		marked bool
	}{mine.Name: {byHand, false}, free.Name: {chosen, true}} {
		f.eventually("volume "+name+" is claimed", func() bool {
			ref := f.getVolume(name).Spec.ClaimRef
			return ref != nil && ref.UID == want.claim.UID
		})
		now := f.getVolume(name)
		ref := now.Spec.ClaimRef
		if ref.Kind != "PersistentVolumeClaim" || ref.Namespace != f.ns || ref.Name != want.claim.Name || ref.ResourceVersion == "" {
			t.Errorf("volume %s: claimRef = %+v", name, ref)
		}
		if _, marked := now.Annotations[volume.AnnBoundByController]; marked != want.marked {
			t.Errorf("volume %s: bound-by-controller = %v, want %v", name, marked, want.marked)
		}
	}
	thaw()
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
	if _, marked := f.getVolume(mine.Name).Annotations[volume.AnnBoundByController]; marked {
		t.Errorf("volume %s of the administrator is marked bound-by-controller", mine.Name)
	}
}

func TestVolumeThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("going", class, node))
	f.markVolumeForDeletion(pv.Name)
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refuses(pod, node, "NoVolume", "claim "+f.ns+"/data")
	f.volume(newVolume("staying", class, node, capacity("9Gi")))
	f.binds(pod, node)
	f.boundTo("data", "staying")

	// One that is bound already serves until its claim goes.
	f.markVolumeForDeletion(f.name("staying"))
	f.binds(f.pod(newPod("second", nobody, "data")), node)
}

func TestClaimsThatAskForOneVolumeByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	spare := f.volume(newVolume("spare", class, node))
	named := func(short string) pvcOption {
		return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = f.name(short) }
	}
	f.volume(newVolume("tiny", class, node, capacity("1Mi")))
	taken := f.volume(newVolume("taken", class, node, func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "somebody", UID: types.UID("7")}
	}))
	for name, words := range map[string]string{"missing": "missing", "tiny": "tiny", "taken": "taken"} {
		f.claim(newClaim(name, class, named(name)))
		f.refuses(f.pod(newPod("with-"+name, nobody, name)), node, "ClaimUnbound", "claim "+f.ns+"/"+name, f.name(words), "pod has unbound immediate PersistentVolumeClaims")
	}
	f.free(spare)
	if ref := f.getVolume(taken.Name).Spec.ClaimRef; ref.Name != "somebody" {
		t.Errorf("volume %s is claimed by %s", taken.Name, ref.Name)
	}

	// The PV controller binds such a claim, whatever the binding mode.
	f.volume(newVolume("missing", class, node))
	f.awaitBound("missing")
	f.binds(f.pod(newPod("late", nobody, "missing")), node)
	f.boundTo("missing", "missing")
}
