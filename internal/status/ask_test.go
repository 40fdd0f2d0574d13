package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/internal/status"
)

// answers is a source that always answers the same.
func answers(code int, body string, err error) status.Source {
	return status.Source{Name: "there", Get: func(context.Context) (int, []byte, error) { return code, []byte(body), err }}
}

func TestAskReadsWhatWasAnswered(t *testing.T) {
	body, err := json.Marshal(busy())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/debug/prebind" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = w.Write(body)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	got, err := status.Ask(t.Context(), status.HTTP(address))
	if err != nil {
		t.Fatal(err)
	}
	want := busy()
	want.Instance.Name = address
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestAskSaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		source status.Source
		want   string
	}{
		"no answer":          {answers(0, "", errors.New("no route")), "asking there: no route"},
		"it is off":          {answers(404, `{"Error":"it is off; set\u001b server.debug: true"}`, nil), "asking there: it is off; set  server.debug: true"},
		"another program":    {answers(404, "404 page not found", nil), "asking there: the answer is 404 Not Found: what listens there is no prebind, or one without /debug/prebind"},
		"a gateway":          {answers(502, "<html>", nil), "asking there: the answer is 502 Bad Gateway"},
		"no JSON":            {answers(200, "ok", nil), "asking there: the answer is no JSON of prebind's: invalid character 'o' looking for beginning of value"},
		"of another kind":    {answers(200, `{"kind":"List","apiVersion":"v1"}`, nil), `asking there: the answer is a "List" of "v1", and this program reads "Status" of "prebind.dev/v1alpha1"`},
		"of a later prebind": {answers(200, `{"kind":"Status","apiVersion":"prebind.dev/v2"}`, nil), `"prebind.dev/v2", and this program reads "Status" of "prebind.dev/v1alpha1": use the version of prebind that runs there`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := status.Ask(t.Context(), tc.source)
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAskNobody(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	_, err = status.Ask(t.Context(), status.HTTP(address))
	if err == nil {
		t.Fatal("there was an answer")
	}
	for _, part := range []string{"asking " + address + ": ", "connection refused", "--address", "server.opsAddress", "--service"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
}
