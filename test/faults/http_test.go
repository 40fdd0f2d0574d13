package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// send sends one request and returns status and body.
func send(ctx context.Context, method, url string, body []byte) (code int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, errors.Join(err, resp.Body.Close())
}

// postBind is what kube-scheduler does: anything but status 200 is a failure.
// It returns the answer's Error; a transport error comes as text too.
func postBind(ctx context.Context, s *stand, pod *v1.Pod, node string) string {
	result, err := tryPostBind(ctx, s, pod, node)
	if err != nil {
		return "transport: " + err.Error()
	}
	return result.Error
}

func tryPostBind(ctx context.Context, s *stand, pod *v1.Pod, node string) (result extenderv1.ExtenderBindingResult, err error) {
	body, err := json.Marshal(extenderv1.ExtenderBindingArgs{
		PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node,
	})
	if err != nil {
		return result, err
	}
	code, text, err := send(ctx, http.MethodPost, s.prebind.URL()+"/v1/bind", body)
	if err != nil {
		return result, err
	}
	if code != http.StatusOK {
		return result, fmt.Errorf("status %d: %s", code, text)
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return result, fmt.Errorf("decoding %q: %w", text, err)
	}
	return result, nil
}
