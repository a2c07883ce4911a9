package plot

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// canvas is an SVG document that is being written.
type canvas struct{ buf bytes.Buffer }

// point is a place on the picture: y grows downwards.
type point struct{ x, y float64 }

// dashes is the pattern of a dashed line.
const dashes = "6 4"

// open begins the document: a white page, named for readers who do not see it.
func (c *canvas) open(w, h float64, name string) {
	fmt.Fprintf(&c.buf, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img"`+
		` font-family="Helvetica, Arial, 'Liberation Sans', sans-serif" fill="%s">`+"\n", num(w), num(h), ink)
	fmt.Fprintf(&c.buf, "<title>%s</title>\n", escape(name))
	c.rect(0, 0, w, h, "#ffffff")
}

// close ends the document and returns it.
func (c *canvas) close() []byte {
	c.buf.WriteString("</svg>\n")
	return c.buf.Bytes()
}

// line draws straight lines from point to point, dashed if dash is a pattern.
func (c *canvas) line(points []point, color string, width float64, dash string) {
	if dash != "" {
		dash = ` stroke-dasharray="` + dash + `"`
	}
	fmt.Fprintf(&c.buf, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"%s/>`+"\n", list(points), color, num(width), dash)
}

// area fills what the points enclose.
func (c *canvas) area(points []point, color string) {
	fmt.Fprintf(&c.buf, `<polygon points="%s" fill="%s"/>`+"\n", list(points), color)
}

func (c *canvas) rect(x, y, w, h float64, color string) {
	fmt.Fprintf(&c.buf, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", num(x), num(y), num(w), num(h), color)
}

func (c *canvas) dot(x, y, radius float64, color string) {
	fmt.Fprintf(&c.buf, `<circle cx="%s" cy="%s" r="%s" fill="%s"/>`+"\n", num(x), num(y), num(radius), color)
}

func (c *canvas) ring(x, y, radius float64, color string) {
	fmt.Fprintf(&c.buf, `<circle cx="%s" cy="%s" r="%s" fill="none" stroke="%s" stroke-width="1.8"/>`+"\n", num(x), num(y), num(radius), color)
}

// text writes a line of text whose start, middle or end, as anchor says, is at x, and which stands on y.
func (c *canvas) text(x, y, size float64, anchor, s string) {
	if s != "" {
		fmt.Fprintf(&c.buf, `<text x="%s" y="%s" font-size="%s" text-anchor="%s">%s</text>`+"\n", num(x), num(y), num(size), anchor, escape(s))
	}
}

// turned writes text that is turned about x, y by an angle in degrees.
func (c *canvas) turned(x, y, angle, size float64, anchor, s string) {
	if s != "" {
		fmt.Fprintf(&c.buf, `<text transform="translate(%s %s) rotate(%s)" font-size="%s" text-anchor="%s">%s</text>`+"\n",
			num(x), num(y), num(angle), num(size), anchor, escape(s))
	}
}

// num writes a number with two decimals at most: less than can be seen.
func num(v float64) string {
	s := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func list(points []point) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(num(p.x) + "," + num(p.y))
	}
	return b.String()
}

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// escape returns s as the text of an element. XML has no place for control characters.
func escape(s string) string {
	return markup.Replace(strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s))
}

// textWidth estimates how wide a text becomes: by classes of letters as wide as those of Helvetica, and a tenth more,
// because other fonts stand in for it.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("ijl.,:;'|!()[]/ft I-", r):
			w += 0.29
		case strings.ContainsRune("mwMW%@", r):
			w += 0.87
		case r >= 'A' && r <= 'Z':
			w += 0.7
		default:
			w += 0.56
		}
	}
	return 1.1 * w * size
}
