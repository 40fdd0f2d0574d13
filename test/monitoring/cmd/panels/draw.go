package main

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/prebind/prebind/test/monitoring"
)

const (
	// rate is the time over which rates are taken.
	rate = 15 * interval
	// points is how many a line has at most, and lines how many a graph: one for each
	// colour.
	points = 80
	lines  = 7

	columns     = 3
	panelWidth  = 10 * vg.Centimeter
	panelHeight = 6 * vg.Centimeter
)

// span is what the graphs show.
type span struct{ start, end time.Time }

// row is the graphs between two titles of the dashboard.
type row struct {
	title  string
	graphs []*plot.Plot
}

// drawRows writes an SVG for each row that has graphs, and tells its name.
func drawRows(ctx context.Context, replay *monitoring.Replay, d monitoring.Dashboard, shown span, folder string, stdout io.Writer) error {
	var rows []row
	for _, panel := range d.Panels {
		switch panel.Type {
		case "row":
			rows = append(rows, row{title: panel.Title})
		case "timeseries":
			graph, err := graphOf(ctx, replay, panel, shown)
			if err != nil {
				return fmt.Errorf("drawing panel %q: %w", panel.Title, err)
			}
			rows[len(rows)-1].graphs = append(rows[len(rows)-1].graphs, graph)
		}
	}
	for _, r := range rows {
		if len(r.graphs) == 0 {
			continue
		}
		file := filepath.Join(folder, fileName(r.title))
		if err := r.save(file); err != nil {
			return fmt.Errorf("drawing row %q: %w", r.title, err)
		}
		if _, err := fmt.Fprintln(stdout, file); err != nil {
			return err
		}
	}
	return nil
}

// fileName makes a name of a title without what is in brackets.
func fileName(title string) string {
	words, _, _ := strings.Cut(strings.ToLower(title), " (")
	return strings.ReplaceAll(words, " ", "-") + ".svg"
}

// save writes the graphs, three beside each other.
func (r row) save(file string) error {
	tiles := draw.Tiles{Cols: columns, Rows: (len(r.graphs) + columns - 1) / columns, PadX: vg.Points(12), PadY: vg.Points(12), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(12)}
	canvas := vgsvg.New(panelWidth*columns, panelHeight*vg.Length(tiles.Rows))
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	for i, graph := range r.graphs {
		graph.Draw(tiles.At(page, i%columns, i/columns))
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(out)
	return errors.Join(err, out.Close())
}

// graphOf draws the series of all queries of the panel.
func graphOf(ctx context.Context, replay *monitoring.Replay, panel monitoring.Panel, shown span) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Title.Padding = panel.Title, vg.Points(4)
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(minutes), labelled{unit: panel.FieldConfig.Defaults.Unit}
	p.Legend.Top, p.Legend.Left, p.Legend.TextStyle.Font.Size = true, true, vg.Points(8)
	p.Add(plotter.NewGrid())
	drawn := 0
	for _, target := range panel.Targets {
		matrix, err := replay.Range(ctx, target.Query(rate), shown.start, shown.end, max(interval, shown.end.Sub(shown.start)/points))
		if err != nil {
			return nil, err
		}
		for _, series := range matrix {
			xys := finite(series.Floats, shown.start)
			if flat(xys) || drawn == lines {
				continue
			}
			line, err := plotter.NewLine(xys)
			if err != nil {
				return nil, err
			}
			line.Width, line.Color = vg.Points(1.2), plotutil.Color(drawn)
			p.Add(line)
			p.Legend.Add(legend(target.LegendFormat, series.Metric), line)
			drawn++
		}
	}
	p.X.Min, p.X.Max = 0, shown.end.Sub(shown.start).Seconds()
	p.Y.Min = 0
	if drawn == 0 || p.Y.Max <= 0 {
		p.Y.Max = 1
	}
	p.Y.Max *= 1 + 0.1*float64(drawn) // room for the legend
	return p, nil
}

// finite leaves out what is no number: a share of nothing.
func finite(floats []promql.FPoint, start time.Time) plotter.XYs {
	var xys plotter.XYs
	for _, point := range floats {
		if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
			xys = append(xys, plotter.XY{X: time.UnixMilli(point.T).Sub(start).Seconds(), Y: point.F})
		}
	}
	return xys
}

// flat tells whether there is nothing but zeroes.
func flat(xys plotter.XYs) bool {
	return !slices.ContainsFunc(xys, func(xy plotter.XY) bool { return xy.Y != 0 })
}

// legend fills in Grafana's {{label}}.
func legend(format string, series labels.Labels) string {
	return regexp.MustCompile(`{{(\w+)}}`).ReplaceAllStringFunc(format, func(label string) string {
		return series.Get(strings.Trim(label, "{}"))
	})
}

// minutes marks each minute.
func minutes(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for minute := math.Ceil(low / 60); minute*60 <= high; minute++ {
		ticks = append(ticks, plot.Tick{Value: minute * 60, Label: fmt.Sprintf("%g min", minute)})
	}
	return ticks
}

// labelled marks round numbers, with Grafana's unit.
type labelled struct{ unit string }

// Ticks implements plot.Ticker.
func (l labelled) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, tick := range ticks {
		if tick.Label == "" {
			continue
		}
		switch l.unit {
		case "s":
			ticks[i].Label = time.Duration(tick.Value * float64(time.Second)).Round(time.Microsecond).String()
		case "bytes":
			ticks[i].Label = fmt.Sprintf("%.0f MiB", tick.Value/(1<<20))
		case "ops", "reqps":
			ticks[i].Label += "/s"
		}
	}
	return ticks
}
