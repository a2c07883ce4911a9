package plot

import (
	"math"
)

// Sizes of a figure and what is in it, in CSS pixels.
const (
	width, height = 680.0, 416.0
	margin        = 10.0
	titleSize     = 15.0
	textSize      = 12.0
	lineHeight    = 17.0
	tickLength    = 5.0
	sampleWidth   = 22.0 // of the sample of a series in the legend
	markRadius    = 2.5
	ringRadius    = 5.0
	capWidth      = 3.0 // of the ends of a spread, to each side
)

// Colors of what is no series.
const (
	ink  = "#222222"
	pale = "#e4e4e4"
)

// drawing is a figure that is being drawn.
type drawing struct {
	*Figure
	canvas
	x, y                     scale
	xTicks, yTicks           []tick
	left, top, right, bottom float64 // of the area between the axes
	slanted                  bool    // whether the names below the axis are
}

// draw draws a figure whose series have been checked.
func (f *Figure) draw() []byte {
	d := drawing{Figure: f}
	d.open(width, height, f.Title)
	d.x, d.y = f.scales()
	d.xTicks, d.yTicks = f.xTicks(&d.x), f.yTicks(&d.y)

	d.top = margin
	if f.Title != "" {
		size := min(titleSize, titleSize*(width-2*margin)/textWidth(f.Title, titleSize))
		d.text(width/2, d.top+titleSize, size, "middle", f.Title)
		d.top += titleSize + 10
	}
	d.makeRoom()
	d.drawLegend()
	d.x.from, d.x.to = d.left, d.right
	d.y.from, d.y.to = d.bottom, d.top
	d.drawGrid()
	bar, bars := 0, 0
	for i := range f.Series {
		if f.Series[i].Style == Bars {
			bars++
		}
	}
	for i := range f.Series {
		d.drawSeries(i, bar, bars)
		if f.Series[i].Style == Bars {
			bar++
		}
	}
	d.drawAxes()
	return d.close()
}

// makeRoom sets the area between the axes so that the labels have their place beside it.
func (d *drawing) makeRoom() {
	d.left, d.right, d.bottom = margin+tickLength+4, width-margin-6, height-margin-tickLength-lineHeight
	d.left += widest(d.yTicks)
	if d.YLabel != "" {
		d.left += lineHeight
	}
	if d.XLabel != "" {
		d.bottom -= lineHeight
	}
	if w := widest(d.xTicks); d.Names != nil && w+4 > (d.right-d.left)/float64(len(d.Names)) {
		d.slanted = true
		d.bottom -= w*math.Sin(slant*math.Pi/180) - 4
	}
}

// slant is the angle, in degrees, of names that are too long to stand side by side.
const slant = 35

// widest returns the width of the longest label.
func widest(ticks []tick) (w float64) {
	for _, t := range ticks {
		w = max(w, textWidth(t.label, textSize))
	}
	return w
}

// drawLegend draws a sample of each series beside its name, in rows above the axes, and moves their top below them.
func (d *drawing) drawLegend() {
	x := d.left
	for i := range d.Series {
		w := sampleWidth + 5 + textWidth(d.Series[i].Name, textSize)
		if x > d.left && x+w > d.right {
			x = d.left
			d.top += lineHeight
		}
		d.drawSample(i, x, d.top+lineHeight/2)
		d.text(x+sampleWidth+5, d.top+lineHeight/2+4, textSize, "start", d.Series[i].Name)
		x += w + 18
	}
	d.top += lineHeight + 8
}

// drawSample draws how series number i looks, from x to the right.
func (d *drawing) drawSample(i int, x, y float64) {
	color := d.color(i)
	middle := x + sampleWidth/2
	switch d.Series[i].Style {
	case Bars, Band:
		d.rect(middle-6, y-5, 12, 10, color)
	case Published:
		d.ring(middle, y, ringRadius, color)
	case Dashed:
		d.line([]point{{x, y}, {x + sampleWidth, y}}, color, 1.8, dashes)
	default:
		d.line([]point{{x, y}, {x + sampleWidth, y}}, color, 1.8, "")
		d.dot(middle, y, markRadius, color)
	}
}

// drawGrid draws a pale line at each label.
func (d *drawing) drawGrid() {
	for _, t := range d.yTicks {
		if t.label != "" {
			y := d.y.place(t.value)
			d.line([]point{{d.left, y}, {d.right, y}}, pale, 1, "")
		}
	}
	for _, t := range d.xTicks {
		if t.label != "" {
			x := d.x.place(t.value)
			d.line([]point{{x, d.top}, {x, d.bottom}}, pale, 1, "")
		}
	}
}

