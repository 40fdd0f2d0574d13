package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
)

// PrebindUser is the user name that prebind's ServiceAccount has in RBAC and
// in the audit log.
const PrebindUser = "system:serviceaccount:kube-system:prebind"

// AuditFilter picks requests from the audit log. An empty field picks all.
type AuditFilter struct {
	User        string
	Verbs       []string // "create", "update", "patch", "delete", "get", "list", "watch"
	Resource    string   // plural: "pods"
	Subresource string   // "binding"; to pick requests without one use "-"
	Namespace   string
	Name        string
	// Code is the status of the answer, as in 409. Zero: any.
	Code int32
	// Since and Until bound the time at which the API server got the request.
	Since, Until time.Time
}

// Writes are the verbs that change something.
func Writes() []string {
	return []string{"create", "update", "patch", "delete", "deletecollection"}
}

func (f AuditFilter) matches(e *auditv1.Event) bool {
	ref := e.ObjectRef
	if ref == nil {
		ref = &auditv1.ObjectReference{}
	}
	is := func(want, have string) bool { return want == "" || want == have || want == "-" && have == "" }
	return e.Stage == auditv1.StageResponseComplete &&
		is(f.User, e.User.Username) &&
		(len(f.Verbs) == 0 || slices.Contains(f.Verbs, e.Verb)) &&
		is(f.Resource, ref.Resource) && is(f.Subresource, ref.Subresource) &&
		is(f.Namespace, ref.Namespace) && is(f.Name, ref.Name) &&
		(f.Code == 0 || e.ResponseStatus != nil && e.ResponseStatus.Code == f.Code) &&
		(f.Since.IsZero() || !e.RequestReceivedTimestamp.Time.Before(f.Since)) &&
		(f.Until.IsZero() || !e.RequestReceivedTimestamp.After(f.Until))
}

// Audit returns the requests that filter picks, in the order in which the API
// server answered them. Every request that was answered before Audit is called
// is there. A watch is there only after it has ended.
func (cp *ControlPlane) Audit(ctx context.Context, filter AuditFilter) ([]auditv1.Event, error) {
	if cp.existing {
		return nil, fmt.Errorf("reading the audit log: %w", ErrExistingCluster)
	}
	if cp.opts.NoAudit {
		return nil, errors.New("reading the audit log: it is off (Options.NoAudit)")
	}
	if err := cp.flushAudit(ctx); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	text, err := os.ReadFile(cp.files.auditLog)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return parseAudit(text, filter)
}

// flushAudit makes a request that is known by its number and waits until the
// log has it. In blocking mode the API server logs a request before it ends the
// answer, so what was answered earlier is there too.
func (cp *ControlPlane) flushAudit(ctx context.Context) error {
	before, err := os.Stat(cp.files.auditLog)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cp.admin)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cp.admin.Host+"/version", http.NoBody)
	if err != nil {
		return err
	}
	marker := string(uuid.NewUUID())
	request.Header.Set(auditv1.HeaderAuditID, marker)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		text, err := readFrom(cp.files.auditLog, before.Size())
		return bytes.Contains(text, []byte(marker)), err
	})
}

// parseAudit returns the events of a log that filter picks. It decodes only
// lines that can be meant, because the log of a long test has many. A last line
// that is still being written is left out.
func parseAudit(text []byte, filter AuditFilter) ([]auditv1.Event, error) {
	var events []auditv1.Event
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) || !filter.mayMatch(line) {
			continue
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("decoding an audit event: %w", err)
		}
		if filter.matches(&event) {
			events = append(events, event)
		}
	}
	return events, nil
}

func (f AuditFilter) mayMatch(line []byte) bool {
	for _, text := range []string{f.User, f.Resource, f.Subresource, f.Namespace, f.Name} {
		if text != "-" && !bytes.Contains(line, []byte(text)) {
			return false
		}
	}
	return true
}

// DescribeAudit prints one line a request, for the message of a failing test.
func DescribeAudit(events []auditv1.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %s %s", e.RequestReceivedTimestamp.Format("15:04:05.000"), e.User.Username, e.Verb, e.RequestURI)
		if e.ResponseStatus != nil {
			fmt.Fprintf(&b, " -> %d", e.ResponseStatus.Code)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
