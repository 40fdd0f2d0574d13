package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// report is everything that one run has measured.
type report struct {
	Machine    string    `json:"machine"`
	Processors int       `json:"processors"`
	Command    string    `json:"command"`
	Commit     string    `json:"commit,omitempty"`
	Seed       uint64    `json:"seed"`
	Started    time.Time `json:"started"`
	Minutes    float64   `json:"minutes"`
	Again      []repeat  `json:"again,omitempty"` // what was measured after that
	Scenarios  []result  `json:"scenarios,omitempty"`
	Scale      *scale    `json:"scale,omitempty"`
}

// repeat is a later run that has measured a part anew.
type repeat struct {
	What    string    `json:"what"` // names of scenarios
	Commit  string    `json:"commit,omitempty"`
	Started time.Time `json:"started"`
}

// result is what a scenario came to.
type result struct {
	scenario
	Series []measurement `json:"series"`
}

// find returns the measurement of a variant, nil if there is none.
func (r *report) find(scenario string, v variant) *measurement {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name != scenario {
			continue
		}
		for j := range r.Scenarios[i].Series {
			if m := &r.Scenarios[i].Series[j]; m.Variant == v && m.Error == "" {
				return m
			}
		}
	}
	return nil
}

// err tells what has failed, if anything.
func (r *report) err() error {
	var errs []error
	for _, s := range r.Scenarios {
		for _, m := range s.Series {
			if m.Error != "" {
				errs = append(errs, fmt.Errorf("measuring %s of %s: %s", m.Variant, s.Name, m.Error))
			}
		}
	}
	return errors.Join(errs...)
}

const reportFile = "bench.json"

func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	var text bytes.Buffer
	if err := r.encode(&text); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, reportFile), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// encode writes the report as JSON.
func (r *report) encode(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// readReport reads what write has written; an empty report if it has not.
func readReport(dir string) (*report, error) {
	r := &report{}
	text, err := os.ReadFile(filepath.Join(dir, reportFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading the report in %s: %w", dir, err)
	}
	return r, nil
}

// machine describes where this runs, as far as the kernel tells.
func machine(kubernetes string) string {
	processor := "processor unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				processor = strings.TrimSpace(value)
				break
			}
		}
	}
	ram := ""
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if mib := statusMiB(string(text), "MemTotal:"); mib > 0 {
			ram = fmt.Sprintf(", %.0f GiB of memory", mib/1024)
		}
	}
	return fmt.Sprintf("%d cores (%s)%s, %s/%s, %s, Kubernetes %s; etcd, API server, controller manager, kube-scheduler, prebind and the benchmark share them",
		runtime.NumCPU(), processor, ram, runtime.GOOS, runtime.GOARCH, runtime.Version(), kubernetes)
}
