// Package volumescheduling proves with prebind registered what kube-scheduler's
// own integration tests for volumes (test/integration/volumescheduling in
// k8s.io/kubernetes v1.37.2) prove without it. Theirs run the scheduler and the
// PV controller inside the test; here the real programs run, as in production:
// kube-scheduler, kube-controller-manager, prebind under its own ServiceAccount,
// and provisioners made of the library that real ones are made of.
//
// Each scenario runs with prebind registered in mode bind. Those that cost
// little run in mode stock too, where the scheduler's own plugin binds the
// volumes, to show that the scenario itself is right. A further mode is one more
// line of registrations. One kube-scheduler serves each mode; the scenarios run
// in parallel, each in a namespace and on nodes of its own.
//
// # Upstream's tests, ours, and what they prove
//
//   - TestVolumeBinding -> binding: every mix of immediate and waiting claims,
//     with and without volumes, pre-bound from either side: the pod is bound with
//     all its claims and takes no volume too many, or the scheduler says why not
//     and nothing is touched.
//   - TestVolumeBindingRescheduling -> rescheduling: a pod refused for want of a
//     class, a claim, a volume or a node is bound when that comes.
//   - TestVolumeBindingStress -> stress: 50 pods with 150 claims, half of them
//     pre-bound, get the 150 volumes of one node; none is lost or taken twice.
//   - TestVolumeBindingStressWithSchedulerResync -> stress under change: the same
//     with everything created at once in random order, while nodes, claims and
//     volumes are written all the time: retries and write conflicts do no harm.
//   - TestVolumeBindingDynamicStressFast -> fast provisioning: 150 claims of 50
//     pods are provisioned at once, one volume each.
//   - TestVolumeBindingDynamicStressSlow -> slow provisioning: the same when each
//     volume takes ten seconds, so that all pods wait together.
//   - TestVolumeBindingWithAntiAffinity -> pod anti-affinity, 10 nodes: pods that
//     must be apart are, though most free volumes are on one node.
//   - TestVolumeBindingWithAffinity -> pod anti-affinity, 100 nodes (what the test
//     does), and pod affinity (what its name says): pods that must be together get
//     the volumes of one node, though most free volumes are elsewhere.
//   - TestPVAffinityConflict -> node conflict: a pod that asks for another node
//     than its bound volume's is refused, the claim stays as it is.
//   - TestVolumeProvision -> provisioning: only waiting claims without a volume
//     are provisioned, for the pod's node, where their class allows it, beside
//     static, immediate and pre-bound claims of the same pod.
//   - TestCapacity -> capacity: a driver's reported capacity decides if and only
//     if it says that it reports, and a pod without room is bound once there is some.
//   - TestRescheduleProvisioning -> provisioning fails on a node: the failure frees
//     the claim, and its volume is made on another node.
//   - TestStorageCapacityScoring (once volume_capacity_priority_test.go) ->
//     capacity scoring: the node with the largest volumes, local or zonal, wins, and
//     the pod's volumes are of that node.
//   - TestStorageCapacityScoringMultiDriver -> capacity scoring of drivers: each
//     pod goes where its own claim's driver reports the most room.
//   - none -> equal volumes, seen in the field: 60 pods for 60 equal volumes are
//     all bound; one volume held for nobody would leave a pod without.
//
// # What is checked after every scenario
//
// From the API alone: a bound pod has only claims that are fully bound, by UID,
// and were so before the pod, to volumes that its node can reach; no volume has two claims, or
// was ever taken from one and given to another; no volume is held
// for a claim that has another one or is gone; claims and volumes were written by
// prebind in mode bind, and by kube-scheduler in mode stock, never by both. After
// each mode prebind holds no reservation and runs no call, and at the end the
// race detector has found nothing.
//
// The random scenarios print their seed; run them again with
//
//	go test ./volumescheduling -args -seed=N
package volumescheduling
