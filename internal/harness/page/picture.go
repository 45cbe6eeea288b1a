package page

import "strings"

const (
	// drawCall is how the page of porcupine draws, at its end.
	drawCall = "render(data)"
	// drawWhenSeen draws when the frame comes into sight. Until then a browser lays a frame
	// out as empty, and porcupine would measure that its texts have no width.
	drawWhenSeen = `new IntersectionObserver((seen, it) => { if (seen.some((s) => s.isIntersecting)) { it.disconnect(); ` + drawCall + ` } }).observe(document.getElementById("legend"))`
	// legendStyle shows the end of the legend also where fonts are wide.
	legendStyle = `<style>#legend svg{overflow:visible}</style>`
)

// framed returns the picture of porcupine for a frame of the report.
func framed(picture string) string {
	at := strings.LastIndex(picture, drawCall)
	if at < 0 {
		return picture
	}
	picture = picture[:at] + drawWhenSeen + picture[at+len(drawCall):]
	return strings.Replace(picture, "</head>", legendStyle+"</head>", 1)
}
