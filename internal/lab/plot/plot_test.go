package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// figure returns a figure with one series of each style.
func figure() *Figure {
	return &Figure{
		Title: "Latency", XLabel: "nodes", YLabel: "steps", LogX: true,
		Series: []Series{
			{Name: "ours", X: []float64{2, 1024, 65536}, Y: []float64{12, 99, 171}, Low: []float64{11, 98, 170}, High: []float64{13, 100, 172}},
			{Name: "published points", Style: Published, X: []float64{2, 1024, 65536}, Y: []float64{12, 99, 171}},
			{Name: "optimum", Style: Dashed, X: []float64{2, 65536}, Y: []float64{12, 152}},
		},
	}
}

// elements reads a figure's SVG as XML and returns the elements of one name.
func elements(t *testing.T, svg []byte, name string) (found []xml.StartElement, texts []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	inside := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found, texts
		}
		if err != nil {
			t.Fatalf("the SVG is not valid XML: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if inside = e.Name.Local == name; inside {
				found = append(found, e.Copy())
			}
		case xml.CharData:
			if inside {
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			inside = false
		}
	}
}

// attribute returns a numeric attribute.
func attribute(t *testing.T, e xml.StartElement, name string) float64 {
	t.Helper()
	for _, a := range e.Attr {
		if a.Name.Local == name {
			v, err := strconv.ParseFloat(a.Value, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return v
		}
	}
	t.Fatalf("%v has no %s", e, name)
	return 0
}

// colored returns the elements of a color.
func colored(es []xml.StartElement, color string) (list []xml.StartElement) {
	for _, e := range es {
		if slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Value == color }) {
			list = append(list, e)
		}
	}
	return list
}

// TestWrite draws one figure and checks that all texts are present, and that every point is where the axes put it.
func TestWrite(t *testing.T) {
	t.Parallel()
	f := figure()
	f.Title = "Latency & <more>"
	name := filepath.Join(t.TempDir(), "a.svg")
	if err := f.Write(name); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, texts := elements(t, svg, "text")
	for _, want := range []string{"Latency & <more>", "nodes", "steps", "ours", "published points", "optimum", "2", "1K", "64K", "50"} {
		if !slices.Contains(texts, want) {
			t.Errorf("texts are %q, want %q among them", texts, want)
		}
	}
	circles, _ := elements(t, svg, "circle")
	dots, rings := colored(circles, palette[0])[1:], colored(circles, palette[1])[1:] // the first is the legend's
	if len(dots) != 3 || len(rings) != 3 {
		t.Fatalf("%d dots and %d rings, want 3 of each", len(dots), len(rings))
	}
	for i := range dots {
		for _, axis := range []string{"cx", "cy"} {
			if a, b := attribute(t, dots[i], axis), attribute(t, rings[i], axis); a != b {
				t.Errorf("point %d: %s is %g, and the published one is %g, want the same", i, axis, a, b)
			}
		}
	}
	x := func(i int) float64 { return attribute(t, dots[i], "cx") }
	y := func(i int) float64 { return attribute(t, dots[i], "cy") }
	if got, want := (x(1)-x(0))/(x(2)-x(0)), 9.0/15; math.Abs(got-want) > 0.001 { // 2^1, 2^10, 2^16
		t.Errorf("1024 is at %.4f of the axis from 2 to 65536, want %.4f", got, want)
	}
	if got, want := (y(0)-y(1))/(y(0)-y(2)), (99.0-12)/(171-12); math.Abs(got-want) > 0.001 {
		t.Errorf("99 is at %.4f of the way from 12 to 171, want %.4f", got, want)
	}
	lines, _ := elements(t, svg, "polyline")
	if n := len(colored(lines, palette[0])); n != 2+3*3 { // the legend's, the line, and three spreads of three strokes each
		t.Errorf("%d lines of the first series, want 11", n)
	}
	if n := len(colored(lines, dashes)); n != 2 {
		t.Errorf("%d dashed lines, want 2", n)
	}
}

