package plot

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// figure has one series of each style.
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

// TestWrite draws one figure in each format and looks for what must be in it.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	svg, pic := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.png")
	for _, name := range []string{svg, pic} {
		if err := figure().Write(name); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "Latency", "published points", "64K", "steps"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the SVG does not hold %q", want)
		}
	}
	data, err := os.ReadFile(pic)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	colors := map[any]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			colors[img.At(x, y)] = true
		}
	}
	for i := range figure().Series {
		if r, g, b, a := palette[i].RGBA(); !colors[img.ColorModel().Convert(palette[i])] {
			t.Errorf("the PNG has no point of series %d's color %d %d %d %d", i, r, g, b, a)
		}
	}
}

// TestBars draws bars side by side.
func TestBars(t *testing.T) {
	t.Parallel()
	f := &Figure{Title: "Penalty", Names: []string{"1K", "2K"}, Series: []Series{
		{Name: "1", Style: Bars, X: []float64{0, 1}, Y: []float64{28, 27}},
		{Name: "10", Style: Bars, X: []float64{0, 1}, Y: []float64{7, 8}},
	}}
	if err := f.Write(filepath.Join(t.TempDir(), "b.svg")); err != nil {
		t.Fatal(err)
	}
}

// TestRefusals gives what cannot be drawn.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *Figure){
		"no points":    func(f *Figure) { f.Series[0].X = nil },
		"uneven":       func(f *Figure) { f.Series[0].Y = f.Series[0].Y[:1] },
		"uneven ends":  func(f *Figure) { f.Series[0].Low = nil },
		"no number":    func(f *Figure) { f.Series[0].Y[1] = math.NaN() },
		"zero and log": func(f *Figure) { f.Series[0].X[0] = 0 },
	} {
		f := figure()
		change(f)
		if err := f.Write(filepath.Join(t.TempDir(), "a.svg")); !errors.Is(err, ErrFigure) {
			t.Errorf("%s: %v, want ErrFigure", name, err)
		}
	}
	if err := figure().Write(filepath.Join(t.TempDir(), "a.pdf")); !errors.Is(err, ErrFigure) {
		t.Errorf("a.pdf: %v, want ErrFigure", err)
	}
	if err := figure().Write(filepath.Join(t.TempDir(), "none", "a.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v, want ErrNotExist", err)
	}
}

// A logarithmic axis has two labels at least, however small its range, and one mark at
// each value.
func TestDecades(t *testing.T) {
	for _, x := range [][2]float64{{1, 1e6}, {2, 90}, {30, 80}, {1.1, 1.4}, {0.9, 12}, {10, 80}, {0.1, 0.7}} {
		labels := 0
		seen := map[float64]bool{}
		for _, tick := range (decades{}).Ticks(x[0], x[1]) {
			if tick.Label != "" && tick.Value >= x[0] && tick.Value <= x[1] {
				labels++
			}
			if seen[tick.Value] {
				t.Errorf("two marks at %g between %g and %g, want one", tick.Value, x[0], x[1])
			}
			seen[tick.Value] = true
		}
		if labels < 2 {
			t.Errorf("%d labels between %g and %g, want 2 or more", labels, x[0], x[1])
		}
	}
}
