package instrument

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Object is what is written: the label "object".
type Object string

// All that prebind writes, with the subresource.
const (
	Volumes      Object = "persistentvolumes"
	VolumeStatus Object = "persistentvolumes/status"
	Claims       Object = "persistentvolumeclaims"
	Bindings     Object = "pods/binding"
	PodStatus    Object = "pods/status"
)

// What became of a write: the labels "result" and "after".
const (
	resultSuccess     = "success"
	resultConflict    = "conflict"     // 409
	resultNotFound    = "not_found"    // 404
	resultThrottled   = "throttled"    // 429, after client-go has tried for a while
	resultForbidden   = "forbidden"    // 401, 403
	resultInvalid     = "invalid"      // any other 4xx
	resultServerError = "server_error" // 5xx
	resultNoAnswer    = "no_answer"    // refused, cut, timed out: it may have been done
)

// Writes counts writes to the API server. There is one for all packages that are
// given the same registry.
type Writes struct {
	sent, again *prometheus.CounterVec
}

// NewWrites returns the counters, with a series for the success of each object, so
// that it starts at 0.
func NewWrites(registry prometheus.Registerer, objects ...Object) (*Writes, error) {
	sent, err := shared(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prebind_api_writes_total",
		Help: "Writes sent to the API server and what became of them, by object and result. What client-go sends again by itself counts once.",
	}, []string{"object", "result"}))
	if err != nil {
		return nil, err
	}
	again, err := shared(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prebind_api_write_retries_total",
		Help: "Writes sent once more, by object and the result of the try before.",
	}, []string{"object", "after"}))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		sent.WithLabelValues(string(object), resultSuccess)
		again.WithLabelValues(string(object), resultConflict)
	}
	return &Writes{sent: sent, again: again}, nil
}

// Sent counts a write that was answered with err, or with nothing.
func (w *Writes) Sent(object Object, err error) {
	w.sent.WithLabelValues(string(object), resultOf(err)).Inc()
}

// Again counts a write that is about to be sent once more after err.
func (w *Writes) Again(object Object, err error) {
	w.again.WithLabelValues(string(object), resultOf(err)).Inc()
}

func resultOf(err error) string {
	if err == nil {
		return resultSuccess
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return resultNoAnswer
	}
	switch code := status.Status().Code; {
	case code == http.StatusConflict:
		return resultConflict
	case code == http.StatusNotFound:
		return resultNotFound
	case code == http.StatusTooManyRequests:
		return resultThrottled
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return resultForbidden
	case code >= http.StatusInternalServerError:
		return resultServerError
	case code >= http.StatusBadRequest:
		return resultInvalid
	default:
		return resultNoAnswer
	}
}