// TestInside: no part of a figure lies outside of the picture, whatever its axes are.
func TestInside(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &Figure{
			Title: rapid.StringN(0, 120, -1).Draw(t, "title"), XLabel: "x", YLabel: "y",
			LogX: rapid.Bool().Draw(t, "logX"), LogY: rapid.Bool().Draw(t, "logY"),
		}
		named := !f.LogX && rapid.Bool().Draw(t, "named")
		n := rapid.IntRange(1, 20).Draw(t, "points")
		value := func(log bool) float64 {
			if log {
				return math.Pow(10, rapid.Float64Range(-6, 9).Draw(t, "exponent"))
			}
			return rapid.Float64Range(-1e6, 1e6).Draw(t, "value")
		}
		for range rapid.IntRange(1, 8).Draw(t, "series") {
			s := Series{Name: rapid.StringMatching(`[a-z ]{1,30}`).Draw(t, "name"), Style: Style(rapid.IntRange(int(Line), int(Band)).Draw(t, "style"))}
			if s.Style == Bars && f.LogX {
				s.Style = Line
			}
			for i := range n {
				x := value(f.LogX)
				if named {
					x = float64(i)
				}
				y := []float64{value(f.LogY), value(f.LogY), value(f.LogY)}
				slices.Sort(y)
				s.AddRange(x, y[1], y[0], y[2])
			}
			f.Series = append(f.Series, s)
		}
		for i := 0; named && i < n; i++ {
			f.Names = append(f.Names, rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "name of x"))
		}
		svg, err := f.svg()
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("the SVG is not valid XML: %v", err)
			}
			if e, ok := token.(xml.StartElement); ok {
				for _, a := range e.Attr {
					checkInside(t, e.Name.Local, a)
				}
			}
		}
	})
}

// checkInside fails if an attribute is a position outside of the picture.
func checkInside(t *rapid.T, element string, a xml.Attr) {
	limits := map[string]float64{"x": width, "cx": width, "y": height, "cy": height}
	check := func(s string, limit float64) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || v < 0 || v > limit {
			t.Fatalf("%s: %s=%q, want places from 0 to %g", element, a.Name.Local, a.Value, limit)
		}
	}
	if limit, ok := limits[a.Name.Local]; ok {
		check(a.Value, limit)
	}
	if a.Name.Local == "points" {
		for p := range strings.FieldsSeq(a.Value) {
			x, y, _ := strings.Cut(p, ",")
			check(x, width)
			check(y, height)
		}
	}
}

// TestBars draws bars side by side. Heights are proportional to values, and bars do not overlap.
func TestBars(t *testing.T) {
	t.Parallel()
	f := &Figure{Title: "Penalty", Names: []string{"1K", "2K"}, Series: []Series{
		{Name: "1", Style: Bars, X: []float64{0, 1}, Y: []float64{28, 14}},
		{Name: "10", Style: Bars, X: []float64{0, 1}, Y: []float64{7, 8}},
	}}
	svg, err := f.svg()
	if err != nil {
		t.Fatal(err)
	}
	rects, _ := elements(t, svg, "rect")
	one, ten := colored(rects, palette[0])[1:], colored(rects, palette[1])[1:] // the first is the legend's
	if len(one) != 2 || len(ten) != 2 {
		t.Fatalf("%d and %d bars, want 2 and 2", len(one), len(ten))
	}
	if a, b := attribute(t, one[0], "height"), attribute(t, one[1], "height"); math.Abs(a-2*b) > 0.05 {
		t.Errorf("bars of 28 and 14 are %g and %g high, want a ratio of 2", a, b)
	}
	for i := range one {
		if end, begin := attribute(t, one[i], "x")+attribute(t, one[i], "width"), attribute(t, ten[i], "x"); math.Abs(end-begin) > 0.05 {
			t.Errorf("bar %d ends at %g, and the next begins at %g, want the same", i, end, begin)
		}
	}
}

// TestBands: along numbers, a band is one area; along names, it is one rectangle at each name.
func TestBands(t *testing.T) {
	t.Parallel()
	f := &Figure{Series: []Series{{Name: "usual", Style: Band, X: []float64{0, 1}, Y: []float64{0, 0}, Low: []float64{-1, -2}, High: []float64{1, 2}}}}
	for names, want := range map[string][2]int{"": {1, 1}, "a b": {0, 3}} { // areas, and rectangles including the legend's
		f.Names = nil
		if names != "" {
			f.Names = strings.Fields(names)
		}
		svg, err := f.svg()
		if err != nil {
			t.Fatal(err)
		}
		areas, _ := elements(t, svg, "polygon")
		rects, _ := elements(t, svg, "rect")
		if got := [2]int{len(areas), len(colored(rects, shade))}; got != want {
			t.Errorf("names %q: %v areas and rectangles, want %v", names, got, want)
		}
	}
}

// TestLongNames: names that do not fit side by side are slanted.
func TestLongNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"put": false, "fetch-and-add of 8 bytes": true} {
		f := &Figure{Series: []Series{{Name: "a", Style: Published}}}
		for i := range 10 {
			f.Names = append(f.Names, name)
			f.Series[0].Add(float64(i), 1)
		}
		svg, err := f.svg()
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(svg, []byte("rotate(-35)")); got != want {
			t.Errorf("%q: slanted is %v, want %v", name, got, want)
		}
	}
}

