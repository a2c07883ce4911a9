// Package plot draws the figures of experiments: measured series beside published
// points, as SVG or PNG.
package plot

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ErrFigure says that a figure cannot be drawn.
var ErrFigure = errors.New("cannot draw figure")

// Style is how a series is drawn.
type Style int

// The styles. Published points take hollow marks, so that ours can be seen
// inside them.
const (
	Line      Style = iota // a line with filled marks
	Published              // hollow marks and no line
	Dashed                 // a dashed line without marks: a bound, a model
	Bars                   // a bar at each X; several series stand side by side
	Band                   // a grey area from Low to High, around Y: what is usual
)

// Series is a row of points. Low and High, where given, are the ends of a
// vertical bar at each point, a spread, or of a band.
type Series struct {
	Name      string
	Style     Style
	X, Y      []float64
	Low, High []float64
}

// Figure is one diagram.
type Figure struct {
	Title, XLabel, YLabel string

	LogX, LogY bool
	Right      bool     // the legend stands where the series end, not where they begin
	Names      []string // of the values 0, 1, ... of X; nil: numbers
	Series     []Series
}

// Sizes of a figure.
const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
)

// Knows says whether a file of that name can be written.
func Knows(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".svg" || ext == ".png"
}

// Write draws the figure into a file whose name ends in .svg or .png.
func (f *Figure) Write(name string) error {
	if !Knows(name) {
		return fmt.Errorf("%w: file %q, want a name that ends in .svg or .png", ErrFigure, name)
	}
	p, err := f.draw()
	if err != nil {
		return err
	}
	to, err := p.WriterTo(width, height, filepath.Ext(name)[1:])
	if err != nil {
		return fmt.Errorf("%w %q: %w", ErrFigure, f.Title, err)
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = to.WriteTo(file)
	return errors.Join(err, file.Close())
}

// draw makes the plot.
func (f *Figure) draw() (*gplot.Plot, error) {
	p := gplot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.XLabel, f.YLabel
	p.Title.TextStyle.Font.Size = font.Points(13)
	p.Title.Padding = vg.Points(8)
	p.Legend.Top, p.Legend.Left = true, !f.Right
	p.Legend.Padding = vg.Points(3)
	if f.Right {
		p.Legend.XOffs = -vg.Points(6)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	f.axes(p)
	bars := 0
	for _, s := range f.Series {
		if s.Style == Bars {
			bars++
		}
	}
	if !f.LogY {
		p.Y.Min = 0
	}
	bar := 0
	for i, s := range f.Series {
		if err := s.check(f); err != nil {
			return nil, fmt.Errorf("%w %q: series %q: %w", ErrFigure, f.Title, s.Name, err)
		}
		at := place{color: palette[i%len(palette)], bar: bar, of: bars}
		if s.Style == Bars {
			bar++
		}
		if err := s.add(f, p, at); err != nil {
			return nil, fmt.Errorf("%w %q: series %q: %w", ErrFigure, f.Title, s.Name, err)
		}
	}
	p.Y.Max += (p.Y.Max - p.Y.Min) * 0.25 // for the legend
	return p, nil
}

// axes sets scales and marks.
func (f *Figure) axes(p *gplot.Plot) {
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = gplot.LogScale{}, powers{}
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = gplot.LogScale{}, decades{}
	}
	if f.Names != nil {
		p.NominalX(f.Names...)
		p.X.Width, p.X.Min, p.X.Max = vg.Points(0.5), -0.5, float64(len(f.Names))-0.5
	}
}

// check refuses what cannot be drawn.
func (s *Series) check(f *Figure) error {
	if len(s.X) == 0 || len(s.X) != len(s.Y) {
		return fmt.Errorf("%d X and %d Y values, want as many of both, and some", len(s.X), len(s.Y))
	}
	if s.Low != nil || s.High != nil || s.Style == Band {
		if len(s.Low) != len(s.X) || len(s.High) != len(s.X) {
			return fmt.Errorf("%d low and %d high ends of %d points", len(s.Low), len(s.High), len(s.X))
		}
	}
	for i := range s.X {
		for _, v := range []float64{s.X[i], s.Y[i]} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("point %d is %v, %v", i, s.X[i], s.Y[i])
			}
		}
		if f.LogX && s.X[i] <= 0 || f.LogY && s.Y[i] <= 0 {
			return fmt.Errorf("point %d is %v, %v on a logarithmic axis", i, s.X[i], s.Y[i])
		}
	}
	return nil
}

