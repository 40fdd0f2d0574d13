// Package e2e has the end-to-end tests: prebind as its own process, under its
// own ServiceAccount, on a real control plane.
//
// One control plane serves the whole package. Most tests call prebind
// themselves, for pods whose schedulerName nobody serves: then the test, not
// the scheduler, decides what is asked and when. The others leave the call to a
// real kube-scheduler, in mode bind or in mode stock.
//
// Tests that halt the controllers, restart prebind or make a default class run
// alone. All others run in parallel, after them; each has a namespace of its
// own, and its name before the names of what has no namespace.
//
// # Situations
//
// The names of tests that begin with a case number, like S15, are situations
// from real clusters. Each is about one of these, by file:
//
//	S01 two claims, one volume       waiting, shared, races
//	S03 others edit claim and volume races, disturbed
//	S05 claimRef, and its reset      waiting, matching, disturbed
//	S06 half-bound, unseen claims    waiting, unseen
//	S10 pod is bound by another      cases, disturbed, races
//	S11 pod is made anew             cases, disturbed, recreated
//	S12 pod is deleted               waiting, disturbed
//	S15 node is gone                 cases, waiting, disturbed, provisioning, manyclaims
//	S17 provisioning fails           waiting, disturbed, provisioning, timeouts
//	S19 pod without bound volumes    manyclaims, recreated
//	S22 hostname is not the name     cases, topology
//	S26 immediate beside delayed     cases, classes, manyclaims
//	S27 Released volumes             cases, matching
//	S31 access modes                 cases, modes
//	S32 volumeMode                   cases, modes, timeouts
//	S33 class, or none               cases, classes, matching, provisioning, manyclaims
//	S37 generic ephemeral volumes    cases, ephemeral
//	S40 missing rights               rights, refusals
//	S42 volumes not Available yet    waiting, unseen
//	S47 waits hold nobody up         waiting
//	S50 node without the driver      cases, timeouts
//	S53 class is missing             cases, classes, manyclaims
//
// Tests without a number are further members of the same kinds: matching and
// quantities (matching, modes), topology and CSI migration (topology,
// migration), storage capacity (capacity), objects made anew at every stage
// (recreated, disturbed), many claims in one pod (manyclaims), one claim in
// many pods (shared), provisioners (provisioning), limits (limits,
// provisioninglimit), what people are told (events, status). Nominations are in
// nominate.
package e2e