// drawAxes draws both axes with their marks and labels.
func (d *drawing) drawAxes() {
	d.line([]point{{d.left, d.top}, {d.left, d.bottom}, {d.right, d.bottom}}, ink, 1, "")
	for _, t := range d.yTicks {
		y, length := d.y.place(t.value), tickLength
		if t.label == "" {
			length = tickLength / 2
		}
		d.line([]point{{d.left - length, y}, {d.left, y}}, ink, 1, "")
		d.text(d.left-tickLength-4, y+4, textSize, "end", t.label)
	}
	every := d.labelEvery()
	labels := 0
	for _, t := range d.xTicks {
		x, length := d.x.place(t.value), tickLength
		if t.label == "" {
			length = tickLength / 2
		}
		d.line([]point{{x, d.bottom}, {x, d.bottom + length}}, ink, 1, "")
		if t.label == "" {
			continue
		}
		switch {
		case d.slanted:
			d.turned(x+4, d.bottom+tickLength+9, -slant, textSize, "end", t.label)
		case labels%every == 0:
			d.text(x, d.bottom+tickLength+13, textSize, "middle", t.label)
		}
		labels++
	}
	d.text((d.left+d.right)/2, height-margin, textSize, "middle", d.XLabel)
	d.turned(margin+textSize-2, (d.top+d.bottom)/2, -90, textSize, "middle", d.YLabel)
}

// labelEvery returns of how many marks on the horizontal axis one gets its label, so that labels stand apart.
func (d *drawing) labelEvery() int {
	labels := 0
	for _, t := range d.xTicks {
		if t.label != "" {
			labels++
		}
	}
	if d.Names != nil || labels < 2 {
		return 1 // names that are too long are slanted instead
	}
	return int(math.Ceil((widest(d.xTicks) + 6) * float64(labels-1) / (d.right - d.left)))
}

// drawSeries draws series number i, which is number bar among those with bars.
func (d *drawing) drawSeries(i, bar, bars int) {
	s, color := &d.Series[i], d.color(i)
	points := make([]point, len(s.X))
	for k := range s.X {
		points[k] = point{d.x.place(s.X[k]), d.y.place(s.Y[k])}
	}
	switch s.Style {
	case Bars:
		points = d.drawBars(s, color, bar, bars)
	case Band:
		d.drawBand(s)
		return
	case Published:
		for _, p := range points {
			d.ring(p.x, p.y, ringRadius, color)
		}
	case Dashed:
		d.line(points, color, 1.8, dashes)
	default:
		d.line(points, color, 1.8, "")
		for _, p := range points {
			d.dot(p.x, p.y, markRadius, color)
		}
	}
	for k, p := range points {
		if s.Low != nil {
			d.drawSpread(p.x, d.y.place(s.Low[k]), d.y.place(s.High[k]), color)
		}
	}
}

// drawBars draws the bars of a series and returns the middles of their tops.
func (d *drawing) drawBars(s *Series, color string, bar, bars int) (tops []point) {
	half := barsWidth / 2 / float64(bars)
	foot := d.bottom
	if !d.LogY {
		foot = d.y.place(0)
	}
	for k := range s.X {
		x, y := Beside(s.X[k], bar, bars), d.y.place(s.Y[k])
		left, right := d.x.place(x-half), d.x.place(x+half)
		d.rect(left, min(y, foot), right-left, math.Abs(foot-y), color)
		tops = append(tops, point{(left + right) / 2, y})
	}
	return tops
}

// drawBand fills the area between the ends: one piece along X, or one at each name.
func (d *drawing) drawBand(s *Series) {
	whole := make([]point, 2*len(s.X))
	for k, x := range s.X {
		low, high := d.y.place(s.Low[k]), d.y.place(s.High[k])
		if d.Names != nil {
			left, right := d.x.place(x-barsWidth/2), d.x.place(x+barsWidth/2)
			d.rect(left, high, right-left, low-high, shade)
			continue
		}
		whole[k], whole[len(whole)-1-k] = point{d.x.place(x), low}, point{d.x.place(x), high}
	}
	if d.Names == nil {
		d.area(whole, shade)
	}
}

// drawSpread draws a vertical line with a cap at each end.
func (d *drawing) drawSpread(x, low, high float64, color string) {
	d.line([]point{{x, low}, {x, high}}, color, 1, "")
	for _, y := range []float64{low, high} {
		d.line([]point{{x - capWidth, y}, {x + capWidth, y}}, color, 1, "")
	}
}