// palette is told apart by people who see few colors, too.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255},
	color.RGBA{213, 94, 0, 255},
	color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255},
	color.RGBA{230, 159, 0, 255},
	color.RGBA{90, 90, 90, 255},
	color.RGBA{160, 60, 60, 255},
}

// place is where and in which color a series stands.
type place struct {
	color   color.Color
	bar, of int // its number among those with bars
}

// add draws s and names it in the legend.
func (s *Series) add(f *Figure, p *gplot.Plot, at place) error {
	xys := make(plotter.XYs, len(s.X))
	for i := range s.X {
		xys[i].X, xys[i].Y = s.X[i], s.Y[i]
	}
	var err error
	switch s.Style {
	case Bars:
		err = s.addBars(p, at)
	case Band:
		return s.addBand(p, f.Names != nil)
	case Published:
		err = s.addMarks(p, xys, ring{}, at)
	case Dashed:
		err = s.addLine(p, xys, at, vg.Points(5), vg.Points(3))
	default:
		if err = s.addLine(p, xys, at); err == nil {
			err = s.addMarks(p, xys, draw.CircleGlyph{}, at)
		}
	}
	if err != nil || s.Low == nil {
		return err
	}
	return s.addSpread(p, xys, at)
}

func (s *Series) addLine(p *gplot.Plot, xys plotter.XYs, at place, dashes ...vg.Length) error {
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = at.color, vg.Points(1.4), dashes
	p.Add(line)
	p.Legend.Add(s.Name, line)
	return nil
}

func (s *Series) addMarks(p *gplot.Plot, xys plotter.XYs, shape draw.GlyphDrawer, at place) error {
	marks, err := plotter.NewScatter(xys)
	if err != nil {
		return err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: at.color, Radius: vg.Points(2), Shape: shape}
	if s.Style == Published {
		marks.Radius = vg.Points(4)
		p.Legend.Add(s.Name, marks)
	}
	p.Add(marks)
	return nil
}

// ring is a hollow mark of which something is left between pixels.
type ring struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (ring) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: sty.Color, Width: vg.Points(1.5)})
	var path vg.Path
	path.Move(vg.Point{X: pt.X + sty.Radius, Y: pt.Y})
	path.Arc(pt, sty.Radius, 0, 2*math.Pi)
	path.Close()
	c.Stroke(path)
}

// addBars draws bars in the units of the data, so that points can stand on them.
func (s *Series) addBars(p *gplot.Plot, at place) error {
	half := barsWidth / 2 / float64(at.of)
	for i, x := range s.X {
		x = Beside(x, at.bar, at.of)
		bar, err := plotter.NewPolygon(plotter.XYs{{X: x - half, Y: 0}, {X: x - half, Y: s.Y[i]}, {X: x + half, Y: s.Y[i]}, {X: x + half, Y: 0}})
		if err != nil {
			return err
		}
		bar.Color, bar.Width = at.color, 0
		p.Add(bar)
	}
	sample := draw.GlyphStyle{Color: at.color, Radius: vg.Points(4), Shape: draw.BoxGlyph{}}
	p.Legend.Add(s.Name, &plotter.Scatter{GlyphStyle: sample})
	return nil
}

