package xunix

// Window is the size of a terminal's window.
type Window struct {
	Rows, Columns uint16 // characters
	Width, Height uint16 // pixels; 0: not known
}