// TestRefusals: figures that cannot be drawn are refused.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *Figure){
		"no points":    func(f *Figure) { f.Series[0].X = nil },
		"uneven":       func(f *Figure) { f.Series[0].Y = f.Series[0].Y[:1] },
		"uneven ends":  func(f *Figure) { f.Series[0].Low = nil },
		"no number":    func(f *Figure) { f.Series[0].Y[1] = math.NaN() },
		"zero and log": func(f *Figure) { f.Series[0].X[0] = 0 },
		"no end":       func(f *Figure) { f.Series[0].Low[0] = math.Inf(-1) },
		"low and log":  func(f *Figure) { f.LogY, f.Series[0].Low[0] = true, 0 },
		"bars and log": func(f *Figure) { f.Series[2].Style = Bars },
		"no series":    func(f *Figure) { f.Series = nil },
	} {
		f := figure()
		change(f)
		if err := f.Write(filepath.Join(t.TempDir(), "a.svg")); !errors.Is(err, ErrFigure) {
			t.Errorf("%s: %v, want ErrFigure", name, err)
		}
	}
	for _, name := range []string{"a.pdf", "a.png", "a"} {
		if err := figure().Write(filepath.Join(t.TempDir(), name)); !errors.Is(err, ErrFigure) {
			t.Errorf("%s: %v, want ErrFigure", name, err)
		}
	}
	if err := figure().Write(filepath.Join(t.TempDir(), "none", "a.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v, want ErrNotExist", err)
	}
}

// A logarithmic axis has at least two labels, however small its range, and one mark at each value.
func TestDecades(t *testing.T) {
	for _, x := range [][2]float64{{1, 1e6}, {2, 90}, {30, 80}, {1.1, 1.4}, {0.9, 12}, {10, 80}, {0.1, 0.7}} {
		labels := 0
		seen := map[float64]bool{}
		for _, tick := range decades(x[0], x[1]) {
			if tick.label != "" && tick.value >= x[0] && tick.value <= x[1] {
				labels++
			}
			if seen[tick.value] {
				t.Errorf("two marks at %g between %g and %g, want one", tick.value, x[0], x[1])
			}
			seen[tick.value] = true
		}
		if labels < 2 {
			t.Errorf("%d labels between %g and %g, want 2 or more", labels, x[0], x[1])
		}
	}
}

// A linear axis has two to eight labels, whatever its range.
func TestLinear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		high := low + math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "exponent of the length"))
		seen := map[string]bool{}
		for _, tick := range linear(low, high) {
			if tick.label == "" {
				continue
			}
			if seen[tick.label] {
				t.Fatalf("two labels %q between %g and %g", tick.label, low, high)
			}
			if v, err := strconv.ParseFloat(tick.label, 64); err != nil || math.Abs(v-tick.value) > 1e-6*(high-low) {
				t.Fatalf("the mark at %v has the label %q", tick.value, tick.label)
			}
			seen[tick.label] = true
		}
		if len(seen) < 2 || len(seen) > 8 {
			t.Fatalf("%d labels between %g and %g, want 2 to 8", len(seen), low, high)
		}
	})
}

// TestAdd: points have ends if they are added with them, and a level spans the names, if there are any.
func TestAdd(t *testing.T) {
	t.Parallel()
	var line, bars Series
	for i := range 2 {
		x := float64(i)
		line.Add(x, 10*x)
		bars.AddRange(x, 10*x, 9*x, 11*x)
	}
	if !slices.Equal(line.X, []float64{0, 1}) || !slices.Equal(line.Y, []float64{0, 10}) || line.Low != nil || line.High != nil {
		t.Errorf("points without ends: %+v", line)
	}
	if !slices.Equal(bars.Y, line.Y) || !slices.Equal(bars.Low, []float64{0, 9}) || !slices.Equal(bars.High, []float64{0, 11}) {
		t.Errorf("points with ends: %+v", bars)
	}
	var f Figure
	if f.AddLevel("bound", 5); len(f.Series) != 0 {
		t.Errorf("a level without names: %+v", f.Series)
	}
	f.Names = []string{"a", "b", "c"}
	f.AddLevel("bound", 5)
	if s := f.Series[0]; s.Name != "bound" || s.Style != Dashed || !slices.Equal(s.X, []float64{-0.5, 2.5}) || !slices.Equal(s.Y, []float64{5, 5}) {
		t.Errorf("level %+v, want y = 5 from -0.5 to 2.5", s)
	}
}
