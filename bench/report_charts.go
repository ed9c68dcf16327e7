package bench

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is one picture of a report: a file name and lines.
type chart struct {
	name, title string
	x, y        string // what stands on the axes
	linear      bool   // the axis y is linear, from 0; else logarithmic, as x always is
	lines       []chartLine
}

// chartLine is one line; sizes that have no value are left out.
type chartLine struct {
	name   string
	xs, ys []float64
	dashed bool // a fit: a line without points
}

// The size of a picture.
const (
	chartWidth  = 7.5 * vg.Inch
	chartHeight = 4.5 * vg.Inch
)

// palette are colours that are told apart without red and green (Okabe and Ito
// 2008).
func palette() []color.RGBA {
	return []color.RGBA{
		{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
		{230, 159, 0, 255}, {86, 180, 233, 255}, {60, 60, 60, 255}, {153, 153, 51, 255},
	}
}

// svg draws the chart; nil when no line has a value.
func (c chart) svg() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	if c.linear {
		p.Y.Min = 0
	} else {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	colours := palette()
	drawn, at := 0, -1
	for _, l := range c.lines {
		var points plotter.XYs
		for i, x := range l.xs {
			if x > 0 && (l.ys[i] > 0 || c.linear) {
				points = append(points, plotter.XY{X: x, Y: l.ys[i]})
			}
		}
		if !l.dashed {
			at++
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", c.name, err)
		}
		line.Color = colours[max(at, 0)%len(colours)]
		line.Width = vg.Points(1.5)
		if l.dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(4)}
			line.Width = vg.Points(.8)
			p.Add(line)
			continue
		}
		marks.Color, marks.Shape = line.Color, draw.CircleGlyph{}
		p.Add(line, marks)
		p.Legend.Add(l.name, line, marks)
		drawn++
	}
	if drawn == 0 {
		return nil, nil
	}
	room(p)
	to, err := p.WriterTo(chartWidth, chartHeight, "svg")
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", c.name, err)
	}
	var out bytes.Buffer
	if _, err := to.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw %s: %w", c.name, err)
	}
	return out.Bytes(), nil
}

// room widens axes that have one value, and leaves the legend a place above the
// lines.
func room(p *plot.Plot) {
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	if _, logarithmic := p.Y.Scale.(plot.LogScale); logarithmic {
		if p.Y.Min == p.Y.Max {
			p.Y.Min /= 2
		}
		p.Y.Max *= 8
		return
	}
	p.Y.Max = max(p.Y.Max*1.4, 1e-9)
}

// fitted is the line of a linear fit between the ends of sizes.
func fitted(f Fit, xs []float64) chartLine {
	if !f.OK || len(xs) < 2 {
		return chartLine{dashed: true}
	}
	l := chartLine{dashed: true}
	const steps = 40
	first, last := xs[0], xs[len(xs)-1]
	for i := range steps + 1 {
		x := first + float64((last-first)*float64(i)/steps)
		if i > 0 && i < steps { // closer together at the small end, as the axis is
			part := float64(i) / steps
			x = first + float64((last-first)*float64(part*float64(part*part)))
		}
		l.xs, l.ys = append(l.xs, x), append(l.ys, f.Intercept+float64(f.Slope*x))
	}
	return l
}
