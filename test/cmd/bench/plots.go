package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // so that a plot can be saved as SVG

	"github.com/prebind/prebind/test/controlplane"
)

// plotFile is a plot that was written.
type plotFile struct{ name, title string }

// curve is a line of a plot.
type curve struct {
	variant variant
	points  plotter.XYs
}

// plot draws everything that there are figures for.
func (r *report) plot(dir string) ([]plotFile, error) {
	var files []plotFile
	add := func(name, title, x, y string, logY bool, curves []curve, marks bool) error {
		if len(curves) == 0 {
			return nil
		}
		files = append(files, plotFile{name + ".svg", title})
		if err := drawPlot(filepath.Join(dir, name+".svg"), title, x, y, logY, curves, marks); err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
		return nil
	}
	for _, s := range r.Scenarios {
		if !slices.Contains([]string{"idle", "burst-20", "burst-2000", "custom"}, s.Name) {
			continue
		}
		title := "Time from pod created to bound: " + s.Name + ", " + s.World.String()
		if err := add("latency-"+s.Name, title, "milliseconds", "share of the pods", false, s.distribution(), false); err != nil {
			return nil, err
		}
	}
	rate := r.byVolumes(func(m measurement) float64 { return m.PodsPerSecond })
	if err := add("rate", "Rate of a burst against the number of volumes", "volumes", "pods a second", true, rate, true); err != nil {
		return nil, err
	}
	cost := r.byVolumes(func(m measurement) float64 { return m.SchedulingMilliseconds })
	if err := add("scheduling", "Scheduling time a pod in a burst against the number of volumes", "volumes", "milliseconds a pod", true, cost, true); err != nil {
		return nil, err
	}
	return files, nil
}

// distribution is the share of pods that were bound within a time.
func (s result) distribution() []curve {
	var curves []curve
	for _, m := range s.Series {
		sorted := slices.Sorted(slices.Values(m.Latency.Samples))
		c := curve{variant: m.Variant}
		for i, ms := range sorted {
			c.points = append(c.points, plotter.XY{X: max(float64(ms), 1), Y: float64(i+1) / float64(len(sorted))})
		}
		if len(c.points) > 0 {
			curves = append(curves, c)
		}
	}
	return curves
}

// byVolumes draws a figure against the number of volumes: of bursts while the
// controller manager is fast and the scheduler as it comes.
func (r *report) byVolumes(figure func(measurement) float64) []curve {
	points := map[variant]map[int]float64{}
	for _, s := range r.Scenarios {
		if s.Kind != burst || s.ControllerManagerQPS != fastQPS || s.SchedulerQPS != 0 {
			continue
		}
		for _, m := range s.Series {
			if m.Error != "" {
				continue
			}
			if points[m.Variant] == nil {
				points[m.Variant] = map[int]float64{}
			}
			points[m.Variant][s.World.volumes()] = figure(m)
		}
	}
	var curves []curve
	for _, v := range variants() {
		c := curve{variant: v}
		for volumes, y := range points[v] {
			c.points = append(c.points, plotter.XY{X: float64(volumes), Y: y})
		}
		slices.SortFunc(c.points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		if len(c.points) > 0 {
			curves = append(curves, c)
		}
	}
	return curves
}

// drawPlot writes a plot with a logarithmic x axis.
func drawPlot(file, title, x, y string, logY bool, curves []curve, marks bool) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	p.BackgroundColor = color.White
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	if logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	p.Add(plotter.NewGrid())
	for _, c := range curves {
		line, points, err := plotter.NewLinePoints(c.points)
		if err != nil {
			return err
		}
		style := styleOf(c.variant)
		line.LineStyle = style
		points.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
		if marks {
			p.Add(line, points)
		} else {
			p.Add(line)
		}
		p.Legend.Add(c.variant.String(), line)
	}
	p.Legend.Padding = vg.Points(3)
	p.Legend.ThumbnailWidth = vg.Points(28)
	widen(p, logY)
	return placeLegend(p, file)
}

// widen makes whole decades of logarithmic axes.
func widen(p *plot.Plot, logY bool) {
	p.X.Min, p.X.Max = decadeBelow(p.X.Min), decadeAbove(p.X.Max)
	if logY {
		p.Y.Min, p.Y.Max = decadeBelow(p.Y.Min), decadeAbove(p.Y.Max)
	} else {
		p.Y.Min, p.Y.Max = 0, 1
	}
}

func decadeBelow(x float64) float64 { return math.Pow(10, math.Floor(math.Log10(x))) }

func decadeAbove(x float64) float64 { return math.Pow(10, math.Ceil(math.Log10(x))) }

// placeLegend saves the plot with the legend at its right, where it hides no line.
func placeLegend(p *plot.Plot, file string) error {
	const width, height, legend = 21 * vg.Centimeter, 11 * vg.Centimeter, 4.6 * vg.Centimeter
	canvas, err := draw.NewFormattedCanvas(width, height, "svg")
	if err != nil {
		return err
	}
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	side := p.Legend
	side.Left, side.Top = true, true
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(page, vg.Points(4), -legend, vg.Points(4), -vg.Points(4)))
	side.Draw(draw.Crop(page, width-legend+vg.Points(6), 0, 0, -vg.Centimeter))
	return save(canvas, file)
}

// styleOf tells variants apart by colour, and completions by dashes.
func styleOf(v variant) draw.LineStyle {
	style := draw.LineStyle{Width: vg.Points(2), Color: color.RGBA{R: 0x55, G: 0x55, B: 0x55, A: 0xff}}
	switch v.Mode {
	case "bind":
		style.Color = color.RGBA{R: 0xd9, G: 0x5f, B: 0x02, A: 0xff}
	case controlplane.ModeFull:
		style.Color = color.RGBA{R: 0x1b, G: 0x6c, B: 0xb5, A: 0xff}
	}
	if v.Completion == controller {
		style.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
	}
	return style
}

// decades marks the powers of ten with numbers, and 2 to 9 times them without.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := decadeBelow(low); power <= high*1.0001; power *= 10 {
		label := fmt.Sprint(power)
		if power >= 1 {
			label = thousands(int(math.Round(power)))
		}
		ticks = append(ticks, plot.Tick{Value: power, Label: label})
		for factor := 2.0; factor < 10 && power*factor <= high; factor++ {
			ticks = append(ticks, plot.Tick{Value: power * factor})
		}
	}
	return ticks
}
