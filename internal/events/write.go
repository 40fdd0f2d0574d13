package events

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// pauseAway is how long nothing is sent after a request that the API server
	// could not answer, pauseForbidden after one that we may not send.
	pauseAway      = 10 * time.Second
	pauseForbidden = time.Minute
)

func (r *Recorder) create(ctx context.Context, event *eventsv1.Event) error {
	return r.send(ctx, "create", func(ctx context.Context) error {
		_, err := r.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	})
}

// patch writes the event's series. An event that is gone, for its age, is made
// anew.
func (r *Recorder) patch(ctx context.Context, event *eventsv1.Event) error {
	data, err := json.Marshal(map[string]any{"series": event.Series})
	if err != nil {
		return err
	}
	err = r.send(ctx, "patch", func(ctx context.Context) error {
		_, err := r.client.Events(event.Namespace).Patch(ctx, event.Name, types.MergePatchType, data, metav1.PatchOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return r.create(ctx, event)
	}
	return err
}

// send sends one request. It is never tried again: what still holds then is told
// of anyway.
func (r *Recorder) send(ctx context.Context, verb string, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := request(ctx)
	if err == nil {
		return nil
	}
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case !answered || status.ErrStatus.Code == http.StatusTooManyRequests || status.ErrStatus.Code >= http.StatusInternalServerError:
		r.paused = time.Now().Add(pauseAway)
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		// The event, or all of its namespace, is gone.
	case apierrors.IsForbidden(err):
		r.paused = time.Now().Add(pauseForbidden)
		r.logRefusal(verb, err)
	default:
		r.logger.Warn("an event was refused", zap.Error(err))
		return err
	}
	r.logger.Debug("event not written", zap.String("verb", verb), zap.Error(err))
	return err
}

func (r *Recorder) isPaused() bool { return time.Now().Before(r.paused) }

// logRefusal says it once for each verb.
func (r *Recorder) logRefusal(verb string, err error) {
	if r.refused[verb] {
		return
	}
	r.refused[verb] = true
	r.logger.Warn("prebind may not write events, so pods and claims do not show what they wait for; all else works. "+
		"Give its ServiceAccount the rights of its manifest, or set events.enabled: false",
		zap.String("right", verb+" events.events.k8s.io"), zap.Error(err))
}
