package status

import "time"

// The version and kind of what GET /debug/prebind answers, and the kind of a
// list of such answers.
const (
	APIVersion = "prebind.dev/v1alpha1"
	Kind       = "Status"
	ListKind   = "StatusList"
)

// Bounds of what one answer holds.
const (
	// MaxItems is how many running calls, and how many reservations.
	MaxItems = 500
	// MaxClaims is how many claims of one pod.
	MaxClaims = 16
	// MaxText is how many bytes of an error.
	MaxText = 1024
)

// List is what `prebind status -o json` prints: one item for each instance.
type List struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Items      []Status `json:"items"`
}

// Status is one instance at one moment.
type Status struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is when the answer was made; ages count from it.
	Time     time.Time `json:"time"`
	Instance Instance  `json:"instance"`
	// Running are the bind calls that run now, the longest one first, with what they
	// wait for.
	Running      []Running `json:"running"`
	RunningTotal int       `json:"runningTotal"`
	// Reservations are what is promised to claims and not seen in the caches yet,
	// the oldest first. At rest there are none.
	Reservations      []Reservation `json:"reservations"`
	ReservationsTotal int           `json:"reservationsTotal"`
	// Failed and Bound are the last bind calls that have ended, the newest first.
	Failed []Ended `json:"failed"`
	Bound  []Ended `json:"bound"`
	// Caches are in the order of their names.
	Caches []Cache `json:"caches"`
}

// Instance is who answers.
type Instance struct {
	// Name is how it was asked, an address or NAMESPACE/POD. Whoever asks sets
	// it.
	Name string `json:"name,omitempty"`
	// Host is its host name, that of the pod in a cluster.
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Started time.Time `json:"started"`
}

// Running is a bind call that runs.
type Running struct {
	Pod   string    `json:"pod"` // namespace/name
	UID   string    `json:"uid"`
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
	// AgeSeconds is for how long.
	AgeSeconds float64 `json:"ageSeconds"`
	RequestID  string  `json:"requestID"`
	// Stage is the one that the call is in: admit, permit, reserve, preBind, bind,
	// postBind or unreserve.
	Stage string `json:"stage"`
	// Claims are those that are not bound yet, while the call waits for them.
	Claims      []WaitingClaim `json:"claims"`
	ClaimsTotal int            `json:"claimsTotal"`
}

// WaitingClaim is a claim that is not bound yet.
type WaitingClaim struct {
	Claim string `json:"claim"` // namespace/name
	Class string `json:"class"`
	// Cause is on whom it waits, as in prebind_waiting_claims: api_write,
	// shared_claim, pv_controller, provisioner or volume; or provisioning_limit.
	Cause string `json:"cause"`
	// WaitsFor is the same in words.
	WaitsFor string `json:"waitsFor"`
}

// Reservation is what is promised to a claim.
type Reservation struct {
	Claim string `json:"claim"` // namespace/name
	// Volume is empty if one is to be provisioned for Node.
	Volume     string    `json:"volume,omitempty"`
	Node       string    `json:"node"`
	Since      time.Time `json:"since"`
	AgeSeconds float64   `json:"ageSeconds"`
	// Written tells that the API has it.
	Written bool `json:"written"`
}

// Ended is a bind call that has ended.
type Ended struct {
	Began      time.Time `json:"began"`
	DurationMS float64   `json:"durationMs"`
	RequestID  string    `json:"requestID"`
	Pod        string    `json:"pod"` // namespace/name
	UID        string    `json:"uid"`
	Node       string    `json:"node"`
	// Outcome is bound, alreadyBound or error; Reason and Error come with the
	// last one.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
	// Joined tells that it had the result of another call for the pod.
	Joined bool     `json:"joined,omitempty"`
	Claims []string `json:"claims"`
	// Stages are in the order in which they ran.
	Stages []Stage `json:"stages"`
}

// Stage is one stage of a bind call.
type Stage struct {
	Name       string  `json:"name"`
	DurationMS float64 `json:"durationMs"`
}

// Cache is one of the caches.
type Cache struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	Synced  bool   `json:"synced"`
}
