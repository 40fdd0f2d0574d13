package monitoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// Scrape is what a target has answered at a time.
type Scrape struct {
	At time.Time `json:"at"`
	// Target has the labels of the target.
	Target map[string]string `json:"target"`
	// Text is in Prometheus' text format. Empty: there was no answer.
	Text string `json:"text"`
}

// Fired is an alert that has begun to fire.
type Fired struct {
	At          time.Time         `json:"at"`
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Replay is a Prometheus whose clock is that of the scrapes it is given. It is not safe
// for parallel use.
type Replay struct {
	dir    string
	db     *tsdb.DB
	engine *promql.Engine
	alerts []*rules.AlertingRule
	// series are those of the last scrape of each target, by their text.
	series map[string]map[string]labels.Labels
	firing map[string]bool // by the labels of the alert
}

// NewReplay returns one with the alerts, and no data. Close removes what it keeps.
func NewReplay(alerts []*rules.AlertingRule) (*Replay, error) {
	dir, err := os.MkdirTemp("", "prebind-alerts-")
	if err != nil {
		return nil, err
	}
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: slog.New(slog.DiscardHandler), MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	return &Replay{
		dir: dir, db: db, engine: engine, alerts: alerts,
		series: map[string]map[string]labels.Labels{}, firing: map[string]bool{},
	}, nil
}

// Close must be called in the end.
func (r *Replay) Close() error { return errors.Join(r.db.Close(), os.RemoveAll(r.dir)) }

// Scrape stores the samples as Prometheus does: with the labels of the target, with
// "up", and with a mark of staleness for each series that is no more.
func (r *Replay) Scrape(ctx context.Context, s Scrape) error {
	target := labels.FromMap(s.Target)
	last, now := r.series[target.String()], map[string]labels.Labels{}
	app := r.db.Appender(ctx)
	add := func(series labels.Labels, v float64) error {
		_, err := app.Append(0, series, s.At.UnixMilli(), v)
		return err
	}
	err := eachSample([]byte(s.Text), func(series labels.Labels, v float64) error {
		series = withTarget(series, target)
		now[series.String()] = series
		return add(series, v)
	})
	for text, series := range last {
		if _, ok := now[text]; !ok && err == nil {
			err = add(series, math.Float64frombits(value.StaleNaN))
		}
	}
	if err == nil {
		up := 0.0
		if s.Text != "" {
			up = 1
		}
		err = add(withTarget(labels.FromStrings(model.MetricNameLabel, "up"), target), up)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("storing a scrape: %w", err), app.Rollback())
	}
	r.series[target.String()] = now
	return app.Commit()
}

func withTarget(series, target labels.Labels) labels.Labels {
	b := labels.NewBuilder(series)
	target.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
	return b.Labels()
}

// eachSample parses the text format.
func eachSample(text []byte, each func(labels.Labels, float64) error) error {
	parser, err := textparse.New(text, "text/plain", nil, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		_, _, v := parser.Series()
		if err := each(series, v); err != nil {
			return err
		}
	}
}

// Evaluate evaluates all alerts, and returns those that fire and did not the last time.
func (r *Replay) Evaluate(ctx context.Context, at time.Time) ([]Fired, error) {
	var fired []Fired
	query := rules.EngineQueryFunc(r.engine, r.db)
	firing := map[string]bool{}
	for _, alert := range r.alerts {
		if _, err := alert.Eval(ctx, 0, at, query, &url.URL{}, 0); err != nil {
			return nil, fmt.Errorf("evaluating %s: %w", alert.Name(), err)
		}
		for _, active := range Firing(alert) {
			text := active.Labels.String() // the alert's name among them
			if firing[text] = true; r.firing[text] {
				continue
			}
			fired = append(fired, Fired{At: at, Alert: alert.Name(), Labels: active.Labels.Map(), Annotations: active.Annotations.Map()})
		}
	}
	r.firing = firing
	return fired, nil
}

// Range evaluates the query at each step from start to end.
func (r *Replay) Range(ctx context.Context, query string, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	prepared, err := r.engine.NewRangeQuery(ctx, r.db, nil, query, start, end, step)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", query, err)
	}
	defer prepared.Close()
	matrix, err := prepared.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", query, err)
	}
	series := make(promql.Matrix, 0, len(matrix)) // the points are the engine's again after Close
	for _, s := range matrix {
		series = append(series, promql.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats)})
	}
	return series, nil
}