// addBand fills the area between the ends: one piece along X, or one at each name.
func (s *Series) addBand(p *gplot.Plot, apart bool) error {
	type piece = plotter.XYs
	var pieces []piece
	whole := make(piece, 2*len(s.X))
	for i, x := range s.X {
		low, high := s.Low[i], s.High[i]
		if apart {
			const half = barsWidth / 2
			pieces = append(pieces, piece{{X: x - half, Y: low}, {X: x - half, Y: high}, {X: x + half, Y: high}, {X: x + half, Y: low}})
		}
		whole[i], whole[len(whole)-1-i] = plotter.XY{X: x, Y: low}, plotter.XY{X: x, Y: high}
	}
	if !apart {
		pieces = append(pieces, whole)
	}
	shade := color.Gray{205}
	for _, xys := range pieces {
		area, err := plotter.NewPolygon(xys)
		if err != nil {
			return err
		}
		area.Color, area.Width = shade, 0
		p.Add(area)
	}
	p.Legend.Add(s.Name, &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: shade, Radius: vg.Points(4), Shape: draw.BoxGlyph{}}})
	return nil
}

// barsWidth is how much of the distance of two values of X bars take.
const barsWidth = 0.8

// Beside is where the bar of series number bar stands, of so many that have bars
// at x: there a published point of it belongs.
func Beside(x float64, bar, of int) float64 {
	return x + barsWidth*((float64(bar)+0.5)/float64(of)-0.5)
}

func (s *Series) addSpread(p *gplot.Plot, xys plotter.XYs, at place) error {
	data := struct {
		plotter.XYs
		plotter.YErrors
	}{XYs: xys, YErrors: make(plotter.YErrors, len(xys))}
	for i := range xys {
		data.YErrors[i].Low, data.YErrors[i].High = xys[i].Y-s.Low[i], s.High[i]-xys[i].Y
	}
	bars, err := plotter.NewYErrorBars(data)
	if err != nil {
		return err
	}
	bars.Color = at.color
	p.Add(bars)
	return nil
}

// decades marks a logarithmic axis at powers of ten and, where fewer than two of
// them are in sight, at their multiples, too.
type decades struct{}

// Ticks implements plot.Ticker. gonum's LogTicks would mark each decade's beginning twice,
// and begin at 1 below 1.
func (decades) Ticks(low, high float64) []gplot.Tick {
	var ticks []gplot.Tick
	labels := 0
	for e := int(math.Floor(math.Log10(low) + 1e-9)); ; e++ {
		decade := math.Pow10(e)
		ticks = append(ticks, gplot.Tick{Value: decade, Label: strconv.FormatFloat(decade, 'g', -1, 64)})
		if decade >= low && decade <= high {
			labels++
		}
		if decade >= high {
			break
		}
		for i := 2; i < 10; i++ {
			ticks = append(ticks, gplot.Tick{Value: decade * float64(i)})
		}
	}
	if labels < 2 && high < 2*low { // within one step of a multiple
		return gplot.DefaultTicks{}.Ticks(low, high)
	}
	for i := range ticks {
		if labels < 2 && ticks[i].Label == "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 3, 64)
		}
	}
	return ticks
}

// powers marks a logarithmic axis at powers of two.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(low, high float64) []gplot.Tick {
	var ticks []gplot.Tick
	for e := math.Ceil(math.Log2(low) - 1e-9); math.Exp2(e) <= high*(1+1e-9); e++ {
		ticks = append(ticks, gplot.Tick{Value: math.Exp2(e), Label: Power(math.Exp2(e))})
	}
	return ticks
}

// Power is a number of things with the letters that the papers use: 1K is 1024.
func Power(v float64) string {
	switch {
	case v >= 1<<20 && math.Mod(v, 1<<20) == 0:
		return fmt.Sprintf("%.0fM", v/(1<<20))
	case v >= 1<<10 && math.Mod(v, 1<<10) == 0:
		return fmt.Sprintf("%.0fK", v/(1<<10))
	}
	return fmt.Sprintf("%g", v)
}
