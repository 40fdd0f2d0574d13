package fault

// Code names one kind of failure. It is the first word of the text that
// people see, and the value of the label "reason" in metrics: short, stable
// and bounded in number.
type Code string

// What can be wrong with the call itself.
const (
	// InvalidRequest: the call lacks an argument or one is malformed.
	InvalidRequest Code = "InvalidRequest"
	// ClientRefused: the caller's certificate is not accepted, or it speaks
	// plain HTTP where TLS is needed.
	ClientRefused Code = "ClientRefused"
	// NotReady: the caches are not synced yet; the scheduler retries.
	NotReady Code = "NotReady"
	// ShuttingDown: this replica stops; the scheduler retries.
	ShuttingDown Code = "ShuttingDown"
	// TooManyCalls: server.maxBindCalls calls run already; the scheduler
	// retries.
	TooManyCalls Code = "TooManyCalls"
	// CallerGone: the scheduler hung up (its httpTimeout ended), so nothing
	// more was written on its behalf.
	CallerGone Code = "CallerGone"
	// BindTimeout: volumes.bindTimeout ended before all claims were bound.
	BindTimeout Code = "BindTimeout"
	// Internal: a fault of prebind itself.
	Internal Code = "Internal"
)

// What can be wrong with the pod or its node.
const (
	// PodNotFound: no such pod.
	PodNotFound Code = "PodNotFound"
	// PodReplaced: a pod of this name exists, with another UID.
	PodReplaced Code = "PodReplaced"
	// PodTerminating: the pod is being deleted.
	PodTerminating Code = "PodTerminating"
	// PodAssigned: the pod already runs on another node.
	PodAssigned Code = "PodAssigned"
	// PodGated: the pod has scheduling gates.
	PodGated Code = "PodGated"
	// NodeNotFound: no such node, or it is gone.
	NodeNotFound Code = "NodeNotFound"
)

// What can be wrong with a claim or its volume.
const (
	// ClaimNotFound: the pod names a claim that does not exist (yet).
	ClaimNotFound Code = "ClaimNotFound"
	// ClaimReplaced: the claim was deleted and made anew during the call.
	ClaimReplaced Code = "ClaimReplaced"
	// ClaimTerminating: the claim is being deleted.
	ClaimTerminating Code = "ClaimTerminating"
	// ClaimLost: the claim's volume is gone; terminal until an admin acts.
	ClaimLost Code = "ClaimLost"
	// ClaimNotOwned: a generic ephemeral volume's claim belongs to another.
	ClaimNotOwned Code = "ClaimNotOwned"
	// ClaimUnbound: an unbound claim that is not for prebind to bind.
	ClaimUnbound Code = "ClaimUnbound"
	// VolumeNotFound: the claim's volume does not exist.
	VolumeNotFound Code = "VolumeNotFound"
	// VolumeMismatch: the claim's volume belongs to another claim.
	VolumeMismatch Code = "VolumeMismatch"
	// NodeConflict: the claim's volume is not reachable from the node.
	NodeConflict Code = "NodeConflict"
	// NoVolume: no available volume fits, and the class provisions none.
	NoVolume Code = "NoVolume"
	// NodesUnseen: no volumes on the nodes that the scheduler has looked at, but on
	// others. Of filter calls only.
	NodesUnseen Code = "NodesUnseen"
	// NoCapacity: the storage reachable from the node is too full.
	NoCapacity Code = "NoCapacity"
	// SelectedNodeConflict: the claim is being provisioned for another node.
	SelectedNodeConflict Code = "SelectedNodeConflict"
	// ProvisioningFailed: the provisioner gave the claim back.
	ProvisioningFailed Code = "ProvisioningFailed"
	// ClaimRefReset: somebody released the volume that we had pre-bound.
	ClaimRefReset Code = "ClaimRefReset"
)

// What the API server can answer.
const (
	// Forbidden: RBAC refuses a request; the text names verb and resource.
	Forbidden Code = "Forbidden"
	// Conflict: others kept writing the same object; the scheduler retries.
	Conflict Code = "Conflict"
	// APIError: the API server failed or could not be reached.
	APIError Code = "APIError"
)
