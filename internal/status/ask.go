package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Path is where an instance tells its state, on its ops listener.
const Path = "/debug/prebind"

// maxAnswer bounds what is read of an answer, in bytes; a full one has a few
// hundred kilobytes.
const maxAnswer = 16 << 20

// askTimeout bounds one answer.
const askTimeout = 10 * time.Second

// Source is an instance that can be asked.
type Source struct {
	// Name is shown to people.
	Name string
	// Get returns status code and body of GET /debug/prebind. The error says why
	// there is no answer, and what to do.
	Get func(ctx context.Context) (code int, body []byte, err error)
}

// HTTP is the instance whose ops listener is at host:port.
func HTTP(address string) Source {
	return Source{Name: address, Get: func(ctx context.Context) (int, []byte, error) { return getHTTP(ctx, address) }}
}

func getHTTP(ctx context.Context, address string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+Path, nil)
	if err != nil {
		return 0, nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return 0, nil, fmt.Errorf("%w; is prebind running there? --address names its ops listener (server.opsAddress); "+
			"--service or --deployment reach one in a cluster, through the API server", op)
	}
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the answer: %w", err)
	}
	return response.StatusCode, body, nil
}

// Ask asks one instance.
func Ask(ctx context.Context, source Source) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	code, body, err := source.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", source.Name, err)
	}
	got, err := decode(code, body)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", source.Name, err)
	}
	got.Instance.Name = source.Name
	return got, nil
}

// decode reads an answer, or tells what else it is.
func decode(code int, body []byte) (*Status, error) {
	if code != http.StatusOK {
		var refusal struct{ Error string }
		if json.Unmarshal(body, &refusal) == nil && refusal.Error != "" {
			return nil, errors.New(clean(refusal.Error)) // off: prebind says how to turn it on
		}
		text := fmt.Sprintf("the answer is %d %s", code, http.StatusText(code))
		if code == http.StatusNotFound {
			text += ": what listens there is no prebind, or one without " + Path
		}
		return nil, errors.New(text)
	}
	var got Status
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, fmt.Errorf("the answer is no JSON of prebind's: %w", err)
	}
	if got.APIVersion != APIVersion || got.Kind != Kind {
		return nil, fmt.Errorf("the answer is a %q of %q, and this program reads %q of %q: use the version of prebind that runs there",
			got.Kind, got.APIVersion, Kind, APIVersion)
	}
	return &got, nil
}
