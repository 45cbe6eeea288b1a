// Package terminal shows the progress of a program: on a terminal, lines that stay and below
// them a picture that is redrawn in place, whatever the size; into a pipe or a file, lines
// only.
package terminal

import (
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Colour is the way in which a text is painted.
type Colour string

// The colours. Each goes with a word, so that nothing is lost without colour.
const (
	Bold   Colour = "\x1b[1m"
	Dim    Colour = "\x1b[2m"
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"

	noColour = "\x1b[0m"
)

const (
	// plainWidth and plainHeight are the size of what is no terminal.
	plainWidth  = 80
	plainHeight = 24
	// widthMin is the least width that is drawn for.
	widthMin = 20

	beginFrame = "\x1b[?2026h" // terminals that support it show the frame when it is complete
	endFrame   = "\x1b[?2026l"
)

// Screen writes to one output. Its methods may be called concurrently.
type Screen struct {
	out    io.Writer
	live   bool
	colour bool
	size   func() (width, height int)

	mu sync.Mutex
	// drawn are the lines of the picture that stands on the terminal.
	drawn []string
}

// New returns a screen of an output.
func New(out io.Writer) *Screen {
	s := &Screen{out: out, size: func() (int, int) { return plainWidth, plainHeight }}
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.live, s.colour = true, os.Getenv("NO_COLOR") == ""
	s.size = func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return plainWidth, plainHeight
		}
		return width, height
	}
	return s
}

// Live reports whether pictures are redrawn in place.
func (s *Screen) Live() bool { return s.live }

// Width returns the number of columns now.
func (s *Screen) Width() int {
	width, _ := s.size()
	return max(width, widthMin)
}

// Paint returns a text in a colour, or as it is where no colour is wanted.
func (s *Screen) Paint(c Colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return string(c) + text + noColour
}

// Print writes text that stays, above the picture. Lines that are too long for a terminal are
// wrapped between words, and continue below the text of the first, by indent columns.
func (s *Screen) Print(indent int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	picture := s.drawn
	s.rewind(&b)
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		s.writeLines(&b, s.wrap(indent, line))
	}
	s.put(&b, picture)
	s.write(&b)
}

// Fold breaks a paragraph between words, at the width of the terminal or at 80 columns.
func (s *Screen) Fold(text string) string {
	return wordwrap(text, min(s.Width(), plainWidth))
}

// wrap breaks a line between words. Piped text stays as it is.
func (s *Screen) wrap(indent int, line string) string {
	if width := s.Width(); s.live && ansi.StringWidth(line) > width {
		indent = min(indent, width/2)
		first := wordwrap(line, width-indent)
		return strings.ReplaceAll(first, "\n", "\n"+strings.Repeat(" ", indent))
	}
	return line
}

// wordwrap breaks a text at spaces only: a flag such as --open that is broken at its hyphens cannot
// be copied.
func wordwrap(text string, width int) string {
	const hyphen, unbreakable = "-", "\u2011"
	text = ansi.Wordwrap(strings.ReplaceAll(text, hyphen, unbreakable), width, "")
	return strings.ReplaceAll(text, unbreakable, hyphen)
}

// Draw replaces the picture. On what is no terminal it does nothing.
func (s *Screen) Draw(lines []string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	s.rewind(&b)
	s.put(&b, lines)
	s.write(&b)
}

// put writes a picture, cut to the size of the terminal: a line that wrapped, or a first line
// that scrolled away, could not be erased.
func (s *Screen) put(b *strings.Builder, lines []string) {
	width, height := s.size()
	if over := len(lines) - (height - 1); over > 0 {
		lines = lines[over:]
	}
	s.drawn = nil
	for _, line := range lines {
		line = ansi.Truncate(line, max(width-1, 1), "")
		s.drawn = append(s.drawn, line)
		s.writeLines(b, line)
	}
	if s.live {
		b.WriteString(ansi.EraseScreenBelow)
	}
}

// writeLines writes lines over those of an earlier picture, and ends the last of them. Each line
// is cleared before its text: behind a text of the full width, the last column would be cleared.
func (s *Screen) writeLines(b *strings.Builder, lines string) {
	for line := range strings.SplitSeq(lines, "\n") {
		if s.live {
			b.WriteString(ansi.EraseLineRight)
		}
		b.WriteString(line + "\n")
	}
}

// rewind moves the cursor to the begin of the picture, which what follows overwrites. It erases
// nothing: terminals keep a screen that is erased from its first line on in their history, and
// would do so with each picture. A terminal that was made narrower since has wrapped the lines of
// the picture, so they count by the present width.
func (s *Screen) rewind(b *strings.Builder) {
	width, height := s.size()
	up := 0
	for _, line := range s.drawn {
		up += max(1, (ansi.StringWidth(line)+width-1)/width)
	}
	if up = min(up, height-1); up > 0 {
		b.WriteString(ansi.CursorUp(up) + "\r")
	}
	s.drawn = nil
}

func (s *Screen) write(b *strings.Builder) {
	text := b.String()
	if s.live {
		text = beginFrame + text + endFrame
	}
	// A reader that has gone is no reason to end the program.
	_, _ = io.WriteString(s.out, text)
}

// Keep leaves the picture that stands on the terminal: later lines follow below it.
func (s *Screen) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = nil
}
