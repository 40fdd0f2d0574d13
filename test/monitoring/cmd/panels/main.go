// Command panels scrapes replicas of prebind for a while, once a second, and then draws
// the graphs of the chart's dashboard from what it has got: an SVG for each of its rows.
// The queries are the dashboard's, evaluated by Prometheus' own engine.
//
//	panels -for 4m -out docs/dashboard charts/prebind/dashboards/prebind.json http://127.0.0.1:8889/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prebind/prebind/test/monitoring"
)

// interval is the time from scrape to scrape.
const interval = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "panels:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("panels", flag.ContinueOnError)
	out := flags.String("out", ".", "folder for the SVGs")
	length := flags.Duration("for", 4*time.Minute, "how long to scrape; Ctrl-C ends it earlier")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("usage: panels [-for TIME] [-out FOLDER] DASHBOARD URL [URL]")
	}
	dashboard, err := monitoring.ReadDashboard(flags.Arg(0))
	if err != nil {
		return err
	}
	replay, err := monitoring.NewReplay(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, replay.Close()) }()
	start := time.Now()
	scraping, cancel := context.WithTimeout(ctx, *length)
	defer cancel()
	if err := scrape(scraping, replay, flags.Args()[1:]); err != nil {
		return err
	}
	return drawRows(context.WithoutCancel(ctx), replay, dashboard, span{start, time.Now()}, *out, stdout)
}

// scrape scrapes all until ctx ends.
func scrape(ctx context.Context, replay *monitoring.Replay, urls []string) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		for i, url := range urls {
			one := monitoring.Scrape{At: time.Now(), Text: get(ctx, url), Target: map[string]string{
				"namespace": "kube-system", "job": "prebind", "pod": fmt.Sprintf("prebind-%d", i+1),
			}}
			if err := replay.Scrape(context.WithoutCancel(ctx), one); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// get returns the answer, or "" if there is none: the replica may be down.
func get(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}
