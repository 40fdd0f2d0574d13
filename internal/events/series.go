package events

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// maxTold is how many topics are known at once, with a kilobyte or two each.
	maxTold = 4096
	// seriesAge is how long after its last event a series goes on, as client-go's
	// recorders have it.
	seriesAge = 6 * time.Minute
	// seriesEvery is how long a series is left as it was written, at least.
	seriesEvery = 30 * time.Second
	// notesBurst and notesEvery bound the notes of a topic that get an event of
	// their own: a provisioner may put another request ID into each error.
	notesBurst = 4
	notesEvery = 2 * time.Minute
)

// topic is what people would take for the same thing once more, but for the note.
type topic struct {
	regarding, related types.UID
	reason             string
}

// told is what was said last on a topic.
type told struct {
	event   *eventsv1.Event // as it should be by now
	written time.Time
	notes   flowcontrol.RateLimiter
}

// take writes the event, or counts it into its series, and tells what it did.
func (r *Recorder) take(ctx context.Context, event *Event) (result string) {
	key := topic{event.Regarding.UID, event.Related.UID, event.Reason}
	known, _ := r.told.Get(key)
	last, again := known.(*told)
	if again && last.event.Note == event.Note {
		return r.repeat(ctx, key, last, event)
	}
	if r.isPaused() {
		return resultPaused
	}
	if again && !last.notes.TryAccept() {
		return r.repeat(ctx, key, last, event)
	}
	if r.limit.Wait(ctx) != nil {
		return resultDropped
	}
	if !again {
		last = &told{notes: flowcontrol.NewTokenBucketRateLimiter(float32(1/notesEvery.Seconds()), notesBurst-1)}
	}
	object := event.object(r.instance)
	if r.create(ctx, object) != nil {
		return resultFailed
	}
	last.event, last.written = object, time.Now()
	r.told.Add(key, last, seriesAge)
	return resultWritten
}

// repeat counts the event into the series that was told last, and writes it if
// that is due and nothing is in its way.
func (r *Recorder) repeat(ctx context.Context, key topic, last *told, event *Event) (result string) {
	r.told.Add(key, last, seriesAge)
	count, due := int32(1), true
	if series := last.event.Series; series != nil {
		count, due = series.Count, time.Since(last.written) >= seriesEvery
	}
	last.event.Series = &eventsv1.EventSeries{Count: count + 1, LastObservedTime: metav1.NewMicroTime(event.at)}
	if !due || r.isPaused() || !r.limit.TryAccept() {
		return resultRepeated
	}
	if r.patch(ctx, last.event) != nil {
		return resultFailed
	}
	last.written = time.Now()
	return resultWritten
}
