// Package plot draws the figures of experiments as SVG: measured series beside published points.
//
// The viewer sets the text of a figure, in a common sans-serif font. This package only estimates the width of texts
// (textWidth), to leave room for them. It links no font.
package plot

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// ErrFigure says that a figure cannot be drawn.
var ErrFigure = errors.New("cannot draw figure")

// Style is how a series is drawn.
type Style int

// The styles. Published points have hollow marks: our points can be seen inside
// them.
const (
	Line      Style = iota // a line with filled marks
	Published              // hollow marks and no line
	Dashed                 // a dashed line without marks: a bound, a model
	Bars                   // a bar at each X; several series stand side by side
	Band                   // a grey area from Low to High, around Y: the usual values
)

// Series is a row of points. Low and High, where given, are the ends of a
// vertical bar at each point, a spread, or of a band.
type Series struct {
	Name      string
	Style     Style
	X, Y      []float64
	Low, High []float64
}

// Add appends a point to a series without ends.
func (s *Series) Add(x, y float64) { s.X, s.Y = append(s.X, x), append(s.Y, y) }

// AddRange appends a point with the ends of its bar or of the band.
func (s *Series) AddRange(x, y, low, high float64) {
	s.Add(x, y)
	s.Low, s.High = append(s.Low, low), append(s.High, high)
}

// Figure is one diagram.
type Figure struct {
	Title, XLabel, YLabel string

	LogX, LogY bool
	Names      []string // of the values 0, 1, ... of X; nil: numbers
	Series     []Series
}

// AddLevel adds a dashed line at height y across all names of the figure, or nothing if there are no names.
func (f *Figure) AddLevel(name string, y float64) {
	if n := len(f.Names); n > 0 {
		f.Series = append(f.Series, Series{Name: name, Style: Dashed, X: []float64{-0.5, float64(n) - 0.5}, Y: []float64{y, y}})
	}
}

// Knows reports whether Write can write a file of that name.
func Knows(name string) bool { return filepath.Ext(name) == ".svg" }

// Write draws the figure into a file whose name ends in .svg.
func (f *Figure) Write(name string) error {
	if !Knows(name) {
		return fmt.Errorf("%w: file %q, want a name that ends in .svg", ErrFigure, name)
	}
	text, err := f.svg()
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o666)
}

// svg returns the whole figure.
func (f *Figure) svg() ([]byte, error) {
	if len(f.Series) == 0 {
		return nil, fmt.Errorf("%w %q: it has no series", ErrFigure, f.Title)
	}
	for i := range f.Series {
		s := &f.Series[i]
		if err := s.check(f); err != nil {
			return nil, fmt.Errorf("%w %q: series %q: %w", ErrFigure, f.Title, s.Name, err)
		}
	}
	return f.draw(), nil
}

// check returns an error if the series cannot be drawn.
func (s *Series) check(f *Figure) error {
	if len(s.X) == 0 || len(s.X) != len(s.Y) {
		return fmt.Errorf("%d X and %d Y values, want as many of both, and some", len(s.X), len(s.Y))
	}
	if s.Style == Bars && f.LogX {
		return errors.New("bars on a logarithmic X axis, want a linear one or names")
	}
	ends := s.Low != nil || s.High != nil || s.Style == Band
	if ends && (len(s.Low) != len(s.X) || len(s.High) != len(s.X)) {
		return fmt.Errorf("%d low and %d high ends of %d points", len(s.Low), len(s.High), len(s.X))
	}
	for i := range s.X {
		values := []float64{s.X[i], s.Y[i]}
		if ends {
			values = append(values, s.Low[i], s.High[i])
		}
		for k, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("point %d has the value %v, want numbers", i, v)
			}
			if v <= 0 && (k == 0 && f.LogX || k > 0 && f.LogY) {
				return fmt.Errorf("point %d has the value %v on a logarithmic axis, want more than 0", i, v)
			}
		}
	}
	return nil
}

// palette has colors that color-blind people can tell apart.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5a5a5a", "#a03c3c"}

// shade is the color of bands.
const shade = "#cdcdcd"

// color returns the color of series number i.
func (f *Figure) color(i int) string {
	if f.Series[i].Style == Band {
		return shade
	}
	return palette[i%len(palette)]
}

// barsWidth is the part of the distance between two values of X that bars fill.
const barsWidth = 0.8

// Beside returns the X of a bar: bar number bar, from 0 on, of the of bars at x. A
// published point of the same series has the same X.
func Beside(x float64, bar, of int) float64 { return spread(x, bar, of, barsWidth) }

// pointsWidth is the part of the distance between two values of X that points at one value fill. Points have no width that
// shows where they belong to, so most of the distance stays empty.
const pointsWidth = 0.4

// Around returns the X of a point: point number point, from 0 on, of the of points at x.
func Around(x float64, point, of int) float64 { return spread(x, point, of, pointsWidth) }

func spread(x float64, i, of int, width float64) float64 {
	return x + width*((float64(i)+0.5)/float64(of)-0.5)
}
