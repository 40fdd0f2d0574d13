package e2e_test

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
// It returns the answer's Error.
func postBind(ctx context.Context, url string, args extenderv1.ExtenderBindingArgs) (string, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	code, text, err := send(ctx, http.MethodPost, url+"/v1/bind", body)
	if err != nil {
		return "", err
	}
	if code != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", code, text)
	}
	var result extenderv1.ExtenderBindingResult
	if err := json.Unmarshal(text, &result); err != nil {
		return "", fmt.Errorf("decoding %q: %w", text, err)
	}
	return result.Error, nil
}

func bindArgs(pod *v1.Pod, node string) extenderv1.ExtenderBindingArgs {
	return extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
}
