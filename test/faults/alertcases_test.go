package faults_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
)

// Each function of this file brings a replica into the state of one alert, and records
// it for as long as the alert needs. What is counted for the first time is not seen to
// grow, so most things happen more than once.

func killed(t *testing.T) *recorder {
	r := record(newFixture(t, ownStand(t)))
	r.must(r.on.prebind.Kill())
	r.silence(7)
	r.must(r.on.prebind.Start(r.ctx))
	return r
}

// withoutARight is started without the right to list CSIDrivers.
func withoutARight(t *testing.T) *recorder {
	on := ownStandWith(t, controlplane.PrebindOptions{Unready: true})
	f := newFixture(t, on)
	f.always(faultproxy.Match{Resource: "csidrivers"}, faultproxy.Answer(http.StatusForbidden))
	on.restart(t)
	f.eventually("the metrics are served", func() bool {
		_, err := f.scrape().Gather()
		return err == nil
	})
	r := record(f)
	r.minutes(6)
	return r
}

// notWired has a pod that waits, and no scheduler.
func notWired(t *testing.T) *recorder {
	s := plainScene(t, ownStand(t))
	r := record(s.fixture)
	r.eventually("the pod is in the cache", func() bool {
		return !slices.Contains(testkit.Samples(t, r.scrape(), "prebind_cache_objects"), "prebind_cache_objects{resource=pods} 0")
	})
	r.minutes(72)
	return r
}

// failing is asked to bind a pod that does not exist.
func failing(t *testing.T) *recorder {
	s := plainScene(t, ownStand(t))
	r := record(s.fixture)
	ghost := s.web.DeepCopy()
	ghost.Name = "ghost"
	for range 20 {
		s.answered(s.bind(ghost, s.node), "PodNotFound")
		s.answered(s.bind(ghost, s.node), "PodNotFound")
		r.minutes(1)
	}
	return r
}

func forbidden(t *testing.T) *recorder {
	s := plainScene(t, ownStand(t))
	s.always(s.binding(), faultproxy.Answer(http.StatusForbidden))
	r := record(s.fixture)
	s.answered(s.bind(s.web, s.node), "Forbidden")
	r.minutes(2)
	return r
}

// full runs the one call that it may.
func full(t *testing.T) *recorder {
	s := slowScene(t, ownStandWith(t, controlplane.PrebindOptions{Config: "server: {maxBindCalls: 1}"}))
	answer := s.waiting()
	r := record(s.fixture)
	other := s.pod("other")
	for range 7 {
		s.answered(s.bind(other, s.node), "TooManyCalls")
		r.minutes(1)
	}
	s.provisionByHand("data", s.node)
	s.succeeded(s.answer(answer), s.web, s.node)
	return r
}

// hungUpOn has callers that do not wait for as long as the volume takes.
func hungUpOn(t *testing.T) *recorder {
	s := slowScene(t, ownStand(t))
	r := record(s.fixture)
	for n := range 5 {
		ctx, hangUp := context.WithCancel(s.ctx)
		answer := s.hasContext(ctx).start(s.web, s.node)
		s.eventually("the call waits", func() bool {
			return slices.Contains(testkit.Samples(t, r.scrape(), "prebind_waiting_claims"), "prebind_waiting_claims{cause=provisioner} 1")
		})
		hangUp()
		s.answer(answer)
		late := fmt.Sprintf("prebind_late_answers_total{path=/v1/bind} %d", n+1)
		s.eventually(late, func() bool {
			return slices.Contains(testkit.Samples(t, r.scrape(), "prebind_late_answers_total"), late)
		})
		r.minutes(1)
	}
	return r
}

func slowAPIServer(t *testing.T) *recorder {
	s := plainScene(t, ownStand(t))
	s.always(faultproxy.Match{Resource: "pods/binding"}, faultproxy.Delay(1200*time.Millisecond))
	r := record(s.fixture)
	for _, name := range []string{"first", "second", "third"} {
		s.mustBind(s.pod(name), s.node)
		r.minutes(8)
	}
	return r
}

// slowFilter gets the last byte of its arguments late: the time that the scheduler
// takes to send them counts.
func slowFilter(t *testing.T) *recorder {
	s := plainScene(t, ownStand(t))
	r := record(s.fixture)
	args, err := json.Marshal(extenderv1.ExtenderArgs{Pod: s.web, NodeNames: &[]string{s.node}})
	r.must(err)
	for range 3 {
		body, sender := io.Pipe()
		go func() {
			_, _ = sender.Write(args[:len(args)-1])
			<-time.After(300 * time.Millisecond)
			_, err := sender.Write(args[len(args)-1:])
			_ = sender.CloseWithError(err)
		}()
		req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, s.on.prebind.URL()+"/v1/filter", body)
		r.must(err)
		resp, err := http.DefaultClient.Do(req)
		r.must(err)
		r.must(resp.Body.Close())
		r.minutes(8)
	}
	return r
}

