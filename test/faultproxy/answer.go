package faultproxy

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answerWriter notes what the client is answered.
type answerWriter struct {
	http.ResponseWriter
	record *record
}

// Unwrap lets http.ResponseController find Flush.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *answerWriter) WriteHeader(status int) {
	w.record.update(func(r *Request) { r.Answered = status })
	w.ResponseWriter.WriteHeader(status)
}

// replay gives the client the answer that was kept.
func (e *exchange) replay(answer *httptest.ResponseRecorder) {
	maps.Copy(e.w.Header(), answer.Header())
	e.w.WriteHeader(answer.Code)
	_, _ = e.w.Write(answer.Body.Bytes())
}

// refuse answers as the API server does when it refuses.
func (e *exchange) refuse(code int, retryAfter time.Duration) {
	seconds := int(retryAfter / time.Second)
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reasonOf(code),
		Message:  "fault proxy: " + http.StatusText(code),
		Details:  &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)},
	}
	body, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	if seconds > 0 {
		e.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	e.w.Header().Set("Content-Type", "application/json")
	e.w.WriteHeader(code)
	_, _ = e.w.Write(body)
}

func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusMethodNotAllowed:
		return metav1.StatusReasonMethodNotAllowed
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	default:
		return metav1.StatusReasonUnknown
	}
}
