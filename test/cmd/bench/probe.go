package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/test/build"
)

const (
	// idleCalls are made one after the other before the pods come.
	idleCalls = 100
)

// filterCalls are how long calls of /v1/filter for the names of all nodes take,
// from before the request is sent until its answer has been read whole.
type filterCalls struct {
	Nodes int     `json:"nodes"`
	Idle  summary `json:"idle"`
}

// probe makes filter calls of its own. Not during a burst: prebind would wait for
// the bind calls that follow.
type probe struct {
	url  string
	body []byte
}

// newProbe asks for a pod whose claim exists and stays unbound.
func (r *series) newProbe(ctx context.Context) (*probe, error) {
	if err := r.createClaim(ctx, r.pods); err != nil {
		return nil, err
	}
	pod := build.Pod(r.namespace, podName(r.pods)).Claim(podName(r.pods)).Obj()
	pod.UID, pod.Status.Phase = "probe", corev1.PodPending
	names := make([]string, r.scenario.World.Nodes)
	for i := range names {
		names[i] = nodeNameOf(i)
	}
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
	return &probe{url: r.prebind.URL() + "/v1/filter", body: body}, err
}

// call makes one call and tells how long it took. An answer that does not tell of
// every node is an error.
func (p *probe) call(ctx context.Context, nodes int) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("calling filter: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("calling filter: %w", err)
	}
	var answer extenderv1.ExtenderFilterResult
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, fmt.Errorf("calling filter: %w", err)
	}
	if answer.Error != "" || answer.NodeNames == nil {
		return 0, fmt.Errorf("calling filter: it answered %.300s", text)
	}
	if told := len(*answer.NodeNames) + len(answer.FailedNodes) + len(answer.FailedAndUnresolvableNodes); told != nodes {
		return 0, fmt.Errorf("calling filter: it answered for %d of %d nodes", told, nodes)
	}
	return took, nil
}

// idle calls a number of times in a row.
func (p *probe) idle(ctx context.Context, nodes int) ([]time.Duration, error) {
	var samples []time.Duration
	for range idleCalls {
		took, err := p.call(ctx, nodes)
		if err != nil {
			return nil, err
		}
		samples = append(samples, took)
	}
	return samples, nil
}

// alone makes the calls while the controller manager is halted: with so many
// volumes it never comes to rest, and would have half of the machine.
func (r *series) alone(ctx context.Context, p *probe) ([]time.Duration, error) {
	if err := r.cp.ControllerManager().Freeze(); err != nil {
		return nil, err
	}
	samples, err := p.idle(ctx, r.scenario.World.Nodes)
	return samples, errors.Join(err, r.cp.ControllerManager().Thaw())
}

// probed is atOnce with filter calls before it.
func (r *series) probed(ctx context.Context) error {
	probe, err := r.newProbe(ctx)
	if err != nil {
		return fmt.Errorf("preparing filter calls: %w", err)
	}
	if err := r.calm(ctx); err != nil { // prebind has the claim by then
		return err
	}
	idle, err := r.alone(ctx, probe)
	if err != nil {
		return err
	}
	r.filterCalls = &filterCalls{Nodes: r.scenario.World.Nodes, Idle: summarize(idle)}
	if err := r.atOnce(ctx); err != nil {
		return err
	}
	if err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).Delete(ctx, podName(r.pods), deleteNow()); err != nil {
		return fmt.Errorf("removing the claim of filter calls: %w", err)
	}
	return nil
}