func waitingForLong(t *testing.T) *recorder {
	s := slowScene(t, ownStand(t))
	r := record(s.fixture)
	answer := s.waiting()
	r.minutes(10)
	s.provisionByHand("data", s.node)
	s.succeeded(s.answer(answer), s.web, s.node)
	return r
}

// blind does not see what it has written, and its caller has gone.
func blind(t *testing.T) *recorder {
	s := staticScene(t, ownStand(t))
	s.claim("first", s.className)
	s.mustBind(s.pod("first", "first"), s.node) // now the caches show all that is before
	release := s.on.hold(t, volumes, claims)
	ctx, hangUp := context.WithCancel(s.ctx)
	answer := s.hasContext(ctx).start(s.web, s.node)
	s.eventually("the volume is claimed", func() bool {
		return slices.Contains(testkit.Samples(t, s.scrape(), "prebind_api_writes_total"), "prebind_api_writes_total{object=persistentvolumes result=success} 2")
	})
	hangUp()
	s.answer(answer)
	s.callEnded(s.web, "CallerGone")
	r := record(s.fixture)
	r.minutes(21)
	release()
	return r
}

// unwellAPIServer fails with each Binding.
func unwellAPIServer(t *testing.T) *recorder {
	s := plainScene(t, ownStandWith(t, controlplane.PrebindOptions{BindTimeout: time.Second}))
	s.always(s.binding(), faultproxy.Answer(http.StatusInternalServerError))
	r := record(s.fixture)
	for range 4 {
		if text := s.bind(s.web, s.node); text == "" {
			t.Error("the call was answered with success")
		}
		r.minutes(6)
	}
	return r
}

// rateLimited may send two requests a second, and has three Bindings to send.
func rateLimited(t *testing.T) *recorder {
	s := plainScene(t, ownStandWith(t, controlplane.PrebindOptions{Config: "clientConnection: {qps: 2, burst: 1}"}))
	r := record(s.fixture)
	for round := range 3 {
		var answers []<-chan string
		var pods []*v1.Pod
		for n := range 3 {
			pod := s.pod(fmt.Sprintf("web-%d-%d", round, n))
			pods, answers = append(pods, pod), append(answers, s.start(pod, s.node))
		}
		for n := range pods {
			s.succeeded(s.answer(answers[n]), pods[n], s.node)
		}
		r.minutes(8)
	}
	return r
}

// strangers have no certificate.
func strangers(t *testing.T) *recorder {
	r := record(newFixture(t, overTLS(t, time.Now().Add(90*24*time.Hour))))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // whom we talk to is not the point
	t.Cleanup(client.CloseIdleConnections)
	for range 14 {
		req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, r.on.prebind.URL()+"/v1/bind", strings.NewReader("{}"))
		r.must(err)
		resp, err := client.Do(req)
		r.must(err)
		answer, err := io.ReadAll(resp.Body)
		r.must(errors.Join(err, resp.Body.Close()))
		if !strings.Contains(string(answer), "ClientRefused: ") {
			t.Errorf("a stranger was answered %s", answer)
		}
		r.minutes(1)
	}
	return r
}

// lastDay has a certificate that is good for a day more.
func lastDay(t *testing.T) *recorder {
	r := record(newFixture(t, overTLS(t, time.Now().Add(24*time.Hour))))
	r.minutes(11)
	return r
}

// overTLS is a stand that asks for certificates, and whose own ends at the time.
func overTLS(t *testing.T, end time.Time) *stand {
	t.Helper()
	cert := testkit.NewCertificate(t, &x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil)
	files := controlplane.ServerTLS{CertFile: filepath.Join(t.TempDir(), "tls.crt"), KeyFile: filepath.Join(t.TempDir(), "tls.key")}
	files.ClientCAFile, files.AllowedClientNames = files.CertFile, []string{"scheduler"}
	for file, text := range map[string][]byte{files.CertFile: cert.CertPEM(), files.KeyFile: cert.KeyPEM(t)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ownStandWith(t, controlplane.PrebindOptions{TLS: &files})
}
