// Command alerts gives recorded scrapes to Prometheus' rule engine and tells which alerts
// fire. The scrapes are read from standard input, one JSON object each, in the order of
// their times; after each the alerts of the rule file are evaluated at its time. Each
// alert that begins to fire is a line of JSON on standard output.
//
//	alerts charts/prebind/rules/prebind.yaml <scrapes.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/prometheus/rules"

	"github.com/prebind/prebind/test/monitoring"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("usage: alerts RULES <SCRAPES")
	}
	read, err := monitoring.ReadAlerts(args[0])
	if err != nil {
		return err
	}
	var alerts []*rules.AlertingRule
	for _, rule := range read {
		alert, err := monitoring.NewAlert(rule)
		if err != nil {
			return err
		}
		alerts = append(alerts, alert)
	}
	replay, err := monitoring.NewReplay(alerts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, replay.Close()) }()
	scrapes, lines := json.NewDecoder(stdin), json.NewEncoder(stdout)
	for {
		var scrape monitoring.Scrape
		if err := scrapes.Decode(&scrape); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a scrape: %w", err)
		}
		if err := replay.Scrape(ctx, scrape); err != nil {
			return err
		}
		fired, err := replay.Evaluate(ctx, scrape.At)
		if err != nil {
			return err
		}
		for _, one := range fired {
			if err := lines.Encode(one); err != nil {
				return err
			}
		}
	}
}
